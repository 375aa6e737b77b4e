"""A crawled site on loopback and an embedding server beside it: what the tests of search are made of.

async with open_library(settings, {"/a": "About weirs."}) as library:
    await library.embed()
    assert await library.urls("weirs") == ["/a"]
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from core.runtime.context import Context
from core.search.io.searcher import open_searcher
from core.search.models import Query, SearchResponse
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.crawled_site import SID, add_site, crawl_context, item, item_id
from tests.openai_server import EmbeddingServer
from tests.site import Site
from tests.web import FakeWeb
from workers.embed_jobs import embed_items


@dataclass
class Library:
    """A site, a desk that crawls it, and a model on loopback."""

    site: Site
    context: Context
    server: EmbeddingServer
    settings: Settings

    async def crawl(self) -> None:
        await crawl_source(self.context, SID, CrawlMode.INCREMENTAL)

    async def waiting(self) -> list[str]:
        return list(await self.context.client.zrange(self.context.keys.embed_due, 0, -1, desc=True))

    async def embed(self, **changes: Any) -> Counter[str]:
        """What an embed job does with all that waits."""
        return await embed_items(self.with_(**changes), await self.waiting(), time.monotonic() + 60)

    def with_(self, **changes: Any) -> Settings:
        return self.settings.model_copy(update=changes)

    async def ask(self, text: str, settings: Settings | None = None, **more: Any) -> SearchResponse:
        """As `scripts.search` does."""
        async with open_searcher(
            settings or self.settings, self.context.client, self.context.keys, mend=True
        ) as searcher:
            return await searcher.search(Query(text, **more), time.time())

    async def urls(self, text: str, settings: Settings | None = None, **more: Any) -> list[str]:
        """Paths of the pages that answer, best first."""
        found = await self.ask(text, settings, **more)
        return [one.page.url.removeprefix(self.site.url("").rstrip("/")) for one in found.results]

    async def record(self, path: str) -> dict[str, str]:
        return await item(self.context, self.site.url(path))

    def id(self, path: str) -> str:
        return item_id(self.site.url(path))

    async def index_errors(self) -> list[str]:
        """Chunk and vector keys that belong to no page, and chunks of pages that are not there; [] if all is well."""
        client, keys = self.context.client, self.context.keys
        live: set[str] = set()
        async for key in client.scan_iter(keys.pattern(keys.chunks)):
            live.update(await client.zrange(key, 0, -1))
        found = []
        for build in (keys.chunk, keys.vector):
            names = {key.removeprefix(build("")) async for key in client.scan_iter(f"{build('')}*")}
            found += [f"{build(name)} belongs to no page" for name in names - live if await client.ttl(build(name)) < 0]
            found += [f"{build(name)} is not there" for name in live - names]
        return found


@asynccontextmanager
async def open_library(settings: Settings, pages: Mapping[str, str], **changes: Any) -> AsyncIterator[Library]:
    """Crawled, not yet embedded; the root leads to all pages."""
    client = connect.open_store(settings)
    await client.flushall()
    await client.aclose()
    async with FakeWeb() as web, EmbeddingServer() as server:
        remote = {"embedder": "openai", "embed_api_url": server.url, "embed_model": "first"} | changes
        site = Site(web)
        site.page("/", links=list(pages))
        for path, text in pages.items():
            site.page(path, text)
        async with crawl_context(settings, **remote) as context:
            library = Library(site, context, server, context.settings)
            await add_site(context, site.url("/"))
            await library.crawl()
            yield library
