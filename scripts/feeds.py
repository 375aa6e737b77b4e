"""Feeds and their categories; polling; how quickly feeds and hosts are asked.

python -m scripts.feeds import FILE        OPML (.opml, .xml) or TOML; removes only what this file added before
python -m scripts.feeds export             OPML on standard output
python -m scripts.feeds add CATEGORY URL   a feed, or a site whose feed is looked for
    --preview                              say what would come; stores nothing
python -m scripts.feeds remove URL
python -m scripts.feeds rename OLD NEW     a category, with its links and articles; into another one merges them
python -m scripts.feeds drop CATEGORY      with its feeds, links, and the articles that no other category has
    --dry-run                              say how much that is; changes nothing
python -m scripts.feeds list [--json]      with the options that were set
python -m scripts.feeds poll URL           now, beside a running ingestor; --category NAME: all feeds of a category
    --force                                read it again, also if it has not changed
python -m scripts.feeds health [URL]       why do I see no articles from this feed? --json: for programs
python -m scripts.feeds health --broken    the feeds whose last poll failed, the latest first
python -m scripts.feeds set URL            options of a feed; `default` in place of a value takes one back
    --interval 15m --gap 0                 how often it is polled; the gap between requests to its host
python -m scripts.feeds set HOST           options of a host, for all that is fetched there
    --gap 0 --parallel 8                   for servers of your own; `*.example.org` is all of a domain
python -m scripts.feeds set                what is set
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.feed_adder import NoFeedThere, add_feed
from core.feeds.io.feed_preview import preview_feed
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.opml import export_opml
from core.feeds.io.subscription_sync import import_feeds, is_in_feed_file, notes_on_files, read_feed_file
from core.feeds.io.subscriptions import Subscriptions
from core.models import DiscoveredFeed
from core.pages.text_cleaning import printable_line
from core.runtime.terminal import echo
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import command
from scripts.feeds_health import health, list_feeds
from scripts.feeds_poll import poll
from scripts.feeds_set import set_options
from scripts.tables import counted, removal_summary, table


async def import_file(path: Path) -> int:
    """Add the feeds of a file; `path` is absolute, it is the name under which the file is remembered."""
    listed = read_feed_file(path)
    async with command_line.open_session() as (settings, keys, client):
        result = await import_feeds(client, keys, settings, path, listed)
        subscribed = await Subscriptions(client, keys).by_feed()
    echo(f"{result.added} feeds added, {result.removed} removed.")
    if result.options_set or result.options_removed:
        echo(f"{counted(result.options_set, 'option')} set, {result.options_removed} removed.")
    for url in listed.feeds:
        if url not in subscribed:
            echo(f"{redact(url)} has options, and no category lists it.")
    return 0


async def export() -> int:
    async with command_line.open_session() as (settings, keys, client):
        opml = await export_opml(Subscriptions(client, keys), FeedStore(client, keys, Ttls.of(settings)))
    sys.stdout.buffer.write(opml)
    return 0


async def add(category: str, url: str) -> int:
    """Subscribe to a feed, or to the feed of a site."""
    async with command_line.open_context() as context:
        try:
            added = await add_feed(context, category, url)
        except NoFeedThere as none:
            if not none.others:
                raise
            slug = category_slug(category)
            lines = [str(none), "The site has others:", *(f"    {_add_command(slug, other)}" for other in none.others)]
            raise FeedFileError("\n".join(lines)) from none
    echo(f"Added to {added.category}: {redact(added.feed.url)} ({printable_line(added.feed.title) or 'untitled'})")
    if added.feed.url != added.asked_url:
        echo(f"It was found by way of {redact(added.asked_url)}, which is a page and no feed.")
    for other in added.others:
        echo(f"Also there: {_add_command(added.category, other)}")
    return 0


async def preview(category: str, url: str) -> int:
    async with command_line.open_context() as context:
        found = await preview_feed(context, url, category)
    echo(f"{redact(found.feed.url)} ({printable_line(found.feed.title) or 'untitled'}) [{found.kind}]")
    if found.subscribed:
        echo(f"It is in {', '.join(found.subscribed)} already.")
    refused = f"{found.rejected_links:,} refused"
    echo(f"In {found.category}: {counted(found.new_links, 'new link')}, {found.known_links:,} known, {refused}.")
    if found.entries:
        rows = [("new" if one.is_new else "known", redact(one.url), printable_line(one.title)) for one in found.entries]
        echo(table(("", "LINK", "TITLE"), rows))
    if found.rejected:
        echo(table(("REFUSED", "LINK"), [(one.reason, printable_line(redact(one.url))) for one in found.rejected]))
    for other in found.others:
        echo(f"Also there: {redact(other.url)}  {printable_line(other.title) or 'untitled'}")
    return 0


def _add_command(slug: str, feed: DiscoveredFeed) -> str:
    address = redact(feed.url).replace("'", "%27")  # copied into a shell, the line runs nothing else
    return f"{command(f'feeds add {slug}')} '{address}'  # {printable_line(feed.title) or 'untitled'}"


async def remove(url: str) -> int:
    async with command_line.open_session() as (settings, keys, client):
        subscriptions = Subscriptions(client, keys)
        url = await subscriptions.require(url)
        categories = await subscriptions.remove(url)
    echo(f"Removed from {', '.join(categories)}: {redact(url)}")
    if is_in_feed_file(settings.feeds_file, url):
        echo(
            f"{settings.feeds_file} still lists it and adds it again when Freshet starts or that file changes. "
            "Delete its line there, too."
        )
    return 0


async def rename(old: str, new: str, dry_run: bool) -> int:
    async with command_line.open_session() as (settings, keys, client):
        changes = CategoryChanges(client, keys, Ttls.of(settings), dry_run=dry_run)
        await changes.rename(old, new)
    counts = changes.counts
    moved = [counted(counts.feeds, "feed"), counted(counts.links, "link"), counted(changes.articles, "article")]
    echo(f"{'Would rename' if dry_run else 'Renamed'} {old} to {new}: {', '.join(moved)}.")
    for note in notes_on_files(settings, old, counts.origins, new):
        echo(note)
    return 0


async def drop(category: str, dry_run: bool) -> int:
    """Drop a category with its feeds and links, and the articles that no other category has."""
    async with command_line.open_session() as (settings, keys, client):
        changes = CategoryChanges(client, keys, Ttls.of(settings), dry_run=dry_run)
        await changes.drop(category)
    counts = changes.counts
    kept = f" ({counts.kept_feeds} in other categories, too)" if counts.kept_feeds else ""
    shared = f"; {counted(changes.articles, 'article')} kept in other categories" if changes.articles else ""
    left = f"{counted(counts.feeds, 'feed')}{kept}, {counted(counts.links, 'link')}{shared}."
    echo(f"{'Would drop' if dry_run else 'Dropped'} {category}: {left}")
    echo(f"{'Would forget' if dry_run else 'Forgot'}: {removal_summary(counts.forgotten)}")
    for note in notes_on_files(settings, category, counts.origins):
        echo(note)
    return 0


def main() -> int:
    parser = command_line.parser("python -m scripts.feeds", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("import").add_argument("file")
    commands.add_parser("export")
    add_parser = commands.add_parser("add")
    add_parser.add_argument("category")
    add_parser.add_argument("url")
    add_parser.add_argument("--preview", action="store_true", help="say what would come; stores nothing")
    commands.add_parser("remove").add_argument("url")
    renaming = commands.add_parser("rename")
    renaming.add_argument("old")
    renaming.add_argument("new")
    dropping = commands.add_parser("drop")
    dropping.add_argument("category")
    for one in (renaming, dropping):
        one.add_argument("--dry-run", action="store_true", help="say how much that is; changes nothing")
    polling = commands.add_parser("poll")
    which = polling.add_mutually_exclusive_group(required=True)
    which.add_argument("url", nargs="?", default="")
    which.add_argument("--category", metavar="NAME", default="")
    polling.add_argument("--force", action="store_true", help="read it again, also if it has not changed")
    listing = commands.add_parser("list")
    health_parser = commands.add_parser("health")
    which = health_parser.add_mutually_exclusive_group()
    which.add_argument("url", nargs="?")
    which.add_argument("--broken", action="store_true", help="only those whose last poll failed, the latest first")
    setting = commands.add_parser("set")
    setting.add_argument("what", nargs="?", default="", metavar="URL|HOST")
    setting.add_argument("--interval", metavar="15m", help="of a feed: the time between two polls, or default")
    setting.add_argument("--gap", metavar="0", help="seconds between two requests to the host, or default")
    setting.add_argument("--parallel", metavar="8", help="of a host: how many requests at once, or default")
    for one in (polling, listing, health_parser, setting):
        one.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    work: dict[str, Callable[[], Coroutine[Any, Any, int]]] = {
        "import": lambda: import_file(Path(options.file).resolve()),
        "export": export,
        "add": lambda: (preview if options.preview else add)(options.category, options.url),
        "remove": lambda: remove(options.url),
        "rename": lambda: rename(options.old, options.new, options.dry_run),
        "drop": lambda: drop(options.category, options.dry_run),
        "poll": lambda: poll(options.url, options.category, options.force, as_json=options.json),
        "list": lambda: list_feeds(as_json=options.json),
        "health": lambda: health(options.url, only_broken=options.broken, as_json=options.json),
        "set": lambda: set_options(options.what, options.interval, options.gap, options.parallel, as_json=options.json),
    }
    return command_line.run(work[options.command]())


if __name__ == "__main__":
    sys.exit(main())
