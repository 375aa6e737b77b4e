"""Learn the weights of `core/pages/text_run_weights.py` again: `python -m bench.text_weights [--data DIR]`

A logistic regression over the runs of text of the article corpora. Labels come from the texts and snippets that the
corpora hold. Errors count by the share of the article they spoil, snippets alike. Five folds by registrable domain give
the cross-validated score: each page is read with weights that no page of its publisher had a part in. The weights that
are printed were learned from all pages.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.article_scores import DEFAULT_DATA, CorpusPage, load_corpora, page_counts, print_scores
from core.pages.boilerplate import remove_boilerplate
from core.pages.lxml_page import LxmlPage, parse_html
from core.pages.main_text import find_main_text
from core.pages.metadata import collect_metadata, page_title
from core.pages.noscript_article import unwrap_noscript_article
from core.pages.page_document import all_blocks
from core.pages.page_nodes import PageNodes, text_runs
from core.pages.text_blocks import blocks_to_text
from core.pages.text_run_features import RunFeatures
from core.urls.normalise import host_of, registrable_domain

FOLDS = 5
PENALTY = 20.0
"""Of the squares of the weights; between 5 and 20 the scores differ by .002."""
SNIPPET_WEIGHT = 1.5
ARTICLE_WEIGHT = 6.0
_WORD = re.compile(r"\w+")
_ARCHIVED = re.compile(r"^https?://web\.archive\.org/web/[^/]+/")


@dataclass(frozen=True)
class LabelledRun:
    """A run of text: what is true of it, whether it is part of the article, how much an error costs."""

    facts: tuple[str, ...]
    is_article: bool
    cost: float


def main() -> None:
    arguments = argparse.ArgumentParser(
        prog="python -m bench.text_weights", description=(__doc__ or "").splitlines()[0]
    )
    arguments.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with corpus-*.json.gz and score.py")
    corpora, score = load_corpora(arguments.parse_args().data)
    if score is None:
        raise SystemExit("The article corpora are needed to learn from: give their folder by --data.")
    pages = {key: page for corpus in corpora.values() for key, page in corpus.items()}
    labelled = {key: list(labelled_runs(page)) for key, page in pages.items()}
    found: dict[str, str] = {}
    for fold in range(FOLDS):
        weights = learn([run for key, runs in labelled.items() if fold_of(key, pages[key]) != fold for run in runs])
        found |= {key: read(page, weights) for key, page in pages.items() if fold_of(key, page) == fold}
    counts = {key: page_counts(page, found[key], score) for key, page in pages.items()}
    print_scores({"cross-validated": counts}, corpora, score)
    print("\nWEIGHTS: dict[str, float] = {")
    for name, weight in sorted(learn([run for runs in labelled.values() for run in runs]).items()):
        print(f'    "{name}": {weight:.2f},')
    print("}")


def fold_of(key: str, page: CorpusPage) -> int:
    host = registrable_domain(host_of(_ARCHIVED.sub("", page["url"] or "")) or "")
    group = host if host not in ("", "fakehost") else key  # Mozilla's pages have no address
    return int(hashlib.sha1(group.encode()).hexdigest()[:8], 16) % FOLDS


def tree_and_title(page: CorpusPage) -> tuple[Any, str]:
    root = parse_html(page["html"])
    assert root is not None
    title = page_title(collect_metadata(LxmlPage(root).elements(), page["url"]))
    unwrap_noscript_article(root)
    return root, title


def read(page: CorpusPage, weights: Mapping[str, float]) -> str:
    root, title = tree_and_title(page)
    blocks = find_main_text(root, title, weights) or all_blocks(page["html"])
    return blocks_to_text(remove_boilerplate(blocks, title))


def labelled_runs(page: CorpusPage) -> Iterator[LabelledRun]:
    root, title = tree_and_title(page)
    nodes = PageNodes(root)
    runs = text_runs(nodes)
    features = RunFeatures(nodes, runs, title)
    labels = [label(page, run.text) for run in runs]
    size = max(200, sum(len(run.text) for run, is_article in zip(runs, labels, strict=True) if is_article))
    for number, (run, is_article) in enumerate(zip(runs, labels, strict=True)):
        if is_article is not None and features.is_inside(number):
            cost = ARTICLE_WEIGHT * min(len(run.text), 2 * size) / size if "text" in page else SNIPPET_WEIGHT
            yield LabelledRun(tuple(features.of(number)), is_article, cost)


def label(page: CorpusPage, text: str) -> bool | None:
    """Is the run part of the article? None if the corpus does not say."""
    if "text" not in page:
        line = " ".join(text.split())
        if any(" ".join(snippet.split()) in line for snippet in page["without"]):
            return False
        return True if any(" ".join(snippet.split()) in line for snippet in page["with"]) else None
    words, truth = _WORD.findall(text), _WORD.findall(page["text"])
    if not words:
        return None
    if len(words) < 8:
        return f" {' '.join(words)} " in f" {' '.join(truth)} "
    shingles = list(zip(*(words[start:] for start in range(4)), strict=False))
    known = set(zip(*(truth[start:] for start in range(4)), strict=False))
    return 2 * sum(shingle in known for shingle in shingles) > len(shingles)


def learn(runs: list[LabelledRun]) -> dict[str, float]:
    """Newton's method; a dozen steps are plenty for a convex problem of this size."""
    names = sorted({name for run in runs for name in run.facts})
    column = {name: number for number, name in enumerate(names)}
    facts = np.zeros((len(runs), len(names)))
    for row, run in enumerate(runs):
        facts[row, [column[name] for name in run.facts]] = 1
    truth, costs = np.array([run.is_article for run in runs], float), np.array([run.cost for run in runs])
    weights = np.zeros(len(names))
    for _ in range(12):
        likely = 1 / (1 + np.exp(-np.clip(facts @ weights, -30, 30)))
        gradient = facts.T @ (costs * (likely - truth)) + PENALTY * weights
        curvature = (facts * (costs * likely * (1 - likely))[:, None]).T @ facts + PENALTY * np.eye(len(names))
        weights -= np.linalg.solve(curvature, gradient)
    return dict(zip(names, weights.tolist(), strict=True))


if __name__ == "__main__":
    main()
