"""What would a pass over a source do? Lists it and compares; visits nothing and writes nothing to the registry.

Listing a folder asks nobody. Listing a site or a repository sends the same few requests as a pass would, and the
fetcher keeps its politeness in Redis as always: gates and robots.txt. All counts are of this moment: pages that only
links of unread pages lead to are not known before those are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from core.errors import FreshetError
from core.models import End, FetchResult, Ref, Request
from core.net.body_slot import BodySlot
from core.net.fetcher import Fetcher
from core.registry.io.deletion_guard import PossibleLoss, count_possible_loss
from core.registry.io.registrar import item_id_of
from core.registry.record import Status
from core.runtime.context import Context
from core.sources.io.crawl import CUT_SHORT, Mode
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store import connect

SCAN = 1_000


@dataclass(slots=True)
class Plan:
    """What a pass would find and ask for."""

    sid: str
    kind: str
    source: Source
    added: int = 0
    """Not known yet, or known and never read."""
    changed: int = 0
    """Known, and the listing says that it has moved. A site's pages say so themselves, when they are asked."""
    removed: int = 0
    """A complete listing lacks them; of a site: unknown."""
    unchanged: int = 0
    refused: int = 0
    listing_requests: int = 0
    visits: int = 0
    """Requests for the items themselves, at most: a folder asks nobody."""
    how: str = ""
    """How the listing ended."""
    held: str = ""
    """Why a pass would not remove so many."""

    @property
    def requests(self) -> int:
        """All requests a pass would make."""
        return self.listing_requests + self.visits


async def plan(context: Context, sid: str, mode: Mode) -> Plan:
    """Compare what the source has with what is known of it."""
    asking = _Asking(context.fetcher)
    now = await connect.now(context.client)
    watched = replace(context, fetcher=cast(Fetcher, asking))
    source = await OpenSources(watched, now).open(sid)
    if source is None or source.is_built_in:
        raise FreshetError(f"There is no source {sid}. `python -m scripts.domain list` shows what there is.")
    work = _Planning(context, source, Plan(sid, source.state.record.kind, source), now)
    made = await work.run()
    made.listing_requests = asking.count
    made.visits = _visits(made, mode)
    if work.at_stake.texts and source.state.loss_allowed_until <= now:
        lost, left = await context.sources.losses(sid, now)
        made.held = context.sources.limit.refusal(work.at_stake.texts, lost, left - work.at_stake.empty)
    return made


def _visits(made: Plan, mode: Mode) -> int:
    if made.source.asks_nobody:
        return 0
    if made.source.is_listing_evidence and mode is not Mode.FULL:
        return made.added + made.changed
    return made.added + made.changed + made.unchanged


@dataclass(slots=True)
class _Planning:
    """One comparison."""

    context: Context
    source: Source
    plan: Plan
    now: float
    at_stake: PossibleLoss = field(default_factory=PossibleLoss)
    """What a complete listing lacks, as the loss guard counts it."""
    listed: set[int] = field(default_factory=set)
    """What the listing has named; numbers instead of ids take a third of the memory."""
    room: int = 0
    """How many more the source may have."""

    async def run(self) -> Plan:
        most = self.source.most_items
        self.room = most - await self.context.members.count_alive(self.plan.sid)
        end = await self._list()
        self.plan.how = "complete" if end and end.is_complete else (end.reason if end else CUT_SHORT)
        await self._rest(is_complete=bool(end and end.is_complete))
        return self.plan

    async def _list(self) -> End | None:
        async for part in self.source.list(self.source.state.memory):
            if isinstance(part, End):
                return part
            self.plan.refused += len(part.refused)
            for start in range(0, len(part.refs), SCAN):
                await self._compare(part.refs[start : start + SCAN])
        return None

    async def _compare(self, refs: Sequence[Ref]) -> None:
        by_id = {item_id_of(ref): ref for ref in refs}
        for item_id, known in zip(by_id, await self._known(list(by_id)), strict=True):
            ref = by_id[item_id]
            is_new = hash(item_id) not in self.listed
            self.listed.add(hash(item_id))
            if not is_new:
                continue
            if known is None:
                self.plan.added += self.room > 0
                self.room -= 1
            else:
                self._count(known, self._has_moved(ref, *known))

    def _has_moved(self, ref: Ref, status: str, visited_version: str) -> bool:
        """Would the listing alone make it due?"""
        if self.source.is_listing_evidence:
            return status == Status.GONE or (bool(ref.version) and ref.version != visited_version)
        return self.source.state.lastmod_trust.is_trusted and bool(ref.version) and ref.version != visited_version

    def _count(self, known: tuple[str, str], has_moved: bool) -> None:
        if known[0] == Status.PENDING:
            self.plan.added += 1
        elif has_moved:
            self.plan.changed += 1
        else:
            self.plan.unchanged += 1

    async def _rest(self, *, is_complete: bool) -> None:
        """What is known and was not listed: gone, if the listing was complete; else as it was."""
        async for some in self.context.members.scanned(self.plan.sid):
            left = [name for name in some if hash(name) not in self.listed]
            is_removed = is_complete and self.source.is_listing_evidence
            if is_removed:
                self.at_stake += await count_possible_loss(self.context, self.plan.sid, left, self.now)
            for known in await self._known(left):
                if is_removed:
                    self.plan.removed += 1
                elif known is not None:
                    self._count(known, has_moved=False)
            self.listed.update(map(hash, left))  # a scan may name one twice

    async def _known(self, item_ids: Sequence[str]) -> list[tuple[str, str] | None]:
        """Status and version at the last visit of those that the source has."""
        return await self.context.members.states(self.plan.sid, item_ids)


class _Asking:
    """The fetcher, and how often it was asked."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self.count = 0

    async def fetch(self, request: Request, slot: BodySlot | None = None) -> FetchResult:
        self.count += 1
        return await self._fetcher.fetch(request, slot)

    async def sitemaps_of(self, origin: str) -> Sequence[str]:
        self.count += 1  # robots.txt, where it is not remembered
        return await self._fetcher.sitemaps_of(origin)

    async def hold_off(self, url: str, seconds: float, why: str) -> None:
        await self._fetcher.hold_off(url, seconds, why)
