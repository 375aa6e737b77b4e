"""Load the article corpora and score main texts: F1 per corpus, over all pages, and how sure a difference is.

The corpora bring their own metric, `score.py`: 4-word shingles where the whole text is known, snippets that must and
must not occur where it is not. Over all pages, precision and recall are means of the pages' own, and F1 is taken of the
two means. A difference is resampled by pages, both sides on the same pages.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data" / "articles"
RESAMPLES = 1_000
CorpusPage = Mapping[str, Any]
Corpora = dict[str, dict[str, CorpusPage]]
Counts = tuple[int, int, int]
"""True positives, false positives, false negatives of a page."""


def load_corpora(folder: Path) -> tuple[Corpora, ModuleType | None]:
    """Return the pages by corpus, and the metric; made-up pages and None where the folder is not there."""
    spec = importlib.util.spec_from_file_location("article_score", folder / "score.py")
    if not (folder / "score.py").is_file() or spec is None or spec.loader is None:
        print(f"{folder} is not there: using made-up pages, without a score")
        return {"made up": {str(number): made_up(number) for number in range(60)}}, None
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    files = sorted(folder.glob("corpus-*.json.gz"))
    return {path.name.split("-")[1].split(".")[0]: score.load_corpus(path) for path in files}, score


def made_up(number: int) -> CorpusPage:
    """A page of the usual size: much navigation around twenty paragraphs."""
    navigation = "<div class=x><ul>" + "<li><a href=/x>Some words</a></li>" * 150 + "</ul></div>"
    text = "".join(
        f"<p>Water finds its way {n} times and takes the bank with it, as every miller knows.</p>" for n in range(20)
    )
    html = (
        f"<html lang=en><head><title>{number}</title></head><body>{navigation * 3}<article>{text}</article>{navigation}"
    )
    return {"html": html, "url": f"https://example.org/{number}"}


def page_counts(page: CorpusPage, text: str, score: ModuleType) -> Counts:
    """Count what of the page's truth was found, by shingles or by snippets."""
    if "text" in page:
        tp, fp, fn = score.page_counts(page["text"], text)
        return int(tp), int(fp), int(fn)
    line = " ".join(text.split())
    found = sum(" ".join(snippet.split()) in line for snippet in page["with"])
    return found, sum(" ".join(snippet.split()) in line for snippet in page["without"]), len(page["with"]) - found


def corpus_f1(counts: list[Counts], score: ModuleType, *, by_snippets: bool) -> float:
    """As the corpus counts it: snippets are pooled, texts are means over pages."""
    if not by_snippets:
        return float(score.aggregate(counts)["f1"])
    tp, fp, fn = (sum(each) for each in zip(*counts, strict=True))
    return 2 * tp / (2 * tp + fp + fn)


def all_f1(counts: list[Counts], score: ModuleType) -> float:
    return float(score.aggregate(counts)["f1"])


def print_scores(readers: Mapping[str, Mapping[str, Counts]], corpora: Corpora, score: ModuleType) -> None:
    print(f"{'main text, F1':<26}" + "".join(f"{name:>9}" for name in (*corpora, "all")))
    for name, counts in readers.items():
        row = []
        for pages in corpora.values():
            by_snippets = all("text" not in page for page in pages.values())
            row.append(corpus_f1([counts[key] for key in pages], score, by_snippets=by_snippets))
        print(f"{name:<26}" + "".join(f"{value:>9.4f}" for value in (*row, all_f1(list(counts.values()), score))))


def difference(
    ours: Mapping[str, Counts], theirs: Mapping[str, Counts], score: ModuleType
) -> tuple[float, float, float]:
    """Return the difference over all pages, and the ends of its 95 % interval by a paired bootstrap."""
    keys, chance = sorted(ours), random.Random(1)
    found = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(keys, k=len(keys))
        found.append(all_f1([ours[key] for key in drawn], score) - all_f1([theirs[key] for key in drawn], score))
    found.sort()
    whole = all_f1(list(ours.values()), score) - all_f1(list(theirs.values()), score)
    return whole, found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES)]
