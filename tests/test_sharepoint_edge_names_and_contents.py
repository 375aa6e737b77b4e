"""Edge cases E1–E6: names, paths and contents that are out of the ordinary."""

from __future__ import annotations

import pytest

from tests.sharepoint_scene import Scene, empty_scene, scene

__all__ = ["empty_scene", "scene"]

SITE = "/sites/demo/Shared Documents"


@pytest.mark.parametrize(
    "name",
    ["Übersicht – 日本語 🎉.md", "مرحبا بالعالم.md", "עברית ‏(טיוטה).md", "e\u0301 decomposed.md", "=cmd|'x'!A1.md"],
)
async def test_e1_unicode_filename(scene: Scene, name: str) -> None:
    """Emojis, right-to-left letters and combining marks come through, on disk, in maps and in the store."""
    scene.server.file(f"Ördner 文件/{name}", f"# {name}".encode())

    await scene.crawl_until_equal(f"Downloaded → {SITE}/Ördner 文件/{name}")

    assert scene.entries(f"Ördner 文件/{name}")[0]["filename"] == name


async def test_e2_very_long_path(scene: Scene) -> None:
    """A name that the disk cannot hold: a warning, its content in 03_failed under a shorter name, and no second try."""
    name = "ü" * 200 + ".md"
    item = scene.server.file(f"Long/{name}", b"# Long")
    scene.server.file("Long/short.md", b"# Short")

    await scene.crawl()

    row = scene.files_map[item.unique_id.lower()]
    assert row["sharepoint_error"] != ""
    local = scene.crawler / row["file_relative_path"].replace("\\", "/")
    assert local.is_relative_to(scene.failed)
    assert local.read_bytes() == b"# Long"
    assert any(record.levelname == "WARNING" and "ü" in record.getMessage() for record in scene.caplog.records)
    assert (scene.embedded / "Long/short.md").read_bytes() == b"# Short"
    await scene.check_nothing_changes()


async def test_e3_zero_byte_file(scene: Scene) -> None:
    """An empty file is downloaded; it cannot be embedded, so it goes to 03_failed and stays there."""
    scene.store.fails["Empty.md"] = "File is empty."
    scene.server.file("Empty.md", b"")
    scene.failing.add("Empty.md")

    await scene.crawl_until_equal("Empty.md could not be embedded: ")

    assert scene.vector_row("Empty.md")["embedding_error"] != ""
    assert (scene.failed / "Empty.md").read_bytes() == b""


async def test_e4_unsupported_type(scene: Scene) -> None:
    """A type that no store takes is in sharepoint_map.csv only: not downloaded, never missing."""
    item = scene.server.file("Film.mp4", b"\x00\x01")

    await scene.crawl_until_equal("Not embedded: file types: mp4 (1) → docs_main")

    assert item.unique_id.lower() in scene.sharepoint_map
    assert item.unique_id.lower() not in scene.files_map
    assert not (scene.embedded / "Film.mp4").exists()


async def test_e4_type_in_capitals(scene: Scene) -> None:
    """`REPORT.PDF` and `notes.TXT` are of types that are taken."""
    scene.server.file("notes.TXT", b"Notes in capitals.")

    await scene.crawl_until_equal(f"Downloaded → {SITE}/notes.TXT")

    assert (scene.embedded / "notes.TXT").exists()


async def test_e5_duplicate_filename(scene: Scene) -> None:
    """The same name in two folders is two files; names that differ only in case too."""
    scene.server.file("Team A/Readme.md", b"# A")
    scene.server.file("Team B/Readme.md", b"# B")

    await scene.crawl_until_equal("Downloaded 2 (2 added, 0 changed), 0 removed, 3 unchanged, 0 failed")

    assert scene.file_id("Team A/Readme.md") != scene.file_id("Team B/Readme.md")


@pytest.mark.parametrize("folder", ["R&D 'new' (2026)", "100% + more #1", "a, b; c", "sp ace .d", "[x]{y}~^`!$@="])
async def test_e6_special_chars_in_path(scene: Scene, folder: str) -> None:
    """Spaces, quotes, ampersands, percent and number signs are as they are on disk, and encoded in URLs."""
    scene.server.file(f"{folder}/It's O'Brien & Co.md", b"# Special")

    await scene.crawl_until_equal(f"Downloaded → {SITE}/{folder}/It's O'Brien & Co.md")

    row = scene.sharepoint_map[scene.row(f"{folder}/It's O'Brien & Co.md")["sharepoint_unique_file_id"].lower()]
    assert " " not in row["url"]
    assert row["raw_url"].endswith(f"{folder}/It's O'Brien & Co.md")
