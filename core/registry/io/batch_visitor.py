"""Visit batches of due items and new links, many registrable domains in parallel.

An interrupted batch releases what it has leased, as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from redis.exceptions import RedisError

from core.registry.io.commit_buffer import CommitBuffer, Progress
from core.registry.io.item_store import LeasedItem
from core.registry.io.link_visits import LinkVisits
from core.registry.io.visit_engine import VisitEngine
from core.registry.record import Item
from core.runs.io.run_tally import RunTally
from core.runs.run import FailedItem
from core.runtime import domain_concurrency
from core.runtime.context import Context
from core.runtime.domain_concurrency import GateLanes
from core.sources.io.open_sources import OpenSources
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.leases import Commit, CommitResult

T = TypeVar("T")

LINK_ROUNDS = 3
"""A link whose page is being visited under another URL is tried again; mostly it is an alias by then."""


class Visitor:
    """Visits items and links for one run or one job."""

    def __init__(
        self,
        context: Context,
        clock: ServerClock,
        open_sources: OpenSources,
        *,
        tally: RunTally | None = None,
        is_run: bool = False,
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        """`tally`: of the run that this is a part of. `is_run`: that reports at its end what is not logged here."""
        self._context = context
        self._clock = clock
        self._buffer = CommitBuffer(context, clock, tally, watch)
        self._links = LinkVisits(context, clock)
        self._engine = VisitEngine(context, clock, open_sources, self._buffer, self._links, is_run=is_run)
        self._leased: Mapping[str, LeasedItem] = {}
        self._begun = 0
        self.counts = self._buffer.counts
        self.link_results = self._links.results
        self.network = self._engine.network

    @property
    def unfinished(self) -> list[Item]:
        """Leased items whose visit is not done."""
        return [one.item for one in self._leased.values()]

    @property
    def in_flight(self) -> int:
        """How many visits have begun and are not written yet."""
        return self._begun + self._buffer.waiting

    @property
    def decided(self) -> int:
        """How many visits were decided, written or not yet."""
        return self._buffer.decided

    # ── items ──

    async def visit_many(
        self,
        item_ids: Sequence[str],
        *,
        picked_ts: float | None = None,
        via: str = "",
        is_over: Callable[[], bool] = lambda: False,
    ) -> int:
        """Visit those that nobody else visits or has visited since `picked_ts`; return how many these were."""
        leased = await self._context.items.lease(self._context.leases, item_ids, self._clock.now(), via)
        waiting = self._leased = {one.item.id: one for one in leased}
        try:
            await self._skip_visited(waiting, picked_ts)
            wanted = len(waiting)

            async def visit(one: LeasedItem) -> None:
                self._begun += 1
                try:
                    await self._engine.visit(one)
                finally:
                    self._begun -= 1
                waiting.pop(one.item.id, None)

            await self._run(list(waiting.values()), _address, visit, is_over)
            await self._engine.settle_unreached()
            await self._buffer.flush()
        except BaseException:
            await self._buffer.close()
            await cancellation.finish(self._release([*self._engine.take_unreached(), *waiting.values()]))
            raise
        finally:
            self._leased = {}
        await self._make_due_again(list(waiting.values()))
        return wanted - len(waiting)

    async def _run(
        self,
        waiting: Iterable[T],
        address: Callable[[T], str],
        visit: Callable[[T], Awaitable[None]],
        is_over: Callable[[], bool],
    ) -> None:
        settings = self._context.settings
        should_stop = lambda: self.network.should_stop or is_over()  # noqa: E731
        lanes = GateLanes(await self._context.paces.current(), settings)
        by_gate = domain_concurrency.group(waiting, lambda one: lanes.gate_of(address(one)))
        await domain_concurrency.run(by_gate, visit, lanes.limit_of, should_stop, settings.visits_at_once)

    async def _skip_visited(self, waiting: dict[str, LeasedItem], picked_ts: float | None) -> None:
        """Drop what was visited since the job was created: the job was late, or sent twice."""
        if picked_ts is None:
            return
        now, items = self._clock.now(), self._context.items
        done = [one for one in waiting.values() if _is_done(one.item, picked_ts, now)]
        commits = []
        for one in done:
            expected = (self._context.keys.item(one.item.id), "reindexGeneration", str(one.item.generation))
            commits.append(Commit(one.lease, items.postpone(one.item, one.item.next_ts), expected))
        for one, result in zip(done, await self._context.leases.commit_many(commits) if commits else (), strict=True):
            if result is not CommitResult.OUTDATED:
                del waiting[one.item.id]
            else:  # forced meanwhile: it is visited after all, without validators
                waiting[one.item.id] = replace(one, item=replace(one.item, generation=one.item.generation + 1))

    async def _make_due_again(self, left: Sequence[LeasedItem]) -> None:
        """Make items due now for the next worker: the time was over before their turn."""
        now = self._clock.now()
        commits = [Commit(one.lease, self._context.items.postpone(one.item, now)) for one in left]
        if commits:
            await self._context.leases.commit_many(commits)

    async def _release(self, held: Sequence[LeasedItem]) -> None:
        """After an interruption: make items due now; with the server away their leases expire."""
        try:
            await self._make_due_again(held)
        except (RedisError, OSError):
            await self._context.leases.release_many([one.lease for one in held])

    # ── links ──

    def watch_links(self, on_failed: Callable[[FailedItem], None], on_stored: Callable[[str], None]) -> None:
        """Report links that give no article, and the uids of those that give one."""
        self._links.on_failed, self._links.on_stored = on_failed, on_stored

    async def visit_links(
        self,
        links: Mapping[str, Sequence[str]],
        *,
        is_over: Callable[[], bool] = lambda: False,
        watch: Callable[[], object] = lambda: None,
    ) -> list[str]:
        """Visit links for the first time, or again after a failure; return those that another worker still has.

        `links` are URLs with their categories. The results are in `link_results`.
        """
        waiting: Sequence[str] = sorted(links)

        async def visit(url: str) -> None:
            leased = await self._links.begin(url, links[url])
            if leased is not None:
                try:
                    self._begun += 1
                    try:
                        await self._engine.visit(leased)
                    finally:
                        self._begun -= 1
                except BaseException:
                    await self._context.leases.release(leased.lease)
                    raise
            watch()

        try:
            for _ in range(LINK_ROUNDS):
                await self._run(waiting, str, visit, is_over)
                waiting, self._links.busy = self._links.busy, []
            await self._engine.settle_unreached()
        except BaseException:
            held = [one.lease for one in self._engine.take_unreached()]
            await cancellation.finish(self._context.leases.release_many(held))
            raise
        return list(waiting)


def _is_done(item: Item, picked_ts: float, now: float) -> bool:
    """Return whether it was visited since it was picked, and neither forced nor changed in its listing since then."""
    next_ts = item.next_ts  # reads a date
    is_awaited = next_ts is not None and next_ts <= now
    has_moved = item.listed_version != item.visited_version and not item.failures and not item.missing_checks
    return item.checked_ts >= picked_ts and not (item.is_forced or is_awaited or has_moved)


def _address(leased: LeasedItem) -> str:
    return leased.item.fetch_url
