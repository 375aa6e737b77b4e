"""Migrate to another vector space as a run. Nothing that is live changes before its end."""

from __future__ import annotations

from collections.abc import Callable

from core.keys import Keys
from core.runs.io.pass_run import PassProgress, PassStopped, go_on, open_pass
from core.runs.io.run_store import RunStore
from core.runs.io.run_tally import RunTally
from core.runs.run import RunKind
from core.search.io.vector_migration import Migration, MigrationEstimate
from core.store.clock import ServerClock
from core.store.connect import Client
from core.store.leases import Leases

COUNTERS = ("chunks", "embedded", "waiting")
"""chunks that were looked at, those that were embedded, pages that wait to be swapped."""


async def migrate_as_run(
    client: Client,
    keys: Keys,
    migration: Migration,
    estimate: MigrationEstimate,
    watch: Callable[[int], object],
    started_by: str = "script",
) -> tuple[int, int]:
    """Migrate; return how many chunks were embedded and how many pages wait. Waits here while the run is paused.

    Raises PassStopped if it is cancelled: what is embedded is kept, and the next one goes on with it.
    """
    clock, runs, spaces = await ServerClock.ask(client), RunStore(client, keys), await migration.spaces()
    about = {"space": spaces.name}
    async with open_pass(
        runs, clock, RunKind.MIGRATION, counters=COUNTERS, started_by=started_by, parameters=about
    ) as worker:
        if worker is None:
            raise PassStopped("It was cancelled.")
        tally, total = RunTally(keys, worker.run.id), estimate.chunks if spaces else 0
        progress = PassProgress(worker, Leases(client, keys), tally, "Embedding chunks", total)
        ended: dict[str, int] = {}

        def report(count: int) -> None:
            progress.step(count)
            watch(count)

        progress.counts = lambda: {"chunks": progress.done, **ended}
        embedded, waiting = await migration.run(report, lambda: go_on(worker))
        ended |= {"embedded": embedded, "waiting": waiting}
        worker.is_done = True
        worker.end_fields["message"] = f"{embedded} chunks embedded; {waiting} pages wait to be swapped"
    return embedded, waiting
