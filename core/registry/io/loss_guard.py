"""Refuse removals if the site is down or its source would lose too many items; verify a 304 after a change.

See docs/architecture.md#deletion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from core.models import Fetched
from core.registry.decide import NO_CONTEXT, Decision, TextAction, VisitContext, VisitResult
from core.registry.io.item_store import LeasedItem
from core.registry.outcomes import Missing, Outcome
from core.registry.record import Item
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.sources.loss_limit import LossLimit
from core.store.clock import ServerClock
from core.store.commands import Command
from core.urls.normalise import host_of
from core.value_class import value_class

log = logging.getLogger("refresh")

KEPT = "It is missing, and kept: its source would lose too much at once."
DISTRUST_SECONDS = 30 * 86_400.0


@value_class
class PossibleLoss:
    """What a source would lose with some of its items, on top of what it has lost already."""

    texts: int = 0
    empty: int = 0
    """Items without a text: links that never worked, aliases. They do not count as a loss."""

    def __add__(self, other: PossibleLoss) -> PossibleLoss:
        return PossibleLoss(self.texts + other.texts, self.empty + other.empty)


async def count_possible_loss(context: Context, sid: str, item_ids: Sequence[str], now: float) -> PossibleLoss:
    """Count each loss once: what has no text, or is remembered as lost, cannot be lost again."""
    still_there = await context.sources.losses.not_lost(sid, item_ids, now)
    texts = len(await context.source_items.with_text(still_there))
    return PossibleLoss(texts, len(still_there) - texts)


class LossGuard:
    """Answers for one batch, and remembers what it learnt about its sites."""

    def __init__(
        self, context: Context, open_sources: OpenSources, clock: ServerClock, *, is_run: bool = False
    ) -> None:
        """`is_run`: a run says at its end why something was not removed, so it is not logged here."""
        self._context = context
        self._open_sources = open_sources
        self._clock = clock
        self._is_run = is_run
        self._lock = asyncio.Lock()
        """One page at a time: each must know the losses counted before it."""
        self._is_down: dict[str, bool] = {}
        self._losses: dict[str, tuple[int, int]] = {}
        """By source: lost within a day, and left; read once, then counted here."""
        self._held_back: dict[str, int] = {}
        """By source: how many losses were refused here."""

    async def visit_context(self, item: Item, outcome: Outcome) -> VisitContext:
        """Return what has to be known before a missing page counts."""
        if not isinstance(outcome, Missing) or not item.has_text:
            return NO_CONTEXT  # nothing can be lost
        async with self._lock:
            for sid in item.sources:
                source = await self._open_sources.open(sid)
                if source is None or source.is_built_in:
                    continue
                if await self._is_site_down(source):
                    return VisitContext(is_site_down=True)
                if await self.refuse_loss(source, 1):
                    return VisitContext(loss_refused=KEPT)
        return NO_CONTEXT

    async def refuse_loss(self, source: Source, count: int, empty: int = 0, known: int | None = None) -> str:
        """Return why the source may not lose so many more texts; empty if it may, and then they count as lost.

        `empty`: items without a text that go with them; they do not count as items of the source. `known`: how many it
        has, where the registry does not know all of them.
        """
        sid, now = source.sid, self._clock.now()
        if not count or source.state.loss_allowed_until > now:
            return ""
        if sid not in self._losses:
            self._losses[sid] = await self._context.sources.losses.count(sid, now)
        lost, left = self._losses[sid]
        left = (left if known is None else known) - empty
        before = self._held_back.get(sid, 0)
        why = LossLimit.of(self._context.settings).refusal(before + count, lost, left)
        if not why:
            self._losses[sid] = lost + count, left - count
            return ""
        self._held_back[sid] = before + count
        refusal = await self._context.sources.losses.hold(source.state, why)
        if not before and not self._is_run:
            log.error("🛑 %s", refusal)
        return refusal

    async def _is_site_down(self, source: Source) -> bool:
        """Return whether the root of the site fails as well. If so, a missing page proves nothing."""
        if not source.follows_links:
            return False
        if source.sid not in self._is_down:
            root = (await self._context.items.read([source.state.root_id]))[0]
            answer = await source.fetch(root, root.validators) if root else None
            self._is_down[source.sid] = not (isinstance(answer, Fetched) and answer.status < 400)
            if self._is_down[source.sid]:
                log.warning("⚠️ %s: the root of the site fails, so nothing missing is counted", source.sid)
        return self._is_down[source.sid]

    async def check_304(self, leased: LeasedItem, source: Source, validators: Mapping[str, str]) -> None:
        """Distrust a server that still answers 304 although the text is new."""
        answer = await source.fetch(leased.item, validators)
        if not isinstance(answer, Fetched) or answer.status != 304:
            return
        host = host_of(leased.item.source)
        await self._context.leases.run(self._context.sources.distrust(host, self._clock.now() + DISTRUST_SECONDS))
        log.warning("🤥 %s answers 304 though the page has changed; it is asked for whole pages from now on", host)

    def consequences(self, item: Item, source: Source, decision: Decision, now: float) -> list[Command]:
        """Commands that record losses and grade a sitemap's dates."""
        commands: list[Command] = []
        is_removed = decision.text in (TextAction.HIDE, TextAction.DELETE)
        is_loss = is_removed and decision.count is VisitResult.GONE and item.has_text
        for sid in item.sources if is_loss else ():
            commands += [
                *self._context.sources.losses.record(sid, item.id, now),
                self._context.sources.links_changed(sid),
            ]
        is_back = decision.text is TextAction.REPLACE and not item.has_text and item.missing_checks > 0
        for sid in item.sources if is_back else ():
            commands.append(self._context.sources.losses.undo(sid, item.id))
        has_moved_date = bool(item.visited_version) and item.listed_version != item.visited_version
        if source.follows_links and has_moved_date and decision.count in (VisitResult.CHANGED, VisitResult.UNCHANGED):
            commands.append(self._context.sources.count_lastmod(source.sid, decision.count is VisitResult.CHANGED))
        return commands
