"""One library in two domains: one item, two copies on this disk. A crawl reads the copy of its own source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.registry.io.batch_visitor import Visitor
from core.settings import Settings
from core.sources.io.crawl import CrawlMode
from core.sources.io.open_sources import OpenSources
from core.sources.sharepoint.map_columns import FileRow
from core.store import connect
from core.store.clock import ServerClock
from tests.crawled_site import counts, crawl_context, item, item_id, text
from tests.sharepoint_files_on_disk import LocalLibrary

FILLER = "The pump station reports its level every ten minutes to the office down the valley. " * 3
Two = tuple[LocalLibrary, LocalLibrary]


@pytest.fixture
async def two(settings: Settings, redis: connect.Client) -> AsyncIterator[Two]:
    """Both have read the same file; the second domain was there first."""
    async with crawl_context(settings, embedder="none") as context:
        first, second = LocalLibrary(context), LocalLibrary(context, domain="D2")
        for one in (second, first):
            await one.add()
            one.put("a.txt", f"Old words. {FILLER}")
            await one.embed()
        yield first, second


def copy_of(library: LocalLibrary, row: FileRow) -> Path:
    path = library.paths.from_map(row.file_relative_path)
    assert path
    return library.storage.crawler / path


async def test_a_changed_file_is_read_from_the_source_that_is_crawled(two: Two) -> None:
    """The other domain still has the old copy; the text is the new one, whichever is crawled later."""
    first, second = two
    first.put("a.txt", f"New words. {FILLER}")

    run = await first.embed()

    assert counts(run) == {"discovered": 1, "visited": 1, "changed": 1}
    assert "New words" in await text(first.context, first.url("a.txt"))
    second.put("a.txt", f"Newer words. {FILLER}")
    await second.embed()
    assert "Newer words" in await text(first.context, first.url("a.txt"))


@pytest.mark.parametrize("mode", [CrawlMode.INCREMENTAL, CrawlMode.FULL])
async def test_a_copy_that_the_other_source_lacks(two: Two, mode: CrawlMode) -> None:
    """It is no failure, and the file stays among the embedded ones."""
    first, second = two
    copy_of(second, second.rows["id-a.txt"]).unlink()
    row = first.put("a.txt", f"New words. {FILLER}")

    run = await first.embed(mode)

    assert (run["status"], counts(run)) == ("succeeded", {"discovered": 1, "visited": 1, "changed": 1})
    assert copy_of(first, row).is_file()
    assert "02_embedded" in row.file_relative_path
    assert (await item(first.context, first.url("a.txt")))["status"] == "Indexed"


@pytest.mark.parametrize("via", ["", "D2.docs"])
async def test_any_copy_is_better_than_none(two: Two, via: str) -> None:
    """A visit for nobody, or for a source whose copy is missing, reads the copy that there is."""
    first, second = two
    copy_of(second, second.rows["id-a.txt"]).unlink()
    clock = await ServerClock.ask(first.context.client)

    visitor = Visitor(first.context, clock, OpenSources(first.context, clock.now()))
    await visitor.visit_many([item_id(first.url("a.txt"))], via=via)

    assert visitor.counts["unchanged"] == 1


async def test_what_one_domain_lost_the_other_keeps(two: Two) -> None:
    """It stays in search for as long as one source has it."""
    first, second = two
    second.put("b.txt", f"Other words. {FILLER}")
    await second.embed()
    second.remove("id-a.txt")

    run = await second.embed()

    assert counts(run)["discovered"] == 2
    known = await item(first.context, first.url("a.txt"))
    assert (known["sources"], known["status"]) == (first.sid, "Indexed")
    assert "Old words" in await text(first.context, first.url("a.txt"))
    first.put("a.txt", f"New words. {FILLER}")
    await first.embed()
    assert "New words" in await text(first.context, first.url("a.txt"))
