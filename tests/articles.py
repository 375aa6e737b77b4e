"""What tests of articles share: feeds and pages to be fetched, and what the store has of an article."""

from __future__ import annotations

from typing import Any

from core import ids
from core.keys import Keys
from core.registry.io.batch_visitor import Visitor
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from core.store.connect import Client
from core.urls.normalise import normalise_url
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor

NOW = 1_800_000_000.0
STORY = (
    "The council voted on Tuesday to reopen the old lock gates before the spring floods arrive in the valley. ",
    "Engineers had warned for months that the gates would not hold another winter without new hinges and seals. ",
    "Residents along the towpath said they were relieved, and a little sceptical about the promised timetable. ",
)
FULL = "".join(f"<p>{line * 2}</p>" for line in STORY)


def rss(*links: str, extra: str = "") -> str:
    items = "".join(f"<item><title>t</title><link>{link}</link></item>" for link in links)
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>{extra}{items}</channel></rss>'


def article(title: str = "Lock gates reopen", head: str = "", text: str = "") -> str:
    paragraphs = "".join(f"<p>{line * 2}{text}</p>" for line in STORY)
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title>{head}</head><body><nav>Home News Sport</nav>"
        f"<main><article><h1>{title}</h1>{paragraphs}</article></main><footer>Imprint</footer></body></html>"
    )


async def put_article(redis: Client, keys: Keys, name: str, stored_ts: float = NOW, **fields: str) -> str:
    """Store an article as the canonical fetcher leaves it, as far as lists read it; return its uid."""
    url = f"https://{fields.pop('host', 'e.org')}/{name}"
    uid, category = ids.article_uid(url), fields.get("category", "world")
    stored = {"uid": uid, "url": url, "title": name, "category": category, "categories": category, "status": "success"}
    stored |= {"fetched_ts": f"{stored_ts:.3f}", "language": "en"}
    await redis.hset(keys.article(uid), mapping=stored | fields)
    await redis.zadd(keys.article_index, {uid: stored_ts})
    await redis.sadd(keys.articles_by_category(category), uid)
    return uid


async def add(context: Context, *links: str, category: str = "world") -> None:
    await context.client.sadd(context.keys.category_links(category), *links)


async def run(context: Context, budget: float = 60.0) -> dict[str, int]:
    return dict(await canonical_fetcher.run_once(context, budget))


async def stored(context: Context, url: str) -> dict[str, str]:
    return dict(await context.client.hgetall(context.keys.article(ids.article_uid(url))))


async def failure(context: Context, url: str) -> dict[str, str]:
    return dict(await context.client.hgetall(context.keys.failure(ids.article_uid(url))))


async def feed_with_text(context: Context, web: FakeWeb) -> str:
    text = f"<description><![CDATA[{FULL}]]></description>"
    item = f"<item><title>From the feed</title><link>{web.url('/a')}</link>{text}</item>"
    web.page("/feed", f'<rss version="2.0"><channel><title>F</title>{item}</channel></rss>')
    await context.client.sadd(context.keys.feeds("world"), web.url("/feed"))
    await ingestor.run_cycle(context)
    return web.url("/a")


class ArticlePage:
    """One article of a link set, its page, and what the store has of it."""

    def __init__(self, context: Context, web: FakeWeb, path: str = "/a") -> None:
        self.context, self.web, self.path = context, web, path
        self.url = web.url(path)
        self.uid = ids.article_uid(self.url)
        self.id = ids.item_id("url", normalise_url(self.url))
        self._edition = 0

    def write(self, text: str, title: str = "Lock gates reopen", **options: Any) -> None:
        """The page, or another version of it."""
        self._edition += 1
        head = options.pop("head", "")
        self.web.page(self.path, article(title, head, text), etag=f'"{self._edition}"', **options)

    async def store(self) -> None:
        await self.context.client.sadd(self.context.keys.category_links("world"), self.url)
        await canonical_fetcher.run_once(self.context, 60.0)
        assert (await self.hash())["status"] == "success"
        self.web.requests.clear()

    async def visit(self, **more: Any) -> int:
        """Make it due and visit it, as a job does."""
        now = await connect.now(self.context.client)
        await self.context.due.make_due([self.id], now, **more)
        clock = await ServerClock.ask(self.context.client)
        return await Visitor(self.context, clock, OpenSources(self.context, now)).visit_many([self.id], via="rss")

    async def hash(self) -> dict[str, str]:
        return await self.context.client.hgetall(self.context.keys.article(self.uid))

    async def item(self) -> dict[str, str]:
        return await self.context.client.hgetall(self.context.keys.item(self.id))

    async def life(self) -> int:
        return await self.context.client.ttl(self.context.keys.article(self.uid))

    async def is_found(self) -> tuple[bool, bool]:
        """In its category, and in the index."""
        keys, client = self.context.keys, self.context.client
        in_category = await client.sismember(keys.articles_by_category("world"), self.uid)
        return bool(in_category), await client.zscore(keys.article_index, self.uid) is not None

    async def events(self) -> list[str]:
        """What was told of items and articles; runs tell of themselves."""
        told = [fields["type"] for _, fields in await self.context.client.xrange(self.context.keys.events)]
        return [kind for kind in told if not kind.startswith("run.")]
