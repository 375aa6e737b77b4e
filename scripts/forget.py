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

from core.feeds.io.subscription_sync import is_in_feed_file
from core.registry.io.forget_by_name import forget_page, forget_subscription
from core.runtime.terminal import echo
from core.urls.secrets import redact
from scripts import command_line
from scripts.domain import remove
from scripts.tables import removal_json, removal_summary


async def forget(word: str, dry_run: bool, *, as_json: bool = False) -> int:
    async with command_line.open_session() as (settings, keys, client):
        counts = await forget_page(settings, client, keys, word, folder=Path.cwd(), dry_run=dry_run)
    if as_json:
        command_line.print_json(removal_json(redact(word), counts, dry_run=dry_run))
        return 0
    echo(f"{_verb(dry_run)} {redact(word)}: {removal_summary(counts)}")
    if counts.links or counts.articles or counts.aliases:
        echo("Its links leave the link sets too, else it would be fetched again in the next minute.")
        echo("A feed that still lists it brings it back when the feed changes.")
    for sid in sorted(counts.comes_back_by):
        echo(f"If {sid} still lists it or links to it, the next crawl finds it again.")
    return 0


async def forget_feed(url: str, dry_run: bool, *, as_json: bool = False) -> int:
    """Forget a feed and what it alone listed."""
    async with command_line.open_session() as (settings, keys, client):
        counts, was_in = await forget_subscription(client, keys, url, dry_run=dry_run)
    if as_json:
        command_line.print_json(removal_json(redact(url), counts, dry_run=dry_run))
        return 0
    listed = f" (in {', '.join(was_in)})" if was_in else ""
    echo(f"{_verb(dry_run)} the feed {redact(url)}{listed}: {removal_summary(counts)}")
    if is_in_feed_file(settings.feeds_file, url):
        echo(f"It still stands in {settings.feeds_file}; remove it there too, or it comes back.")
    return 0


def _verb(dry_run: bool) -> str:
    return "Would forget" if dry_run else "Forgot"


def main() -> int:
    parser = command_line.parser("python -m scripts.forget", __doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("word", nargs="?", metavar="URL|ID|PATH")
    what.add_argument("--feed", metavar="URL")
    what.add_argument("--domain", metavar="ID")
    parser.add_argument("--dry-run", action="store_true", help="say how much that is; changes nothing")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    if options.feed is not None:
        return command_line.run(forget_feed(options.feed, options.dry_run, as_json=options.json))
    if options.domain is not None:
        return command_line.run(remove(options.domain, options.dry_run, options.json))
    return command_line.run(forget(options.word, options.dry_run, as_json=options.json))


if __name__ == "__main__":
    sys.exit(main())
