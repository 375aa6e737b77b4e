"""What a crawl of SharePoint must do (FR) and guarantees (IG): one test for each, by its name."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.map_files import MapFileWriter
from core.sources.sharepoint.map_columns import FileRow
from tests.sharepoint_scene import DOMAIN, SOURCE, Scene, empty_scene, scene
from tests.sharepoint_sources import PAGES, TASKS, ThreeSources

pytestmark = pytest.mark.long

__all__ = ["empty_scene", "scene"]

ROOT = Path(__file__).parents[1]
Q1, NOTES, GUIDE = "Reports/Q1.md", "Reports/Old/Notes.txt", "Guide.md"


@pytest.fixture(params=["openai", "redis"])
async def sources(request: pytest.FixtureRequest, empty_scene: Scene) -> ThreeSources:
    """A library, a list and pages, crawled once, with either index."""
    sources = ThreeSources(empty_scene, request.param)
    await sources.crawl()
    return sources


# ── FR ──


async def test_fr01_change_detection_by_immutable_id(sources: ThreeSources) -> None:
    """Of all three kinds an item is known by its id: moved it is the same one, replaced by its name another."""
    server = sources.server
    before = {one: sources.rows(one) for one in (SOURCE, TASKS, PAGES)}
    server.at = server.documents
    server.move("Reports/Q1.md", "Archive")
    server.at = sources.list
    server.update_row(sources.tasks[0], Title="Another title")
    server.at = sources.pages
    server.delete("Home.aspx")
    server.page("Home.aspx", "Home", wiki="<p>Another page by the same name.</p>")

    await sources.crawl()

    def is_same(source: str, name: str) -> bool:
        ids = [rows[name]["sharepoint_unique_file_id"] for rows in (before[source], sources.rows(source))]
        return ids[0] == ids[1]

    assert (is_same(SOURCE, "Q1.md"), is_same(TASKS, "1.md"), is_same(PAGES, "Home.aspx")) == (True, True, False)
    assert sources.rows(SOURCE)["Q1.md"]["server_relative_url"].endswith("/Archive/Q1.md")


@pytest.mark.parametrize("field", ["filename", "server_relative_url", "file_size", "last_modified_utc"])
async def test_fr02_complete_field_comparison(scene: Scene, field: str) -> None:
    """A difference in one of the four fields is enough for another download."""
    server, now, content = scene.server, scene.server.item(Q1).modified, scene.server.item(Q1).content or b""
    if field == "filename":
        server.rename(Q1, "Q1 final.md")
    elif field == "server_relative_url":
        server.move(Q1, "Archive")
    elif field == "file_size":
        server.update(Q1, content + b" And more.", now)
    else:
        server.update(Q1, content, datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))

    await scene.crawl()

    scene.check()
    assert len(server.downloads) == 1
    await scene.check_nothing_changes()


async def test_fr03_integrity_check_after_download(scene: Scene) -> None:
    """A missing file, an orphan and a wrong path are found and corrected, and the line counts them."""
    _damage(scene)

    await scene.crawl()

    assert scene.has_logged("Integrity check corrected: 1 missing, 1 orphans deleted, 1 moved")
    scene.forget()
    await scene.crawl()
    assert scene.has_logged("Integrity check passed: 4 files verified")


async def test_fr04_self_healing_corrections(scene: Scene) -> None:
    """What is missing is downloaded again, an orphan deleted, and a misplaced file moved and not downloaded."""
    _damage(scene)

    await scene.crawl()

    scene.check()
    assert len(scene.server.downloads) == 2
    await scene.check_nothing_changes()


async def test_fr05_graceful_map_file_operations(scene: Scene, tmp_path: Path) -> None:
    """The header and the first row are in the file at once, others in batches; a damaged map means a full download."""
    path, rows = tmp_path / CFG.FILE_MAP_CSV, [FileRow(sharepoint_unique_file_id=f"id-{n}") for n in range(6)]
    lines = []
    with MapFileWriter(path, FileRow, every_lines=3) as writer:
        writer.start(())
        lines.append(_line_count(path))
        for row in rows:
            writer.append(row)
            lines.append(_line_count(path))
    assert [*lines, _line_count(path)] == [1, 2, 2, 2, 5, 5, 5, 7]

    whole = (scene.folder / CFG.FILE_MAP_CSV).read_bytes()
    for damage in (b"\xff\xfe\x00", whole.replace(b"filename", b"name", 1), None):
        if damage is None:
            (scene.folder / CFG.FILE_MAP_CSV).unlink()
        else:
            (scene.folder / CFG.FILE_MAP_CSV).write_bytes(damage)
        scene.forget()
        await scene.crawl()
        scene.check()
        assert len(scene.server.downloads) == 3
        assert any(one.levelname == "WARNING" and CFG.FILE_MAP_CSV in one.getMessage() for one in scene.caplog.records)


async def test_fr06_files_metadata_carry_over(scene: Scene) -> None:
    """A new version inherits what people added; the entries of all versions stay."""
    scene.set_custom_property(Q1, "reviewed_by", "Ada")
    for number in (1, 2):
        scene.server.update(Q1, f"# Version {number}".encode())
        await scene.crawl_until_equal()

    entries = scene.entries(Q1)
    assert [entry["reviewed_by"] for entry in entries] == ["Ada"] * 3
    assert len({entry["openai_file_id"] for entry in entries}) == 3
    assert "reviewed_by" not in scene.entries(GUIDE)[0]


@pytest.mark.parametrize("name", ["", "my-store"])
async def test_fr07_auto_create_vector_store_on_first_crawl(empty_scene: Scene, name: str) -> None:
    """Without an id a store is made, once, by its name or the domain's id; its id is in domain.json, and logged."""
    scene = empty_scene
    scene.write_domain(vector_store_name=name)
    scene.server.file(GUIDE, b"# Guide")
    before = scene.domain

    await scene.crawl()

    [store] = scene.store.stores.values()
    assert store.name == (name or DOMAIN)
    assert scene.domain == before | {"vector_store_id": store.id}
    assert scene.log_lines().count(f"Created vector store '{name or DOMAIN}' (ID={store.id})") == 1
    scene.check()
    await scene.check_nothing_changes()
    assert len(scene.store.stores) == 1


