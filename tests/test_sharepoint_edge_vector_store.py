"""Edge cases C1–C6: what happens to the vector store between two crawls."""

from __future__ import annotations

import pytest

from core.runs.run import RunStatus
from tests.sharepoint_scene import Scene, empty_scene, scene

__all__ = ["empty_scene", "scene"]

Q1, GUIDE = "Reports/Q1.md", "Guide.md"


async def test_c1_vs_file_missing(scene: Scene) -> None:
    """A file that the store has lost leaves the map and is embedded again."""
    old = scene.file_id(Q1)
    del scene.store.stores[scene.store_id].files[old]

    await scene.crawl_until_equal(
        r"Not in the vector store any more → DOMAIN01\01_files\docs_main\02_embedded\Reports\Q1.md"
    )

    assert scene.file_id(Q1) != old
    assert scene.entries(Q1)[-1]["openai_file_id"] == scene.file_id(Q1)


async def test_c2_vs_file_extra(scene: Scene) -> None:
    """A file of somebody else stays in the store."""
    stranger = scene.store.add_file(scene.store_id, "theirs.md", owner="somebody")

    await scene.crawl_until_equal("Integrity check passed: 3 files verified")
    await scene.crawl("full")

    assert stranger in scene.store.stores[scene.store_id].files
    assert stranger in scene.store.files


async def test_c3_vs_embedding_failed(scene: Scene) -> None:
    """A file that cannot be embedded goes to 03_failed with the reason, and is not tried for ever."""
    scene.store.fails["Broken.md"] = "The file could not be parsed."
    scene.server.file("Reports/Broken.md", b"# Broken")
    scene.failing.add("Reports/Broken.md")

    await scene.crawl()

    scene.check()
    row = scene.vector_row("Reports/Broken.md")
    assert "could not be parsed" in row["embedding_error"]
    assert (row["openai_file_id"], row["vector_store_id"], row["embedded_utc"]) == ("", "", "")
    assert row["file_relative_path"].endswith(r"03_failed\Reports\Broken.md")
    assert "Broken.md" not in {one.filename for one in scene.store.files.values()}
    assert scene.has_logged("Broken.md could not be embedded: The file could not be parsed.")
    await scene.check_nothing_changes()


async def test_c3_failed_file_that_changes(scene: Scene) -> None:
    """A failed file is tried again when it changes in SharePoint."""
    scene.store.fails["Broken.md"] = "The file could not be parsed."
    scene.server.file("Broken.md", b"# Broken")
    await scene.crawl()
    scene.store.fails.clear()
    scene.server.update("Broken.md", b"# Repaired")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 3 unchanged, 0 failed")

    assert not (scene.failed / "Broken.md").exists()


async def test_c4_vs_deleted(scene: Scene) -> None:
    """Without its store the embedding is aborted with a sentence; the local copies are in step."""
    store_id = scene.store_id
    del scene.store.stores[store_id]
    scene.server.update(Q1, b"# Q1\n\nRestated.")

    run = await scene.crawl()

    assert run.status in (RunStatus.PARTIAL, RunStatus.FAILED)
    assert scene.has_logged(store_id)
    assert (scene.embedded / Q1).read_bytes() == b"# Q1\n\nRestated."
    assert scene.domain["vector_store_id"] == store_id
    assert scene.store.stores == {}


async def test_c5_openai_file_deleted(scene: Scene) -> None:
    """A file deleted from the global storage is uploaded again."""
    old = scene.file_id(Q1)
    scene.store.delete_file(old)

    await scene.crawl_until_equal(
        r"Not in the vector store any more → DOMAIN01\01_files\docs_main\02_embedded\Reports\Q1.md"
    )

    assert scene.file_id(Q1) != old


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_c6_vs_creation_failed(empty_scene: Scene, status: int) -> None:
    """If no store can be created, embedding is skipped; download and process succeed, and the next crawl goes on."""
    scene = empty_scene
    scene.server.file(GUIDE, b"# Guide")
    scene.store.refuse("POST /vector_stores", status, "Quota exceeded.", times=100)

    await scene.crawl()

    assert (scene.embedded / GUIDE).read_bytes() == b"# Guide"
    assert len(scene.files_map) == 1
    assert scene.domain["vector_store_id"] == ""
    assert scene.has_logged("Not embedded: The vector store 'my-vector-store' could not be created: ")

    scene.store.heal()
    await scene.crawl()
    scene.check()
    assert scene.has_logged(f"Created vector store 'my-vector-store' (ID={scene.store_id})")
    await scene.check_nothing_changes()
