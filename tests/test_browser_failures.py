"""Failures in a real browser: with data, on every screen, and another try by a click."""

from __future__ import annotations

from core.errors import FailCode
from core.keys import Keys
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from tests.api import ApiServer
from tests.browser import DESKTOP, PHONE, chromium, needs_browser, visitor
from tests.test_dashboard_failures import due, fail

pytestmark = needs_browser


async def test_failures_suit_every_screen_and_are_tried_again(
    api: ApiServer, redis: Client, keys: Keys, settings: Settings
) -> None:
    """Nothing to complain about, nothing too wide; after a click the link waits for the next run."""
    now = await connect.now(redis)
    url = "http://news.example.org/2026/11/a-story-with-a-name-that-no-phone-can-show-in-one-line?from=feed"
    await fail(redis, keys, settings, "http://slow.example.org/a", FailCode.TIMEOUT, retry_at=now + 600)
    await fail(redis, keys, settings, "http://slow.example.org/b", FailCode.TIMEOUT, text="No answer within 20 s.")
    await fail(redis, keys, settings, url, FailCode.HTTP, http_status=503, text="The server answered 503.")
    async with chromium() as browser:
        for size, dark in ((DESKTOP, False), (PHONE, True)):
            async with visitor(browser, api.url, size, dark=dark) as person:
                await person.go("/failures")
                await person.screenshot(f"failures-{size[0]}-{'dark' if dark else 'light'}")

                assert await person.violations() == []
                assert await person.page.evaluate("document.documentElement.scrollWidth") <= size[0]
                assert person.complaints == []
        async with visitor(browser, api.url) as person:
            await person.go("/failures")
            await person.page.locator("tr", has_text="news.example.org").get_by_role("button", name="Retry").click()
            await person.page.get_by_text("tries again: 1 link").wait_for()

    assert await due(redis, keys, settings) == [url]
