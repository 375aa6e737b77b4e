"""Find the pages of a site that can still be reached from its root, by the stored outlinks.

A walk sends no request. It stamps what it reaches as seen, so that what has no new stamp is an orphan, and it makes
items of links that no visit has registered: pages behind a 304, forgotten ones, those of a wider scope.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from core.models import Ref
from core.registry.io.registrar import item_id_of
from core.runtime.context import Context
from core.sources.io.link_follower import LinkFollower
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.urls.scope import OUT_OF_SCOPE

PAGES_AT_ONCE = 100


class Reachability:
    def __init__(self, context: Context, source: Source, open_sources: OpenSources, clock: ServerClock) -> None:
        self._context = context
        self._source = source
        self._clock = clock
        self._link_follower = LinkFollower(context, open_sources, clock, is_run=True)
        self._reached: set[int] = set()
        self._strangers: set[int] = set()
        self.began = clock.now()

    async def walk(self) -> int:
        """Stamp all that can be reached; return how many items are new."""
        source_items, sid = self._context.source_items, self._source.sid
        first = [self._source.state.root_id, *await source_items.listed(sid), *await self._former()]
        queue = deque(self._not_reached(first))
        before = await source_items.count(sid)
        while queue:
            pages = [queue.popleft() for _ in range(min(PAGES_AT_ONCE, len(queue)))]
            queue += self._not_reached(await self._linked_from(pages))
        return await source_items.count(sid) - before

    async def _former(self) -> list[str]:
        """Return pages of where the root led before: they stay while they answer, unless a person agreed to losses."""
        state, scope = self._source.state, self._source.scope
        if scope is None or not scope.landings or state.loss_allowed_until > self._clock.now():
            return []
        pages = self._context.source_items.addresses(self._source.sid)
        return [item_id async for item_id, url in pages if scope.is_in_former_landing(url)]

    def _not_reached(self, item_ids: list[str]) -> list[str]:
        """Return those not reached before. Hashes instead of ids: a set of them takes a third of the memory."""
        new = [item_id for item_id in dict.fromkeys(item_ids) if hash(item_id) not in self._reached]
        self._reached.update(map(hash, new))
        return new

    async def _linked_from(self, pages: list[str]) -> list[str]:
        """Return items that these pages link to, and their aliases' targets; stamp the pages themselves."""
        linked: dict[str, None] = {}
        for page in await self._context.source_items.mark_reached(self._source.sid, pages, self._clock.now()):
            links = set(page.links)
            if page.canonical_url and page.canonical_url != page.url:
                links.add(page.canonical_url)  # what a page calls itself is a link too
            linked.update(dict.fromkeys(await self._known(sorted(links), page.depth + 1)))
            if page.alias_of:
                linked[page.alias_of] = None
        return list(linked)

    async def _known(self, links: list[str], depth: int) -> list[str]:
        """Return the ids of those links that are items of this source; register those that should be."""
        by_id = {_id_of(link): link for link in links}
        wanted = [item_id for item_id in by_id if hash(item_id) not in self._strangers]
        unseen = [item_id for item_id in wanted if hash(item_id) not in self._reached]
        assert self._source.scope is not None
        reason = self._source.scope.rejection_reason
        # A scope that was made narrower lets go of what it had.
        outside = {item_id for item_id in unseen if reason(by_id[item_id], 0) in OUT_OF_SCOPE}
        self._strangers.update(map(hash, outside))
        if outside:
            wanted = [item_id for item_id in wanted if item_id not in outside]
            unseen = [item_id for item_id in unseen if item_id not in outside]
        if not unseen:
            return wanted
        depths = await self._context.source_items.depths(self._source.sid, unseen)
        unknown = [item_id for item_id, known in zip(unseen, depths, strict=True) if known is None]
        nearer = [name for name, known in zip(unseen, depths, strict=True) if known is not None and known > depth]
        await self._context.source_items.lower_depths(self._source.sid, dict.fromkeys(nearer, depth))
        made = set(await self._link_follower.register_all(self._source, [by_id[name] for name in unknown], depth))
        strangers = set(unknown) - made
        self._strangers.update(map(hash, strangers))
        return [item_id for item_id in wanted if item_id not in strangers]


@lru_cache(maxsize=20_000)
def _id_of(link: str) -> str:
    """Return the item id; cached, because menus repeat on every page."""
    return item_id_of(Ref(link))
