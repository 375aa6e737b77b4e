"""Measure how well and how fast pages are read: `python -m bench.extract [--data DIR] [--quick]`

Main text of our extractor, of trafilatura's modes and of readability-lxml on the same pages in the same run, scored by
the corpora's own `score.py`; then title, author and date; then CPU time, ours with every field of an article.
DIR holds `corpus-*.json.gz` and `score.py`; without it the pages are made up, and only the time is measured.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import trafilatura

from bench.article_scores import DEFAULT_DATA, Corpora, CorpusPage, difference, load_corpora, page_counts, print_scores
from bench.text_weights import tree_and_title
from core.feeds.dates import parse_date
from core.models import Document
from core.pages.charset import decode_page
from core.pages.extract import extract_page
from core.pages.language_choice import guess_language
from core.pages.main_text import MAX_FOR_LIBRARY, decide_runs
from core.pages.page_document import read_page
from core.pages.page_nodes import PageNodes
from core.pages.text_run_weights import WEIGHTS

QUICK_STEP = 6
REPEATS = 2
MODES: dict[str, dict[str, bool]] = {
    "fast": {"fast": True},
    "default": {},
    "precision": {"favor_precision": True},
    "recall": {"favor_recall": True},
}
Reader = Callable[[CorpusPage], str]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m bench.extract", description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with corpus-*.json.gz and score.py")
    arguments.add_argument("--quick", action="store_true", help=f"one page in {QUICK_STEP} for the times")
    options = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # BeautifulSoup has opinions on XHTML
    corpora, score = load_corpora(options.data)
    if score:
        print_main_text(corpora, score)
        print_statements(corpora)
    everything = [page for pages in corpora.values() for page in pages.values()]
    print_speed(everything[:: QUICK_STEP if options.quick else 1])


# ── main text ───────────────────────────────────────────────────────────────────────────────────


def print_main_text(corpora: Corpora, score: ModuleType) -> None:
    """Scores of all readers, how sure the difference to each is, and how often ours asked for a second opinion."""
    readers = text_readers()
    pages = {key: page for corpus in corpora.values() for key, page in corpus.items()}
    texts = {
        name: {key: read_or_nothing(read, key, page) for key, page in pages.items()} for name, read in readers.items()
    }
    counts = {
        name: {key: page_counts(page, found[key], score) for key, page in pages.items()}
        for name, found in texts.items()
    }
    print_scores(counts, corpora, score)
    print("\nfreshet less the other, over all pages, with 95 % of a paired bootstrap")
    for name in readers:
        if name != "freshet":
            print(
                "{:<26}{:>+9.4f}   {:+.4f} to {:+.4f}".format(name, *difference(counts["freshet"], counts[name], score))
            )
    empty = {name: sum(not text.strip() for text in found.values()) for name, found in texts.items()}
    print("pages without text: " + ", ".join(f"{name} {count}" for name, count in empty.items()))
    print(f"second opinions: {sum(is_doubtful(page) for page in pages.values())} of {len(pages)} pages")


def read_or_nothing(read: Reader, key: str, page: CorpusPage) -> str:
    try:
        return read(page)
    except Exception as exc:  # noqa: BLE001 - a peer may raise anything; the page then counts as empty
        print(f"  {key}: {type(exc).__name__}")
        return ""


def is_doubtful(page: CorpusPage) -> bool:
    root, title = tree_and_title(page)
    nodes = PageNodes(root)
    return nodes.size <= MAX_FOR_LIBRARY and decide_runs(nodes, title, WEIGHTS).is_doubtful


def text_readers() -> dict[str, Reader]:
    readers: dict[str, Reader] = {"freshet": ours}
    readers |= {f"trafilatura {name}": mode_reader(mode) for name, mode in MODES.items()}
    try:
        from lxml.html import fromstring
        from readability import Document as Readability
    except ImportError:
        return readers
    readers["readability-lxml"] = lambda page: fromstring(Readability(page["html"]).summary()).text_content()  # type: ignore[attr-defined]
    return readers


def ours(page: CorpusPage) -> str:
    """Without the least lengths of articles: some pages of the corpora are test cases of a hundred characters."""
    html = decode_page(page["html"].encode(), "text/html; charset=utf-8")
    return read_page(html, page["url"]).document.clean_text


def mode_reader(mode: Mapping[str, bool]) -> Reader:
    """Without comments, which are no part of any corpus's truth: each mode at its best."""
    return lambda page: trafilatura.extract(page["html"], url=page["url"], include_comments=False, **mode) or ""


# ── what pages say about themselves ─────────────────────────────────────────────────────────────


