"""Forget links of feeds: their places in link sets, their articles and aliases, and the memory that they were tried.

May be broken off and called again. With `dry_run` nothing is written, and all is counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set

from core import ids
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.registry.io.article_end import ArticleEnd
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.items import LeasedItem
from core.registry.io.remover import RemovableItem, Remover
from core.registry.record import ARTICLES_SOURCE
from core.store import connect, scanning
from core.store.commit import Answer, Command, Leases, Work, batched
from core.store.connect import Client, texts
from core.store.events import event


class LinkForgetter:
    """Removes; counts into the counts of `forgetter`."""

    def __init__(self, client: Client, keys: Keys, forgetter: ItemForgetter, *, dry_run: bool = False) -> None:
        self._client = client
        self._keys = keys
        self._forgetter = forgetter
        self._dry_run = dry_run
        self._leases = Leases(client, keys)
        self._article_end = ArticleEnd(client, keys)
        self._remover = Remover(client, keys)
        self._subscriptions = Subscriptions(client, keys)

    # ── one thing by any of its names ──

    async def page(self, item_id: str, uid: str) -> bool:
        """An item and every link that leads to it; False if there is nothing of the kind."""
        records = await self._forgetter.read([item_id] if item_id else [])
        uids = {uid, *(record.article_uid for record in records)} - {""}
        if uid and (target := await self._client.get(self._keys.alias(uid))):
            uids.add(str(target))
        uids |= set(await self._aliases_of(uids))
        has_article = any([await self._client.exists(self._keys.article(uid)) for uid in uids])
        places = [place async for place in self._places(uids)]
        is_known = bool(records or has_article or places) or await self._is_remembered(uids)
        if is_known:
            await self._forget_places(places)
            await self._forget_uids(uids, [record.content_hash for record in records])
            await self._forgetter.items(records)
        return is_known

    async def _is_remembered(self, uids: Set[str]) -> bool:
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.sismember(self._keys.attempted, uid)
            pipe.exists(self._keys.failure(uid), self._keys.alias(uid), self._keys.entry(uid))
        return any(await pipe.execute()) if uids else False

    # ── a feed ──

    async def feed(self, url: str) -> list[str] | None:
        """A feed with the links and articles that it alone listed; the categories it was in. None: nobody knows it."""
        fid, by_feed = ids.feed_id(url), await self._subscriptions.by_feed()
        if url not in by_feed and not await self._client.exists(self._keys.feed(fid)):
            return None
        if self._dry_run:
            await self._forget_links(await self._own_links(url, by_feed))
            return by_feed.get(url, [])
        async with self._forgetter.hold(f"feed_{fid}", f"{url} is being polled; waiting for its end"):
            await self._forget_links(await self._own_links(url, by_feed))
            return await self._subscriptions.remove(url)

    async def _own_links(self, url: str, by_feed: dict[str, list[str]]) -> list[str]:
        """Links of its last body that stand in no other feed's, and in no category that it is not in."""
        own = texts(await self._client.smembers(self._keys.feed_links(ids.feed_id(url))))
        categories = set(await self._subscriptions.categories()) - set(by_feed.get(url, []))
        others = [self._keys.feed_links(ids.feed_id(other)) for other in by_feed if other != url]
        for key in (*others, *map(self._keys.category_links, categories)):
            if not own:
                break
            listed = await self._client.smismember(key, own)
            own = [link for link, is_listed in zip(own, listed, strict=True) if not is_listed]
        return own

    async def _forget_links(self, links: Sequence[str]) -> None:
        uids = {ids.article_uid(link) for link in links}
        shared = await self._shared(uids)
        await self._forget_places([place async for place in self._places(uids)])
        for uid in sorted(uids - shared):
            await self._forget_article(uid)

    async def _shared(self, uids: Set[str]) -> set[str]:
        """Those whose article has another name that stays."""
        shared = set()
        async for alias, target in self._aliases():
            if target in uids and alias not in uids:
                shared.add(target)
        return shared

    async def _forget_article(self, uid: str) -> None:
        item_id = str(await self._client.hget(self._keys.article(uid), "item_id") or "")
        records = await self._forgetter.read([item_id] if item_id else [])
        await self._forget_uids({uid}, [record.content_hash for record in records])
        await self._forget_items(records)

    async def _forget_items(self, records: Sequence[RemovableItem]) -> None:
        """The item of an article; if a site lists it too, it falls back to the site's text."""
        for record in records:
            if not set(record.sources) - {ARTICLES_SOURCE}:
                await self._forgetter.items([record])
                continue
            self._forgetter.counts.kept += 1
            async for one in self._forgetter.leased([] if self._dry_run else [record.id]):
                await self._fall_back(one)

    async def _fall_back(self, leased: LeasedItem) -> None:
        commands = await self._article_end.commands(leased.item, await connect.now(self._client))
        work = Work(leased.lease, commands, self._article_end.expected(leased.item))
        if (await self._leases.commit_many([work]))[0] is Answer.MOVED_ON:  # listed or embedded in this very moment
            await self._leases.release(leased.lease)
            await self._forget_items(await self._forgetter.read([leased.item.id]))

    # ── a category ──

    async def category(self, category: str) -> None:
        """A category's articles and failures; what other categories list only leaves this one."""
        others = [name for name in await self._subscriptions.categories() if name != category]
        listed = texts(await self._client.smembers(self._keys.articles_by_category(category)))
        links = texts(await self._client.smembers(self._keys.category_links(category)))
        for name in others:
            is_there = await self._client.smismember(self._keys.category_links(name), links) if links else []
            links = [link for link, is_other in zip(links, is_there, strict=True) if not is_other]
        shared = await self._leave_category(category, listed)
        for uid in sorted({*listed, *map(ids.article_uid, links)} - shared):
            await self._forget_article(uid)
        await self._client.delete(self._keys.articles_by_category(category))

    async def _leave_category(self, category: str, uids: Sequence[str]) -> set[str]:
        """Those of the articles that stand in other categories, too; they are in this one no more."""
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hmget(self._keys.article(uid), ["categories", "item_id"])
        commands: list[Command] = []
        shared = set()
        for uid, (listed, item_id) in zip(uids, await pipe.execute() if uids else [], strict=True):
            left = [name for name in (listed or "").split(",") if name and name != category]
            if left:
                shared.add(uid)
                named = ("category", left[0], "categories", ",".join(left))
                commands.append(("HSET", self._keys.article(uid), *named))
                commands.append(event(self._keys, "item.listed", id=item_id or ""))
        await self._leases.run(commands)
        return shared

    # ── what a uid leaves behind ──

    async def _forget_uids(self, uids: Set[str], content_hashes: Sequence[str]) -> None:
        pipe = self._client.pipeline(transaction=False)
        for uid in sorted(uids):
            pipe.hexists(self._keys.article(uid), "item_id")
            pipe.exists(self._keys.alias(uid))
        counts = await pipe.execute() if uids else []
        self._forgetter.counts.articles += sum(counts[::2])
        self._forgetter.counts.aliases += sum(counts[1::2])
        if not self._dry_run:
            await self._leases.run(await self._remover.articles(uids, content_hashes))

    async def _aliases_of(self, uids: Set[str]) -> list[str]:
        return [alias async for alias, target in self._aliases() if target in uids]

    async def _aliases(self) -> AsyncIterator[tuple[str, str]]:
        """All aliases and what they stand for. Nobody keeps a list: a scan over all keys, for a person's wish only."""
        start = len(self._keys.alias(""))
        async for names in scanning.keys(self._client, self._keys.aliases_pattern):
            for key, target in zip(names, await self._client.mget(names), strict=True):
                if target:
                    yield key[start:], str(target)

    # ── where links stand ──

    async def _places(self, uids: Set[str]) -> AsyncIterator[tuple[str, str]]:
        """Category and link of these uids, in all link sets."""
        for category in await self._subscriptions.categories() if uids else ():
            async for links in scanning.set_members(self._client, self._keys.category_links(category)):
                for link in links:
                    if ids.article_uid(link) in uids:
                        yield category, link

    async def _forget_places(self, places: Sequence[tuple[str, str]]) -> None:
        """Out of the link sets, and out of what feeds remember: an unchanged feed must not bring them back."""
        links = sorted({link for _, link in places})
        self._forgetter.counts.links += len(links)
        if self._dry_run or not links:
            return
        commands: list[Command] = []
        for category in sorted({category for category, _ in places}):
            own = [link for name, link in places if name == category]
            commands += batched(("SREM", self._keys.category_links(category)), own)
            commands += batched(("ZREM", self._keys.category_links_seen(category)), own)
        for url in await self._subscriptions.by_feed():
            commands += batched(("SREM", self._keys.feed_links(ids.feed_id(url))), links)
        await self._leases.run(commands)
