"""Lists and site pages of SharePoint through changes; each time a second crawl changes nothing."""

from __future__ import annotations

import pytest

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from tests.sharepoint_scene import Scene, empty_scene
from tests.sharepoint_server import Column
from tests.sharepoint_sources import PAGES, TASKS, ThreeSources

__all__ = ["empty_scene"]

EXPORT = f"{CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/Project Tasks.csv"


@pytest.fixture(params=["openai", "redis"])
async def sources(request: pytest.FixtureRequest, empty_scene: Scene) -> ThreeSources:
    """Crawled once."""
    sources = ThreeSources(empty_scene, request.param)
    await sources.crawl()
    return sources


async def test_rows(sources: ThreeSources) -> None:
    """A row that is added, changed or deleted is so in the export, the texts, the maps and the store."""
    server = sources.server
    server.at = sources.list
    before = sources.rows(TASKS, CFG.VECTOR_STORE_MAP_CSV)
    server.row(Title="Task 4", Body="Words of a new task.")
    server.update_row(sources.tasks[0], Body="Other words.")
    server.delete_row(sources.tasks[1])

    await sources.crawl()

    texts, after = sources.embedded(TASKS), sources.rows(TASKS, CFG.VECTOR_STORE_MAP_CSV)
    assert texts.keys() == {"1.md", "3.md", "4.md"}
    assert "Other words." in texts["1.md"]
    assert "a new task" in texts["4.md"]
    assert (after["3.md"], after["1.md"]["openai_file_id"] == before["1.md"]["openai_file_id"]) == (
        before["3.md"],
        False,
    )
    export = sources.copies(TASKS)[EXPORT].decode()
    assert ("Other words." in export, "Words of task 2." in export) == (True, False)


async def test_column_added(sources: ThreeSources) -> None:
    """A new column is in the export; in the texts as soon as a row has a value in it."""
    sources.list.columns.append(Column("Owner", "Owner", "Text"))
    sources.server.at = sources.list
    sources.server.update_row(sources.tasks[0], Owner="Ada Lovelace")

    await sources.crawl()

    assert "Owner" in sources.copies(TASKS)[EXPORT].decode().splitlines()[0]
    assert "Ada Lovelace" in sources.embedded(TASKS)["1.md"]


async def test_pages(sources: ThreeSources) -> None:
    """A page that is changed, added, moved or deleted is so on disk, in the maps and in the store."""
    server = sources.server
    server.at = sources.pages
    server.update_page("Home.aspx", WikiField="<h1>Home</h1><p>Other words.</p>")
    server.page("Third.aspx", "Third", wiki="<p>A third page.</p>")
    await sources.crawl()
    first = sources.embedded(PAGES)
    server.delete("Home.aspx")
    server.move("News/About.aspx", "Archive")

    await sources.crawl()

    assert first.keys() == {"Home.aspx", "About.aspx", "Third.aspx"}
    assert ("Other words." in first["Home.aspx"], "A third page." in first["Third.aspx"]) == (True, True)
    assert sources.embedded(PAGES).keys() == {"About.aspx", "Third.aspx"}
    assert sorted(sources.copies(PAGES)) == [
        f"{folder}/{name}"
        for folder, names in {
            CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER: ("Archive/About.aspx", "Third.aspx"),
            CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER: ("Archive/About.html", "Third.html"),
        }.items()
        for name in names
    ]
