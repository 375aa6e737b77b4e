"""The overview in a real browser: alive while feeds are read, clean with data, with and without JavaScript."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aiohttp.test_utils import TestServer
from playwright.async_api import expect

import sample_site
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.registry.io.metric_history_store import HistoryStore
from core.runs.run import RunKind
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.embedded import EmbeddedServer
from sample_site.web import Site
from tests import pipeline_scene as scene
from tests.api import ApiServer
from tests.browser import PATIENCE_MS, PHONE, chromium, every_screen, needs_browser, visitor
from tests.faults.process import Worker

pytestmark = needs_browser


async def full_store(client: Client, keys: Keys, minutes: int = scene.DAY_MINUTES) -> None:
    now = await connect.now(client)
    await scene.history(client, keys, now, minutes)
    for n in range(7):
        url, text = f"https://news{n}.example.org/feed.xml", f"HTTP 50{n}: the server has a fault of its own"
        await scene.broken_feed(client, keys, url, now - 9_000 * n, scene.HOSTILE if n == 1 else f"News {n}", text)
    await scene.held_source(client, keys)
    await client.set(keys.embed_away, "The embedding service does not answer (timeout).")
    await scene.running(client, keys, now, RunKind.INGEST, 40, "Polling feeds: 40 of 100")
    await scene.running(
        client, keys, now, RunKind.CRAWL, 70, "700 of 1,000 pages visited", source="docs.site", domain="docs"
    )
    await client.hset(keys.ingest_stats, mapping={"polled": 14_900, "links_new": 6_100})
    await client.hset(keys.canonical_stats, mapping={"stored": 4_700, "failed": 12})
    await client.hset(keys.refresh_stats, mapping={"unchanged": 131_000, "changed": 7_400, "failed": 1_460})
    await client.hset(keys.embed_stats, mapping={"chunks": 123_456, "pages": 9_000, "written": 200_000})
    await client.sadd(keys.category_links("world"), *(f"https://a.example/{n}" for n in range(1_234)))
    await client.zadd(keys.article_index, {f"{n:016x}": now for n in range(987)})
    await client.sadd(keys.status("Indexed"), *(f"url_{n}" for n in range(4_321)))


@every_screen
async def test_with_data(api: ApiServer, redis: Client, keys: Keys, size: tuple[int, int], dark: bool) -> None:
    """No console message, nothing serious for axe-core, nothing too wide; charts are drawn, titles are text."""
    await full_store(redis, keys)
    async with chromium() as browser, visitor(browser, api.url, size, dark=dark) as person:
        await person.go("/")
        await person.page.locator("#plot-freshness canvas").wait_for()
        await person.screenshot(f"overview-{size[0]}-{'dark' if dark else 'light'}")
        width = await person.page.evaluate("document.documentElement.scrollWidth")

        assert await person.violations() == []
        assert width <= size[0]
        assert person.complaints == []
        assert await person.page.locator(".attention").get_by_text(scene.HOSTILE).is_visible()


async def test_numbers_change_while_the_sample_is_read(
    api: ApiServer, redis: Client, keys: Keys, settings: Settings, server: EmbeddedServer
) -> None:
    """An open page follows a real ingestor, without being loaded again; first it says what to do."""
    async with (
        TestServer(Site(datetime.now(UTC)).app()) as paper,
        chromium() as browser,
        visitor(browser, api.url) as person,
    ):
        await person.go("/")
        await person.page.get_by_text("Nothing here yet").wait_for()
        await person.page.evaluate("window.isSamePage = true")
        subscriptions = Subscriptions(redis, keys)
        for category, urls in sample_site.feeds(str(paper.make_url(""))).items():
            for url in urls:
                await subscriptions.add(category, url)
        with Worker(settings.persistent_storage_path, server.url, "workers.ingestor"):
            await expect(person.page.locator("#passed-feeds")).to_contain_text("5 polls", timeout=PATIENCE_MS)
            articles = person.page.locator("#stop-articles strong")
            await expect(articles).to_have_text(re.compile(r"[1-9]\d*"), timeout=PATIENCE_MS)
            stored = int(await articles.inner_text())
            links = person.page.locator("#passed-links")
            await expect(links).to_contain_text(re.compile(r"\b[1-9]\d* stored"), timeout=PATIENCE_MS)
        await person.screenshot("overview-sample")

        assert stored > 0
        assert await person.page.get_by_text("This is the sample newspaper").is_visible()
        assert await person.page.evaluate("window.isSamePage")
        assert person.complaints == []


async def test_without_javascript(api: ApiServer, redis: Client, keys: Keys) -> None:
    """The numbers, the list and the charts are there, and a button works."""
    await full_store(redis, keys)
    async with chromium() as browser, visitor(browser, api.url, script=False) as person:
        await person.go("/")
        lines = await person.page.locator("svg.lines").count()
        await person.page.get_by_role("button", name="Try again now").click()
        await person.page.get_by_text("Embedding is tried again").wait_for()

        assert lines == 3
        assert await person.page.locator("#stop-chunks strong").inner_text() == "123,456"


async def test_charts_stay_while_the_page_changes(api: ApiServer, redis: Client, keys: Keys) -> None:
    """They begin when there is something to draw; a new minute is drawn, other changes leave them as they are."""
    async with chromium() as browser, visitor(browser, api.url, PHONE) as person:
        await person.go("/")
        await full_store(redis, keys, minutes=100)  # after a day, each minute one would go
        now, chunks = await connect.now(redis), person.page.locator("#stop-chunks strong")
        plot = person.page.locator("#plot-articles canvas")
        for count in ("5", "6", "7"):  # with the first, the whole history is there, and drawn with the next
            await redis.hset(keys.embed_stats, "chunks", count)
            await expect(chunks).to_have_text(count, timeout=PATIENCE_MS)
            await plot.evaluate("(canvas, count) => { canvas.marks = (canvas.marks || '') + count }", count)
        marks = await plot.evaluate("canvas => canvas.marks")
        await HistoryStore(redis, keys).add(now + 120, {"p50": 1.0, "p95": 2.0, "stored": 99_999})
        redrawn = "() => !document.querySelector('#plot-articles canvas').marks"
        await person.page.wait_for_function(redrawn, timeout=PATIENCE_MS)

        assert marks.endswith("67")
        assert "Nothing is known" not in await person.page.locator("#plot-articles-summary").inner_text()
        assert await plot.count() == 1
        assert person.complaints == []
