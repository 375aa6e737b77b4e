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
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from core.errors import FreshetError
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.pages.text_cleaning import printable, printable_line
from core.runtime.terminal import Styled, bold, echo
from core.search.io.searcher import MOST_CANDIDATES, open_searcher
from core.search.models import LEXICAL_WEIGHT, Filters, IndexedPage, Query, SearchResponse, SearchResult
from core.sources.io.domain_store import DomainStore
from core.store import connect
from scripts import command_line
from scripts.tables import counted

MOST_FRESHNESS = 10.0
ITEM_TYPES = ("url", "file")


class InvalidQuery(FreshetError):
    """An argument cannot be used."""


async def search(query: Query, *, as_json: bool, explain: bool) -> int:
    """Print the results; exit code 1 if there are none."""
    async with (
        command_line.open_session() as (settings, keys, client),
        open_searcher(settings, client, keys, mend=True) as searcher,
    ):
        response = await searcher.search(query, await connect.now(client))
        unknown = [] if response.results else await _unknown_names(client, keys, query.filters)
    for line in [_as_json(response, query)] if as_json else [*_as_text(response, query, explain), *unknown]:
        echo(line)
    return 0 if response.results else 1


async def _unknown_names(client: connect.Client, keys: Keys, filters: Filters) -> list[str]:
    """Return a line for each category and domain of the query that does not exist."""
    categories, domains = await Subscriptions(client, keys).categories(), await DomainStore(client, keys).ids()
    return [
        f"There is no {kind} {name}; there are: {', '.join(known) or 'none'}."
        for kind, names, known in (("category", filters.categories, categories), ("domain", filters.domains, domains))
        for name in names
        if name not in known
    ]


