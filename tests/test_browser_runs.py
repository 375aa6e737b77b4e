"""Runs in a real browser: a crawl is paused and resumed from its page, which follows it live."""

from __future__ import annotations

import asyncio

from core.runs.run import RunKind
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.api import ApiServer
from tests.browser import DESKTOP, PHONE, chromium, needs_browser, visitor
from tests.crawled_site import SID, add_site, crawl_context
from tests.run_requests import runs_of
from tests.site import Site, html
from tests.web_replies import Exchange

pytestmark = needs_browser
PATIENT = {"fetch_timeout_seconds": 300.0}
"""A page is held while a browser starts on a busy machine."""


class HeldPage:
    """A page that is asked for, and comes when it is let go."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_come = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.is_asked.set()
        await self.may_come.wait()
        body = html("Held", "It came at last.").encode()
        await exchange.answer(200, {"Content-Type": "text/html"}, body)


async def test_crawl_is_paused_and_resumed_from_its_page(api: ApiServer, settings: Settings, site: Site) -> None:
    """`pausing` with what is in flight, `paused` when that is done, and after a click it comes to its end: live."""
    held = HeldPage()
    site.page("/", links=["/held", *(f"/page{number}" for number in range(3))])
    site.web.on("/held", held)
    for number in range(3):
        site.page(f"/page{number}")
    async with chromium() as browser, crawl_context(settings, **PATIENT) as context:
        await add_site(context, site.url())
        crawling = asyncio.create_task(crawl_source(context, SID, CrawlMode.INCREMENTAL))
        await held.is_asked.wait()
        async with visitor(browser, api.url) as person:
            await person.go("/runs")
            await person.page.get_by_role("link", name=SID).click()
            status = person.page.locator("h1 .badge")
            await person.page.get_by_role("button", name="Pause").click()
            await status.filter(has_text="pausing").wait_for()
            await person.page.locator("#in-flight", has_text="1 in flight").wait_for()
            await person.screenshot("run-pausing")
            violations = await person.violations()
            held.may_come.set()
            await status.filter(has_text="paused").wait_for()
            await person.page.get_by_role("button", name="Resume").click()
            await status.filter(has_text="succeeded").wait_for()
            await person.page.get_by_text("100 %").wait_for()
            complaints = person.complaints
        await crawling
        run = (await runs_of(context, RunKind.CRAWL))[0]

    assert (complaints, violations) == ([], [])
    assert (run.counts["visited"], run.counts["changed"]) == (5, 5)


async def test_pages_of_runs_suit_every_screen(api: ApiServer, settings: Settings, site: Site) -> None:
    """With data: nothing to complain about and nothing too wide, on a desk and a phone, light and dark."""
    site.page("/", links=["/a", "/broken", "/a-page-with-a-name-that-is-too-long-for-a-phone-and-goes-on-and-on"])
    site.page("/a")
    site.web.on("/broken", 500)
    async with chromium() as browser, crawl_context(settings) as context:
        await add_site(context, site.url())
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await context.runs.open(RunKind.CRAWL, await connect.now(context.client), source="docs.second", domain="docs")
        run = (await runs_of(context, RunKind.CRAWL))[-1]
        for size, dark in ((DESKTOP, False), (PHONE, True)):
            async with visitor(browser, api.url, size, dark=dark) as person:
                for name, path in (("runs", "/runs"), ("run", f"/runs/{run.id}")):
                    await person.go(path)
                    await person.screenshot(f"{name}-{size[0]}-{'dark' if dark else 'light'}")

                    assert await person.violations() == [], path
                    assert await person.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
                assert person.complaints == []
