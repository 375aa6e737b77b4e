"""Edge cases A1–A16: what happens to a file in SharePoint between two crawls. `scene` compares everything."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.sharepoint_scene import Scene, empty_scene, scene

__all__ = ["empty_scene", "scene"]

SITE = "/sites/demo/Shared Documents"
Q1, NOTES = "Reports/Q1.md", "Reports/Old/Notes.txt"


async def test_a1_added(scene: Scene) -> None:
    """A new file is downloaded, embedded and recorded; the others stay as they are."""
    before = scene.vectorstore_map
    item = scene.server.file("Reports/New.md", b"# New\n\nA file that was not there before.")
    scene.server.forget()

    await scene.crawl()

    scene.check()
    assert [one for one in scene.vectorstore_map if one not in before] == [item.unique_id.lower()]
    assert {one: row for one, row in scene.vectorstore_map.items() if one in before} == before
    assert len(scene.server.downloads) == 1
    assert "was not there before" in await scene.text_of("Reports/New.md")
    assert scene.has_logged("Integrity check passed: 4 files verified")
    await scene.check_nothing_changes()


async def test_a2_removed(scene: Scene) -> None:
    """A deleted file leaves disk, maps and store; files_metadata.json keeps its entry as history."""
    item = scene.server.delete(Q1)

    await scene.crawl_until_equal(f"Removed → {SITE}/{Q1}", "Removed from the vector store")

    assert not (scene.embedded / Q1).exists()
    assert item.unique_id.lower() in {entry["sharepoint_unique_file_id"].lower() for entry in scene.metadata}
    assert await scene.registry_text(item.path) == ""


async def test_a3_content_updated(scene: Scene) -> None:
    """New content replaces the old one in the store, and its custom properties are carried over."""
    scene.set_custom_property(Q1, "reviewed_by", "Ada")
    old = scene.file_id(Q1)
    scene.server.update(Q1, b"# Q1\n\nRevenue was restated.")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert scene.file_id(Q1) != old
    assert old not in scene.store.stores[scene.store_id].files
    assert [entry.get("reviewed_by") for entry in scene.entries(Q1)] == ["Ada", "Ada"]
    assert "restated" in await scene.text_of(Q1)


async def test_a4_renamed(scene: Scene) -> None:
    """Another name: the file is where the library has it, and stays in the store with new attributes."""
    old = scene.file_id(Q1)
    scene.server.rename(Q1, "First quarter.md")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed", "Renamed: ")

    assert scene.file_id("Reports/First quarter.md") == old
    assert scene.attributes("Reports/First quarter.md")["filename"] == "First quarter.md"


async def test_a5_moved(scene: Scene) -> None:
    """Another folder: moved on disk, nothing is uploaded."""
    old = scene.file_id(Q1)
    scene.server.move(Q1, "Archive/2025")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed", "Renamed: ")

    assert scene.file_id("Archive/2025/Q1.md") == old
    assert not (scene.embedded / Q1).exists()


async def test_a6_renamed_and_moved(scene: Scene) -> None:
    """Another folder and another name."""
    old = scene.file_id(Q1)
    scene.server.move(Q1, "Archive", "Q1 2025.md")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed", "Renamed: ")

    assert scene.file_id("Archive/Q1 2025.md") == old


async def test_a7_renamed_and_updated(scene: Scene) -> None:
    """Another name and other content: the new content under the new name, once."""
    old = scene.file_id(Q1)
    scene.server.rename(Q1, "Q1 final.md")
    scene.server.update("Reports/Q1 final.md", b"# Final")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert scene.file_id("Reports/Q1 final.md") != old
    assert old not in scene.store.stores[scene.store_id].files


async def test_a8_moved_and_updated(scene: Scene) -> None:
    """Another folder and other content."""
    old = scene.file_id(Q1)
    scene.server.move(Q1, "Archive")
    scene.server.update("Archive/Q1.md", b"# Moved and rewritten")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert scene.file_id("Archive/Q1.md") != old


async def test_a9_renamed_moved_and_updated(scene: Scene) -> None:
    """Everything changed but its id: custom properties still follow."""
    scene.set_custom_property(Q1, "owner", "Grace")
    scene.server.move(Q1, "Archive", "Everything.md")
    scene.server.update("Archive/Everything.md", b"# All of it")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert scene.entries("Archive/Everything.md")[-1]["owner"] == "Grace"


async def test_a10_restored(scene: Scene) -> None:
    """A file from the recycle bin is ADDED again, with the custom properties of its history."""
    scene.set_custom_property(Q1, "owner", "Grace")
    item = scene.server.delete(Q1)
    await scene.crawl()
    scene.check()
    scene.server.restore(item)

    await scene.crawl_until_equal("Downloaded 1 (1 added, 0 changed), 0 removed, 2 unchanged, 0 failed")

    assert [entry.get("owner") for entry in scene.entries(Q1)] == ["Grace", "Grace"]


async def test_a11_version_rollback(scene: Scene) -> None:
    """An older time than before is a change too."""
    scene.server.roll_back(Q1, b"# Q1\n\nAn earlier draft.", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC))

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert scene.row(Q1)["last_modified_utc"] == "2020-01-02T03:04:05.000000Z"
    assert "earlier draft" in await scene.text_of(Q1)


async def test_a12_copied(scene: Scene) -> None:
    """A copy has an id of its own and is a file of its own."""
    scene.server.copy(Q1, "Reports/Copy of Q1.md")

    await scene.crawl_until_equal("Downloaded 1 (1 added, 0 changed), 0 removed, 3 unchanged, 0 failed")

    assert scene.file_id("Reports/Copy of Q1.md") != scene.file_id(Q1)


async def test_a13_replaced(scene: Scene) -> None:
    """Deleted, and another file of the same name: the old one goes, the new one comes, at one path."""
    old, old_file = scene.row(Q1)["sharepoint_unique_file_id"], scene.file_id(Q1)
    scene.server.replace(Q1, b"# Another Q1")

    await scene.crawl_until_equal("Downloaded 1 (1 added, 0 changed), 1 removed, 2 unchanged, 0 failed")

    assert scene.row(Q1)["sharepoint_unique_file_id"] != old
    assert old.lower() not in scene.vectorstore_map
    assert scene.file_id(Q1) != old_file


async def test_a14_check_in(scene: Scene) -> None:
    """A new version without a new time or content: nothing is downloaded, nothing uploaded."""
    before = scene.state()
    scene.server.check_in(Q1)
    scene.server.forget()

    await scene.crawl_until_equal("Downloaded 0 (0 added, 0 changed), 0 removed, 3 unchanged, 0 failed")

    assert scene.state() == before


async def test_a15_folder_renamed(scene: Scene) -> None:
    """All files of the folder follow, and no empty folder stays behind."""
    old = scene.file_id(Q1), scene.file_id(NOTES)
    scene.server.rename("Reports", "Berichte")

    await scene.crawl_until_equal("Downloaded 2 (0 added, 2 changed), 0 removed, 1 unchanged, 0 failed", "Renamed: ")

    assert (scene.file_id("Berichte/Q1.md"), scene.file_id("Berichte/Old/Notes.txt")) == old
    assert not (scene.embedded / "Reports").exists()


async def test_a16_folder_moved(scene: Scene) -> None:
    """A folder below another one: all its files follow."""
    old = scene.file_id(NOTES)
    scene.server.move("Reports/Old", "Archive")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed", "Renamed: ")

    assert scene.file_id("Archive/Old/Notes.txt") == old
    assert not (scene.embedded / "Reports/Old").exists()