# ── IG ──


async def test_ig01_local_storage_mirrors_the_folders(sources: ThreeSources) -> None:
    """Each file and page has the path that it has below its library; each row of a list is named by its ID."""
    server = sources.server
    server.at = server.documents
    server.file("Deep/er/Ünï & “co” #1.md", b"# Deep")
    server.at = sources.pages
    server.page("Deep/er/Page.aspx", "Page", wiki="<p>Deep.</p>")

    await sources.crawl()

    originals, embedded = (
        CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER,
        CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER,
    )
    pages = ("Home", "News/About", "Deep/er/Page")
    assert sources.copies(SOURCE).keys() == {f"{embedded}/Reports/Q1.md", f"{embedded}/Deep/er/Ünï & “co” #1.md"}
    assert sources.copies(TASKS).keys() == {
        f"{originals}/Project Tasks.csv",
        *(f"{embedded}/{number}.md" for number in (1, 2, 3)),
    }
    assert sources.copies(PAGES).keys() == {
        *(f"{originals}/{name}.aspx" for name in pages),
        *(f"{embedded}/{name}.html" for name in pages),
    }


async def test_ig02_no_orphan_files_remain(sources: ThreeSources) -> None:
    """A file that no row names is gone after the next crawl, in each folder of each kind of source."""
    before = {one: sources.copies(one) for one in (SOURCE, TASKS, PAGES)}
    for source in before:
        for folder in (CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER, CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER):
            _write(sources.folder(source) / folder / "Deep" / "orphan.md")
    for source in (TASKS, PAGES):
        _write(sources.folder(source) / CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER / "orphan.html")

    await sources.crawl()

    assert {one: sources.copies(one) for one in before} == before


async def test_ig03_files_map_reflects_the_disk(sources: ThreeSources) -> None:
    """Each row names a file that is there with its size; no file of what is embedded is without a row."""
    sources.server.at = sources.server.documents
    sources.server.update("Reports/Q1.md", b"# Q1\n\nRestated, at some length.")
    (sources.folder(TASKS) / CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER / "1.md").unlink()

    await sources.crawl()

    sources.check()
    path = sources.folder(SOURCE) / CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER / "Reports" / "Q1.md"
    assert sources.rows(SOURCE)["Q1.md"]["file_size"] == str(path.stat().st_size)
    assert "Words of task 1." in sources.embedded(TASKS)["1.md"]


