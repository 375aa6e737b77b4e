"""Articles in a real browser: search while typing, hostile titles, the picture after a click, every view clean."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from core.settings import Settings
from tests.api import ApiServer, api_server
from tests.articles import ArticlePage
from tests.browser import PATIENCE_MS, Visitor, chromium, every_screen, needs_browser, visitor
from tests.search_site import Library, open_library
from tests.test_picture_fetch import PNG

pytestmark = needs_browser
ATTACK = "<script>alert(1)</script>"
PAGES = {
    "/weir": "The old weir above the mill was repaired in spring, and its gauge was painted.",
    "/lock": "The lock is closed until the new gates arrive from the foundry down the valley.",
}


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """A site of two pages that search knows, and an article with a hostile title, a picture and two versions."""
    async with open_library(settings, PAGES, snapshot_days=1.0) as opened:
        paper = ArticlePage(opened.context, opened.site.web, "/news")
        head = f'<meta property="og:image" content="{opened.site.url("/lead.png")}">'
        opened.site.web.page("/lead.png", PNG, media_type="image/png")
        title = ATTACK.replace("<", "&lt;")
        paper.write("Built in 1880.", title=title, head=head)
        await paper.store()
        paper.write("Built in 1881.", title=title, head=head)
        await paper.visit()
        await opened.embed()
        yield opened


@pytest.fixture
async def desk(library: Library) -> AsyncIterator[ApiServer]:
    async with api_server(library.settings) as running:
        yield running


async def test_search_finds_while_typing(desk: ApiServer) -> None:
    """Results appear without a button, the address names the search, and a reload shows the same."""
    async with chromium() as browser, visitor(browser, desk.url) as person:
        await person.go("/articles")
        await person.page.locator("#q").press_sequentially("weir repaired", delay=20)
        await expect(person.page.locator("mark").first).to_have_text("weir", timeout=PATIENCE_MS)
        await expect(person.page.locator(".story h2").first).to_contain_text("weir", timeout=PATIENCE_MS)
        await expect(person.page).to_have_url(re.compile(r"/articles\?q=weir(\+|%20)repaired$"), timeout=PATIENCE_MS)
        focused = await person.page.evaluate("document.activeElement.id")
        await person.page.reload()
        again = await person.page.locator(".story h2").first.inner_text()

        assert focused == "q"
        assert "weir" in again
        assert person.complaints == []


async def test_search_works_without_javascript(desk: ApiServer) -> None:
    """A plain form: the same results, and the header's box leads here."""
    async with chromium() as browser, visitor(browser, desk.url, script=False) as person:
        await person.go("/")
        await person.page.locator("#find").fill("lock gates")
        await person.page.locator("#find").press("Enter")
        await expect(person.page).to_have_url(re.compile(r"/articles\?q=lock\+gates$"), timeout=PATIENCE_MS)

        assert await person.page.locator("mark").count() > 0


async def test_hostile_title_is_text(desk: ApiServer) -> None:
    """It is read as it was written, in the list and on its own page; nothing runs."""
    async with chromium() as browser, visitor(browser, desk.url) as person:
        dialogs: list[str] = []
        person.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        await person.go("/articles")
        await person.page.get_by_text(ATTACK).first.click()
        await expect(person.page.locator("h1")).to_have_text(ATTACK, timeout=PATIENCE_MS)

        assert dialogs == []
        assert await person.page.title() == f"{ATTACK} · Freshet"
        assert person.complaints == []


async def test_picture_is_asked_for_after_the_click(library: Library, desk: ApiServer) -> None:
    """Its server sees nobody before, and only us after; the browser asks no stranger."""
    web = library.site.web
    async with chromium() as browser, visitor(browser, desk.url) as person:
        await person.go("/articles")
        await person.page.get_by_text(ATTACK).first.click()
        await expect(person.page.get_by_text("Show picture")).to_be_visible(timeout=PATIENCE_MS)
        before = len(web.asked("/lead.png"))
        async with person.page.expect_response(lambda reply: reply.url.endswith("/picture")) as got:
            await person.page.get_by_text("Show picture").click()
        reply = await got.value

        assert before == 0
        assert (reply.status, await reply.header_value("content-type")) == (200, "image/png")
        assert len(web.asked("/lead.png")) == 1
        assert person.complaints == []


@every_screen
async def test_views_with_data_are_clean(desk: ApiServer, size: tuple[int, int], dark: bool) -> None:
    """The list, a search and an article with a diff: nothing to complain about, nothing too wide."""
    async with chromium() as browser, visitor(browser, desk.url, size, dark=dark) as person:
        await person.go("/articles")
        await _check(person, f"articles-{size[0]}-{'dark' if dark else 'light'}", size[0])
        await person.go("/articles?q=weir&explain=true")
        await _check(person, f"search-{size[0]}-{'dark' if dark else 'light'}", size[0])
        await person.go("/articles")
        await person.page.get_by_text(ATTACK).first.click()
        await person.page.locator(".versions a").click()
        await expect(person.page.locator("#diff b").first).to_have_text("1880", timeout=PATIENCE_MS)
        await _check(person, f"article-{size[0]}-{'dark' if dark else 'light'}", size[0])

        assert person.complaints == []


async def _check(person: Visitor, name: str, width: int) -> None:
    await person.screenshot(name)

    assert await person.violations() == [], name
    assert await person.page.evaluate("document.documentElement.scrollWidth") <= width, name
