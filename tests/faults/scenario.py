"""A small newsroom in which one cycle does everything an ingestor can do to its keys.

`Newsroom.open` leaves the store as it is in the middle of a life: feeds polled before and now due again, new ones by
hand and by file, one unsubscribed, articles already stored. Every page answers the same however often it is asked, so
that a run that was broken off and made again must end where an undisturbed one does.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio as redis

from core import ids
from core.feeds.io.poller import PollCycle
from core.keys import Keys
from core.runtime.context import open_context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from tests.faults import state
from tests.web import FakeWeb
from workers import ingestor

HOST, PATIENT_HOST, DEAD_HOST = "127.0.0.1", "127.0.9.2", "127.0.9.1"
OLD_TS = 1_000_000_000


def rss(*links: str) -> str:
    items = "".join(f"<item><title>t</title><link>{link}</link></item>" for link in links)
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>{items}</channel></rss>'


@dataclass
class Newsroom:
    """The web, the settings to reach it, and the store as it was before the run under test."""

    web: FakeWeb
    settings: Settings
    client: connect.Client
    """The test's own way to the server, past any fault."""
    raw: redis.Redis
    keys: Keys = field(default_factory=Keys)
    before: state.Saved = field(default_factory=dict)
    fault_free: state.Dump = field(default_factory=dict)
    by_hand: frozenset[str] = frozenset()

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, *, new: int = 0, by_hand: bool = False, sample: bool = False) -> Any:
        """A furnished newsroom and its fault-free end.

        Args:
            new: so many feeds that were never polled, and nothing else: for real processes, whose dice we do not hold.
            by_hand: a link set that somebody filled with SADD is there too.
            sample: the sample's categories are there and have to step aside.
        """
        settings = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), "fetch_host_parallel": 1})
        async with AsyncExitStack() as stack:
            web = await stack.enter_async_context(FakeWeb(HOST, PATIENT_HOST))
            client = await stack.enter_async_context(connect.open_store(settings))
            raw = await stack.enter_async_context(redis.Redis.from_url(connect.url_of(settings)))
            room = cls(web, settings, client, raw)
            await client.flushall()
            if new:
                await room._take_on(new)
            else:
                await room._live_before(sample)
                await room._prepare_now(by_hand)
            room.before = await state.save(raw)
            await room.run()
            room.fault_free = state.dump(await room.look())
            yield room

    @property
    def redis_url(self) -> str:
        """The server itself, past any door."""
        return connect.url_of(self.settings)

    def links(self, name: str, count: int) -> list[str]:
        """Stories of ours: nothing in these tests leads out of this machine, whoever follows a link."""
        return [self.web.url(f"/story/{name}/{number}") for number in range(count)]

    @property
    def asked(self) -> list[str]:
        """Feeds asked for since the last rewind, in order."""
        return [seen.target for seen in self.web.requests if not seen.target.startswith(("/story", "/robots"))]

    # ── runs ──

    async def run(self, redis_url: str = "") -> PollCycle:
        """One cycle of a new process (as far as Redis can tell), perhaps through a proxy."""
        async with self.context(redis_url) as context:
            return await ingestor.run_cycle(context)

    @asynccontextmanager
    async def context(self, redis_url: str = "") -> Any:
        settings = self.settings
        if redis_url:
            settings = settings.model_copy(update={"redis_url": SecretStr(redis_url)})
        async with open_context(settings) as context:
            yield context

    async def rewind(self) -> None:
        """The store as it was before the run under test."""
        self.web.requests.clear()
        await state.restore(self.raw, self.before)

    async def let_leases_end(self) -> int:
        return await state.let_leases_end(self.client, self.keys)

    async def look(self) -> state.Picture:
        return await state.look(self.client, self.keys)

    def states(self, picture: state.Picture) -> list[dict[str, str]]:
        """The hashes of all feeds."""
        return [held.content for _, _, held in picture.named(self.keys.feed(""))]

    def statuses(self, picture: state.Picture) -> dict[str, str]:
        """Feed URL → status."""
        return {feed["url"]: feed["status"] for feed in self.states(picture)}

    async def check(self, *, is_settled: bool) -> list[str]:
        """What is wrong with the store now."""
        return state.problems(await self.look(), is_settled=is_settled, by_hand=self.by_hand)

    async def inconsistencies(self, *without: str) -> str:
        """What is wrong with the store, or how it differs from the fault-free end, leaving out these families."""
        picture = await self.look()
        wrong = state.problems(picture, is_settled=True)
        left_out = (*state.POLITENESS, *without)
        expected = state.only_families_of(self.fault_free, self.keys, left_out)
        return "\n".join((*wrong, state.difference(expected, state.dump(picture, without=left_out)))).strip()

    # ── furnishing ──

    async def _take_on(self, count: int) -> None:
        """New feeds over two hosts; one of them missing, one retired, one on a host that is not there."""
        web = self.web
        for number in range(count):
            web.page(f"/feed/{number}", rss(*self.links(str(number), 3)), etag=f'"{number}"')
            url = web.url(f"/feed/{number}", (HOST, PATIENT_HOST)[number % 2])
            await self.client.sadd(self.keys.feeds(("world", "tech")[number % 3 == 0]), url)
        web.on("/missing", 404)
        web.gone("/retired")
        await self.subscribe("world", "/missing", "/retired")
        await self.client.sadd(self.keys.feeds("tech"), web.url("/feed", DEAD_HOST))

    async def _live_before(self, sample: bool) -> None:
        """A first cycle, so that there is a past."""
        web = self.web
        web.page("/known", rss(*self.links("known", 3)), etag='"known"')
        web.page("/grown", rss(*self.links("grown", 2)), etag='"grown 1"')
        web.page("/retired", rss(*self.links("retired", 1)))
        web.page("/left", rss(*self.links("left", 1)))
        await self.subscribe("world", "/known", "/grown", "/retired", "/left")
        await self.subscribe("tech", "/known")
        if sample:
            # Once there is another feed the sample goes at once, so it gets its past alone.
            others = await state.save(self.raw)
            await self.client.flushall()
            web.page("/sample", rss(*self.links("sample", 2)))
            await self.subscribe("sample_news", "/sample")
            await self.subscribe("sample_sports", "/sample")
            async with self.context() as context:
                await context.subscriptions.sync("sample", {"sample_more": [web.url("/sample")]})
                await ingestor.run_cycle(context)
            for key, (packed, _) in others.items():
                await self.raw.restore(key, 0, packed)
            await self.subscribe("kept", "/known")
            return
        await self.run()

    async def _prepare_now(self, by_hand: bool) -> None:
        web, keys, client = self.web, self.keys, self.client
        web.page(
            "/grown", rss(*self.links("grown", 4), f"{self.links('grown', 5)[4]}?utm_source=x", "mailto:x@x.example")
        )
        web.gone("/retired")
        web.page("/first", rss(*self.links("first", 2), *self.links("known", 1)), etag='"first"')
        web.page("/filed", rss(*self.links("filed", 1)))
        web.on("/missing", 404)
        web.retry_after("/patient", 429, "60")
        await self.subscribe("world", "/first", "/missing")
        await self.subscribe("tech", "/first")
        await client.sadd(keys.feeds("tech"), web.url("/patient", PATIENT_HOST), web.url("/feed", DEAD_HOST))
        await client.srem(keys.feeds("world"), web.url("/left"))
        self._write_feed_file({"filed": web.url("/filed")})
        await self._store_articles()
        (past,) = self.links("past", 1)
        await client.zadd(keys.category_links_seen("world"), {past: OLD_TS})
        await client.sadd(keys.category_links("world"), past)
        for key in (keys.category_links("world"), keys.category_links_seen("world")):
            await client.expire(key, 30 * state.HOUR)
        if by_hand:
            await client.sadd(keys.category_links("hand"), *self.links("hand", 2))
            self.by_hand = frozenset({"hand"})
        for fid in await client.zrange(keys.feeds_due, 0, -1):
            await client.zadd(keys.feeds_due, {fid: 0})
        if await client.exists(keys.feed(ids.feed_id(web.url("/known")))):
            await client.hset(keys.feed(ids.feed_id(web.url("/known"))), "renewed_ts", "0")

    def _write_feed_file(self, feeds: dict[str, str]) -> None:
        lines = [f'{category} = ["{url}"]' for category, url in feeds.items()]
        self.settings.feeds_file.write_text("\n".join(("[categories]", *lines, "")))

    async def _store_articles(self) -> None:
        """Of the known feed's links the first is stored, the second an alias of it, the third never tried."""
        keys, client = self.keys, self.client
        stored, alias, _ = map(ids.article_uid, self.links("known", 3))
        await client.hset(keys.article(stored), mapping={"uid": stored, "clean_text": "text"})
        await client.set(keys.alias(alias), stored)
        await client.sadd(keys.articles_by_category("world"), stored)
        await client.sadd(keys.attempted, stored, alias)
        await client.zadd(keys.attempted_at, {stored: OLD_TS * 1.7, alias: OLD_TS * 1.7})
        for key in (keys.article(stored), keys.alias(alias), keys.articles_by_category("world")):
            await client.expire(key, 10 * state.HOUR)
        for key in (keys.attempted, keys.attempted_at):
            await client.expire(key, 20 * state.HOUR)

    async def subscribe(self, category: str, *paths: str) -> None:
        await self.client.sadd(self.keys.feeds(category), *map(self.web.url, paths))
