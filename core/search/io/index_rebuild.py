"""Rebuild what follows from the records: the due sets of all sources, or the chunks of all texts. Each is a run.

Chunks are built beside the live ones and swapped page by page, so search answers all the time. With force every item is
read again as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum

from core.errors import FreshetError
from core.keys import Keys
from core.registry.io.due_rebuild import DueCounts, DueRebuild
from core.registry.io.item_queries import ItemQueries
from core.registry.io.reindex import Reindexer, ReindexRequest
from core.registry.record import Status
from core.runs.io.run_jobs import job_of, send_jobs
from core.runs.io.run_store import RunStore
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunPhase
from core.runs.run_request import RunRequest
from core.search.io.vector_space_store import MAY_BE_INDEXED, VectorSpaceStore
from core.settings import Settings
from core.store import connect
from core.store.clock import ServerClock
from core.store.connect import Client

log = logging.getLogger("refresh")

QUEUED_MESSAGE = (
    "{} texts wait to be embedded anew; the embed workers swap them in one by one. "
    "`python -m scripts.status` and `embed_waiting` of /health count those that are left."
)


class RebuildTarget(StrEnum):
    """What is rebuilt."""

    DUE = "due"
    """The due sets, from the records."""
    CHUNKS = "chunks"
    """The chunks of all texts, beside the live ones."""


class RebuildUnderWay(FreshetError):
    """Another rebuild has not ended."""


class IndexRebuild:
    """Starts rebuilds, and does the work of one."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._runs = RunStore(client, keys)

    async def start(self, target: RebuildTarget, *, force: bool = False, started_by: str = "") -> Run:
        """Open a run and send its job; return the run. One that is open and does the same is continued."""
        now = await connect.now(self._client)
        parameters = {"what": str(target), "force": str(force).lower()}
        run, is_new = await self._runs.open(
            RunKind.REBUILD, now, started_by=started_by, parameters=parameters, counters=()
        )
        if not is_new and dict(run.parameters) != parameters:
            raise RebuildUnderWay(
                f"{run.id} rebuilds {run.parameters.get('what')} now; wait for its end, or cancel it."
            )
        job = job_of(run)
        assert job is not None
        await send_jobs(self._settings, [job])
        return run

    async def preview(self, target: RebuildTarget, *, force: bool = False) -> dict[str, int]:
        """Return what a rebuild would change; nothing is changed."""
        counts: dict[str, int] = {}
        if target is RebuildTarget.DUE:
            found = await DueRebuild(self._client, self._keys).run(await connect.now(self._client), dry_run=True)
            counts |= asdict(found)
        else:
            queries = ItemQueries(self._client, self._keys)
            counts["pages"] = sum([await queries.count(status) for status in MAY_BE_INDEXED])
        if force:
            reindexer = Reindexer(self._settings, self._client, self._keys)
            selected = await reindexer.count(await reindexer.select(ReindexRequest(all=True, force=True)))
            counts["forced"] = selected.items
        return counts

    async def work(self, run_id: str, should_stop: Callable[[], bool] = lambda: False) -> Mapping[str, int] | None:
        """Do the work of a run to its end; None: it is paused, cancelled, ended or not there."""
        clock = await ServerClock.ask(self._client)
        run = await self._runs.read(run_id, clock.now())
        worker = RunWorker(self._runs, clock, run) if run else None
        if run is None or worker is None or await worker.join() is not RunRequest.NONE:
            return None
        counts: dict[str, int] = {}

        def is_stopped() -> bool:
            return worker.should_stop() or should_stop()

        async with worker.whole_pass():
            if run.parameters.get("what") == RebuildTarget.CHUNKS:
                counts["queued"] = await self._queue_texts(worker, clock.now(), is_stopped)
            else:
                counts |= asdict(await self._rebuild_due(worker, clock.now(), is_stopped))
            if run.parameters.get("force") == "true" and not is_stopped():
                done = await Reindexer(self._settings, self._client, self._keys).run(
                    ReindexRequest(all=True, force=True)
                )
                counts["forced"] = done.items
            worker.end_fields = {name: str(count) for name, count in counts.items()}
            if "queued" in counts:
                worker.end_fields["message"] = QUEUED_MESSAGE.format(counts["queued"])
            if should_stop():
                worker.end = worker.left_as
        log.info(
            "🧱 Rebuilt %s: %s", run.parameters.get("what"), ", ".join(f"{n} {name}" for name, n in counts.items())
        )
        return counts

    async def _rebuild_due(self, worker: RunWorker, now: float, should_stop: Callable[[], bool]) -> DueCounts:
        total = sum([await ItemQueries(self._client, self._keys).count(status) for status in Status]) or 1

        def watch(counts: DueCounts) -> None:
            message = f"{counts.items} items compared"
            worker.report(RunPhase.PROCESSING, 100 * counts.items / total, message)

        return await DueRebuild(self._client, self._keys).run(now, should_stop=should_stop, watch=watch)

    async def _queue_texts(self, worker: RunWorker, now: float, should_stop: Callable[[], bool]) -> int:
        queries = ItemQueries(self._client, self._keys)
        total = sum([await queries.count(status) for status in MAY_BE_INDEXED]) or 1
        queued = 0
        async for count in VectorSpaceStore(self._client, self._keys).rebuild_all(now, should_stop):
            queued += count
            worker.report(RunPhase.INDEXING, 100 * queued / total, f"{queued} texts queued")
        return queued
