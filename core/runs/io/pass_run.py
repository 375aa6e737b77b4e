"""Open and continue the runs of background passes: ingest cycle, canonical run, migration, doctor.

It is opened when there is something to do; an open one is continued. Several processes may work on it: the last one
ends it. Counters are raised with each heartbeat, all that belong together in one step.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from redis.exceptions import RedisError

from core.runs.io.run_store import RunStore
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import FailedItem, RunKind, RunPhase
from core.runs.run_request import RunRequest
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.leases import Leases


@contextlib.asynccontextmanager
async def open_pass(
    runs: RunStore,
    clock: ServerClock,
    kind: RunKind,
    *,
    mode: str = "",
    counters: Sequence[str] = (),
    started_by: str = "",
    parameters: Mapping[str, str] | None = None,
    stays: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
) -> AsyncIterator[RunWorker | None]:
    """Work on the open run of this kind, or on a new one; None: it is paused or cancelled, and nothing may be done.

    `stays`: wait here for the end of a pause. A pass that was asked to pause in the middle ends; open it again, and it
    waits.
    """
    run, _ = await runs.open(
        kind, clock.now(), mode=mode, counters=counters, started_by=started_by, parameters=parameters
    )
    for dead in await runs.workers.dead(run.id):
        await runs.workers.drop(run.id, dead.token)
    worker = RunWorker(runs, clock, run)
    worker.is_shared = True
    if await worker.join() is RunRequest.PAUSE and stays:
        try:
            await worker.wait_while_paused(should_stop)
        finally:
            if worker.should_stop():
                await cancellation.finish(worker.leave())
    if worker.requested is not RunRequest.NONE:
        yield None
        return
    async with worker.whole_pass():
        try:
            yield worker
        finally:
            if worker.tell:  # what was counted since the last heartbeat
                with contextlib.suppress(RedisError, OSError):
                    await cancellation.finish(_tell(worker))
    if worker.is_done and stays and worker.should_stop():
        await _end_after_pause(worker, should_stop)


async def _tell(worker: RunWorker) -> None:
    if worker.tell:
        await worker.tell(worker.now())


async def _end_after_pause(worker: RunWorker, should_stop: Callable[[], bool]) -> None:
    """Asked to pause when everything was done: end when the pause does."""
    if worker.requested is not RunRequest.PAUSE:
        return
    try:
        await worker.wait_while_paused(should_stop)
    finally:
        reply = await cancellation.finish(worker.leave())
    if not worker.should_stop() and reply.working + reply.waiting == 0:
        await worker.finish(worker.end, worker.end_fields)


class PassStopped(Exception):
    """A pass was cancelled, or has ended without this process; what it has done stays."""


async def go_on(worker: RunWorker) -> None:
    """Between two items: wait here while the run is paused; raise PassStopped if it is cancelled."""
    if worker.requested is RunRequest.PAUSE:
        worker.is_waiting = True
        try:
            await worker.wait_while_paused()
        finally:
            worker.is_waiting = False
    if worker.should_stop():
        raise PassStopped(f"{worker.run.id} was cancelled.")


class PassProgress:
    """Reports how far a pass is, and raises the counters of its run by what was counted since."""

    def __init__(self, worker: RunWorker, leases: Leases, tally: RunTally, what: str, total: int) -> None:
        """`what`: what it does, for its message: `Polling: 3/12 feeds`."""
        self._worker = worker
        self._leases = leases
        self._tally = tally
        self._verb, self._noun = what.split(" ", 1)
        self._total = total
        self._counted: Counter[str] = Counter()
        self._flushing = asyncio.Lock()
        self.done = 0
        self.counts: Callable[[], Mapping[str, int]] = dict
        self.failed: list[FailedItem] = []
        self.succeeded: list[str] = []
        """Ids of what has failed, or not, since the last heartbeat; one that failed before has not failed any more."""
        worker.tell = self.tell

    def step(self, count: int = 1) -> None:
        """Count this many more as done."""
        self.done += count

    async def tell(self, now: float) -> Mapping[str, str]:
        """Raise the counters and return phase, percent and message of the run."""
        await self.flush()
        percent = 100 * self.done // self._total if self._total else 0
        message = f"{self._verb}: {self.done}/{self._total} {self._noun}"
        return {"phase": str(RunPhase.CRAWLING), "progress": str(min(percent, 99)), "message": message}

    async def flush(self) -> None:
        """Raise the counters by what was counted since, and remember what failed."""
        async with self._flushing:  # a heartbeat may come at the end of the pass
            counts = Counter(self.counts())
            (failed, self.failed), (succeeded, self.succeeded) = (self.failed, []), (self.succeeded, [])
            more = {name: count - self._counted[name] for name, count in counts.items() if count != self._counted[name]}
            commands = [*self._tally.counted(more), *self._tally.succeeded(succeeded)]
            for one in failed:
                commands += self._tally.failed(one.item_id, one.url, one.code, one.text, one.failed_ts)
            if commands:
                await self._leases.run(commands)
            self._counted = counts