async def test_ig04_custom_properties_survive_updates(sources: ThreeSources) -> None:
    """Updated, moved, deleted and restored: what people added to an item's entry is in its newest one."""
    path, entries = sources.scene.domain_file.parent / CFG.FILES_METADATA_JSON, sources.scene.metadata
    path.write_text(json.dumps([entry | {"note": f"of {entry['filename']}"} for entry in entries]))
    server = sources.server
    server.at = server.documents
    server.move("Reports/Q1.md", "Archive", "First quarter.md")
    server.update("Archive/First quarter.md", b"# Other words")
    server.at = sources.list
    server.update_row(sources.tasks[0], Body="Other words.")
    server.at = sources.pages
    page = server.delete("Home.aspx")
    await sources.crawl()
    server.restore(page)

    await sources.crawl()

    newest = {entry["filename"]: entry["note"] for entry in sources.scene.metadata}
    assert newest["First quarter.md"] == "of Q1.md"
    assert (newest["1.md"], newest["Home.aspx"]) == ("of 1.md", "of Home.aspx")


async def test_ig05_no_data_loss(scene: Scene) -> None:
    """While SharePoint or the store fails, nothing is removed that is there; afterwards all is in step."""
    before = scene.state()
    scene.server.kill_site()
    await scene.crawl()
    assert scene.state() == before

    scene.server.kill_site(0)
    scene.server.update(Q1, b"# Restated")
    scene.store.refuse("POST /files", 400, "No.", times=100)
    old = scene.file_id(Q1)
    await scene.crawl()
    assert scene.store.files.keys() >= {scene.file_id(GUIDE), scene.file_id(NOTES)}
    assert (scene.crawler / scene.row(Q1)["file_relative_path"].replace("\\", "/")).read_bytes() == b"# Restated"
    assert old in {entry["openai_file_id"] for entry in scene.metadata}

    scene.store.heal()
    scene.server.update(Q1, b"# Restated again")
    await scene.crawl_until_equal()


def test_ig06_names_come_from_the_config() -> None:
    """No name of a folder or file is spelt anywhere but in the configuration, also not as a part of a path."""
    names = {str(getattr(CFG, one.name)) for one in fields(CFG) if isinstance(getattr(CFG, one.name), str)}
    assert len(names) == 16
    folders = ("core/sources/sharepoint", "core/outputs/vector_store")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.stem != "crawler_config"]
    files += (ROOT / "core/sources/io").glob("sharepoint*.py")
    spelt = [f"{path.name}: {text}" for path in files for text in _spelt(ast.parse(path.read_text()), names)]

    assert len(files) > 60
    assert spelt == []
    example = ast.parse("a / 'crawler'; b = '02_embedded'; f'{a}/files_map.csv'; log('crawler')")
    assert set(_spelt(example, names)) == {"crawler", "02_embedded", "/files_map.csv"}


# ── small ones ──


def _damage(scene: Scene) -> None:
    """A new file, and three anomalies: a file that is missing, one too many, and one in a wrong place."""
    scene.server.file("Reports/Extra.md", b"# Extra")
    (scene.embedded / NOTES).unlink()
    _write(scene.embedded / "orphan.md")
    (scene.embedded / "Elsewhere").mkdir()
    (scene.embedded / Q1).rename(scene.embedded / "Elsewhere" / "Q1.md")


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Nobody knows me.")
    os.utime(path, (1_700_000_000, 1_700_000_000))


def _line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def _spelt(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Constants that are one of the names, or a path with one; plain words only where a path is made of them."""
    plain = {name for name in names if name.isalpha()}
    in_paths = {id(side) for node in ast.walk(tree) for side in _path_parts(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search(r"\s", node.value):
            parts = set(re.split(r"[/\\]", node.value))
            if parts & (names if id(node) in in_paths else names - plain):
                yield node.value


def _path_parts(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and "Path" in ast.unparse(node.func):
        return list(node.args)
    return []
