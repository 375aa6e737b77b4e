"""Remove what a source no longer has: from the source, and from the store when no other source lists it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping

from core.registry import decide
from core.registry.decide import VisitContext, VisitResult
from core.registry.io.commit_buffer import CommitBuffer, DecidedVisit, Progress
from core.registry.io.item_store import LeasedItem
from core.registry.io.loss_guard import LossGuard, PossibleLoss, count_possible_loss
from core.registry.outcomes import Excluded, Missing
from core.registry.record import Item, Status
from core.runs.io.run_tally import RunTally
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.store.commands import Command

log = logging.getLogger("refresh")

MOST_RENAMES = 5_000
UNLISTED = "unlisted"
"""Field of a run: how many items the source has lost in it."""


class Unlister:
    def __init__(
        self,
        context: Context,
        source: Source,
        open_sources: OpenSources,
        clock: ServerClock,
        tally: RunTally,
        run_began: float,
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        self._context = context
        self._source = source
        self._clock = clock
        self._tally = tally
        self._run_began = run_began
        self._guard = LossGuard(context, open_sources, clock, is_run=True)
        self._buffer = CommitBuffer(context, clock, tally, watch)
        self._added: Mapping[str, str] = {}
        """By the hash of their bytes, items that this source did not have before."""

    async def unlist_unseen(self, before: float, dead_leases: Collection[str] = ()) -> str:
        """Remove everything not listed or linked since then; return why not, if that would be too much.

        `dead_leases`: beginnings of the lease tokens of killed processes; what they held is free at once.
        """
        source_items, sid = self._context.source_items, self._source.sid
        if self._source.is_listing_evidence and await source_items.count_unseen(sid, before):
            # New is what was added since the last run came to its end: an interrupted one may have registered it.
            self._added = await source_items.added_since(sid, self._source.state.listed_ts, MOST_RENAMES)
        loss = PossibleLoss()
        async for item_ids in source_items.unseen(sid, before):
            loss += await count_possible_loss(self._context, sid, item_ids, self._clock.now())
        refusal = await self._guard.refuse_loss(self._source, loss.texts, loss.empty)
        if refusal:
            return refusal
        async for item_ids in source_items.unseen(sid, before):
            for prefix in dead_leases:
                for item_id in item_ids:
                    await self._context.leases.release_of(item_id, prefix)
            leased = await self._context.items.lease(self._context.leases, item_ids, self._clock.now())
            for one in leased:
                if set(one.item.sources) - {sid}:
                    commands = [*self._context.items.unlist(one.item, sid), *self._unlisted()]
                    await self._context.leases.commit(one.lease, commands)
                else:
                    await self._remove(one)
            await self._buffer.flush()
        return ""

    async def _remove(self, leased: LeasedItem) -> None:
        """Remove an item that no other source lists, with its text."""
        item, now = leased.item, self._clock.now()
        outcome, policy, around = self._outcome(item), self._context.recheck_policy, VisitContext()
        chance = random.random()
        decision = decide.decide(item, outcome, now, chance, policy, around)
        decision.next_at, decision.fields["nextCrawlAt"] = None, ""  # no source is left that could make it due
        moved_to = self._added.get(item.body_hash, "") if item.body_hash else ""
        commands = [*await self._context.documents.apply(leased, decision, outcome, now)]
        commands += self._guard.consequences(item, self._source, decision, now)
        if moved_to:
            log.info("🔀 Renamed: %s is now %s", item.fetch_url, moved_to)
            commands += self._context.source_items.record_rename(item, moved_to)
        commands += [*self._context.items.unlist(item, self._source.sid), *self._unlisted()]
        if item.checked_ts >= self._run_began:  # counted already in this run: as what it is now, and not twice
            was_missing = item.status is Status.ERROR and item.missing_checks > 1  # and failed once more
            counted_as = self._visited_as(item) if item.has_text or was_missing else decision.count
            commands += self._tally.counted({"visited": -1, str(counted_as): -1})
        await self._buffer.add(DecidedVisit(leased, outcome, policy, around, chance, decision, commands))

    def _unlisted(self) -> list[Command]:
        return self._tally.counted({UNLISTED: 1})

    def _visited_as(self, item: Item) -> VisitResult:
        """Return how the visit of an item was counted that has a text, or that was missing before."""
        if item.status in (Status.ERROR, Status.OUT_OF_SCOPE):
            return VisitResult.FAILED if item.status is Status.ERROR else VisitResult.EXCLUDED
        return VisitResult.CHANGED if item.changed_ts >= self._run_began else VisitResult.UNCHANGED

    def _outcome(self, item: Item) -> Missing | Excluded:
        sid, exclusion = self._source.sid, self._source.exclusion_reason(item.fetch_url)
        if exclusion:
            return Excluded(f"The configuration of {sid} does not want it ({exclusion}).", is_withdrawn=True)
        is_site = self._source.follows_links
        why = f"Nothing in {sid} leads to it any more." if is_site else f"It is not in the complete listing of {sid}."
        return Missing(0, is_listed_nowhere=True, reason=why)
