"""Every page of the dashboard in a real browser: nothing to complain about, on a desk and a phone, light and dark."""

from __future__ import annotations

import asyncio

from tests.api import ApiServer
from tests.browser import chromium, every_screen, needs_browser, visitor
from workers.web.dashboard.rendering import NAVIGATION
from workers.web.dashboard.views import PAGES

pytestmark = needs_browser
KNOWN = {route.path for route in PAGES if route.method == "GET"}
PATHS = [link.path for link in NAVIGATION if link.path in KNOWN]


@every_screen
async def test_pages_are_clean_and_accessible(api: ApiServer, size: tuple[int, int], dark: bool) -> None:
    """No console message, no blocked content, no outside request, nothing serious for axe-core, nothing too wide."""
    async with chromium() as browser, visitor(browser, api.url, size, dark=dark) as person:
        for path in PATHS:
            await person.go(path)
            name = path.strip("/") or "overview"
            await person.screenshot(f"empty-{name}-{size[0]}-{'dark' if dark else 'light'}")
            width = await person.page.evaluate("document.documentElement.scrollWidth")

            assert await person.violations() == [], path
            assert width <= size[0], path
        assert person.complaints == []


async def test_keyboard_leads_to_every_page(api: ApiServer) -> None:
    """`g` and a letter opens a page, `/` the search box, `?` the help."""
    async with chromium() as browser, visitor(browser, api.url) as person:
        await person.go("/")
        await person.page.keyboard.press("?")
        assert await person.page.locator("dialog#keys").is_visible()
        await person.page.keyboard.press("Escape")
        await person.page.keyboard.press("/")
        assert await person.page.evaluate("document.activeElement.type") == "search"
        for link in NAVIGATION:
            if link.path in KNOWN:
                await person.go("/why")
                await person.page.keyboard.press("g")
                async with asyncio.timeout(60), person.page.expect_navigation(url=f"{api.url}{link.path}"):
                    await person.page.keyboard.press(link.key)
