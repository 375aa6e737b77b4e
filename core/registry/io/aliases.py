"""Find pages that are the same page under another URL: redirects and canonicals inside a site make aliases.

An alias has no text. A page gives up its text only for a page that has one, and a temporary redirect makes no alias:
its target may be gone tomorrow (docs/architecture.md#aliases-and-duplicates).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from core.models import Document, Fetched, Ref
from core.pages.canonical_link import trusted_canonical
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry import outcomes
from core.registry.io.body_reader import ParsedBody
from core.registry.io.commit_buffer import VisitReport
from core.registry.io.item_store import LeasedItem
from core.registry.io.registrar import item_id_of
from core.registry.outcomes import Changed, Moved
from core.registry.page_visit import PageVisit
from core.registry.record import Item
from core.runtime.context import Context
from core.sources.io.link_follower import LinkFollower
from core.sources.io.source import Source
from core.store.clock import ServerClock

LONGEST_CHAIN = 30
"""A chain of aliases longer than this leads nowhere."""
VisitNow = Callable[[LeasedItem], Awaitable[None]]
"""Visit another item and commit its result."""


class AliasFinder:
    """Finds the page that an alias stands for."""

    def __init__(self, context: Context, clock: ServerClock, link_follower: LinkFollower, visit: VisitNow) -> None:
        self._context = context
        self._clock = clock
        self._link_follower = link_follower
        self._visit = visit

    async def confirm(self, leased: LeasedItem, source: Source) -> VisitReport | None:
        """Report that a known alias still is one; None if it must be visited.

        The alias is fetched with the validators of its target, so that a 304 answers in a few bytes.
        """
        item = leased.item
        if not item.alias_of or item.is_forced or leased.link:
            return None
        target = await self._target(item.alias_of, item)
        if target is None or not target.validators:
            return None
        answer = await source.fetch(replace(item, validators_url=target.validators_url), target.validators)
        if not isinstance(answer, Fetched) or answer.status != 304:
            return None
        await self._link_follower.land(item, answer, source)
        return VisitReport(leased, _moved(target, _visit_of_304(item, answer)))

    async def to_canonical(self, leased: LeasedItem, source: Source, answer: Fetched) -> Moved | None:
        """An unchanged page is an alias once its canonical page has a text of its own."""
        item = leased.item
        if not item.canonical_url or item.canonical_url == item.fetch_url:
            return None
        if leased.is_article or not source.follows_links:
            return None
        url = trusted_canonical(item.canonical_url, item.fetch_url)
        target = await self._target(item_id_of(Ref(url)), item) if url else None
        return _moved(target, _visit_of_304(item, answer)) if target else None

    async def alias(
        self, report: VisitReport, source: Source, answer: Fetched, visit: PageVisit, parsed: ParsedBody
    ) -> VisitReport | None:
        """Report an alias instead, if the page has another URL in this source."""
        item = report.leased.item
        url = outcomes.canonical_url(answer, visit.canonical_url)
        if url == item.fetch_url or (answer.hops and not answer.is_moved_for_good):
            return None
        target_id = item_id_of(Ref(url))
        if target_id == item.id or not await self._link_follower.admit(item, url, source):
            return None
        if answer.hops:
            return await self._redirected(report, source, target_id, visit, parsed)
        target = await self._target(target_id, item) or await self._first_visit(target_id, source, item)
        return VisitReport(report.leased, _moved(target, visit)) if target else None

    async def _redirected(
        self, report: VisitReport, source: Source, target_id: str, visit: PageVisit, parsed: ParsedBody
    ) -> VisitReport | None:
        """A permanent redirect: the answer is the target's, and both items are written in one commit.

        Where another worker visits the target, its text is expected to be the one that was read here.
        """
        document = parsed.document
        if not isinstance(document, Document):
            return None
        target_visit = replace(visit, redirects=(), canonical_url=document.canonical_url)
        report = replace(report, outcome=Moved(target_id, visit, target_visit.content_hash))
        for target in await self._lease(target_id, source):
            if target.item.alias_of == report.leased.item.id:
                await self._release(target)
                return None
            target_visit = replace(target_visit, normalised=target.item.source)
            if outcomes.is_unchanged(target.item, target_visit, EXTRACTOR_VERSION):
                await self._release(target)
                return replace(report, outcome=_moved(target.item, visit))
            # Its links too: it keeps them when the alias is gone.
            followed = await self._link_follower.follow(target.item, parsed.links, source)
            return replace(report, target=VisitReport(target, Changed(document, target_visit), followed))
        return report

    async def _first_visit(self, target_id: str, source: Source, item: Item) -> Item | None:
        """Visit a canonical page that was never visited: no page gives up its text for one that has none."""
        for target in await self._lease(target_id, source):
            if target.item.checked_ts:  # it was visited before, and had no text
                await self._release(target)
                return None
            await self._visit(target)
        return await self._target(target_id, item)

    async def _target(self, target_id: str, item: Item) -> Item | None:
        """Return the page with a text that this id leads to; None if it leads nowhere, or back to the item itself.

        Pages that name each other canonical in a circle would all give up their texts for each other.
        """
        for _ in range(LONGEST_CHAIN):
            if target_id == item.id:
                return None
            target = (await self._context.items.read([target_id]))[0]
            if target is None or target.has_text or not target.alias_of:
                break
            target_id = target.alias_of
        return target if target is not None and target.has_text else None

    async def _lease(self, item_id: str, source: Source) -> list[LeasedItem]:
        return await self._context.items.lease(self._context.leases, [item_id], self._clock.now(), source.sid)

    async def _release(self, leased: LeasedItem) -> None:
        await self._context.leases.commit(leased.lease, [self._context.items.unlocked(leased.item)])


def _moved(target: Item, visit: PageVisit) -> Moved:
    return Moved(target.id, visit, target.text_hash)


def _visit_of_304(item: Item, answer: Fetched) -> PageVisit:
    return outcomes.page_visit(item, answer, Document(canonical_url=item.canonical_url), "", item.source)
