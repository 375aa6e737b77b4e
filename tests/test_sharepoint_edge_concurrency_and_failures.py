"""Edge cases D1–D6: changes while nobody looks, crawls at the same time, and services that fail half-way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from core.runs.run import RunStatus
from tests.sharepoint_scene import Scene, empty_scene, scene
from tests.sharepoint_server import DOWNLOAD, LISTING

__all__ = ["empty_scene", "scene"]

SITE = "/sites/demo/Shared Documents"
Q1, NOTES, GUIDE = "Reports/Q1.md", "Reports/Old/Notes.txt", "Guide.md"


async def test_d1_rapid_changes(scene: Scene) -> None:
    """Of many changes between two crawls only the last state counts."""
    for number in range(5):
        scene.server.update(Q1, f"# Draft {number}".encode())
        scene.server.file("passing.md", b"# Here and gone")
        scene.server.delete("passing.md")
    scene.server.rename(Q1, "Q1 a.md")
    scene.server.move("Reports/Q1 a.md", "Archive", "Q1 b.md")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert [entry["filename"] for entry in scene.entries("Archive/Q1 b.md")] == ["Q1.md", "Q1 b.md"]


async def test_d2_concurrent_crawls(scene: Scene) -> None:
    """Two crawls of one source at the same time lose no row and do nothing twice."""
    for number in range(30):
        scene.server.file(f"Many/{number}.md", f"# File {number}".encode())

    await asyncio.gather(scene.crawl(), scene.crawl())

    scene.check()
    assert len(scene.server.downloads) == 30
    assert scene.store.count("POST /files") == 30
    assert scene.has_logged("Another run has DOMAIN01.docs_main; waiting for its end")
    await scene.check_nothing_changes()


async def test_d3_partial_failure(scene: Scene) -> None:
    """A file that cannot be downloaded is named in its row; the others are in step, and the next crawl brings it."""
    scene.server.file("Reports/Late.md", b"# Late")
    scene.server.file("Reports/Other.md", b"# Other")
    late = scene.server.item("Reports/Late.md").unique_id
    scene.server.fail(500, on=f"{late}.*value", times=100)

    run = await scene.crawl()

    assert run.status is RunStatus.PARTIAL
    row = scene.row("Reports/Late.md")
    assert row["file_relative_path"] == ""
    assert row["sharepoint_error"] != ""
    assert (scene.embedded / "Reports/Other.md").read_bytes() == b"# Other"
    assert scene.has_logged("Download failed: ")
    scene.server.heal()
    await scene.crawl_until_equal("Downloaded 1 (1 added, 0 changed), 0 removed, 4 unchanged, 0 failed")


async def test_d3_listing_cut_short_deletes_nothing(scene: Scene) -> None:
    """A listing that fails on its second page removes nothing, from nowhere."""
    scene.server.page_size(2)
    before = scene.state()
    scene.server.fail(500, on=LISTING, page=2, times=100)
    scene.server.delete(GUIDE)

    run = await scene.crawl()

    assert run.status in (RunStatus.PARTIAL, RunStatus.FAILED)
    assert scene.state() == before
    assert scene.has_logged("Skipped, nothing was changed: ")
    scene.server.heal()
    await scene.crawl_until_equal(f"Removed → {SITE}/{GUIDE}")


async def test_d4_sharepoint_timeout(scene: Scene) -> None:
    """A download whose connection breaks is repeated."""
    scene.server.update(Q1, b"# Q1\n\n" + b"Long. " * 1000)
    scene.server.cut(10, on=DOWNLOAD)
    scene.server.drop(on=LISTING)

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")


async def test_d4_throttled(scene: Scene) -> None:
    """429 and 503 with Retry-After in seconds and as a date are waited for; no page is listed twice."""
    scene.server.page_size(2)
    scene.server.file("Reports/Fourth.md", b"# Fourth")
    scene.server.throttle(1, on=LISTING, page=2)
    scene.server.throttle(datetime.now(UTC) + timedelta(seconds=1), status=503, on=DOWNLOAD)

    await scene.crawl_until_equal("Downloaded 1 (1 added, 0 changed), 0 removed, 3 unchanged, 0 failed")


async def test_d5_openai_rate_limit(scene: Scene) -> None:
    """A rate limit is waited for; no file is uploaded twice."""
    scene.server.update(Q1, b"# Q1\n\nRestated.")
    scene.store.refuse("POST /files", 429, "Slow down.", times=2, Retry_After="1")

    await scene.crawl_until_equal("Downloaded 1 (0 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    assert len([one for one in scene.store.files.values() if one.content == b"# Q1\n\nRestated."]) == 1


async def test_d6_openai_timeout(scene: Scene) -> None:
    """An upload and an attachment whose answers are lost are found again instead of repeated."""
    scene.server.update(Q1, b"# Q1\n\nRestated.")
    scene.server.file("New.md", b"# New")
    scene.store.lose_answer("POST /files")
    scene.store.lose_answer("POST /vector_stores/.*")

    await scene.crawl_until_equal("Downloaded 2 (1 added, 1 changed), 0 removed, 2 unchanged, 0 failed")

    for content in (b"# Q1\n\nRestated.", b"# New"):
        assert len([one for one in scene.store.files.values() if one.content == content]) == 1
