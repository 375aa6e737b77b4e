"""The overview in a real browser: alive while feeds are read, clean with data, with and without JavaScript."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.runs.run import RunKind
from core.store import connect
from core.store.connect import Client
from tests import pipeline_scene as scene
from tests.api import ApiServer
from tests.browser import DESKTOP, PHONE, chromium, needs_browser, visitor

pytestmark = needs_browser


async def full_store(client: Client, keys: Keys) -> None:
    now = await connect.now(client)
    await scene.history(client, keys, now)
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


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)])
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
