"""Forget something with everything that belongs to it: text, images, links, article, aliases, memory.

python -m scripts.forget URL|ID|UID|PATH   an item, an article or a link, by any of its names
python -m scripts.forget --feed URL        a feed, with the links and articles that it alone listed
python -m scripts.forget --domain ID       a domain, with its sources and items
    --dry-run                              say how much that is; changes nothing

What a feed or a site still lists comes back with it. To keep a page out, exclude it in the domain.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from core.errors import FeedFileError, FreshetError
from core.feeds.io.subscription_sync import is_in_feed_file
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.item_queries import ItemQueries
from core.registry.io.link_forgetter import LinkForgetter
from core.runtime.terminal import echo
from core.urls.secrets import redact
from scripts import command_line
from scripts.domain import remove
from scripts.tables import removal_summary


async def forget(word: str, dry_run: bool) -> int:
    """Forget an item and every link that leads to it."""
    async with command_line.open_session() as (settings, keys, client):
        queries = ItemQueries(client, keys, settings.tracking_param_prefixes)
        named = await queries.resolve(word, Path.cwd())
        parent = await queries.parent_of(named.item_id)
        if parent:
            raise FreshetError(
                f"{redact(word)} is an image of {parent} and goes with it: python -m scripts.forget {parent}"
            )
        forgetter = ItemForgetter(client, keys, dry_run=dry_run)
        links = LinkForgetter(forgetter)
        if not await links.page(named.item_id, named.uid):
            raise FreshetError(f"{redact(word)} is neither in the registry nor in a link set; there is nothing of it.")
    counts = forgetter.counts
    echo(f"{_verb(dry_run)} {redact(word)}: {removal_summary(counts)}")
    if counts.links or counts.articles or counts.aliases:
        echo("Its links leave the link sets too, else it would be fetched again in the next minute.")
        echo("A feed that still lists it brings it back when the feed changes.")
    for sid in sorted(counts.comes_back_by):
        echo(f"If {sid} still lists it or links to it, the next crawl finds it again.")
    return 0


async def forget_feed(url: str, dry_run: bool) -> int:
    """Forget a feed and what it alone listed."""
    async with command_line.open_session() as (settings, keys, client):
        forgetter = ItemForgetter(client, keys, dry_run=dry_run)
        was_in = await LinkForgetter(forgetter).feed(url)
    if was_in is None:
        raise FeedFileError(f"{redact(url)} is in no category. `python -m scripts.feeds list` shows what is there.")
    listed = f" (in {', '.join(was_in)})" if was_in else ""
    echo(f"{_verb(dry_run)} the feed {redact(url)}{listed}: {removal_summary(forgetter.counts)}")
    if is_in_feed_file(settings.feeds_file, url):
        echo(f"It still stands in {settings.feeds_file}; remove it there too, or it comes back.")
    return 0


def _verb(dry_run: bool) -> str:
    return "Would forget" if dry_run else "Forgot"


def main() -> int:
    """The command line."""
    parser = command_line.parser("python -m scripts.forget", __doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("word", nargs="?", metavar="URL|ID|PATH")
    what.add_argument("--feed", metavar="URL")
    what.add_argument("--domain", metavar="ID")
    parser.add_argument("--dry-run", action="store_true", help="say how much that is; changes nothing")
    options = parser.parse_args()
    if options.feed is not None:
        return command_line.run(forget_feed(options.feed, options.dry_run))
    if options.domain is not None:
        return command_line.run(remove(options.domain, options.dry_run))
    return command_line.run(forget(options.word, options.dry_run))


if __name__ == "__main__":
    sys.exit(main())
