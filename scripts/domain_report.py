"""Look at domains: what there is, and how one of them fared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import DueItems
from core.registry.io.item_queries import ItemQueries
from core.registry.io.runs import KEPT, RunStore
from core.registry.record import Status
from core.runtime.terminal import echo
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.urls.secrets import redact
from scripts import session
from scripts.domain_remove import known
from scripts.tables import ago, table

MOST_RUNS = 10
MOST_SHOWN = 20
HOW_CHARS = 60
RUN_HEAD = (
    "STARTED",
    "SOURCE",
    "MODE",
    "END",
    "KNOWN",
    "VISITED",
    "CHANGED",
    "UNCHANGED",
    "GONE",
    "FAILED",
    "NOT FOR US",
)
COUNTERS = ("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded")


# ── all ──


async def list_domains() -> int:
    """Every domain and its sources in one table."""
    async with session.open_session() as (_, keys, client):
        store, now = DomainStore(client, keys), await connect.now(client)
        rows = []
        for domain_id in await store.ids():
            domain = await store.read(domain_id)
            for sid in domain.sources if domain else ():
                rows.append((domain_id, *await _row(client, keys, sid, now)))
    if not rows:
        echo("There is no domain yet. python -m scripts.domain add URL|FOLDER|domain.json")
        return 0
    echo(table(("DOMAIN", "SOURCE", "KIND", "ITEMS", "DUE", "LAST LISTED", "HOW IT ENDED"), rows))
    return 0


async def _row(client: Client, keys: Keys, sid: str, now: float) -> tuple[object, ...]:
    details = await SourceStore(client, keys).details(sid)
    return (
        sid.partition(".")[2],
        details.get("kind", "–"),
        await SourceItems(client, keys).count(sid),
        await DueItems(client, keys).count(sid, now),
        ago(field_parsing.timestamp(details.get("last_listed_ts")), now),
        how_it_ended(details),
    )


def how_it_ended(details: Mapping[str, str]) -> str:
    """How the last listing of a source ended, or what a person should do about it."""
    if details.get("held"):
        return f"🛑 {details['held']}"
    if details.get("full"):
        return f"🚧 {details['full']}"
    return details.get("last_listing", "")[:HOW_CHARS] or "–"


# ── one ──


async def report(domain_id: str) -> int:
    """The last runs, what was refused, items by status, items in error."""
    async with session.open_session() as (_, keys, client):
        domain = await known(DomainStore(client, keys), domain_id)
        now = await connect.now(client)
        lines = [f"{domain.id}: {domain.name}", ""]
        lines += await _runs(client, keys, domain_id, now)
        lines += await _open_questions(client, keys, domain, "\n".join(lines))
        lines += await _refused(client, keys, domain)
        lines += await _items(client, keys, domain)
    echo("\n".join(lines))
    return 0


async def _runs(client: Client, keys: Keys, domain_id: str, now: float) -> list[str]:
    runs = [run for run in await RunStore(client, keys).newest(KEPT, now) if run.get("domain") == domain_id][:MOST_RUNS]
    if not runs:
        return [f"No run yet. python -m scripts.domain crawl {domain_id}"]
    rows = [run_row(run, now) for run in runs]
    told = [f"  {_by_its_source(run)}" for run in runs if run.get("message")]
    return [table(RUN_HEAD, rows), *dict.fromkeys(told)]


def _by_its_source(run: Mapping[str, str]) -> str:
    said, source = redact(run["message"]), run["source"]
    return said if said.startswith(f"{source}: ") else f"{source}: {said}"


def run_row(run: dict[str, str], now: float) -> tuple[object, ...]:
    """A run as a line of a table."""
    started = ago(field_parsing.timestamp(run.get("started_ts")), now)
    return (started, run["source"], run["mode"], run["status"], *(run.get(name, "0") for name in COUNTERS))


async def _open_questions(client: Client, keys: Keys, domain: StoredDomain, told: str) -> list[str]:
    """What a person should do something about, unless a run has told it already."""
    store, lines = SourceStore(client, keys), []
    for sid in domain.sources:
        details = await store.details(sid)
        if (held := details.get("held", "")) and held not in told:
            lines.append(f"🛑 {held}")
        if (full := details.get("full", "")) and f"{sid}: {full}" not in told:
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
    selecting = ItemQueries(client, keys)
    async for some in selecting.of_sources(domain.sources):
        rows = await selecting.rows(some)
        counts.update(row.status for row in rows)
        room = MOST_SHOWN - len(troubled)
        troubled += [row.item_id for row in rows if row.status in (Status.ERROR, Status.OUT_OF_SCOPE)][:room]
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    lines = ["", f"Items: {said}"]
    if troubled:
        in_error, outside = counts[str(Status.ERROR)], counts[str(Status.OUT_OF_SCOPE)]
        lines += ["", f"In error: {in_error}, not for us: {outside}"]
    for shown, message in await SourceItems(client, keys).errors_of(troubled):
        lines.append(f"  {redact(message)} → {redact(shown)}")
    return lines
