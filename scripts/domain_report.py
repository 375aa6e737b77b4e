"""Report on a domain: its last runs, what it refused, what is in error, what cannot be searched."""

from __future__ import annotations

import sys

from core.keys import Keys
from core.net.pace_store import PaceStore
from core.registry.record import Status
from core.runs.run import Run, domain_scope, run_json
from core.runtime.terminal import echo
from core.settings import Settings
from core.sources.io.domain_file_sync import DomainFileSync
from core.sources.io.domain_report import DomainReport, read_report, report_json
from core.sources.io.source_kinds import SOURCES
from core.sources.sharepoint.coverage import coverage_text
from core.store.connect import Client
from core.urls.pace import Paces
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import as_typed
from scripts.feeds_set import gap_text
from scripts.run_page import RUN_HEAD, paused_lines, run_row
from scripts.tables import counted, span, table


async def take_up(settings: Settings, client: Client, keys: Keys, domain_id: str) -> None:
    """Take up what the person has put or edited in the domain's folder; if it cannot be used, say so and go on."""
    if problem := await DomainFileSync(settings, client, keys, is_own_command=True).one_if_usable(domain_id):
        echo(problem, file=sys.stderr)


async def report(domain_id: str, json: bool = False) -> int:
    """Show the last runs, what was refused, items by status, items in error."""
    async with command_line.open_session() as (settings, keys, client):
        await take_up(settings, client, keys, domain_id)
        found = await read_report(settings, client, keys, domain_id)
        paces = await PaceStore(client, keys, settings).read()
    if json:
        command_line.print_json(report_json(found))
        return 0
    paused = {domain_scope(domain_id): found.overview.paused_since} if found.overview.paused_since else {}
    head = [f"{found.overview.id}: {found.overview.name}", *paused_lines(paused)]
    lines = [*head, *_paces(found, paces), "", *_runs(found)]
    lines += [*_notices(found, "\n".join(lines)), *_refused(found), *_items(found), *_coverage(found)]
    echo(as_typed("\n".join(lines)))
    return 0


def _paces(report: DomainReport, paces: Paces) -> list[str]:
    """Return how often each source is listed, if that was set, and how quickly its host is asked."""
    lines = []
    for source in report.overview.sources:
        # What reads local copies, or asks by a client with a gate of its own, has no gap.
        kind = SOURCES.get(source.kind)
        pace = None if kind and kind.needs_no_requests else paces.of_url(source.location)
        words = [f"listed every {span(source.interval_seconds)}"] if source.interval_seconds else []
        words += [f"requests to {pace.place}: {gap_text(pace)}"] if pace else []
        lines += [f"  {source.id}: {'; '.join(words)}"] if words else []
    return lines


def _runs(report: DomainReport) -> list[str]:
    if not report.runs:
        return [f"No run yet. python -m scripts.domain crawl {report.overview.id}"]
    messages = [f"  {redact(message_of(run))}" for run in report.runs if run.message]
    rows = [run_row(run_json(run), report.now) for run in report.runs]
    return [table(RUN_HEAD, rows), *dict.fromkeys(messages)]


def message_of(run: Run) -> str:
    """Return what a run says at its end, with the name of its source in front."""
    name = run.source or run.domain or str(run.kind)
    return run.message if not run.message or run.message.startswith(f"{name}: ") else f"{name}: {run.message}"


def _notices(report: DomainReport, shown: str) -> list[str]:
    """Return what a person should do something about, unless a run has said it already."""
    lines = []
    for source in report.overview.sources:
        if source.held and source.held not in shown:
            lines.append(f"🛑 {source.held}")
        if source.full and f"{source.id}: {source.full}" not in shown:
            lines.append(f"🚧 {source.id}: {source.full}")
    return lines


def _refused(report: DomainReport) -> list[str]:
    lines: list[str] = []
    for sid, links in report.refused.items():
        lines += ["", f"Refused by {sid}: {links.total}"]
        lines += [f"  {reason} → {url}" for url, reason in links.examples]
    return lines


def _items(report: DomainReport) -> list[str]:
    by_status = ", ".join(f"{count} {status}" for status, count in report.items.items()) or "none"
    lines = ["", f"Items: {by_status}"]
    in_error, outside = (report.items.get(str(status), 0) for status in (Status.ERROR, Status.OUT_OF_SCOPE))
    if in_error or outside:
        lines += ["", f"In error: {in_error}, not for us: {outside}"]
    return [*lines, *(f"  {message} → {url}" for url, message in report.errors)]


def _coverage(report: DomainReport) -> list[str]:
    """Return what SharePoint sources have that cannot be searched."""
    lines = []
    for sid, one in report.coverage.items():
        unread = coverage_text(one.unread)
        lines += [f"  {sid}: {unread}"] if unread else []
        lines += [f"  {sid}: {counted(one.failed_files, 'file')} in 03_failed"] if one.failed_files else []
    return ["", "Not searchable, though SharePoint has it:", *lines] if lines else []
