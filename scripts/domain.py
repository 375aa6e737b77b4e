"""Domains (knowledge bases): web sites, folders, repositories and SharePoint, kept fresh together.

python -m scripts.domain add FILE          a domain.json, the address of a site or of a GitHub repository, or a folder
python -m scripts.domain add URL --id X    the same, under a name of your own
python -m scripts.domain list [--json]
python -m scripts.domain crawl ID          visit what is new, check what is known, take away what is gone
    --mode full                            read everything again, whatever validators say
    --source ID                            one of its sources only
    --source-type TYPE                     only web_sources, file_sources, …
    --scope files|lists|sitepages          only these of SharePoint
    --retry-batches N                      how often SharePoint sources try what failed; 1: once
    --dry-run                              tell what a crawl would find and ask for; changes nothing
    --yes                                  it may lose more than the guard lets it, for a day
python -m scripts.domain download ID       one step alone, with the same options: bring SharePoint's files to this disk,
python -m scripts.domain process ID        make files to embed of them,
python -m scripts.domain embed ID          and embed these; other sources are crawled, read again, embedded
python -m scripts.domain cleanup ID        remove from files_metadata.json what no vector store has any more; --dry-run
python -m scripts.domain pause ID          nothing of it is listed or visited, also after a restart, until it is resumed
python -m scripts.domain resume ID         go on where it stopped: after a pause, or after a cancel
python -m scripts.domain cancel ID         end its runs; what is done stays
python -m scripts.domain report ID         its last runs, what it refused, what is in error
python -m scripts.domain reports ID        the reports of its crawls; REPORT or `last` behind it shows one
    --download [FILE]                      takes one out as a zip
python -m scripts.domain remove ID         with all its items; --dry-run says how much that is

A domain.json:
  {"id": "docs", "web_sources": [{"url": "https://docs.example.org/"}], "folder_sources": [{"path": "notes"}]}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import partial

from core.runs.io.run_control import RunControl
from core.runs.run import Run, domain_scope, run_json
from core.runtime.terminal import echo
from core.sources.crawl_parameters import ALL_STEPS
from core.sources.io.domain_file_sync import DomainFileSync
from core.sources.io.domain_overview import SourceOverview, read_domains
from core.sources.io.domain_setup import add_domain, remove_domain
from core.sources.io.source_kinds import location
from core.store import connect
from scripts import command_line
from scripts.command_names import as_typed, command
from scripts.crawl_reports import reports
from scripts.domain_crawl import add_crawl_options, cleanup, crawl
from scripts.domain_report import report, take_up
from scripts.run_page import how_it_ended, paused_lines
from scripts.runs import controlled
from scripts.tables import ago, removal_json, removal_summary, table


async def add(what: str, domain_id: str | None) -> int:
    """Add a domain, or give it the configuration it has now."""
    from core.sources.io.domain_file import is_domain_file, load_domain  # here: a crawl starts without pydantic

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
    echo(f"Next: {command(f'domain crawl {domain.id}')}")
    return 0


async def list_domains(json: bool = False) -> int:
    async with command_line.open_session() as (settings, keys, client):
        problems = await DomainFileSync(settings, client, keys, is_own_command=True).all()
        domains, now = await read_domains(client, keys), await connect.now(client)
    for problem in problems:
        echo(problem, file=sys.stderr)
    if json:
        command_line.print_json([asdict(domain) for domain in domains])
        return 0
    rows = [_row(domain.id, source, now) for domain in domains for source in domain.sources]
    if not rows:
        echo(as_typed("There is no domain yet. python -m scripts.domain add URL|FOLDER|domain.json"))
        return 0
    echo(table(("DOMAIN", "SOURCE", "KIND", "ITEMS", "DUE", "LAST LISTED", "HOW IT ENDED"), rows))
    for line in paused_lines({domain_scope(one.id): one.paused_since for one in domains if one.paused_since}):
        echo(as_typed(line))
    return 0


def _row(domain_id: str, source: SourceOverview, now: float) -> tuple[object, ...]:
    listed, ended = ago(source.last_listed_ts or 0.0, now), how_it_ended(asdict(source))
    return (domain_id, source.id.partition(".")[2], source.kind or "–", source.items, source.due, listed, ended)


async def remove(domain_id: str, dry_run: bool, json: bool = False) -> int:
    async with command_line.open_session() as (settings, keys, client):
        counts = await remove_domain(settings, client, keys, domain_id, dry_run=dry_run)
    lines = [f"{'Would remove' if dry_run else 'Removed'} {domain_id}: {removal_summary(counts)}"]
    if counts.files:
        lines.append(
            f"Local files are those of domains/{domain_id} and crawler/{domain_id}; reports of its crawls stay."
        )
    return command_line.answer(removal_json(domain_id, counts, dry_run=dry_run), "\n".join(lines), as_json=json)


async def pause(domain_id: str, json: bool = False) -> int:
    sentence = (
        f"{domain_id} is paused. No run of it is open; `freshet domain resume {domain_id}` lets the next ones begin."
    )
    return await _control(domain_id, RunControl.pause_domain, lambda _: sentence, json)


async def resume(domain_id: str, json: bool = False) -> int:
    def sentence(since: str) -> str:
        if since:
            return f"{domain_id} is no longer paused."
        start = f"`freshet domain crawl {domain_id}` starts one"
        return f"{domain_id} was not paused, and its last crawl was not cancelled; {start}."

    return await _control(domain_id, RunControl.resume_domain, sentence, json)


async def cancel(domain_id: str, json: bool = False) -> int:
    return await _control(domain_id, RunControl.cancel_domain, lambda _: f"No run of {domain_id} is open.", json)


async def _control(
    domain_id: str,
    act: Callable[[RunControl, str], Coroutine[object, object, list[Run]]],
    without_runs: Callable[[str], str],
    json: bool,
) -> int:
    """`without_runs`: what is said where no run was concerned, by since when the domain was paused before."""
    async with command_line.open_session() as (settings, keys, client):
        await take_up(settings, client, keys, domain_id)
        control = RunControl(settings, client, keys)
        since = await control.paused_since(domain_id)
        runs = await act(control, domain_id)
    text = "\n".join(controlled(run) for run in runs) or as_typed(without_runs(since))
    return command_line.answer([run_json(run) for run in runs], text, as_json=json)


def main() -> int:
    parser = command_line.parser("python -m scripts.domain", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="add a domain, or give it another configuration")
    adding.add_argument("what", metavar="FILE", help="a domain.json, a site's URL, a GitHub repository's URL, a folder")
    adding.add_argument("--id", dest="domain_id", help="what to call it")
    listing = commands.add_parser("list", help="all domains and their sources")
    removing = commands.add_parser("remove", help="remove a domain with all its items")
    removing.add_argument("domain_id", metavar="id")
    removing.add_argument("--dry-run", action="store_true", help="say how much that is")
    purposes = {"crawl": "one pass over its sources"}
    purposes |= {str(name): f"only the step {name} of a crawl" for name in ALL_STEPS}
    crawling = [commands.add_parser(name, help=purpose) for name, purpose in purposes.items()]
    for one in crawling:
        add_crawl_options(one)
    cleaning = commands.add_parser("cleanup", help="remove from files_metadata.json what no vector store has any more")
    cleaning.add_argument("domain_id", metavar="id")
    cleaning.add_argument("--dry-run", action="store_true", help="say how much that is")
    reporting = commands.add_parser("report", help="runs, refusals, errors")
    reporting.add_argument("domain_id", metavar="id")
    archived = commands.add_parser("reports", help="reports of its crawls: list, show, download")
    archived.add_argument("domain_id", metavar="id")
    archived.add_argument("report", nargs="?", help="show this one: its id, its name, the beginning of it, or `last`")
    archived.add_argument("--download", metavar="FILE", nargs="?", const="", help="write its zip here, or to FILE")
    controls = {
        "pause": "nothing of it is listed or visited until it is resumed",
        "resume": "go on where it stopped",
        "cancel": "end its runs; what is done stays",
    }
    controlling = [commands.add_parser(name, help=purpose) for name, purpose in controls.items()]
    for one in controlling:
        one.add_argument("domain_id", metavar="id")
    for one in (listing, removing, *crawling, cleaning, reporting, archived, *controlling):
        one.add_argument("--json", action="store_true", help="for programs")
    options = vars(parser.parse_args())
    actions: dict[str, Callable[..., Coroutine[object, object, int]]] = {
        "add": add,
        "list": list_domains,
        "remove": remove,
        "crawl": crawl,
        **{str(name): partial(crawl, step=name) for name in ALL_STEPS},
        "cleanup": cleanup,
        "report": report,
        "reports": reports,
        "pause": pause,
        "resume": resume,
        "cancel": cancel,
    }
    return command_line.run(actions[options.pop("command")](**options))


if __name__ == "__main__":
    sys.exit(main())
