"""Domains (knowledge bases): web sites, folders and repositories, kept fresh together.

python -m scripts.domain add FILE          a domain.json, the address of a site or of a GitHub repository, or a folder
python -m scripts.domain add URL --id NAME the same, under a name of your own
python -m scripts.domain list
python -m scripts.domain crawl ID          visit what is new, check what is known, take away what is gone
    --mode full                            read everything anew, whatever validators say
    --source ID                            one of its sources only
    --dry-run                              tell what a crawl would find and ask for; changes nothing
    --yes                                  it may lose more than the guard lets it, for a day
python -m scripts.domain report ID         its last runs, what it refused, what is in error
python -m scripts.domain remove ID         with all its items; --dry-run says how much that is

A domain.json:
  {"id": "docs", "web_sources": [{"url": "https://docs.example.org/"}], "folder_sources": [{"path": "notes"}]}
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from core.sources.io.crawl import CrawlMode
from scripts import domain_add, domain_crawl, domain_remove, domain_report, session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.domain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="add a domain, or give it another configuration")
    adding.add_argument("what", metavar="FILE", help="a domain.json, a site's URL, a GitHub repository's URL, a folder")
    adding.add_argument("--id", dest="name", help="what to call it")
    commands.add_parser("list", help="all domains and their sources")
    removing = commands.add_parser("remove", help="remove a domain with all its items")
    removing.add_argument("id")
    removing.add_argument("--dry-run", action="store_true", help="say how much that is")
    crawling = commands.add_parser("crawl", help="one pass over its sources")
    crawling.add_argument("id")
    crawling.add_argument(
        "--mode", choices=[str(CrawlMode.INCREMENTAL), str(CrawlMode.FULL)], default=str(CrawlMode.INCREMENTAL)
    )
    crawling.add_argument("--scope", default="all", help="all; others are for SharePoint, later")
    crawling.add_argument("--source", metavar="ID", help="one source only: `docs.site`, or `site`")
    crawling.add_argument("--dry-run", action="store_true", help="tell what it would do; changes nothing")
    crawling.add_argument("--yes", action="store_true", help="it may lose more than the guard lets it, for a day")
    commands.add_parser("report", help="runs, refusals, errors").add_argument("id")
    return parser


def main() -> int:
    """The command line."""
    given = _parser().parse_args()
    work: dict[str, Callable[[], Coroutine[Any, Any, int]]] = {
        "add": lambda: domain_add.add(given.what, given.name),
        "list": domain_report.list_domains,
        "remove": lambda: domain_remove.remove(given.id, given.dry_run),
        "crawl": lambda: domain_crawl.crawl(
            domain_crawl.Asked(given.id, CrawlMode(given.mode), given.scope, given.source, given.dry_run, given.yes)
        ),
        "report": lambda: domain_report.report(given.id),
    }
    return session.run(work[given.command]())


if __name__ == "__main__":
    sys.exit(main())
