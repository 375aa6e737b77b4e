"""Join a refresh job to the run of its source: a refresh of its own, or the crawl that is open."""

from __future__ import annotations

from collections.abc import Sequence

from core.ids import domain_of_source
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunStatus
from core.runs.run_request import RunRequest
from core.runtime.context import Context
from core.store.clock import ServerClock


async def join_refresh(
    context: Context, clock: ServerClock, sid: str, run_id: str, item_ids: Sequence[str], picked_ts: float
) -> RunWorker:
    """Return a worker that has joined the given run; if that has ended, the open run of the source or a new refresh.

    Where the source is paused, or was cancelled, the worker stops (`should_stop`).
    """
    runs = context.runs
    worker = _worker(context, clock, Run(run_id, RunKind.REFRESH, RunStatus.RUNNING, source=sid))
    if run_id and await worker.join() not in (RunRequest.ENDED, RunRequest.MISSING):
        return worker
    is_sendable = (await runs.blocked()).is_refreshed(sid)
    if not is_sendable or not await context.due.has_unvisited(item_ids, picked_ts):
        worker.requested = RunRequest.PAUSE  # or they were visited meanwhile
        return worker
    # A crawl took the place of the refresh, or an older version sent the job.
    opened, _ = await runs.open(
        RunKind.REFRESH, clock.now(), source=sid, domain=domain_of_source(sid), started_by="timer"
    )
    worker = _worker(context, clock, opened)
    await worker.join()
    return worker


def _worker(context: Context, clock: ServerClock, run: Run) -> RunWorker:
    worker = RunWorker(context.runs, clock, run, context.leases.prefix)
    worker.is_job = True
    return worker
