"""The list of runs: what is open, what was done last, and the switch that pauses a whole kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run, RunKind, RunStatus
from core.sources.io.domain_store import DomainStore
from workers.web.dashboard.page_table import Done, PageTable, offset_paths
from workers.web.routes.jobs import JobsRequest, KindRequest, pause_kind, resume_kind
from workers.web.routing import Call

ROUTES = PageTable()
PURPOSES = {
    RunKind.INGEST: "polls feeds that are due",
    RunKind.CANONICAL: "fetches the pages that feeds link to",
    RunKind.CRAWL: "lists a source and visits what is new or due",
    RunKind.DOMAIN: "crawls all sources of a domain",
    RunKind.REFRESH: "checks known pages again, by their schedule",
    RunKind.REINDEX: "reads items again that someone asked for",
    RunKind.EMBED: "embeds texts of a domain that someone asked for",
    RunKind.REBUILD: "makes the due sets or the chunks anew",
    RunKind.MIGRATION: "moves all texts into another vector space",
    RunKind.DOCTOR: "checks the whole store",
}


@ROUTES.page("/runs", "Runs", "runs.html")
async def show_runs(call: Call, asked: JobsRequest) -> dict[str, Any]:
    """Show the open runs, and below them the others, newest first."""
    now, runs = await call.now(), RunList(call.client, call.keys)
    wanted = RunFilter(asked.kind, asked.domain, asked.status)
    found = await runs.page(wanted, now, asked.limit, asked.offset)
    opened = await runs.open(wanted, now) if not asked.offset else []
    ended = [run for run in found.runs if not run.is_open]
    # Who asks for crawls gets all of them.
    folded = Counter[str]() if asked.kind else _folded([*opened, *ended])
    blocked = await call.context.runs.blocked()
    return {
        "asked": asked,
        "opened": [run for run in opened if run.parent not in folded],
        "ended": [run for run in ended if run.parent not in folded],
        "folded": folded,
        **offset_paths("/runs", asked, asked.limit, has_more=found.has_more),
        "is_filtered": wanted != RunFilter(),
        "kinds": [(kind, PURPOSES[kind], str(kind) in blocked.paused) for kind in RunKind],
        "statuses": list(RunStatus),
        "domains": await DomainStore(call.client, call.keys).ids(),
    }


def _folded(shown: Sequence[Run]) -> Counter[str]:
    """Return how many of these runs are parts of another of them, by its id; the page of that one shows them."""
    ids = {run.id for run in shown}
    return Counter(run.parent for run in shown if run.parent in ids)


@ROUTES.action("/runs/kinds/{kind}/pause")
async def pause_runs(call: Call, asked: KindRequest) -> Done:
    jobs = (await pause_kind(call, asked)).jobs
    return Done(f"Runs of the kind {asked.kind} are paused, also the next ones ({len(jobs)} open).")


@ROUTES.action("/runs/kinds/{kind}/resume")
async def resume_runs(call: Call, asked: KindRequest) -> Done:
    jobs = (await resume_kind(call, asked)).jobs
    return Done(f"Runs of the kind {asked.kind} go on ({len(jobs)} open).")
