"""Feeds: import, export, add, remove, list, health.

python -m scripts.feeds import FILE        OPML (.opml, .xml) or TOML; removes only what this file added before
python -m scripts.feeds export             OPML on standard output
python -m scripts.feeds add CATEGORY URL   a feed, or a site whose feed is looked for
python -m scripts.feeds remove URL
python -m scripts.feeds list
python -m scripts.feeds health [URL]       why do I see no articles from this feed?
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from core.errors import FeedFileError
from core.feeds.feed_lists import category_slug, write_opml
from core.feeds.feed_state import FeedState
from core.feeds.io.feed_finder import FeedFinder
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscription_sync import is_in_feed_file, read_feed_file
from core.feeds.io.subscriptions import Subscriptions
from core.models import DiscoveredFeed, Failed, RejectedUrl
from core.pages.text_cleaning import printable_line
from core.runtime.context import build_context
from core.runtime.terminal import echo
from core.store import connect
from core.urls.normalise import clean_url
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import ago, ahead, table

_UNKNOWN = "{} is in no category. `python -m scripts.feeds list` shows what is there."


async def import_file(path: Path) -> int:
    """Add the feeds of a file; `path` is absolute, it is the name under which the file is remembered."""
    wanted = read_feed_file(path)
    async with command_line.open_session() as (_, keys, client):
        added, removed = await Subscriptions(client, keys).sync(str(path), wanted)
    echo(f"{added} feeds added, {removed} removed.")
    return 0


async def export() -> int:
    """Write OPML."""
    async with command_line.open_session() as (settings, keys, client):
        feeds = await Subscriptions(client, keys).by_category()
        urls = sorted({url for listed in feeds.values() for url in listed})
        states = await FeedStore(client, keys, Ttls.of(settings)).states(urls)
    sys.stdout.buffer.write(write_opml(feeds, {state.url: state.title for state in states}))
    return 0


async def add(category: str, url: str) -> int:
    """Subscribe to a feed, or to the feed of a site."""
    clean = clean_url(url if "://" in url else f"https://{url}")
    if isinstance(clean, RejectedUrl):
        raise FeedFileError(f"{redact(url)} is not a URL that can be fetched ({clean.reason}).")
    async with (
        command_line.open_session() as (settings, keys, client),
        build_context(settings, client, keys) as context,
    ):
        slug = category_slug(category)
        result = await FeedFinder(context.fetcher, context.pool).find(clean)
        if isinstance(result, Failed):
            raise FeedFileError(f"Cannot fetch {redact(clean)}: {result.text}")
        if result.is_dead:
            # Another feed of the site is not what was asked for: it is named, and nothing is added.
            lines = [f"{redact(clean)} answers HTTP {result.http_status}: no feed is there, and nothing was added."]
            if result.feeds:
                lines += ["The site has others:", *(f"    {_add_command(slug, other)}" for other in result.feeds)]
            raise FeedFileError("\n".join(lines))
        if not result.feeds:
            raise FeedFileError(
                f"No feed at {redact(clean)}, in its links or at the usual places. Give the feed's own URL."
            )
        best, *others = result.feeds
        await Subscriptions(client, keys).add(slug, best.url)
    echo(f"Added to {slug}: {redact(best.url)} ({printable_line(best.title) or 'untitled'})")
    if best.url != clean:
        echo(f"It was found by way of {redact(clean)}, which is a page and no feed.")
    for other in others:
        echo(f"Also there: {_add_command(slug, other)}")
    return 0


def _add_command(slug: str, feed: DiscoveredFeed) -> str:
    address = redact(feed.url).replace("'", "%27")  # whoever copies the line into a shell runs nothing else
    return f"python -m scripts.feeds add {slug} '{address}'  # {printable_line(feed.title) or 'untitled'}"


async def remove(url: str) -> int:
    """Unsubscribe."""
    async with command_line.open_session() as (settings, keys, client):
        categories = await Subscriptions(client, keys).remove(url)
    if not categories:
        raise FeedFileError(_UNKNOWN.format(redact(url)))
    echo(f"Removed from {', '.join(categories)}: {redact(url)}")
    if is_in_feed_file(settings.feeds_file, url):
        echo(
            f"{settings.feeds_file} still lists it and adds it again when Freshet starts or that file changes. "
            "Delete its line there, too."
        )
    return 0


async def list_feeds() -> int:
    """Print every category with its feeds."""
    async with command_line.open_session() as (_, keys, client):
        feeds = await Subscriptions(client, keys).by_category()
    for category, listed in feeds.items():
        echo(printable_line(category), *(f"    {printable_line(url)}" for url in listed), sep="\n")
    return 0


async def health(url: str | None) -> int:
    """Print how the feeds are, or one of them in full."""
    async with command_line.open_session() as (settings, keys, client):
        by_feed = await Subscriptions(client, keys).by_feed()
        if url and url not in by_feed:
            raise FeedFileError(_UNKNOWN.format(redact(url)))
        states = await FeedStore(client, keys, Ttls.of(settings)).states([url] if url else sorted(by_feed))
        now = await connect.now(client)
    head = ("STATUS", "LAST POLL", "NEXT POLL", "WHY THEN", "304 %", "DUP %", "LAST NEW", "FEED", "TROUBLE")
    echo(_details(states[0], now) if url else table(head, [_row(state, now) for state in states]))
    return 0


def _row(state: FeedState, now: float) -> tuple[object, ...]:
    trouble = f"{state.error_class}: {state.error_text}" if state.error_class else state.rejected_example
    if state.entries_left_out:
        trouble = "; ".join(filter(None, (_left_out(state), trouble)))
    return (
        state.status,
        ago(state.last_poll_ts, now),
        ahead(state.next_poll_ts, now),
        state.next_poll_reason or "–",
        state.percent_304,
        state.percent_duplicate,
        ago(state.last_new_ts, now),
        redact(state.url),
        redact(trouble[:100]),
    )


def _left_out(state: FeedState) -> str:
    total = state.entries + state.entries_left_out
    return f"only {state.entries:,} of {total:,} entries are read"


def _details(state: FeedState, now: float) -> str:
    example = state.rejected_example
    lines = [
        redact(state.url),
        f"  status      {state.status}{f' ({state.error_class}: {state.error_text})' if state.error_class else ''}",
        f"  title       {printable_line(state.title) or '–'} [{state.kind or 'not read yet'}]",
        f"  last poll   {ago(state.last_poll_ts, now)}, HTTP {state.last_status or '–'}",
        f"  next poll   {ahead(state.next_poll_ts, now)}: {state.next_poll_reason or 'it is new'}",
        f"  last new    {ago(state.last_new_ts, now)}",
        f"  polls       {state.polls}, {state.percent_304} % answered 304",
        f"  links       {state.links_found}, {state.percent_duplicate} % known already",
        f"  last body   {state.entries} entries, {state.rejected} rejected{f' ({example})' if example else ''}",
    ]
    if state.entries_left_out:
        lines.append(f"  left out    {_left_out(state)}")
    if state.fetch_url:
        lines.append(f"  moved to    {redact(state.fetch_url)}")
    return "\n".join([*lines, "  events", *(f"    {event}" for event in state.events)])


def main() -> int:
    """The command line."""
    parser = command_line.parser("python -m scripts.feeds", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("import").add_argument("file")
    commands.add_parser("export")
    add_parser = commands.add_parser("add")
    add_parser.add_argument("category")
    add_parser.add_argument("url")
    commands.add_parser("remove").add_argument("url")
    commands.add_parser("list")
    commands.add_parser("health").add_argument("url", nargs="?")
    options = parser.parse_args()
    work: dict[str, Callable[[], Coroutine[Any, Any, int]]] = {
        "import": lambda: import_file(Path(options.file).resolve()),
        "export": export,
        "add": lambda: add(options.category, options.url),
        "remove": lambda: remove(options.url),
        "list": list_feeds,
        "health": lambda: health(options.url),
    }
    return command_line.run(work[options.command]())


if __name__ == "__main__":
    sys.exit(main())
