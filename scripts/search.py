"""Search articles, pages and files: by words and by meaning.

python -m scripts.search "who won the strike vote"
python -m scripts.search "dam inspection" --category news --language en --since 2026-01-01
python -m scripts.search "fish ladder" --domain handbook --page 2 --explain --json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from core.errors import FreshetError
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.pages.text_cleaning import printable, printable_line
from core.runtime.terminal import Styled, bold, echo
from core.search.facets import page_date
from core.search.io.searcher import MOST_CANDIDATES, open_searcher
from core.search.models import LEXICAL_WEIGHT, Filters, IndexedPage, Query, SearchResult, SearchResults
from core.sources.io.domain_store import DomainStore
from core.store import connect
from scripts import session
from scripts.tables import counted

MOST_FRESHNESS = 10.0
ITEM_TYPES = ("url", "file")


class WrongQuestion(FreshetError):
    """An argument cannot be used."""


async def search(query: Query, *, as_json: bool, explain: bool) -> int:
    """Print what was found; exit code 1 if nothing was."""
    async with (
        session.open_session() as (settings, keys, client),
        open_searcher(settings, client, keys, mend=True) as searcher,
    ):
        found = await searcher.search(query, await connect.now(client))
        unknown = [] if found.results else await _unknown(client, keys, query.filters)
    for line in [_as_json(found, query)] if as_json else [*_page(found, query, explain), *unknown]:
        echo(line)
    return 0 if found.results else 1


async def _unknown(client: connect.Client, keys: Keys, filters: Filters) -> list[str]:
    """Names in the question that nothing has."""
    categories, domains = await Subscriptions(client, keys).categories(), await DomainStore(client, keys).ids()
    kinds = (("category", filters.categories, categories), ("domain", filters.domains, domains))
    told = []
    for kind, names, known in kinds:
        told += [
            f"There is no {kind} {name}; there are: {', '.join(known) or 'none'}."
            for name in names
            if name not in known
        ]
    return told


def _as_json(found: SearchResults, query: Query) -> str:
    results = [_row(result) for result in found.results]
    told = {
        "query": query.text,
        "total": found.total,
        "more": found.is_more,
        "page": query.page,
        "by": found.by,
        "pending": found.pending,
        "results": results,
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def _row(result: SearchResult) -> dict[str, object]:
    page = asdict(result.page)
    del page["reads_as"], page["group"]  # the index's own notes
    return {
        "id": page.pop("item_id"),
        "score": round(result.score, 4),
        **page,
        "passages": [asdict(passage) for passage in result.passages],
        "duplicates": list(result.duplicates),
        "aliases": list(result.aliases),
        "images": [dict(image) for image in result.images],
    }


def _page(found: SearchResults, query: Query, explain: bool) -> list[str]:
    pages = counted(found.total, "page")
    if not found.results:
        told = (
            f"There are {pages}, and no page {query.page} of them." if found.total else f"Nothing found by {found.by}."
        )
        return [told, *_waiting(found)]
    lines = [f"{'more than ' * found.is_more}{pages} by {found.by}", *_waiting(found)]
    for place, result in enumerate(found.results, start=1 + (query.page - 1) * query.per_page):
        best = result.passages[0]
        lines += ["", f"{place:3}. {printable_line(result.page.title or result.page.url)}", f"     {result.page.url}"]
        lines.append(f"     {_about(result.page)}")
        if best.headings:
            lines.append(f"     {' › '.join(best.headings)}")
        lines.append(_marked(best.snippet, best.highlights))
        lines += [f"     also: {url}" for url in (*result.aliases, *result.duplicates)[:3]]
        if explain:
            parts = f"words {best.lexical:.3f}, meaning {best.semantic:.3f}"
            lines.append(f"     score {result.score:.3f} ({parts}; {len(result.passages)} passages; {best.chunk_id})")
        lines += [f"     image: {image['url']} {image['alt'] or ''}".rstrip() for image in result.images[:5]]
    return lines


def _about(page: IndexedPage) -> str:
    """When it was published or changed, and where it belongs: to categories and domains, else to its host."""
    belongs = [*page.categories, *page.domains] or [page.host or page.type]
    return " · ".join([*_date(page_date(page)), *belongs])


def _date(stamp: float) -> list[str]:
    """The day; nothing, if it is not known."""
    try:
        return [f"{datetime.fromtimestamp(stamp, UTC):%Y-%m-%d}"] if stamp > 0 else []
    except (OverflowError, ValueError, OSError):  # a number that is no date
        return []


def _waiting(found: SearchResults) -> list[str]:
    """A line if some texts have no vectors yet."""
    if not found.pending:
        return []
    said = ("text waits for its vectors and is", "texts wait for their vectors and are")[found.pending > 1]
    return [f"{found.pending} {said} found by words alone until then"]


def _marked(snippet: str, ranges: tuple[tuple[int, int], ...]) -> str:
    """The passage in one line, found words in bold on a terminal."""
    told, place = "", 0
    for start, end in sorted(ranges) if sys.stdout.isatty() else ():
        told += printable(snippet[place:start]) + bold(snippet[start:end])
        place = end
    return Styled(f"     {' '.join((told + printable(snippet[place:])).split())}")


def _stamp(text: str | None, *, is_end: bool = False) -> float | None:
    """The moment; of a bare date its beginning, or its end."""
    if text is None:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise WrongQuestion(f"{text} is no date; write 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    if is_end and len(text) <= len("2026-01-31"):
        date += timedelta(days=1, microseconds=-1)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _query(given: argparse.Namespace) -> Query:
    if not any(unicodedata.category(letter)[0] not in "PZC" for letter in given.query):
        raise WrongQuestion('Say what to look for, for instance: python -m scripts.search "flood wall".')
    if not 0 <= given.freshness <= MOST_FRESHNESS:
        raise WrongQuestion(f"--freshness is a number from 0 to {MOST_FRESHNESS:g}.")
    if given.page < 1 or not 1 <= given.per_page <= 100:
        raise WrongQuestion("--page begins at 1, and --per-page is between 1 and 100.")
    if given.page * given.per_page > MOST_CANDIDATES:
        raise WrongQuestion(f"Only the first {MOST_CANDIDATES:,} results are ranked; ask more closely, or use filters.")
    for name in given.type or ():
        if name not in ITEM_TYPES:
            raise WrongQuestion(f"There is no type {name}; there are: {', '.join(ITEM_TYPES)}.")
    filters = Filters(
        categories=tuple(given.category or ()),
        domains=tuple(given.domain or ()),
        hosts=tuple(given.host or ()),
        languages=tuple(re.split("[-_]", name.lower())[0] for name in given.language or ()),
        types=tuple(given.type or ()),
        since_ts=_stamp(given.since),
        until_ts=_stamp(given.until, is_end=True),
    )
    weight = 1.0 if given.words else LEXICAL_WEIGHT
    return Query(given.query, filters, given.page, given.per_page, given.images, given.freshness, weight)


async def _asked(given: argparse.Namespace) -> int:
    return await search(_query(given), as_json=given.json, explain=given.explain)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("query", help='words or a question; "quoted words" are wanted as they are')
    for name in ("category", "domain", "host", "language"):
        parser.add_argument(f"--{name}", action="append", help="may be given several times")
    kinds = "url (articles, pages, files of repositories) or file (files of folders); may be given several times"
    parser.add_argument("--type", action="append", help=kinds)
    parser.add_argument("--since", help="published or changed since this date")
    parser.add_argument("--until", help="and until this one")
    parser.add_argument("--page", type=int, default=1)
    parser.add_argument("--per-page", type=int, default=10)
    parser.add_argument("--freshness", type=float, default=0.0, help="0: age does not matter; 1: new counts double")
    parser.add_argument("--images", action="store_true", help="with the images of each page")
    parser.add_argument("--words", action="store_true", help="by words alone")
    parser.add_argument("--explain", action="store_true", help="why this place")
    parser.add_argument("--json", action="store_true", help="for programs")
    return session.run(_asked(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