def _as_json(response: SearchResponse, query: Query) -> str:
    document = {
        "query": query.text,
        "total": response.total,
        "more": response.has_more,
        "page": query.page,
        "by": response.by,
        "pending": response.pending,
        "results": [_result_fields(result) for result in response.results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _result_fields(result: SearchResult) -> dict[str, object]:
    page = asdict(result.page)
    del page["detected_language"], page["content_group"]  # for the index alone
    return {
        "id": page.pop("item_id"),
        "score": round(result.score, 4),
        **page,
        "passages": [asdict(passage) for passage in result.passages],
        "duplicates": list(result.duplicates),
        "aliases": list(result.aliases),
        "images": [dict(image) for image in result.images],
    }


def _as_text(response: SearchResponse, query: Query, explain: bool) -> Iterator[str]:
    pages = counted(response.total, "page")
    if response.results:
        yield f"{'more than ' * response.has_more}{pages} by {response.by}"
    elif response.total:
        yield f"There are {pages}, and no page {query.page} of them."
    else:
        yield f"Nothing found by {response.by}."
    if response.pending:
        waiting = ("text waits for its vectors and is", "texts wait for their vectors and are")[response.pending > 1]
        yield f"{response.pending} {waiting} found by words alone until then"
    for place, result in enumerate(response.results, start=query.start + 1):
        yield from _result_lines(place, result, explain)


def _result_lines(place: int, result: SearchResult, explain: bool) -> Iterator[str]:
    page, best = result.page, result.passages[0]
    yield ""
    yield f"{place:3}. {printable_line(page.title or page.url)}"
    yield f"     {page.url}"
    yield f"     {_date_and_place(page)}"
    if best.headings:
        yield f"     {' › '.join(best.headings)}"
    yield _highlighted(best.snippet, best.highlights)
    for url in (*result.aliases, *result.duplicates)[:3]:
        yield f"     also: {url}"
    if explain:
        parts = f"words {best.lexical:.3f}, meaning {best.semantic:.3f}"
        yield f"     score {result.score:.3f} ({parts}; {len(result.passages)} passages; {best.chunk_id})"
    for image in result.images[:5]:
        yield f"     image: {image['url']} {image['alt'] or ''}".rstrip()


def _date_and_place(page: IndexedPage) -> str:
    """Return when it was published or changed, with its categories and domains, else its host."""
    places = [*page.categories, *page.domains] or [page.host or page.type]
    return " · ".join([*_date(page.date_ts), *places])


def _date(timestamp: float) -> list[str]:
    """Return the day; nothing, if it is not known."""
    try:
        return [f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d}"] if timestamp > 0 else []
    except (OverflowError, ValueError, OSError):  # a number that is no date
        return []


def _highlighted(snippet: str, ranges: tuple[tuple[int, int], ...]) -> str:
    """Return the passage in one line, the words of the query in bold on a terminal."""
    line, place = "", 0
    for start, end in sorted(ranges) if sys.stdout.isatty() else ():
        line += printable(snippet[place:start]) + bold(snippet[start:end])
        place = end
    return Styled(f"     {' '.join((line + printable(snippet[place:])).split())}")


def _query(arguments: argparse.Namespace) -> Query:
    if not any(unicodedata.category(letter)[0] not in "PZC" for letter in arguments.query):
        raise InvalidQuery('Say what to look for, for instance: python -m scripts.search "flood wall".')
    if not 0 <= arguments.freshness <= MOST_FRESHNESS:
        raise InvalidQuery(f"--freshness is a number from 0 to {MOST_FRESHNESS:g}.")
    if arguments.page < 1 or not 1 <= arguments.per_page <= 100:
        raise InvalidQuery("--page begins at 1, and --per-page is between 1 and 100.")
    if arguments.page * arguments.per_page > MOST_CANDIDATES:
        raise InvalidQuery(f"Only the first {MOST_CANDIDATES:,} results are ranked; ask more closely, or use filters.")
    for name in arguments.type:
        if name not in ITEM_TYPES:
            raise InvalidQuery(f"There is no type {name}; there are: {', '.join(ITEM_TYPES)}.")
    filters = Filters(
        categories=tuple(arguments.category),
        domains=tuple(arguments.domain),
        hosts=tuple(arguments.host),
        languages=tuple(re.split("[-_]", name.lower())[0] for name in arguments.language),
        types=tuple(arguments.type),
        since_ts=_timestamp(arguments.since),
        until_ts=_timestamp(arguments.until, is_end=True),
    )
    return Query(
        arguments.query,
        filters,
        page=arguments.page,
        per_page=arguments.per_page,
        nest_images=arguments.images,
        freshness=arguments.freshness,
        lexical_weight=1.0 if arguments.words else LEXICAL_WEIGHT,
    )


def _timestamp(text: str | None, *, is_end: bool = False) -> float | None:
    """Return the moment; of a bare date its beginning, or its end."""
    if text is None:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidQuery(f"{text} is no date; write 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    if is_end and len(text) <= len("2026-01-31"):
        date += timedelta(days=1, microseconds=-1)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


async def _search(arguments: argparse.Namespace) -> int:
    return await search(_query(arguments), as_json=arguments.json, explain=arguments.explain)


def main() -> int:
    """Read the command line and search."""
    parser = command_line.parser("python -m scripts.search", __doc__)
    parser.add_argument("query", help='words or a question; "quoted words" are wanted as they are')
    for name in ("category", "domain", "host", "language"):
        parser.add_argument(f"--{name}", action="append", default=[], help="may be given several times")
    types = "url (articles, pages, files of repositories) or file (files of folders); may be given several times"
    parser.add_argument("--type", action="append", default=[], help=types)
    parser.add_argument("--since", help="published or changed since this date")
    parser.add_argument("--until", help="and until this one")
    parser.add_argument("--page", type=int, default=1)
    parser.add_argument("--per-page", type=int, default=10)
    parser.add_argument("--freshness", type=float, default=0.0, help="0: age does not matter; 1: new counts double")
    parser.add_argument("--images", action="store_true", help="with the images of each page")
    parser.add_argument("--words", action="store_true", help="by words alone")
    parser.add_argument("--explain", action="store_true", help="why this place")
    parser.add_argument("--json", action="store_true", help="for programs")
    return command_line.run(_search(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
