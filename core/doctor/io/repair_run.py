"""A repair of the whole store as a run. A look that changes nothing is none: it leaves no trace at all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from core.keys import Keys
from core.runs.io.pass_run import PassProgress, PassStopped, go_on, open_pass
from core.runs.io.run_store import RunStore
from core.runs.io.run_tally import RunTally
from core.runs.run import RunKind, RunStatus
from core.store.clock import ServerClock
from core.store.commit import Leases
from core.store.connect import Client

COUNTERS = ("checked", "found", "healed", "unhealed")
"""Names that were checked; found = healed + unhealed."""


@contextlib.asynccontextmanager
async def repair_as_run(
    client: Client, keys: Keys, counts: Callable[[], Mapping[str, int]], started_by: str = "script"
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Make what is done in the block a run with these counts; yield what has to be called between two batches.

    That waits while the run is paused, and raises PassStopped if it is cancelled.
    """
    clock = await ServerClock.ask(client)
    async with open_pass(
        RunStore(client, keys), clock, RunKind.DOCTOR, counters=COUNTERS, started_by=started_by
    ) as worker:
        if worker is None:
            raise PassStopped("It was cancelled.")
        progress = PassProgress(worker, Leases(client, keys), RunTally(keys, worker.run.id), "Checking names", 0)
        progress.counts = counts
        yield lambda: go_on(worker)
        worker.end = RunStatus.PARTIAL if counts()["unhealed"] else RunStatus.SUCCEEDED
        told = "{checked} names checked: {found} wrong, {healed} healed, {unhealed} left"
        worker.end_fields["message"] = told.format(**counts())
        worker.is_done = True
