"""Follow the links of a page: those in scope become items of its source, one deeper than the page itself."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from core.models import Fetched, Ref, RejectedUrl
from core.registry.io.registrar import Listing, item_id_of
from core.registry.record import Item
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.store.commands import Command
from core.urls import spider_traps
from core.urls.scope import OUT_OF_SCOPE

log = logging.getLogger("refresh")


class LinkFollower:
    """Registers links, before the page itself is committed: a crash in between does it twice, never not at all."""

    def __init__(
        self, context: Context, open_sources: OpenSources, clock: ServerClock, *, is_run: bool = False
    ) -> None:
        """`is_run`: a run says at its end that its source is full, so this need not."""
        self._context = context
        self._open_sources = open_sources
        self._clock = clock
        self._is_run = is_run
        self._variants: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._is_full: set[str] = set()

    async def follow(self, item: Item, links: Sequence[str], through: Source) -> list[Command]:
        """Register a page's links in every site that lists the page; return commands that store them with it."""
        if not through.follows_links:
            return []
        opened = [await self._open_sources.open(sid) for sid in item.sources]
        sites = [(source, source.scope) for source in opened if source and source.scope]
        for source, _ in sites:
            await self._open_sources.keep_notes(source)
            await self.register_all(source, links, await self._depth(source, item) + 1)
        stored = self._context.documents.outlinks(item, links, ",".join(scope.version for _, scope in sites))
        return [*stored, *(self._context.sources.links_changed(source.sid) for source, _ in sites)] if stored else []

    async def land(self, item: Item, answer: Fetched, through: Source, links: Sequence[str] | None = None) -> str:
        """Tell the source where its root has led; return why what is there does not stand for the root, if so.

        `links`: those of the page; None: as they are stored, because the answer was 304.
        """
        if not answer.hops or through.state.root_id != item.id:
            return ""
        known = await self._context.source_items.links_of(item.id) if links is None else links
        return through.land(item, answer, known)

    async def register_all(self, source: Source, links: Sequence[str], depth: int) -> list[str]:
        """Make items of those links that are in scope; return the ids of all that are items then."""
        assert source.scope is not None
        refs, refused = [], []
        for link in links:
            reason = source.scope.rejection_reason(link, depth)
            if not reason:
                refs.append(Ref(link, depth=depth))
            elif reason not in OUT_OF_SCOPE:
                refused.append(RejectedUrl(link, reason))
        await self._context.sources.add_refused(source.sid, refused)
        return await self._known_or_registered(source, refs)

    async def admit(self, item: Item, url: str, source: Source) -> bool:
        """Make an item of a page's real name, if it is in scope."""
        depth = await self._depth(source, item)
        assert source.scope is not None
        if source.scope.rejection_reason(url, depth):
            return False
        return bool(await self._known_or_registered(source, [Ref(url, depth=depth)]))

    async def _depth(self, source: Source, item: Item) -> int:
        [depth] = await self._context.source_items.depths(source.sid, [item.id])
        return depth or 0

    async def _known_or_registered(self, source: Source, refs: Sequence[Ref]) -> list[str]:
        if not refs:
            return []
        by_id = {item_id_of(ref): ref for ref in refs}
        depths = await self._context.source_items.depths(source.sid, list(by_id))
        known = {item_id: depth for item_id, depth in zip(by_id, depths, strict=True) if depth is not None}
        nearer = {item_id: by_id[item_id].depth for item_id, depth in known.items() if by_id[item_id].depth < depth}
        await self._context.source_items.lower_depths(source.sid, nearer)
        new = [ref for item_id, ref in by_id.items() if item_id not in known]
        return list(known) + await self._register_new(source, await self._without_variants(source, new))

    async def _without_variants(self, source: Source, refs: Sequence[Ref]) -> list[Ref]:
        """Refuse one page under ever new queries, beyond a limit: a calendar, a filter."""
        kept, refused = [], []
        for ref in refs:
            path = spider_traps.query_variants(ref.address)
            variants = self._variants[source.sid, path] if path else set()
            if ref.address not in variants and spider_traps.too_many_variants(len(variants) + 1):
                refused.append(RejectedUrl(ref.address, spider_traps.TOO_MANY_VARIANTS))
            else:
                variants.add(ref.address)
                kept.append(ref)
        await self._context.sources.add_refused(source.sid, refused)
        return kept

    async def _register_new(self, source: Source, refs: Sequence[Ref]) -> list[str]:
        listing = Listing(source.sid, most=source.most_items, must_exist=True)
        registered = await self._context.registrar.register(refs, listing, self._clock.now())
        if registered.left_out and source.sid not in self._is_full:
            self._is_full.add(source.sid)
            message = await self._context.sources.mark_full(source.sid, listing.most)
            if not self._is_run:
                log.warning("🚧 %s: %s", source.sid, message)
        return [*registered.new, *registered.moved, *registered.known]
