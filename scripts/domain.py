"""Domains (knowledge bases): web sites, folders and repositories, kept fresh together.

python -m scripts.domain add FILE          a domain.json, the address of a site or of a GitHub repository, or a folder
python -m scripts.domain add URL --id NAME the same, under a name of your own
python -m scripts.domain list
python -m scripts.domain crawl ID          visit what is new, check what is known, take away what is gone
    --mode full                            read everything again, whatever validators say
    --source ID                            one of its sources only
    --dry-run                              tell what a crawl would find and ask for; changes nothing
    --yes                                  it may lose more than the guard lets it, for a day
python -m scripts.domain report ID         its last runs, what it refused, what is in error
python -m scripts.domain remove ID         with all its items; --dry-run says how much that is

A domain.json:
  {"id": "docs", "web_sources": [{"url": "https://docs.example.org/"}], "folder_sources": [{"path": "notes"}]}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine

from core.registry import field_parsing
from core.registry.io.due import DueItems
from core.registry.io.item_forgetter import ItemForgetter
from core.runtime.terminal import echo
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_file import is_domain_file, load_domain
from core.sources.io.domain_setup import add_domain
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_items import SourceItems
from core.sources.io.source_kinds import location
from core.sources.io.source_store import SourceStore
from core.store import connect
from scripts import command_line
from scripts.domain_crawl import crawl
from scripts.domain_report import how_it_ended, report
from scripts.tables import ago, removal_summary, table


async def add(what: str, domain_id: str | None) -> int:
    """Add a domain, or give it the configuration it has now."""
    async with command_line.open_session() as (settings, keys, client):
        domain = load_domain(what, settings, domain_id)
        derived_from = "" if domain_id or is_domain_file(what) else what
        added = await add_domain(settings, client, keys, domain, derived_from=derived_from)
    echo(f"{'Added' if added.is_new else 'Updated'} {domain.id}: {domain.name}")
    for sid, counts in added.removed.items():
        echo(f"{sid} is no longer in it; it goes with the items that no other source lists.")
        echo(f"  {removal_summary(counts)}")
    rows = [(record.sid, record.kind, location(record)) for record in added.sources]
    echo(table(("SOURCE", "KIND", "WHERE"), rows))
    echo(f"Next: python -m scripts.domain crawl {domain.id}")
    return 0


async def list_domains() -> int:
    """Show every domain and its sources in one table."""
    async with command_line.open_session() as (_, keys, client):
        domains, sources, now = DomainStore(client, keys), SourceStore(client, keys), await connect.now(client)
        rows = []
        for domain_id in await domains.ids():
            domain = await domains.read(domain_id)
            for sid in domain.sources if domain else ():
                details = await sources.details(sid)
                items, due = await SourceItems(client, keys).count(sid), await DueItems(client, keys).count(sid, now)
                listed = ago(field_parsing.timestamp(details.get("last_listed_ts")), now)
                source_id, kind = sid.partition(".")[2], details.get("kind", "–")
                rows.append((domain_id, source_id, kind, items, due, listed, how_it_ended(details)))
    if not rows:
        echo("There is no domain yet. python -m scripts.domain add URL|FOLDER|domain.json")
        return 0
    echo(table(("DOMAIN", "SOURCE", "KIND", "ITEMS", "DUE", "LAST LISTED", "HOW IT ENDED"), rows))
    return 0


async def remove(domain_id: str, dry_run: bool) -> int:
    """Remove a domain with all its sources and items."""
    async with command_line.open_session() as (_, keys, client):
        domain = await DomainStore(client, keys).require(domain_id)
        forgetter = ItemForgetter(client, keys, dry_run=dry_run)
        await forgetter.domain(domain)
    echo(f"{'Would remove' if dry_run else 'Removed'} {domain_id}: {removal_summary(forgetter.counts)}")
    return 0


def main() -> int:
    """The command line."""
    parser = command_line.parser("python -m scripts.domain", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="add a domain, or give it another configuration")
    adding.add_argument("what", metavar="FILE", help="a domain.json, a site's URL, a GitHub repository's URL, a folder")
    adding.add_argument("--id", dest="domain_id", help="what to call it")
    commands.add_parser("list", help="all domains and their sources")
    removing = commands.add_parser("remove", help="remove a domain with all its items")
    removing.add_argument("domain_id", metavar="id")
    removing.add_argument("--dry-run", action="store_true", help="say how much that is")
    crawling = commands.add_parser("crawl", help="one pass over its sources")
    crawling.add_argument("domain_id", metavar="id")
    modes = [str(CrawlMode.INCREMENTAL), str(CrawlMode.FULL)]
    crawling.add_argument("--mode", choices=modes, default=modes[0])
    crawling.add_argument("--scope", default="all", help="all; others are for SharePoint, later")
    crawling.add_argument("--source", metavar="ID", help="one source only: `docs.site`, or `site`")
    crawling.add_argument("--dry-run", action="store_true", help="tell what it would do; changes nothing")
    crawling.add_argument("--yes", action="store_true", help="it may lose more than the guard lets it, for a day")
    commands.add_parser("report", help="runs, refusals, errors").add_argument("domain_id", metavar="id")
    options = vars(parser.parse_args())
    actions: dict[str, Callable[..., Coroutine[object, object, int]]] = {
        "add": add,
        "list": list_domains,
        "remove": remove,
        "crawl": crawl,
        "report": report,
    }
    return command_line.run(actions[options.pop("command")](**options))


if __name__ == "__main__":
    sys.exit(main())
