"""Forget links of feeds: their places in link sets, their articles and aliases, and the memory that they were tried.

May be broken off and called again. With `dry_run` nothing is written, and all is counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set

from core import ids
from core.errors import FailCode
from core.keys import Keys
from core.registry import ARTICLES_SOURCE
from core.stores import connect
from core.stores.commit import Command, Leases, batched
from core.stores.connect import Client, texts
from core.stores.forgetting import Forgetting
from core.stores.items import ItemStore
from core.stores.subscriptions import Subscriptions

SCAN = 1_000


class ForgettingLinks:
    """Removes; counts into the toll of `forgetting`."""

    def __init__(self, client: Client, keys: Keys, forgetting: Forgetting, *, dry_run: bool = False) -> None:
        self._client = client
        self._keys = keys
        self._forgetting = forgetting
        self._dry_run = dry_run
        self._leases = Leases(client, keys)
        self._items = ItemStore(client, keys)
        self._subscriptions = Subscriptions(client, keys)

    # ── one thing by any of its names ──

    async def page(self, item_id: str, uid: str) -> bool:
        """An item and every link that leads to it; False if there is nothing of the kind."""
        records = await self._forgetting.read([item_id] if item_id else [])
        uids = {uid, *(record.article_uid for record in records)} - {""}
        if uid and (target := await self._client.get(self._keys.alias(uid))):
            uids.add(str(target))
        uids |= set(await self._aliases_of(uids))
        has_article = [uid for uid in uids if await self._client.exists(self._keys.article(uid))]
        places = [place async for place in self._places(uids)]
        is_known = bool(records or has_article or places) or await self._is_remembered(uids)
        if is_known:
            await self._forget_places(places)
            for one in sorted(uids):
                await self._forget_uid(one)
            await self._forgetting.items(records, had_article=bool(has_article))
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
        async with self._forgetting.hold(f"feed_{fid}", f"{url} is being polled; waiting for its end"):
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
            item_id = str(await self._client.hget(self._keys.article(uid), "item_id") or "")
            await self._forget_uid(uid)
            await self._forget_item(item_id)

    async def _shared(self, uids: Set[str]) -> set[str]:
        """Those whose article has another name that stays."""
        shared = set()
        async for alias, target in self._aliases():
            if target in uids and alias not in uids:
                shared.add(target)
        return shared

    async def _forget_item(self, item_id: str) -> None:
        """The item of an article; if a site lists it too, it stays, and is read anew as a page of that site."""
        for record in await self._forgetting.read([item_id] if item_id else []):
            if not set(record.sources) - {ARTICLES_SOURCE}:
                await self._forgetting.items([record], had_article=True)
                continue
            self._forgetting.toll.kept += 1
            async for one in self._forgetting.leased([] if self._dry_run else [item_id]):
                now = await connect.now(self._client)
                due = [self._keys.due(sid) for sid in one.item.sources if sid != ARTICLES_SOURCE]
                commands = self._items.unlist(one.item, ARTICLES_SOURCE)
                commands += [("HSET", self._keys.item(item_id), "articleUid", "")]
                await self._leases.commit(one.lease, [*commands, *(("ZADD", key, now, item_id) for key in due)])

    # ── what a uid leaves behind ──

    async def _forget_uid(self, uid: str) -> None:
        article, keys = self._keys.article(uid), self._keys
        stored = await self._client.hmget(article, ["categories", "content_hash", "item_id"])
        categories, content_hash, item_id = (str(value or "") for value in stored)
        self._forgetting.toll.articles += bool(item_id)
        self._forgetting.toll.aliases += await self._client.exists(keys.alias(uid))
        if self._dry_run:
            return
        commands: list[Command] = [
            ("DEL", article, keys.alias(uid), keys.aliases(uid), keys.failure(uid), keys.entry(uid)),
            ("ZREM", keys.article_index, uid),
            ("ZREM", keys.retry, uid),
            ("ZREM", keys.failures, *(f"{uid}:{code}" for code in FailCode)),
            ("SREM", keys.attempted, uid),
            ("ZREM", keys.attempted_at, uid),
            *(("SREM", keys.articles_by_category(name), uid) for name in categories.split(",") if name),
        ]
        content = keys.content(content_hash)
        if content_hash and await self._client.get(content) == uid:  # else the text is another article's
            commands.append(("DEL", content))
        await self._leases.run(commands)

    async def _aliases_of(self, uids: Set[str]) -> list[str]:
        return [alias async for alias, target in self._aliases() if target in uids]

    async def _aliases(self) -> AsyncIterator[tuple[str, str]]:
        """All aliases and what they stand for. Nobody keeps a list: a scan over all keys, for a person's wish only."""
        start, cursor = len(self._keys.alias("")), 0
        while True:
            cursor, found = await self._client.scan(cursor, match=self._keys.aliases_pattern, count=SCAN)
            names = texts(found)
            for key, target in zip(names, await self._client.mget(names) if names else [], strict=True):
                if target:
                    yield key[start:], str(target)
            if not int(cursor):
                return

    # ── where links stand ──

    async def _places(self, uids: Set[str]) -> AsyncIterator[tuple[str, str]]:
        """Category and link of these uids, in all link sets."""
        for category in await self._subscriptions.categories() if uids else ():
            cursor = 0
            while True:
                cursor, links = await self._client.sscan(self._keys.category_links(category), cursor, count=SCAN)
                for link in texts(links):
                    if ids.article_uid(link) in uids:
                        yield category, link
                if not int(cursor):
                    break

    async def _forget_places(self, places: Sequence[tuple[str, str]]) -> None:
        """Out of the link sets, and out of what feeds remember: an unchanged feed must not bring them back."""
        links = sorted({link for _, link in places})
        self._forgetting.toll.links += len(links)
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
