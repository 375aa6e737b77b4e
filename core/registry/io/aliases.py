"""The same page under another name: redirects and canonicals inside a site make aliases, which have no text.

A page gives up its text only for a page that has one; a temporary redirect changes no name (trap T49).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from core.models import Document, Fetched, Ref
from core.pages.canonical import trusted_canonical
from core.pages.extract import EXTRACTOR_VERSION
from core.registry import outcomes, page_url
from core.registry.io.body_reader import Read
from core.registry.io.items import LeasedItem
from core.registry.io.registrar import item_id_of
from core.registry.outcomes import Changed, Moved, Outcome
from core.registry.record import Item, PageVisit
from core.runtime.context import Context
from core.sources.io.link_follower import LinkFollower
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.store.commit import Command


@dataclass(slots=True)
class VisitReport:
    """A visit up to its meaning: what it found, and what is written beside the record."""

    outcome: Outcome
    commands: Sequence[Command] = ()
    leased: LeasedItem | None = None
    """What was visited, if the visit found its real name."""
    target: tuple[LeasedItem, VisitReport] | None = None
    """Of an alias: the page that it leads to, which the same answer is about."""


MOST_ALIASES = 30
"""A chain of names longer than this leads nowhere."""
Settle = Callable[[LeasedItem, Source, VisitReport], Awaitable[None]]
"""Bring a visit to its end."""
VisitNow = Callable[[LeasedItem], Awaitable[None]]
"""Visit another item, and write what came of it."""


class AliasFinder:
    """Finds out what a page is really called."""

    def __init__(
        self, context: Context, clock: ServerClock, following: LinkFollower, settle: Settle, visit: VisitNow
    ) -> None:
        self._context = context
        self._clock = clock
        self._link_follower = following
        self._settle = settle
        self._visit = visit

    async def is_still_alias(self, leased: LeasedItem, source: Source) -> bool:
        """Ask the old name with the validators of the real one: a 304 from there says all, in one tiny answer."""
        item = leased.item
        target = await self._page_behind(item.alias_of, item)
        if target is None or not target.validators:
            return False
        answer = await source.fetch(replace(item, validators_url=target.validators_url), target.validators)
        if not isinstance(answer, Fetched) or answer.status != 304:
            return False
        await self._link_follower.land(item, answer, source)
        visit = outcomes.page_visit(item, answer, named(item), "", item.source)
        await self._settle(leased, source, VisitReport(_moved(target, visit)))
        return True

    async def alias(
        self,
        leased: LeasedItem,
        source: Source,
        answer: Fetched,
        visit: PageVisit,
        read: Read,
        commands: Sequence[Command],
    ) -> VisitReport | bool:
        """An alias, if the page lives elsewhere in this source; True if its real name was settled with it."""
        item = leased.item
        name = self._real_name(item, answer, visit)
        if name is None:
            return False
        target_id = item_id_of(Ref(name))
        if target_id == item.id or not await self._link_follower.admit(item, name, source):
            return False
        is_redirect = bool(answer.hops)
        if not is_redirect:
            page = await self._has_or_gets_text(target_id, source, item)
            return VisitReport(_moved(page, visit)) if page else False
        return await self._redirected(leased, source, target_id, visit, read, commands)

    async def _redirected(
        self,
        leased: LeasedItem,
        source: Source,
        target_id: str,
        visit: PageVisit,
        read: Read,
        commands: Sequence[Command],
    ) -> VisitReport | bool:
        """A permanent redirect: the answer is the target's, and both are written in one commit.

        Where somebody visits the target just now, its text is expected to be the one that was read here.
        """
        document = read.document
        if not isinstance(document, Document):
            return False
        seen = replace(visit, redirects=(), canonical_url=document.canonical_url)
        for other in await self._context.items.lease(self._context.leases, [target_id], self._clock.now(), source.sid):
            if other.item.alias_of == leased.item.id:
                await self._leave(other)
                return False
            seen = replace(seen, normalised=other.item.source)
            if outcomes.is_unchanged(other.item, seen, EXTRACTOR_VERSION):
                await self._leave(other)
                return VisitReport(_moved(other.item, visit), commands)
            # Its links too: it keeps them when the old name is gone.
            followed = await self._link_follower.follow(other.item, read.links, source)
            target = (other, VisitReport(Changed(document, seen), followed))
            return VisitReport(Moved(target_id, visit, seen.content_hash), commands, target=target)
        return VisitReport(Moved(target_id, visit, seen.content_hash), commands)

    async def _has_or_gets_text(self, target_id: str, source: Source, item: Item) -> Item | None:
        """The canonical page. If nobody has looked yet, we do: a page gives up its text for no empty name."""
        page = await self._page_behind(target_id, item)
        if page:
            return page
        for other in await self._context.items.lease(self._context.leases, [target_id], self._clock.now(), source.sid):
            if other.item.checked_ts:  # it was looked at before, and had none
                await self._leave(other)
                return None
            await self._visit(other)
        return await self._page_behind(target_id, item)

    async def to_canonical(self, leased: LeasedItem, source: Source, answer: Fetched) -> Moved | None:
        """An unchanged page whose canonical page has meanwhile a text of its own."""
        item = leased.item
        if not item.canonical_url or item.canonical_url == item.fetch_url:
            return None
        if leased.is_article or not source.follows_links:
            return None
        name = trusted_canonical(item.canonical_url, item.fetch_url)
        page = await self._page_behind(item_id_of(Ref(name)), item) if name else None
        return _moved(page, outcomes.page_visit(item, answer, named(item), "", item.source)) if page else None

    async def _page_behind(self, target_id: str, item: Item) -> Item | None:
        """The page with a text that this name leads to; None if it leads nowhere, or back to the item itself.

        Pages that name each other canonical in a circle would all give up their texts for each other.
        """
        for _ in range(MOST_ALIASES):
            if target_id == item.id:
                return None
            target = (await self._context.items.read([target_id]))[0]
            if target is None or target.has_text or not target.alias_of:
                break
            target_id = target.alias_of
        return target if target is not None and target.has_text else None

    async def _leave(self, other: LeasedItem) -> None:
        await self._context.leases.commit(other.lease, [self._context.items.unlocked(other.item)])

    def _real_name(self, item: Item, answer: Fetched, visit: PageVisit) -> str | None:
        """What the page is called, if that is another name; a temporary redirect changes none (trap T49)."""
        name = page_url.canonical(answer, visit.canonical_url)
        return None if name == item.fetch_url or page_url.has_temporary_redirect(answer) else name


def _moved(page: Item, visit: PageVisit) -> Moved:
    return Moved(page.id, visit, page.text_hash)


def named(item: Item) -> Document:
    """As much of a page as a 304 tells."""
    return Document(canonical_url=item.canonical_url)
