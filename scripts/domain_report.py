"""Report on a domain: its last runs, what it refused, what is in error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.item_queries import ItemQueries
from core.registry.io.runs import COUNTERS, KEPT, RunStore
from core.registry.record import Status
from core.runtime.terminal import echo
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import ago, table

MOST_RUNS = 10
MOST_SHOWN = 20
HOW_CHARS = 60
COUNTER_HEAD = ("KNOWN", "VISITED", "CHANGED", "UNCHANGED", "GONE", "FAILED", "NOT FOR US")
RUN_HEAD = ("STARTED", "SOURCE", "MODE", "END", *COUNTER_HEAD)


def how_it_ended(details: Mapping[str, str]) -> str:
    """Return how the last listing of a source ended, or what a person should do about it."""
    if details.get("held"):
        return f"🛑 {details['held']}"
    if details.get("full"):
        return f"🚧 {details['full']}"
    return details.get("last_listing", "")[:HOW_CHARS] or "–"


async def report(domain_id: str) -> int:
    """Show the last runs, what was refused, items by status, items in error."""
    async with command_line.open_session() as (_, keys, client):
        domain = await DomainStore(client, keys).require(domain_id)
        now = await connect.now(client)
        lines = [f"{domain.id}: {domain.name}", ""]
        lines += await _runs(client, keys, domain_id, now)
        lines += await _notices(client, keys, domain, "\n".join(lines))
        lines += await _refused(client, keys, domain)
        lines += await _items(client, keys, domain)
    echo("\n".join(lines))
    return 0


async def _runs(client: Client, keys: Keys, domain_id: str, now: float) -> list[str]:
    runs = [run for run in await RunStore(client, keys).newest(KEPT, now) if run.get("domain") == domain_id][:MOST_RUNS]
    if not runs:
        return [f"No run yet. python -m scripts.domain crawl {domain_id}"]
    messages = [f"  {redact(message_of(run))}" for run in runs if run.get("message")]
    return [table(RUN_HEAD, [run_row(run, now) for run in runs]), *dict.fromkeys(messages)]


def message_of(run: Mapping[str, str]) -> str:
    """Return what a run says at its end, with the name of its source in front."""
    message, source = run.get("message", ""), run["source"]
    return message if not message or message.startswith(f"{source}: ") else f"{source}: {message}"


def run_row(run: dict[str, str], now: float) -> tuple[object, ...]:
    """Return a run as a row of a table."""
    started = ago(field_parsing.timestamp(run.get("started_ts")), now)
    return (started, run["source"], run["mode"], run["status"], *(run.get(name, "0") for name in COUNTERS))


async def _notices(client: Client, keys: Keys, domain: StoredDomain, shown: str) -> list[str]:
    """Return what a person should do something about, unless a run has said it already."""
    store, lines = SourceStore(client, keys), []
    for sid in domain.sources:
        details = await store.details(sid)
        if (held := details.get("held", "")) and held not in shown:
            lines.append(f"🛑 {held}")
        if (full := details.get("full", "")) and f"{sid}: {full}" not in shown:
            lines.append(f"🚧 {sid}: {full}")
    return lines


async def _refused(client: Client, keys: Keys, domain: StoredDomain) -> list[str]:
    lines: list[str] = []
    for sid in domain.sources:
        total, some = await SourceStore(client, keys).refused(sid, MOST_SHOWN)
        if total:
            lines += ["", f"Refused by {sid}: {total}"]
            lines += [f"  {reason} → {redact(link)}" for link, reason in some]
    return lines


async def _items(client: Client, keys: Keys, domain: StoredDomain) -> list[str]:
    counts: Counter[str] = Counter()
    troubled: list[str] = []
    queries = ItemQueries(client, keys)
    async for item_ids in queries.of_sources(domain.sources):
        rows = await queries.summaries(item_ids)
        counts.update(row.status for row in rows)
        room = MOST_SHOWN - len(troubled)
        troubled += [row.item_id for row in rows if row.status in (Status.ERROR, Status.OUT_OF_SCOPE)][:room]
    by_status = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    lines = ["", f"Items: {by_status}"]
    if troubled:
        in_error, outside = counts[str(Status.ERROR)], counts[str(Status.OUT_OF_SCOPE)]
        lines += ["", f"In error: {in_error}, not for us: {outside}"]
    for shown, message in await SourceItems(client, keys).errors_of(troubled):
        lines.append(f"  {redact(message)} → {redact(shown)}")
    return lines
