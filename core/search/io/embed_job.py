"""Embed texts of one domain until the job's time is over, as one job of its run. The last job ends the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.errors import SettingsError
from core.runs.io.run_store import RunStore
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunPhase, RunStatus
from core.runs.run_request import RunRequest
from core.search.io.embed_run_items import EmbedRunItems
from core.search.io.item_embedder import ITEMS_AT_ONCE, ItemEmbedder
from core.search.protocols import EmbedderUnavailable
from core.store import cancellation
from core.store.clock import ServerClock


class EmbedJob:
    """One job's part in the run of an embedding."""

    def __init__(self, runs: RunStore, clock: ServerClock, run: Run, items: EmbedRunItems) -> None:
        self._runs = runs
        self._clock = clock
        self._items = items
        self._worker = RunWorker(runs, clock, run)
        self._worker.tell = self._tell
        self._worker.in_flight = lambda: self._in_flight
        self._in_flight = 0

    async def embed(self, embedding: ItemEmbedder, is_over: Callable[[], bool]) -> bool:
        """Embed what is left; return whether another job should go on.

        Where the run is paused, cancelled or has ended, nothing is done. Raises what `ItemEmbedder.embed_many` does.
        """
        worker = self._worker
        if await worker.join() is not RunRequest.NONE:
            return False
        before = await self._items.settle()
        try:
            async with worker.working():
                await self._embed(embedding, lambda: is_over() or worker.should_stop())
        except (EmbedderUnavailable, SettingsError) as error:  # the timer goes on when it is back
            await self._runs.update(worker.run.id, {"message": str(error)})
            raise
        finally:
            left = await cancellation.finish(self._items.settle())
            reply = await cancellation.finish(worker.leave(RunStatus.QUEUED))
        if not left and not reply.working and not worker.should_stop():
            counts = (await self._runs.require(worker.run.id, self._clock.now())).counts
            await worker.finish(RunStatus.SUCCEEDED, {"message": f"{counts.get('embedded', 0)} texts embedded"})
        # Without any progress the timer goes on with it later: another worker has the rest.
        return 0 < left < before and not worker.should_stop()

    async def _embed(self, embedding: ItemEmbedder, is_over: Callable[[], bool]) -> None:
        skipped, left = 0, await self._items.settle()
        while not is_over() and (some := await self._items.newest(skipped, ITEMS_AT_ONCE)):
            self._in_flight = len(some)
            try:
                await embedding.embed_many(some, is_over)
            finally:
                self._in_flight = 0
            still = await self._items.settle()
            skipped, left = skipped + len(some) - (left - still), still  # others may have them

    async def _tell(self, now: float) -> Mapping[str, str]:
        left = await self._items.settle()
        total = (await self._runs.require(self._worker.run.id, now)).counts.get("texts", 0)
        percent = 100 * (total - left) // total if total else 0
        message = f"Embedding: {total - left}/{total} texts"
        return {"phase": str(RunPhase.INDEXING), "progress": str(min(percent, 99)), "message": message}
