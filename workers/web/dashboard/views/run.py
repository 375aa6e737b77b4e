"""One run: how far it is, what failed and why, its log; and the buttons that control it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from core.runs.io.run_list import RunList
from core.runs.run import COUNTERS, RunKind, RunStatus
from core.runtime.api_results import RunState
from core.sources.io.source_losses import IF_RIGHT
from core.urls.secrets import redact
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.routes.jobs import FailedRequest, JobRequest, cancel_job, pause_job, resume_job, retry_job
from workers.web.routing import Call

ROUTES = PageTable()
LEFT_SHOWN = 10
_HAS_LEFT = frozenset(RunStatus) - {RunStatus.SUCCEEDED, RunStatus.RUNNING}
VISITED, *PARTS = COUNTERS[1:]
"""`visited` is the sum of the parts."""


@ROUTES.page("/runs/{id}", "Run", "run.html")
async def show_run(call: Call, asked: JobRequest) -> dict[str, Any]:
    store, now = call.context.runs, await call.now()
    run = await store.require(asked.id, now)
    runs = RunList(call.client, call.keys)
    return {
        "title": f"{str(run.kind).capitalize()} {run.source or run.domain}".strip(),
        "run": run,
        "message": redact(run.message).partition(IF_RIGHT)[0],
        "error": redact(run.error),
        "sums": _sums(run.counts),
        "failures": await runs.failures(run, now),
        "children": await store.children(run.id, now) if run.kind is RunKind.DOMAIN else [],
        "workers": await store.workers.of(run.id) if run.is_open else [],
        "left": [redact(url) for url in await runs.left(run, LEFT_SHOWN)] if run.status in _HAS_LEFT else [],
        "log": await store.log_lines(run.id),
    }


def _sums(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the counters of a run: the visits as a sum where it has them, and all others that are not zero."""
    has_visits = VISITED in counts
    parts = [(name, counts.get(name, 0)) for name in PARTS] if has_visits else []
    others = [(name, count) for name, count in counts.items() if name not in {VISITED, *PARTS} or not has_visits]
    return {
        "visited": counts.get(VISITED, 0) if has_visits else None,
        "parts": parts,
        "others": [(name.replace("_", " "), count) for name, count in others if count],
    }


def _add_actions() -> None:
    for verb, change in {"pause": pause_job, "resume": resume_job, "cancel": cancel_job}.items():
        _add_action(verb, change)


def _add_action(verb: str, change: Callable[[Call, JobRequest], Awaitable[RunState]]) -> None:
    @ROUTES.action(f"/runs/{{id}}/{verb}")
    async def control(call: Call, asked: JobRequest) -> Done:
        return Done(_sentence(await change(call, asked)))


_add_actions()


@ROUTES.action("/runs/{id}/retry")
async def retry(call: Call, asked: FailedRequest) -> Done:
    answer = await retry_job(call, asked)
    return Done(f"Items that are due again: {answer.items:,}. {_sentence(answer.job)}", f"/runs/{answer.job.id}")


def _sentence(job: RunState) -> str:
    """Return what became of a run, and what comes next."""
    next_step = {
        RunStatus.PAUSING: "What is in flight is finished first.",
        RunStatus.PAUSED: "It stays so, also after a restart, until you resume it.",
        RunStatus.CANCELLED: f"Items left: {job.left:,}.",
        RunStatus.QUEUED: "The next free worker takes it.",
        RunStatus.INTERRUPTED: "The next free worker takes it.",
    }.get(job.status, "")
    return f"{job.source or job.domain or job.kind} is {job.status}. {next_step}".strip()
