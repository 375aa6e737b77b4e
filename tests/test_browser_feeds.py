"""The pages of feeds in a real browser: a feed is added and its articles arrive; filters; nothing to complain about."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from core.settings import Settings
from core.store.connect import Client
from tests.api import ApiServer
from tests.articles import article, rss
from tests.browser import chromium, every_screen, needs_browser, visitor
from tests.feed_pages import feed_server, put_every_health, put_waits
from tests.web import FakeWeb
from workers import canonical_fetcher

pytestmark = needs_browser
SITE = '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>'


@pytest.fixture
async def pages(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """A dashboard whose fetcher may ask loopback."""
    async with feed_server(settings) as running:
        yield running


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
async def test_add_a_feed_and_see_its_articles(pages: ApiServer, web: FakeWeb, script: bool) -> None:
    """Site, preview, subscribe, poll, articles: by typing and clicking alone, with and without JavaScript."""
    web.page("/", SITE)
    web.page("/feed", rss(web.url("/a"), web.url("/b")))
    for name in ("a", "b"):
        web.page(f"/{name}", article(f"Story {name}", text=f"About {name}."))
    async with chromium() as browser, visitor(browser, pages.url, script=script) as person:
        page = person.page
        await person.go("/feeds")
        await page.click("#add-feed")
        await page.fill("input[name=url]", web.url("/"))
        await page.fill("input[name=category]", "world")
        await page.click("#preview")
        await page.wait_for_selector("#found")
        await person.screenshot(f"feed-add-{script}")
        assert await page.locator("text=Found by way of").count() == 1
        await page.click("#subscribe")
        await page.wait_for_selector("text=Subscribed to News in world.")
        await page.click("#poll")
        await page.wait_for_selector("text=Polled: 2 new entries")
        await canonical_fetcher.run_once(pages.opener.require().context, 60.0)
        await page.reload()

        assert await page.locator("td a", has_text=re.compile("^Story [ab]$")).count() == 2
        assert await page.locator("td .badge", has_text="stored").count() == 2
        assert person.complaints == []


async def test_the_list_filters_while_typing(pages: ApiServer) -> None:
    """The list and the address follow what is typed; a tab keeps the words."""
    await put_every_health(pages)
    async with chromium() as browser, visitor(browser, pages.url) as person:
        page = person.page
        await person.go("/feeds")
        assert await page.locator("tr[id^=feed-]").count() == 5
        await page.fill("#feed-text", "courier")
        await page.wait_for_selector("tr[id^=feed-]:only-child")
        await page.wait_for_url(re.compile(r"text=courier"))
        await page.click("nav.tabs a >> text=Working")
        await page.wait_for_url(re.compile(r"status=working"))

        assert await page.input_value("#feed-text") == "courier"
        assert person.complaints == []


@every_screen
async def test_pages_with_feeds_are_clean(pages: ApiServer, size: tuple[int, int], dark: bool) -> None:
    """Every health, a hostile title: no script runs, nothing serious for axe-core, nothing too wide."""
    known = await put_every_health(pages)
    await put_waits(pages)
    paths = {"feeds": "/feeds", "feed": f"/feeds/{known['working']}", "feed-broken": f"/feeds/{known['broken']}"}
    paths |= {"throttle": "/throttle", "settings": "/settings"}
    async with chromium() as browser, visitor(browser, pages.url, size, dark=dark) as person:
        for name, path in paths.items():
            await person.go(path)
            await person.screenshot(f"{name}-{size[0]}-{'dark' if dark else 'light'}")

            assert await person.violations() == [], path
            assert await person.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        assert person.complaints == []
