"""A real browser for the tests of the dashboard: Debian's Chromium, headless, with everything it complains about."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)"),
]
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
DESKTOP, PHONE = (1280, 800), (375, 760)
PATIENCE_MS = 60_000
SERIOUS = {"serious", "critical"}
every_screen = pytest.mark.parametrize(
    ("size", "dark"),
    [
        pytest.param(DESKTOP, False, id="light-desktop"),
        pytest.param(PHONE, True, id="dark-phone"),
        pytest.param(DESKTOP, True, id="dark-desktop", marks=pytest.mark.full),
        pytest.param(PHONE, False, id="light-phone", marks=pytest.mark.full),
    ],
)
"""Each size and each theme; every pair of them with --full."""


@dataclass
class Visitor:
    """A person at a page: the page, and what the browser complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        """Open a path of the dashboard."""
        await self.page.goto(f"{self.url}{path}", wait_until="load")

    async def screenshot(self, name: str) -> None:
        """Write a picture of the whole page to the folder `screenshots` of this checkout, if somebody has made it."""
        if SCREENSHOTS.is_dir():
            await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    async def violations(self) -> list[str]:
        """Return what axe-core finds that is serious: rule and first element."""
        results = await Axe().run(self.page)
        found = [one for one in results.response["violations"] if one["impact"] in SERIOUS]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]

    def _watch(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("data:"):
            self.complaints.append(f"outside request: {request.url}")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start the browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def visitor(
    browser: Browser, url: str, size: tuple[int, int] = DESKTOP, *, dark: bool = False, script: bool = True
) -> AsyncIterator[Visitor]:
    """Open an empty page of its own: no cookies, this size and theme, with or without JavaScript."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        person = Visitor(await context.new_page(), url)
        person._watch()
        yield person
    finally:
        await context.close()
