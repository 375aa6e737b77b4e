"""A small newsroom and a documentation site, with everything that Freshet keeps of them, to be damaged by tests.

async with open_scene(settings) as scene:
    await scene.damage(...)
    await scene.work()          every worker and script once, as a day would
    assert await scene.found("sluice") ...
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core import ids
from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE
from core.runtime.context import Context, open_context
from core.runtime.job_limit import JobLimit
from core.runtime.job_queues import JobQueues
from core.search.io.searcher import open_searcher
from core.search.models import Query
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_store import DomainStore
from core.store import connect
from core.urls.normalise import normalise_url, split_url
from tests.articles import article, rss
from tests.crawled_site import SID, add_site
from tests.openai_server import EmbeddingServer
from tests.site import Site
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor, item_jobs
from workers.embed_jobs import embed_items
from workers.timer import Timer

WORDS = ("kestrel", "otter", "heron", "winch", "ferry")
PAGES = ("dam", "canal", "quay", "dredger")


@dataclass
class Scene:
    """What was built, and verbs to use it."""

    settings: Settings
    context: Context
    web: FakeWeb
    site: Site
    dump: list[tuple[bytes, int, bytes]] = field(default_factory=list)

    @property
    def client(self) -> connect.Client:
        return self.context.client

    @property
    def keys(self) -> Keys:
        return self.context.keys

    # ── names ──

    def link(self, word: str) -> str:
        return self.web.url(f"/news/{word}")

    def uid(self, word: str) -> str:
        return ids.article_uid(self.link(word))

    def article_id(self, word: str) -> str:
        return ids.item_id("url", normalise_url(self.link(word)))

    def page_id(self, word: str) -> str:
        return ids.item_id("url", normalise_url(self.site.url(f"/docs/{word}")))

    @property
    def feed(self) -> str:
        return self.web.url("/feed.xml")

    # ── the world ──

    def publish(self, words: Sequence[str]) -> None:
        """A feed of these, each with a page of its own; and one link that leads nowhere."""
        for word in words:
            self.web.page(f"/news/{word}", article(f"The {word}", text=f" About the {word}."), etag=f'"{word}"')
        self.web.page("/feed.xml", rss(*map(self.link, words), self.web.url("/news/missing")))

    def write_site(self, words: Sequence[str], changed: str = "") -> None:
        self.site.page("/docs/", links=[f"/docs/{word}" for word in words])
        for word in words:
            new = f" Now with {changed}." if changed and word == words[0] else ""
            self.site.page(f"/docs/{word}", f"About the {word}.{new}")

    # ── the days ──

    async def build(self) -> None:
        """A first day: polled, fetched, crawled, embedded."""
        self.publish(WORDS)
        self.write_site(PAGES)
        await self.client.sadd(self.keys.feeds("world"), self.feed)
        await add_site(self.context, self.site.url("/docs/"))
        await self._save_domain()
        await self.poll()
        await canonical_fetcher.run_once(self.context, 60.0)
        await crawl_source(self.context, SID, CrawlMode.INCREMENTAL)
        await self.embed()

    async def _save_domain(self) -> None:
        from core.sources.io.domain_file import parse_domain

        text = f'{{"id": "docs", "web_sources": [{{"id": "site", "url": "{self.site.url("/docs/")}"}}]}}'
        await DomainStore(self.client, self.keys).save(parse_domain(text, "/"), [SID], await connect.now(self.client))

    async def work(self) -> None:
        """A day later: what is new and what has changed comes in, past every worker."""
        self.publish((*WORDS, "barge"))
        self.write_site(PAGES, changed="turbines")
        await self.poll()
        await canonical_fetcher.run_once(self.context, 60.0)
        await self.refresh()
        await self.tick()
        await self.embed()

    async def poll(self) -> None:
        for fid in await self.context.feeds.all_ids():
            await self.client.zadd(self.keys.feeds_due, {fid: 0})
        await ingestor.run_cycle(self.context)

    async def refresh(self) -> None:
        """Two jobs, as the timer sends them: of the site's pages, and of the articles."""
        now = await connect.now(self.client)
        pages = [self.page_id(word) for word in PAGES]
        articles = [self.article_id(word) for word in WORDS]
        limit = JobLimit(time.monotonic() + 60)
        await self.context.due.make_due([*pages, *articles], now)
        await item_jobs.visit(self.context, limit, pages, now, SID)
        await item_jobs.visit(self.context, limit, articles, now, ARTICLES_SOURCE)

    async def tick(self) -> None:
        queues = JobQueues(self.settings)
        try:
            await Timer(self.settings, self.client, self.keys, queues).tick()
        finally:
            queues.close()

    async def embed(self) -> None:
        waiting = connect.texts(await self.client.zrange(self.keys.embed_due, 0, -1))
        await embed_items(self.settings, waiting, time.monotonic() + 60)

    async def found(self, text: str) -> list[str]:
        """Paths of the pages that answer, best first."""
        async with open_searcher(self.settings, self.client, self.keys) as searcher:
            found = await searcher.search(Query(text, lexical_weight=1.0), time.time())
        return [split_url(one.page.url).path for one in found.results]

    # ── the store as it was built ──

    async def remember(self) -> None:
        raw = connect.open_raw(self.settings)
        names = [name async for name in raw.scan_iter("*", count=1_000)]
        self.dump = [(name, max(await raw.pttl(name), 0), await raw.dump(name)) for name in names]
        await raw.aclose()

    async def restore(self) -> None:
        """As it was remembered, whatever a test did since."""
        raw = connect.open_raw(self.settings)
        await raw.flushall()
        pipe = raw.pipeline(transaction=False)
        for name, ttl, value in self.dump:
            pipe.restore(name, ttl, value)
        await pipe.execute()
        await raw.aclose()
        self.web.requests.clear()
        self.publish(WORDS)
        self.write_site(PAGES)


@asynccontextmanager
async def open_scene(settings: Settings) -> AsyncIterator[Scene]:
    """Built and embedded."""
    client = connect.open_store(settings)
    await client.flushall()
    await client.aclose()
    async with FakeWeb() as web, EmbeddingServer() as server:
        remote = {
            "embedder": "openai",
            "embed_api_url": server.url,
            "embed_model": "first",
            "fetch_allowed_hosts": ("127.0.0.0/8",),
            "loss_limit_percent": 100.0,
        }
        changed = settings.model_copy(update=remote)
        async with open_context(changed) as context:
            scene = Scene(changed, context, web, Site(web))
            await scene.build()
            await scene.remember()
            yield scene
