"""Edge cases B1–B7: what happens to the local copies and their map between two crawls."""

from __future__ import annotations

import os
import shutil

import pytest

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from tests.sharepoint_scene import Scene, empty_scene, scene

__all__ = ["empty_scene", "scene"]

Q1, NOTES, GUIDE = "Reports/Q1.md", "Reports/Old/Notes.txt", "Guide.md"


async def test_b1_local_file_missing(scene: Scene) -> None:
    """A file that is gone from disk is downloaded again; the store keeps what it has."""
    stored = scene.file_id(Q1)
    (scene.embedded / Q1).unlink()

    run = await scene.crawl()

    scene.check()
    assert scene.has_logged("Integrity check corrected: 1 missing, 0 orphans deleted, 0 moved")
    assert scene.counted(run, "download") == {"downloaded": 1, "missing_on_disk": 1, "unchanged": 2}
    assert [one.path.lower().count("getfilebyid") for one in scene.server.downloads] == [1]
    assert scene.file_id(Q1) == stored
    await scene.check_nothing_changes()


async def test_b2_local_file_extra(scene: Scene) -> None:
    """A file that no row names is deleted, and the summary says so."""
    (scene.embedded / "Reports" / "orphan.md").write_text("Nobody knows me.")
    (scene.failed / "Deep").mkdir(parents=True)
    (scene.failed / "Deep" / "orphan.txt").write_text("Nor me.")

    await scene.crawl()

    scene.check()
    assert scene.has_logged("Integrity check corrected: 0 missing, 2 orphans deleted, 0 moved")
    assert scene.server.downloads == []
    await scene.check_nothing_changes()


@pytest.mark.parametrize("name", ["Q1.md", "moved.txt"])
async def test_b3_local_file_wrong_path(scene: Scene, name: str) -> None:
    """A file that somebody moved on disk is moved back, not downloaded again; also if it has another name."""
    (scene.embedded / "Elsewhere").mkdir()
    (scene.embedded / Q1).rename(scene.embedded / "Elsewhere" / name)

    await scene.crawl()

    scene.check()
    assert scene.has_logged("Integrity check corrected: 0 missing, 0 orphans deleted, 1 moved")
    assert scene.server.downloads == []
    await scene.check_nothing_changes()


async def test_b4_local_file_corrupted(scene: Scene) -> None:
    """A file whose bytes are not those of its row any more is found before it is embedded, and downloaded again."""
    path, stamp = scene.embedded / Q1, (scene.embedded / Q1).stat()
    path.write_bytes(b"")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    await scene.crawl()
    await scene.crawl()

    scene.check()
    assert len(scene.server.downloads) == 1
    assert scene.has_logged("Integrity check corrected: 1 missing, 0 orphans deleted, 0 moved")
    await scene.check_nothing_changes()


async def test_b5_local_folder_missing(scene: Scene) -> None:
    """A folder that is gone comes back with all its files."""
    shutil.rmtree(scene.embedded / "Reports")

    run = await scene.crawl()

    scene.check()
    assert scene.has_logged("Integrity check corrected: 2 missing, 0 orphans deleted, 0 moved")
    assert scene.counted(run, "download") == {"downloaded": 2, "missing_on_disk": 2, "unchanged": 1}
    assert len(scene.server.downloads) == 2
    await scene.check_nothing_changes()


async def test_b6_map_file_missing(scene: Scene) -> None:
    """Without files_map.csv everything is crawled in full; nothing is uploaded twice."""
    stored = scene.vectorstore_map
    (scene.folder / CFG.FILE_MAP_CSV).unlink()

    await scene.crawl()

    scene.check()
    assert scene.has_logged(CFG.FILE_MAP_CSV)
    assert {one: row["openai_file_id"] for one, row in scene.vectorstore_map.items()} == {
        one: row["openai_file_id"] for one, row in stored.items()
    }
    await scene.check_nothing_changes()


async def test_b7_map_file_corrupted(scene: Scene) -> None:
    """A files_map.csv that cannot be read is crawled in full, with a warning; what it was is kept aside."""
    (scene.folder / CFG.FILE_MAP_CSV).write_bytes(b"\xff\xfe not a map \x00\n1,2,3\n")

    await scene.crawl()

    scene.check()
    warnings = [record.getMessage() for record in scene.caplog.records if record.levelname == "WARNING"]
    assert any(CFG.FILE_MAP_CSV in line for line in warnings)
    await scene.check_nothing_changes()
