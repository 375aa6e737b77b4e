"""Search articles, pages and files: by words and by meaning.

python -m scripts.search "who won the strike vote"
python -m scripts.search "dam inspection" --category news --language en --since 2026-01-01
python -m scripts.search "fish ladder" --domain handbook --page 2 --explain --json
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from core.pages.text_cleaning import printable, printable_line
from core.runtime.terminal import Styled, bold, echo
from core.search.models import PER_PAGE, IndexedPage, Query, SearchResponse, SearchResult
from core.search.query_arguments import QueryArguments, build_query
from scripts import command_line
from scripts.tables import ago, counted


async def search(query: Query, *, as_json: bool, explain: bool) -> int:
    """Print the results; exit code 1 if there are none."""
    # One question multiplies little: a second thread of numpy's would cost more to start than it could save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from core.search.io.searcher import open_searcher
    from core.search.io.unknown_names import unknown_names
    from core.search.response_json import response_json
    from core.store import connect

    async with (
        command_line.open_session() as (settings, keys, client),
        open_searcher(settings, client, keys, mend=True, is_brief=True) as searcher,
    ):
        now = await connect.now(client)
        response = await searcher.search(query, now)
        unknown = [] if response.results else await unknown_names(client, keys, query.filters)
    if as_json:
        command_line.print_json(response_json(response, query))
    else:
        echo(*_as_text(response, query, explain, now), *unknown, sep="\n")
    return 0 if response.results else 1


def _as_text(response: SearchResponse, query: Query, explain: bool, now: float) -> Iterator[str]:
    pages = counted(response.total, "page")
    if response.showing_results_for:
        yield f"Showing results for: {printable_line(response.showing_results_for)} (put words in quotes to keep them)"
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
        yield from _result_lines(place, result, explain, now)


def _result_lines(place: int, result: SearchResult, explain: bool, now: float) -> Iterator[str]:
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
        proof = result.verification
        yield f"     verified {ago(proof.verified_ts, now)}{f' by {proof.verified_by}' * bool(proof.verified_by)}"
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
    except (OverflowError, ValueError, OSError):  # a number that is not a date
        return []


def _highlighted(snippet: str, ranges: tuple[tuple[int, int], ...]) -> str:
    """Return the passage in one line, the words of the query in bold on a terminal."""
    line, place = "", 0
    for start, end in sorted(ranges) if sys.stdout.isatty() else ():
        line += printable(snippet[place:start]) + bold(snippet[start:end])
        place = end
    return Styled(f"     {' '.join((line + printable(snippet[place:])).split())}")


def _query(arguments: argparse.Namespace) -> Query:
    wanted = QueryArguments(
        arguments.query,
        categories=arguments.category,
        domains=arguments.domain,
        hosts=arguments.host,
        languages=arguments.language,
        types=arguments.type,
        since_ts=command_line.moment(arguments.since),
        until_ts=command_line.moment(arguments.until, is_end=True),
        page=arguments.page,
        per_page=arguments.per_page,
        freshness=arguments.freshness,
        nest_images=arguments.images,
        words=arguments.words,
    )
    return build_query(wanted, example='python -m scripts.search "flood wall"', options="--")


async def _search(arguments: argparse.Namespace) -> int:
    return await search(_query(arguments), as_json=arguments.json, explain=arguments.explain)


def main() -> int:
    parser = command_line.parser("python -m scripts.search", __doc__)
    parser.add_argument("query", help='words or a question; "quoted words" are wanted as they are')
    for name in ("category", "domain", "host", "language"):
        parser.add_argument(f"--{name}", action="append", default=[], help="may be given several times")
    types = "url (articles, pages, files of repositories) or file (files of folders); may be given several times"
    parser.add_argument("--type", action="append", default=[], help=types)
    parser.add_argument("--since", help="published or changed since: 2026-01-31, 2h, 3d")
    parser.add_argument("--until", help="and until")
    parser.add_argument("--page", type=int, default=1)
    parser.add_argument("--per-page", type=int, default=PER_PAGE)
    parser.add_argument("--freshness", type=float, default=0.0, help="0: age does not matter; 1: new counts double")
    parser.add_argument("--images", action="store_true", help="with the images of each page")
    parser.add_argument("--words", action="store_true", help="by words alone")
    parser.add_argument("--explain", action="store_true", help="why this place")
    parser.add_argument("--json", action="store_true", help="for programs")
    return command_line.run(_search(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
