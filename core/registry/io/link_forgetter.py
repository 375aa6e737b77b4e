"""Delete links of feeds: their members of link sets, their articles and aliases, and that they were attempted.

May be interrupted and called again. With `dry_run` everything is counted and nothing is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence, Set

from core import ids
from core.feeds.io.subscriptions import Subscriptions
from core.registry.io.article_end import ArticleEnd
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.removal_commands import RemovableItem
from core.registry.record import ARTICLES_SOURCE
from core.store import connect, scanning
from core.store.commands import Command, batched
from core.store.connect import texts
from core.store.pipeline import read_many

AT_ONCE = 100
"""Articles in one step."""


class LinkForgetter:
    """Removes links; their items go through the item forgetter, which counts."""

    def __init__(self, items: ItemForgetter) -> None:
        self._items = items
        self._client = items.client
        self._keys = items.keys
        self._dry_run = items.dry_run
        self._counts = items.counts
        self._article_end = ArticleEnd(items.client, items.keys)
        self._subscriptions = Subscriptions(items.client, items.keys)

    # ── one page ──

    async def page(self, item_id: str, uid: str) -> bool:
        """Forget an item and every link that leads to it; False if nothing is known of it."""
        records = await self._items.remover.read([item_id] if item_id else [])
        uids = {uid, *(record.article_uid for record in records)} - {""}
        if uid and (target := await self._client.get(self._keys.alias(uid))):
            uids.add(str(target))
        uids |= {alias async for alias, target in self._aliases() if target in uids}
        members = [member async for member in self._members(uids)]
        is_known = bool(records or members) or await self._is_remembered(uids)
        if is_known:
            await self._forget_members(members)
            commands = await self._forgotten_uids(uids, [record.content_hash for record in records])
            if commands:
                await self._items.leases.run(commands)
            await self._items.items(records)
        return is_known

    async def _is_remembered(self, uids: Set[str]) -> bool:
        keys = self._keys
        families = (keys.article, keys.failure, keys.alias, keys.entry)
        attempted: list[Command] = [("SISMEMBER", keys.attempted, uid) for uid in uids]
        stored: list[Command] = [("EXISTS", *(build(uid) for build in families)) for uid in uids]
        return any(await read_many(self._client, attempted + stored))

    # ── a feed ──

    async def feed(self, url: str) -> list[str] | None:
        """Forget a feed with the links and articles that it alone listed; its categories, or None if unknown."""
        fid, by_feed = ids.feed_id(url), await self._subscriptions.by_feed()
        if url not in by_feed and not await self._client.exists(self._keys.feed(fid)):
            return None
        if self._dry_run:
            await self._forget_links(await self._own_links(url, by_feed))
            return by_feed.get(url, [])
        async with self._items.hold(f"feed_{fid}", f"{url} is being polled; waiting for its end"):
            await self._forget_links(await self._own_links(url, by_feed))
            return await self._subscriptions.remove(url)

    async def _own_links(self, url: str, by_feed: dict[str, list[str]]) -> list[str]:
        """Return links of the feed's last body that no other feed has, and no category that the feed is not in."""
        own = texts(await self._client.smembers(self._keys.feed_links(ids.feed_id(url))))
        categories = set(await self._subscriptions.categories()) - set(by_feed.get(url, []))
        others = [self._keys.feed_links(ids.feed_id(other)) for other in by_feed if other != url]
        return await self.in_none(own, [*others, *map(self._keys.category_links, categories)])

    async def in_none(self, links: list[str], sets: Sequence[str]) -> list[str]:
        """Return those of the links that none of these sets has."""
        for key in sets:
            listed = await self._client.smismember(key, links) if links else []
            links = [link for link, is_listed in zip(links, listed, strict=True) if not is_listed]
        return links

    async def _forget_links(self, links: Sequence[str]) -> None:
        uids = {ids.article_uid(link) for link in links}
        # An article with another URL that stays is kept.
        shared = {target async for alias, target in self._aliases() if target in uids and alias not in uids}
        await self._forget_members([member async for member in self._members(uids)])
        forgotten = sorted(uids - shared)
        for start in range(0, len(forgotten), AT_ONCE):
            await self.articles(dict.fromkeys(forgotten[start : start + AT_ONCE], ""))

    async def articles(self, items: Mapping[str, str]) -> None:
        """Forget articles, and what is remembered of their links; a page that a site lists too stays with the site.

        `items` by uid, where the article itself may have gone already; empty if there is none.
        """
        stored = await read_many(self._client, [("HGET", self._keys.article(uid), "item_id") for uid in items])
        named = [str(found or known) for found, known in zip(stored, items.values(), strict=True)]
        records = await self._items.remover.read([item_id for item_id in named if item_id])
        commands = await self._forgotten_uids(items.keys(), [record.content_hash for record in records])
        of_feeds = [record for record in records if not set(record.sources) - {ARTICLES_SOURCE}]
        if of_feeds:
            await self._items.items(of_feeds, commands)  # in one step: no item is left behind without its article
        elif commands:
            await self._items.leases.run(commands)
        for record in records:
            if record not in of_feeds:
                await self._forget_item(record)

    async def _forget_item(self, record: RemovableItem) -> None:
        """Remove the item of an article; if a site lists it too, it falls back to the site's text."""
        if not set(record.sources) - {ARTICLES_SOURCE}:
            await self._items.items([record])
            return
        self._counts.kept += 1
        async for one in self._items.leased([] if self._dry_run else [record.id]):
            now = await connect.now(self._client)
            if not await self._article_end.commit(self._items.leases, [one], now):
                for changed in await self._items.remover.read([record.id]):  # listed or embedded meanwhile
                    await self._forget_item(changed)

    # ── what is kept by uid ──

    async def _forgotten_uids(self, uids: Set[str], content_hashes: Sequence[str]) -> list[Command]:
        """Count articles and aliases, and return the commands that forget them; none for a dry run."""
        articles: list[Command] = [("HEXISTS", self._keys.article(uid), "item_id") for uid in uids]
        aliases: list[Command] = [("EXISTS", self._keys.alias(uid)) for uid in uids]
        counts = await read_many(self._client, articles + aliases)
        self._counts.articles += sum(counts[: len(uids)])
        self._counts.aliases += sum(counts[len(uids) :])
        return [] if self._dry_run else await self._items.remover.articles(uids, content_hashes)

    async def _aliases(self) -> AsyncIterator[tuple[str, str]]:
        """Yield all aliases with their targets. They have no index: this scans all keys, on request only."""
        start = len(self._keys.alias(""))
        async for names in scanning.keys(self._client, self._keys.pattern(self._keys.alias)):
            for key, target in zip(names, await self._client.mget(names), strict=True):
                if target:
                    yield key[start:], str(target)

    # ── link sets ──

    async def _members(self, uids: Set[str]) -> AsyncIterator[tuple[str, str]]:
        """Yield category and link of these uids from all link sets."""
        for category in await self._subscriptions.categories() if uids else ():
            async for links in scanning.set_members(self._client, self._keys.category_links(category)):
                for link in links:
                    if ids.article_uid(link) in uids:
                        yield category, link

    async def _forget_members(self, members: Sequence[tuple[str, str]]) -> None:
        """Remove links from the link sets, and from what feeds remember: an unchanged feed must not bring them back."""
        links = sorted({link for _, link in members})
        self._counts.links += len(links)
        if self._dry_run or not links:
            return
        commands: list[Command] = []
        for category in sorted({category for category, _ in members}):
            own = [link for name, link in members if name == category]
            commands += batched(("SREM", self._keys.category_links(category)), own)
            commands += batched(("ZREM", self._keys.category_links_seen(category)), own)
        for url in await self._subscriptions.by_feed():
            commands += batched(("SREM", self._keys.feed_links(ids.feed_id(url))), links)
        await self._items.leases.run(commands)
