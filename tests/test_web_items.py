"""Items over HTTP: the list, one in full, and why a URL is there or not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import Client
from tests.api import ApiServer, api_server
from tests.crawled_site import SID, add_site, crawl_context, item_id
from tests.site import Site


@pytest.fixture
async def crawled(settings: Settings, site: Site, api: ApiServer) -> AsyncIterator[Context]:
    site.page("/", links=["/a", "/b", "/gone"])
    site.page("/a", "About weirs.")
    site.page("/b", "About locks.")
    site.remove("/gone")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        yield context


async def listed(api: ApiServer, query: str) -> list[str]:
    """Go through all pages."""
    urls, cursor = [], ""
    while True:
        page = (await api.get(f"/api/items?{query}&cursor={cursor}")).json
        urls += [one["url"] for one in page["items"]]
        cursor = page["cursor"]
        if not cursor:
            return sorted(urls)


async def test_by_status_source_and_host(api: ApiServer, crawled: Context, site: Site) -> None:
    """Each filter alone and together; pages of one item go through all of them."""
    everything = sorted(site.url(path) for path in ("/", "/a", "/b", "/gone"))

    assert await listed(api, "limit=1") == everything
    assert await listed(api, f"source={SID}&limit=2") == everything
    assert await listed(api, "status=Error") == [site.url("/gone")]
    assert await listed(api, f"source={SID}&status=Crawled") == everything[:3]
    assert await listed(api, "host=127.0.0.1&limit=3") == everything
    assert await listed(api, "host=example.org") == []


async def test_large_sets_come_once(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Sets that Redis scans in several steps come complete and without repeats."""
    names = [ids.item_id("url", f"https://e.org/{number}") for number in range(1_500)]
    await redis.sadd(keys.status("Indexed"), *names)
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hset(keys.item(name), mapping={"status": "Indexed", "displaySource": name, "sources": "urls"})
        await pipe.execute()

    assert await listed(api, "status=Indexed&limit=400") == sorted(names)


async def test_one_item(api: ApiServer, crawled: Context, site: Site) -> None:
    """Its record, sources with their next check, proof, text in short; nothing that signs files."""
    await crawled.client.hset(crawled.keys.item(item_id(site.url("/a"))), "fileSignature", "secret")
    answer = await api.get(f"/api/items/{item_id(site.url('/a'))}")

    told = answer.json
    assert answer.status == 200, answer.text
    assert (told["record"]["status"], told["record"]["httpEtag"]) == ("Crawled", site.etag("/a"))
    assert list(told["sources"]) == [SID]
    assert told["sources"][SID] > told["verified_ts"] > 0
    assert (told["verified_by"], told["chunks"], told["is_waiting_for_vectors"]) == ("read", 0, True)
    assert "About weirs." in told["text"]["beginning"]
    assert "secret" not in answer.text


async def test_why(crawled: Context, site: Site) -> None:
    """The trail of a page that waits for its vectors, of one that is missing, and of one nobody knows."""
    async with api_server(crawled.settings) as api:
        urls = [site.url(path) for path in ("/a", "/gone", "/other")]
        answers = [await api.get("/api/items/why", params={"url": url}) for url in urls]

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.json["item_id"] for answer in answers[:2]] == [item_id(site.url(path)) for path in ("/a", "/gone")]
    assert answers[1].json["outcome"] == "missing"
    assert answers[2].json["outcome"] == "unknown"
    assert all(answer.json["verdict"].endswith(".") and answer.json["stations"] for answer in answers)


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/api/items?status=Nonsense", 422, "status"),
        ("/api/items?source=docs.nothing", 404, "There is no source docs.nothing."),
        ("/api/items?domain=nothing", 404, "There is no domain nothing."),
        ("/api/items?domain=a&source=b", 422, "source and domain are there both."),
        ("/api/items?cursor=nonsense", 422, "This cursor is not one"),
        ("/api/items/url_nothing", 404, "url_nothing is not in the registry."),
        ("/api/items/why", 422, "url: Field required"),
    ],
)
async def test_bad_requests_are_sentences(api: ApiServer, path: str, status: int, part: str) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.get(path)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]
