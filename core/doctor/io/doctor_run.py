"""Run the doctor over the whole store as a run. A check writes nothing but its run, and goes on without one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from redis.exceptions import RedisError

from core.keys import Keys
from core.runs.io.pass_run import PassProgress, PassStopped, go_on, open_pass
from core.runs.io.run_store import RunStore
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import CHECK, RunKind, RunStatus
from core.store.clock import ServerClock
from core.store.connect import Client
from core.store.leases import Leases

REPAIR_COUNTERS = ("checked", "found", "healed", "unhealed")
"""Names that were checked; found = healed + unhealed."""
CHECK_COUNTERS = ("checked", "found")
GoOn = Callable[[], Awaitable[None]]
"""Called between two batches: waits while the run is paused, raises PassStopped if it is cancelled."""
Counts = Callable[[], Mapping[str, int]]


@contextlib.asynccontextmanager
async def repair_as_run(client: Client, keys: Keys, counts: Counts) -> AsyncIterator[GoOn]:
    """Make what is done in the block a run with these counts."""
    clock = await ServerClock.ask(client)
    async with open_pass(
        RunStore(client, keys), clock, RunKind.DOCTOR, counters=REPAIR_COUNTERS, started_by="script"
    ) as worker:
        yield _reported(client, keys, worker, lambda: {name: counts()[name] for name in REPAIR_COUNTERS})
        told = "{checked} names checked: {found} wrong, {healed} healed, {unhealed} left"
        is_left = bool(counts()["unhealed"])
        _end(worker, RunStatus.PARTIAL if is_left else RunStatus.SUCCEEDED, told.format(**counts()))


@contextlib.asynccontextmanager
async def check_as_run(
    client: Client, keys: Keys, counts: Counts, tell: Callable[[str], object]
) -> AsyncIterator[GoOn]:
    """Check as a run. A store that takes no run (it is full, read-only or damaged) is checked all the same.

    `tell` is called with a sentence then.
    """
    clock = await ServerClock.ask(client)
    async with contextlib.AsyncExitStack() as stack:
        opened = open_pass(
            RunStore(client, keys), clock, RunKind.DOCTOR, mode=CHECK, counters=CHECK_COUNTERS, started_by="script"
        )
        try:
            worker = await stack.enter_async_context(opened)
        except RedisError as error:
            tell(f"This check is not a run, since the store takes none now ({error}).")
            yield _look_on
            return

        def seen() -> Mapping[str, int]:
            return {name: counts()[name] for name in CHECK_COUNTERS}

        yield _reported(client, keys, worker, seen)
        healable = counts().get("healable", counts()["found"])
        advice = "; `python -m scripts.doctor --fix` heals it" if healable else ""
        _end(worker, RunStatus.SUCCEEDED, "{checked} names checked: {found} wrong".format(**counts()) + advice)
        with contextlib.suppress(RedisError):  # the findings are reported all the same
            await stack.aclose()


def _reported(client: Client, keys: Keys, worker: RunWorker | None, counts: Counts) -> GoOn:
    if worker is None:
        raise PassStopped("It was cancelled.")
    progress = PassProgress(worker, Leases(client, keys), RunTally(keys, worker.run.id), "Checking names", 0)
    progress.counts = counts
    return lambda: go_on(worker)


def _end(worker: RunWorker | None, status: RunStatus, message: str) -> None:
    assert worker is not None
    worker.end, worker.is_done = status, True
    worker.end_fields["message"] = message


async def _look_on() -> None:
    pass