def print_statements(corpora: Mapping[str, Mapping[str, CorpusPage]]) -> None:
    print(f"\n{'pages with':<16}" + "".join(f"{name:>14}" for name in corpora))
    documents = {
        c: [read_page(page["html"], page["url"]).document for page in pages.values()] for c, pages in corpora.items()
    }
    for field in ("title", "author", "published_ts", "language", "image", "canonical_url", "abstract"):
        counts = {c: sum(bool(getattr(one, field)) for one in found) for c, found in documents.items()}
        print(f"{field:<16}" + "".join(f"{f'{count} of {len(documents[c])}':>14}" for c, count in counts.items()))
    for c, pages in corpora.items():
        known = [(one, page["meta"]) for one, page in zip(documents[c], pages.values(), strict=True) if "meta" in page]
        if known:
            print_agreement(c, known)


def print_agreement(corpus: str, known: list[tuple[Document, Mapping[str, Any]]]) -> None:
    """Against what Readability's authors accept: its titles keep the site's name here and there."""
    checks: dict[str, Callable[[Document, Mapping[str, Any]], tuple[object, object]]] = {
        "title": lambda one, meta: (one.title, " ".join((meta.get("title") or "").split())),
        "language": lambda one, meta: (one.language, (meta.get("lang") or "")[:2].lower()),
        "published": lambda one, meta: (one.published_ts, parse_date(meta.get("publishedTime") or "")),
    }
    for name, check in checks.items():
        pairs = [(got, wanted) for got, wanted in (check(one, meta) for one, meta in known) if wanted not in ("", None)]
        print(f"{corpus}: {name} as expected: {sum(got == wanted for got, wanted in pairs)} of {len(pairs)}")


# ── speed ───────────────────────────────────────────────────────────────────────────────────────


def print_speed(pages: list[CorpusPage]) -> None:
    seconds = dict.fromkeys(peers := speed_readers(), 0.0)
    guess_language("What is loaded once counts for nobody, be it a parser or a model.")
    for read in peers.values():
        cpu_seconds(read, pages[0])
    for page in pages:  # page by page, so that a busy moment of the machine is everybody's
        for name, read in peers.items():
            seconds[name] += min(cpu_seconds(read, page) for _ in range(REPEATS))
    size = sum(len(page["html"]) for page in pages) / len(pages) / 1000
    print(f"\n{f'CPU, {len(pages)} pages of {size:.0f} kB':<46}{'ms/page':>9}{'pages/s':>9}{'ratio':>8}")
    for name, spent in seconds.items():
        ours = seconds["freshet, all text" if "all text" in name else "freshet"]
        per_page = spent / len(pages)
        print(f"{name:<46}{per_page * 1000:>9.2f}{1 / per_page:>9.0f}{spent / ours:>8.2f}")


def speed_readers() -> dict[str, Callable[[CorpusPage], object]]:
    readers: dict[str, Callable[[CorpusPage], object]] = {"freshet": lambda page: whole(page, main_text=True)}
    for name, mode in MODES.items():
        readers[f"trafilatura {name}, text alone"] = bare(mode, with_metadata=False)
        readers[f"trafilatura {name} with metadata"] = bare(mode, with_metadata=True)
    readers["freshet, all text"] = lambda page: whole(page, main_text=False)
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        return readers
    for parser in ("lxml", "html.parser"):
        readers[f"BeautifulSoup ({parser}), all text"] = lambda page, parser=parser: soup(BeautifulSoup, page, parser)
    return readers


def whole(page: CorpusPage, *, main_text: bool) -> object:
    return extract_page(page["html"].encode(), page["url"], "text/html; charset=utf-8", main_text=main_text).result


def bare(mode: Mapping[str, bool], *, with_metadata: bool) -> Callable[[CorpusPage], object]:
    return lambda page: trafilatura.bare_extraction(
        page["html"], url=page["url"], include_comments=False, with_metadata=with_metadata, **mode
    )


def soup(make: Any, page: CorpusPage, parser: str) -> object:
    """All text without scripts, the first image, and the first paragraph of more than 40 characters."""
    tree = make(page["html"], parser)
    for tag in tree(["script", "style", "noscript"]):
        tag.decompose()
    text = " ".join(tree.get_text(" ").split())
    image = tree.find("img", src=True)
    abstract = next((words for p in tree.find_all("p") if len(words := p.get_text(" ", strip=True)) > 40), "")
    return text, image and image["src"], abstract


def cpu_seconds(read: Callable[[CorpusPage], object], page: CorpusPage) -> float:
    started = time.process_time()
    read(page)
    return time.process_time() - started


if __name__ == "__main__":
    main()
