"""Domains in a real browser: a stopped deletion is looked at and approved, and the items go while one looks."""

from __future__ import annotations

import json
import os
from pathlib import Path

from playwright.async_api import Dialog

from core.runs.run import source_scope
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from tests.api import ApiServer
from tests.browser import DESKTOP, PHONE, chromium, needs_browser, visitor

pytestmark = needs_browser
SID = "shelf.notes"
COUNT, NAME = 4, "a-chapter-with-a-rather-long-name-{}.md"


async def emptied_folder(context: Context, settings: Settings, tmp_path: Path) -> None:
    """Add a folder of four files as the domain `shelf`, crawl it, empty it, and crawl: the loss guard stops it."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(COUNT):
        path = folder / NAME.format(number)
        path.write_text(f"# Chapter {number}\n\nA text about the number {number}.\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    config = {"id": "shelf", "name": "My shelf", "folder_sources": [{"id": "notes", "path": str(folder)}]}
    await add_domain(settings, context.client, context.keys, parse_domain(json.dumps(config), "/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    for number in range(COUNT):
        (folder / NAME.format(number)).unlink()
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)


async def test_stopped_deletion_is_approved_from_the_page(
    api: ApiServer, settings: Settings, context: Context, tmp_path: Path
) -> None:
    """Overview, dry run with the names of what would go, Approve, a question; then the page shows them gone, live."""
    await emptied_folder(context, settings, tmp_path)
    questions: list[str] = []

    async def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.accept()

    async with chromium() as browser, visitor(browser, api.url) as person:
        person.page.on("dialog", answer)
        await person.go("/domains")
        await person.page.get_by_role("link", name="My shelf").click()
        await person.page.get_by_role("button", name="See what would go").click()
        await person.page.get_by_text("4 of 4 items would be gone within a day").wait_for()
        await person.page.locator("#preview .names li").first.wait_for()
        names = await person.page.locator(".names li").all_inner_texts()
        await person.screenshot("dry-run-held")
        violations = await person.violations()
        await person.page.get_by_role("button", name="Approve and crawl").click()
        await person.page.get_by_text("Approved for a day").wait_for()
        await person.go("/domains/shelf")
        items = person.page.locator("td[data-label=Items]")
        before = await items.inner_text()
        # What a worker does with the job that the button has sent.
        run = await context.runs.open_run(source_scope(SID), 0.0)
        assert run is not None
        await crawl_source(context, SID, CrawlMode.INCREMENTAL, run_id=run.id)
        await items.filter(has_text="0").wait_for()
        await person.page.locator("h1 .badge", has_text="listed").wait_for()
        complaints = person.complaints

    assert (len(names), before, len(questions)) == (4, "4", 1)
    assert (complaints, violations) == ([], [])
    assert await context.client.zcard(context.keys.refs(SID)) == 0


async def test_pages_of_domains_suit_every_screen(
    api: ApiServer, settings: Settings, context: Context, tmp_path: Path
) -> None:
    """With data: nothing to complain about and nothing too wide, on a desk and a phone, light and dark."""
    await emptied_folder(context, settings, tmp_path)
    for number in range(6):
        url = f"http://docs.example.org/a/page/that/nobody/wants/{number}?with=a&query=string"
        await context.client.hset(context.keys.refused(SID), url, "outside of the folder" if number else "robots.txt")
    async with chromium() as browser:
        for size, dark in ((DESKTOP, False), (PHONE, True)):
            async with visitor(browser, api.url, size, dark=dark) as person:
                for path in ("/domains", "/domains/shelf", "/domains/add", "/domains/shelf/dry-run?now=true"):
                    await person.go(path)
                    name = path.strip("/").replace("/", "-").partition("?")[0]
                    await person.screenshot(f"{name}-{size[0]}-{'dark' if dark else 'light'}")

                    assert await person.violations() == [], path
                    assert await person.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
                assert person.complaints == []
