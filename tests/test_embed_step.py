"""The embed step against a vector store over HTTP: every change, every failure, killed at any point."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from core.outputs.vector_store.io.begun_uploads import NOTE_NAME
from core.outputs.vector_store.io.embed_comparison import FILES_AT_ONCE
from core.outputs.vector_store.protocol import VectorStoreMissing
from core.sources.sharepoint.map_columns import FileRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import utc_text
from tests.embed_scene import EmbedScene
from tests.openai_store_server import OpenAiStoreServer

BATCHES = "POST /vector_stores/*/file_batches"


@pytest.fixture
def scene(tmp_path: Path, openai_server: OpenAiStoreServer) -> EmbedScene:
    return EmbedScene(tmp_path, openai_server)


async def settled(scene: EmbedScene) -> None:
    """A second run changes nothing: not a byte on the disk, nothing in the store."""
    before = scene.state()
    scene.server.forget_requests()
    again = await scene.embed()
    assert scene.server.changes() == []
    assert scene.state() == before
    assert (again.added, again.changed, again.removed, again.renamed, again.uploaded, again.cleaned) == (0,) * 6


# ── changes ──


async def test_added(scene: EmbedScene) -> None:
    """New files are uploaded, found in the store, and have a row with every stamp and attributes of their own."""
    scene.file("u1", "Reports/Q1.md", "Sales rose.")
    scene.file("u2", "Ünï & “co”.md", "Wörter 🌊")
    counts = await scene.embed()

    assert (counts.added, counts.uploaded, counts.embedded, counts.failed) == (2, 2, 2, 0)
    assert scene.contents() == {"u1": "Sales rose.", "u2": "Wörter 🌊"}
    row = scene.rows()["u1"]
    stored = scene.server.stores[scene.store_id].files[row.openai_file_id]
    uploaded = scene.server.files[row.openai_file_id]
    assert row.vector_store_id == scene.store_id
    assert (row.uploaded_utc, row.embedded_utc) == (utc_text(uploaded.created_at), utc_text(stored.created_at))
    assert row.file_relative_path == "DOMAIN01\\01_files\\docs\\02_embedded\\Reports\\Q1.md"
    assert {name: stored.attributes[name] for name in ("domain", "source_id", "unique_id", "generation", "url")} == {
        "domain": "DOMAIN01",
        "source_id": "docs",
        "unique_id": "u1",
        "generation": "1",
        "url": "https://contoso.sharepoint.com/sites/demo/Shared%20Documents/Reports/Q1.md",
    }
    await settled(scene)


async def test_removed(scene: EmbedScene) -> None:
    """A file that is gone leaves the store, the global storage and the map."""
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    await scene.embed()
    scene.forget("u1")
    counts = await scene.embed()

    assert (counts.removed, counts.unchanged) == (1, 1)
    assert list(scene.contents()) == list(scene.rows()) == ["u2"]
    assert len(scene.server.files) == 1
    await settled(scene)


async def test_changed_is_never_missing(scene: EmbedScene) -> None:
    """The new version is embedded before the old one goes; afterwards there is one, of the next generation."""
    scene.file("u1", "a.md", "old")
    await scene.embed()
    old = scene.rows()["u1"].openai_file_id
    scene.file("u1", "a.md", "new", day=1)
    scene.server.forget_requests()
    counts = await scene.embed()

    assert (counts.changed, counts.uploaded) == (1, 1)
    assert scene.contents() == {"u1": "new"}
    changes = scene.server.changes()
    assert changes.index(f"POST /vector_stores/{scene.store_id}/file_batches") < changes.index(
        f"DELETE /vector_stores/{scene.store_id}/files/{old}"
    )
    [stored] = scene.server.stores[scene.store_id].files.values()
    assert stored.attributes["generation"] == "2"
    assert list(scene.server.files) == [scene.rows()["u1"].openai_file_id]
    await settled(scene)


async def test_renamed_and_moved_is_not_uploaded_again(scene: EmbedScene) -> None:
    """A file of another name or place keeps its id in the store and gets other attributes."""
    scene.file("u1", "a.md", "same")
    await scene.embed()
    before = scene.rows()["u1"]
    scene.file("u1", "Archive/b.md", "same")
    counts = await scene.embed()

    row = scene.rows()["u1"]
    assert (counts.renamed, counts.uploaded, counts.changed) == (1, 0, 0)
    assert (row.openai_file_id, row.filename) == (before.openai_file_id, "b.md")
    assert row.file_relative_path.endswith("02_embedded\\Archive\\b.md")
    attributes = scene.server.stores[scene.store_id].files[row.openai_file_id].attributes
    assert (attributes["filename"], attributes["url"].rpartition("/")[2]) == ("b.md", "b.md")
    await settled(scene)


async def test_same_bytes_are_not_uploaded_again(scene: EmbedScene) -> None:
    """A file that was only touched or moved and touched is known by its bytes."""
    scene.file("u1", "a.md", "same")
    await scene.embed()
    scene.file("u1", "a.md", "same", day=1)
    touched = await scene.embed()
    scene.file("u1", "b.md", "same", day=2)
    moved = await scene.embed()

    assert (touched.unchanged, touched.uploaded, moved.renamed, moved.uploaded) == (1, 0, 1, 0)
    assert scene.rows()["u1"].last_modified_utc == scene.files()["u1"].last_modified_utc
    await settled(scene)


async def test_two_files_that_swap_names(scene: EmbedScene) -> None:
    """Each item keeps its own file in the store."""
    scene.file("u1", "a.md", "one")
    scene.file("u2", "b.md", "two")
    await scene.embed()
    scene.forget("u2")
    scene.file("u1", "b.md", "one")
    scene.file("u2", "a.md", "two")
    counts = await scene.embed()

    assert (counts.renamed, counts.uploaded) == (2, 0)
    assert scene.contents() == {"u1": "one", "u2": "two"}
    await settled(scene)


async def test_full_mode(scene: EmbedScene) -> None:
    """Everything is uploaded again, nothing is missing meanwhile, and nothing old stays."""
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    await scene.embed()
    before = {one.openai_file_id for one in scene.rows().values()}
    counts = await scene.embed(is_full=True)

    after = {one.openai_file_id for one in scene.rows().values()}
    assert (counts.changed, counts.uploaded) == (2, 2)
    assert not before & after
    assert set(scene.server.files) == set(scene.server.stores[scene.store_id].files) == after
    await settled(scene)


async def test_files_that_other_maps_name_stay_in_the_global_storage(
    scene: EmbedScene, tmp_path: Path, openai_server: OpenAiStoreServer
) -> None:
    """A file that the map of another domain names is only taken out of this store."""
    scene.file("u1", "a.md")
    await scene.embed()
    shared = scene.rows()["u1"].openai_file_id
    other = EmbedScene(tmp_path, openai_server, domain_id="DOMAIN02")
    other.file("u9", "a.md")
    await other.embed()
    row = replace(other.rows()["u9"], openai_file_id=shared)
    path = other.storage.map_file(other.source, VectorStoreRow)
    path.write_text(path.read_text().replace(other.rows()["u9"].openai_file_id, shared))
    assert other.rows()["u9"] == row
    await scene.embed(is_full=True)

    assert shared in openai_server.files
    assert shared not in openai_server.stores[scene.store_id].files


# ── what the store has lost, and what others put there ──


async def test_file_that_left_the_store(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A file that somebody detached or deleted is embedded again."""
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    scene.file("u3", "c.md")
    await scene.embed()
    rows = scene.rows()
    del openai_server.stores[scene.store_id].files[rows["u1"].openai_file_id]
    openai_server.delete_file(rows["u2"].openai_file_id)
    openai_server.delete_file(rows["u3"].openai_file_id, stays_listed=True)
    counts = await scene.embed()

    assert (counts.cleaned, counts.added, counts.uploaded) == (3, 3, 3)
    assert set(scene.contents()) == {"u1", "u2", "u3"}
    assert len(openai_server.stores[scene.store_id].files) == 3
    await settled(scene)


async def test_strangers_in_the_store_are_left_alone(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Files without our attributes, or with those of another source, stay."""
    scene.file("u1", "a.md")
    await scene.embed()
    plain = openai_server.add_file(scene.store_id, "stranger.md")
    other = openai_server.add_file(scene.store_id, "other.md", domain="DOMAIN01", source_id="other", unique_id="u1")
    await scene.embed(is_full=True)

    assert {plain, other} < set(openai_server.stores[scene.store_id].files)
    await settled(scene)


async def test_store_that_is_gone(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A deleted store is told as missing, and neither maps nor files change."""
    scene.file("u1", "a.md")
    await scene.embed()
    before = scene.disk()
    del openai_server.stores[scene.store_id]
    with pytest.raises(VectorStoreMissing):
        await scene.embed()

    assert scene.disk() == before


async def test_another_store(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A domain that gets another store is embedded there; what the old one has stays."""
    scene.file("u1", "a.md")
    await scene.embed()
    old = scene.ids.pop("DOMAIN01")
    await scene.embed()

    assert scene.store_id != old
    assert scene.contents() == {"u1": "The text of a.md."}
    assert len(openai_server.stores[old].files) == 1
    await settled(scene)


@pytest.mark.parametrize("damage", ["", "no map at all\x00", "openai_file_id\nx\n"])
async def test_lost_map_is_written_again_from_the_store(scene: EmbedScene, damage: str) -> None:
    """Without a readable vectorstore_map.csv nothing is uploaded twice: attributes and bytes tell what is there."""
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    await scene.embed()
    before = scene.state()
    path = scene.storage.map_file(scene.source, VectorStoreRow)
    if damage:
        path.write_text(damage)
    else:
        path.unlink()
    counts = await scene.embed()

    assert (counts.uploaded, counts.embedded) == (0, 2)
    assert scene.state() == before


# ── failures ──


async def test_failed_embedding(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A file that cannot be embedded goes to 03_failed, both maps say so, and its upload is deleted everywhere."""
    scene.file("u1", "Reports/bad.md", "bad")
    scene.file("u2", "good.md")
    openai_server.fails["bad.md"] = "There is no text in it."
    counts = await scene.embed(retry_batches=2)

    row, file = scene.rows()["u1"], scene.files()["u1"]
    assert (counts.failed, counts.embedded, counts.uploaded) == (1, 1, 3)
    assert row.embedding_error == "There is no text in it."
    assert row.file_relative_path == file.file_relative_path == "DOMAIN01\\01_files\\docs\\03_failed\\Reports\\bad.md"
    assert {row.openai_file_id, row.vector_store_id, row.uploaded_utc, row.embedded_timestamp} == {""}
    assert scene.local(row).read_text() == "bad"
    assert not (scene.folder / "02_embedded/Reports/bad.md").exists()
    assert [one.filename for one in openai_server.files.values()] == ["good.md"]
    assert any("There is no text in it." in one for one in scene.warnings)
    await settled(scene)


async def test_failed_file_is_tried_again_when_it_changes(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A new version of it is embedded like any other."""
    scene.file("u1", "bad.md", "bad")
    openai_server.fails["bad.md"] = "No."
    await scene.embed()
    openai_server.fails.clear()
    scene.file("u1", "bad.md", "better", day=1)
    counts = await scene.embed()

    assert (counts.added, counts.embedded) == (1, 1)
    assert (scene.contents(), scene.rows()["u1"].embedding_error) == ({"u1": "better"}, "")
    await settled(scene)


async def test_failed_file_is_tried_again_in_full_mode(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Once it can be embedded it comes back out of 03_failed."""
    scene.file("u1", "bad.md", "bad")
    openai_server.fails["bad.md"] = "No."
    await scene.embed()
    openai_server.fails.clear()
    await scene.embed(is_full=True)

    assert scene.rows()["u1"].file_relative_path == scene.files()["u1"].file_relative_path
    assert scene.local(scene.files()["u1"]) == scene.folder / "02_embedded/bad.md"
    assert scene.contents() == {"u1": "bad"}
    await settled(scene)


async def test_changed_version_that_cannot_be_embedded(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """The old version leaves the store too: search has no outdated text."""
    scene.file("u1", "a.md", "old")
    await scene.embed()
    openai_server.fails["a.md"] = "No."
    scene.file("u1", "a.md", "new", day=1)
    await scene.embed()

    assert (scene.contents(), openai_server.files) == ({}, {})
    assert scene.rows()["u1"].embedding_error == "No."
    await settled(scene)


async def test_failed_file_that_is_removed(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Its row goes with it."""
    scene.file("u1", "bad.md")
    openai_server.fails["bad.md"] = "No."
    await scene.embed()
    scene.forget("u1")
    await scene.embed()

    assert scene.rows() == {}
    await settled(scene)


async def test_retry_batches_retry(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """What failed in the first batch is tried in the second; with one batch it is not."""
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    openai_server.refuse("POST /files", 503, times=8)
    once = await scene.embed(retry_batches=1)
    assert (once.failed, once.embedded) == (2, 0)
    row = scene.rows()["u1"]
    assert ("503" in row.embedding_error, row.openai_file_id) == (True, "")
    assert scene.local(row) == scene.folder / "02_embedded/a.md"
    openai_server.refuse("POST /files", 503, times=8)
    twice = await scene.embed(retry_batches=2)

    assert (twice.failed, twice.embedded) == (0, 2)
    assert {one.embedding_error for one in scene.rows().values()} == {""}
    await settled(scene)


async def test_lasting_rate_limit(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A file that is limited for now keeps its old version in search, says why, and is tried by the next run."""
    scene.file("u1", "a.md", "old")
    await scene.embed()
    scene.file("u1", "a.md", "new", day=1)
    openai_server.refuse("POST /files", 429, times=4, Retry_After="1")
    counts = await scene.embed()

    assert (counts.changed, counts.failed) == (1, 1)
    assert (scene.contents(), "429" in scene.rows()["u1"].embedding_error) == ({"u1": "old"}, True)
    await scene.embed()
    assert (scene.contents(), scene.rows()["u1"].embedding_error) == ({"u1": "new"}, "")
    await settled(scene)


async def test_time_outs(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Requests that hang fail one file, and the next run mends it."""
    scene.file("u1", "a.md")
    openai_server.hang("POST /files", times=4)
    counts = await scene.embed(openai_timeout_seconds=0.2)
    assert (counts.failed, scene.contents()) == (1, {})
    await scene.embed()

    assert scene.contents() == {"u1": "The text of a.md."}
    await settled(scene)


async def test_deadline(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """What is not embedded in time has failed for now: it stays where it is, and later runs only wait for it."""
    scene.file("u1", "a.md")
    openai_server.hold()
    for _ in range(2):
        counts = await scene.embed(openai_wait_seconds=0.2, retry_batches=2)
        row = scene.rows()["u1"]
        assert ("OPENAI_WAIT_SECONDS" in row.embedding_error, row.openai_file_id) == (True, "")
        assert ("02_embedded" in row.file_relative_path, counts.failed, counts.in_failed_folder) == (True, 1, 0)
    openai_server.release()
    counts = await scene.embed()

    assert (counts.embedded, counts.uploaded, openai_server.count("POST /files")) == (1, 0, 1)
    assert (scene.contents(), scene.rows()["u1"].embedding_error) == ({"u1": "The text of a.md."}, "")
    await settled(scene)


async def test_deadline_of_a_new_version(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """The old version can be found until the new one is embedded, however many runs that takes."""
    scene.file("u1", "a.md", "old")
    await scene.embed()
    scene.file("u1", "a.md", "new", day=1)
    openai_server.hold()
    for _ in range(2):
        await scene.embed(openai_wait_seconds=0.2)
        assert scene.contents() == {"u1": "old"}
    openai_server.release()
    await scene.embed()

    assert (scene.contents(), openai_server.count("POST /files")) == ({"u1": "new"}, 2)
    assert len(openai_server.files) == 1
    await settled(scene)


async def test_failed_files_are_told_in_every_run(
    scene: EmbedScene, openai_server: OpenAiStoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While a file is in 03_failed each run counts it and says so, also one that did not try it."""
    openai_server.fails["a.md"] = "There is no text in it."
    scene.file("u1", "a.md")
    scene.file("u2", "b.md")
    first = await scene.embed()
    assert (first.failed, first.in_failed_folder, "no text" in scene.warnings[0]) == (1, 1, True)
    caplog.clear()
    second = await scene.embed()

    assert (second.failed, second.in_failed_folder, len(scene.warnings)) == (0, 1, 1)
    assert scene.warnings[0].startswith("1 file is in 03_failed; vectorstore_map.csv says why.")
    told = [record.getMessage() for record in caplog.records if "03_failed" in record.getMessage()]
    assert told == [f"⚠️ {scene.warnings[0]} → {scene.source.source_id}"]


async def test_refused_bytes(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """An upload that is refused for good goes to 03_failed."""
    scene.file("u1", "a.md")
    openai_server.refuse("POST /files", 413, "The file is too large.")
    await scene.embed()

    row = scene.rows()["u1"]
    assert ("too large" in row.embedding_error, "03_failed" in row.file_relative_path) == (True, True)
    await settled(scene)


# ── local files ──


async def test_zero_byte_file(scene: EmbedScene) -> None:
    """A file that is empty in SharePoint too is uploaded, fails, and goes to 03_failed."""
    row = scene.file("u1", "empty.md", "x", file_size="0")
    scene.local(row).write_bytes(b"")
    await scene.embed()

    assert "empty" in scene.rows()["u1"].embedding_error
    assert scene.local(scene.rows()["u1"]) == scene.folder / "03_failed/empty.md"
    await settled(scene)


@pytest.mark.parametrize("damage", [b"", b"only a part"])
async def test_damaged_local_file(scene: EmbedScene, damage: bytes) -> None:
    """A file of another size than downloaded is marked for another download; what the store has of it stays."""
    row = scene.file("u1", "a.md", "all of it, and more")
    await scene.embed()
    scene.local(row).write_bytes(damage)
    counts = await scene.embed()

    assert (counts.skipped, counts.uploaded) == (1, 0)
    file = scene.files()["u1"]
    assert (file.file_relative_path, "damaged" in file.sharepoint_error) == ("", True)
    assert scene.contents() == {"u1": "all of it, and more"}
    assert scene.rows()["u1"].openai_file_id
    await settled(scene)


async def test_missing_local_file(scene: EmbedScene) -> None:
    """A file that is not on the disk is skipped with a warning, and counted."""
    row = scene.file("u1", "a.md")
    scene.local(row).unlink()
    counts = await scene.embed()

    assert (counts.skipped, counts.added) == (1, 0)
    assert any("a.md" in one for one in scene.warnings)
    await settled(scene)


async def test_unsupported_type(scene: EmbedScene, caplog: pytest.LogCaptureFixture) -> None:
    """A file of a type that no vector store takes is skipped with a warning."""
    scene.file("u1", "clip.mp4")
    with caplog.at_level(logging.WARNING, "crawler"):
        counts = await scene.embed()

    assert (counts.skipped, counts.uploaded, scene.server.files) == (1, 0, {})
    assert any("clip.mp4" in message and "type" in message for message in caplog.messages)


async def test_waiting_for_a_download(scene: EmbedScene) -> None:
    """An item whose download failed keeps what the store has of it, and is counted as skipped."""
    scene.file("u1", "a.md")
    await scene.embed()
    scene.file("u1", "a.md", "new", day=1, file_relative_path="", sharepoint_error="The site does not answer.")
    counts = await scene.embed()

    assert (counts.skipped, counts.removed) == (1, 0)
    assert scene.contents() == {"u1": "The text of a.md."}
    await settled(scene)


async def test_processed_page_is_uploaded_by_its_local_name(tmp_path: Path, openai_server: OpenAiStoreServer) -> None:
    """A page that SharePoint calls Home.aspx is a Home.html for the store, and Home.aspx in the map."""
    scene = EmbedScene(tmp_path, openai_server, source_type=SharePointType.SITE_PAGES, source_id="pages")
    scene.file("u1", "Home.aspx", "<p>Welcome.</p>", file_size="99999")
    await scene.embed()

    assert openai_server.names(scene.store_id) == ["Home.html"]
    assert scene.rows()["u1"].filename == "Home.aspx"
    await settled(scene)


async def test_source_without_a_download(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Without files_map.csv, or with a damaged one, nothing is removed from the store."""
    scene.file("u1", "a.md")
    await scene.embed()
    path = scene.storage.map_file(scene.source, FileRow)
    path.write_bytes(b"\xff\xfe no map")
    before = scene.disk()
    with pytest.raises(MapFileDamaged):  # the scene reads it after the run
        await scene.embed()

    assert any("files_map.csv" in one for one in scene.warnings)
    assert (scene.disk(), len(openai_server.files)) == (before, 1)


# ── killed, stopped, at the same time ──


class Killed(BaseException):
    """What a kill looks like from inside."""


def kill_at(server: OpenAiStoreServer, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the step at the n-th request that changes something, once it was answered."""
    from core.outputs.vector_store.io.openai_calls import OpenAiCalls

    send, seen = OpenAiCalls.send, len(server.changes())

    async def dying(self: OpenAiCalls, *arguments: object) -> object:
        try:
            return await send(self, *arguments)  # type: ignore[arg-type]
        finally:
            if len(server.changes()) - seen >= number:
                raise Killed

    monkeypatch.setattr(OpenAiCalls, "send", dying)


def story(scene: EmbedScene) -> None:
    """Something of everything."""
    scene.forget("u1")
    scene.file("u2", "b.md", "changed", day=1)
    scene.file("u3", "moved/c.md")
    scene.file("u5", "new.md")
    scene.file("u6", "bad.md")


async def before_the_story(scene: EmbedScene) -> None:
    scene.server.fails["bad.md"] = "No."
    for unique_id, name in (("u1", "a.md"), ("u2", "b.md"), ("u3", "c.md"), ("u4", "d.md")):
        scene.file(unique_id, name)
    await scene.embed()


def told(scene: EmbedScene) -> dict[str, object]:
    """What must be equal after a kill and another run; ids and times may differ."""
    rows = {
        unique_id: (bool(row.openai_file_id), row.file_relative_path, row.embedding_error, bool(row.embedded_utc))
        for unique_id, row in scene.rows().items()
    }
    paths = {unique_id: file.file_relative_path for unique_id, file in scene.files().items()}
    local = sorted(name for name in scene.disk() if "02_embedded" in name or "03_failed" in name)
    named = sorted(str(one["sharepoint_unique_file_id"]) for one in scene.metadata())
    attached = set(scene.server.stores[scene.store_id].files)
    return {
        "rows": rows,
        "paths": paths,
        "local": local,
        "store": scene.contents(),
        "metadata": named,
        "attached": attached == {row.openai_file_id for row in scene.rows().values() if row.openai_file_id},
        "global": set(scene.server.files) == attached,
        "note": (scene.folder / NOTE_NAME).exists(),
    }


async def test_killed_at_any_point(tmp_path: Path, full: bool) -> None:
    """However far a run came, the next one ends as if it had never been interrupted."""
    with OpenAiStoreServer() as server:
        whole = EmbedScene(tmp_path / "whole", server)
        await before_the_story(whole)
        story(whole)
        server.forget_requests()
        await whole.embed()
        expected, requests = told(whole), len(server.changes())
    assert expected["attached"] == expected["global"] == (not expected["note"]) == True  # noqa: E712
    points = range(1, requests + 1) if full else sorted({1, 2, 3, 4, 5, requests // 2 + 2, requests - 1, requests})
    for number in points:
        with OpenAiStoreServer() as server:
            scene = EmbedScene(tmp_path / str(number), server)
            await before_the_story(scene)
            story(scene)
            with pytest.MonkeyPatch.context() as patched:
                kill_at(server, number, patched)
                with pytest.raises(Killed):
                    await scene.embed()
            await scene.embed()
            assert told(scene) == expected, number
            await settled(scene)


async def test_killed_while_rows_are_written(scene: EmbedScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are embedded and have no row yet are taken up by the next run, without another upload."""
    for number in range(4):
        scene.file(f"u{number}", f"{number}.md")

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("core.outputs.vector_store.io.embed_maps.EmbedMaps.put_row", die)
        with pytest.raises(Killed):
            await scene.embed()
    counts = await scene.embed()

    assert (counts.embedded, counts.uploaded, scene.server.count("POST /files")) == (4, 0, 4)
    await settled(scene)


async def test_resumed_full_run(scene: EmbedScene) -> None:
    """A full run that goes on uploads nothing that it uploaded before it was stopped."""
    for number in range(3):
        scene.file(f"u{number}", f"{number}.md")
    await scene.embed()
    for one in scene.server.files.values():
        one.created_at -= 100
    path = scene.storage.map_file(scene.source, VectorStoreRow)
    path.unlink()
    await scene.embed()
    began_ts = time.time() - 10
    await scene.embed(is_full=True, began_ts=began_ts)
    counts = await scene.embed(is_full=True, began_ts=began_ts)

    assert (counts.uploaded, counts.unchanged) == (0, 3)


async def test_stopped_between_items(scene: EmbedScene) -> None:
    """A run that is paused leaves everything written down, and removes nothing that it did not look at."""
    scene.file("u1", "a.md")
    await scene.embed()
    scene.file("u2", "b.md")
    scene.forget("u1")
    counts = await scene.embed(should_stop=lambda: True)
    assert (counts.removed, counts.uploaded) == (0, 0)
    await scene.embed()

    assert list(scene.contents()) == ["u2"]
    await settled(scene)


async def test_stopped_while_it_waits(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A run that is paused while the store embeds ends at once; the next one finds the uploads and only waits."""
    scene.file("u1", "a.md")
    openai_server.hold()
    counts = await scene.embed(should_stop=lambda: openai_server.count(BATCHES) > 0)
    assert (counts.uploaded, counts.failed, scene.rows()) == (1, 0, {})
    assert "02_embedded" in scene.files()["u1"].file_relative_path
    openai_server.release()
    counts = await scene.embed()

    assert (counts.uploaded, counts.embedded) == (0, 1)
    await settled(scene)


async def test_lost_answers_everywhere(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """With the answer of every kind of request lost once, nothing is there twice."""
    scene.file("u1", "a.md", "old")
    scene.file("u2", "b.md")
    await scene.embed()
    scene.file("u1", "a.md", "new", day=1)
    scene.forget("u2")
    scene.file("u3", "c.md")
    lost = ("POST /files", BATCHES, "DELETE /vector_stores/*/files/*", "DELETE /files/*", "GET /vector_stores/*/files")
    for what in (*lost, "GET /files"):
        openai_server.lose_answer(what)
    await scene.embed()

    assert scene.contents() == {"u1": "new", "u3": "The text of c.md."}
    assert len(openai_server.files) == len(openai_server.stores[scene.store_id].files) == 2
    await settled(scene)


async def test_two_sources_at_once(tmp_path: Path, openai_server: OpenAiStoreServer) -> None:
    """Two sources of a domain share a store and a files_metadata.json, and lose nothing of each other."""
    ids: dict[str, str] = {}
    scenes = [EmbedScene(tmp_path, openai_server, source_id=f"s{number}", ids=ids) for number in range(2)]
    for scene in scenes:
        for number in range(3):
            scene.file(f"{scene.source.source_id}-{number}", f"{number}.md")
    await asyncio.gather(*(scene.embed() for scene in scenes))

    assert len(openai_server.stores) == 1
    assert len(scenes[0].contents()) == len(scenes[0].metadata()) == 6
    for scene in scenes:
        await settled(scene)


async def test_many_files_in_batches(scene: EmbedScene, full: bool) -> None:
    """More files than fit into a batch or a page are embedded in several; an unchanged run only reads lists."""
    count = 2_300 if full else FILES_AT_ONCE + 7
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scene, "write", lambda: None)
        for number in range(count):
            scene.file(f"u{number}", f"{number % 7}/{number}.md")
    scene.write()
    counts = await scene.embed()

    assert (counts.embedded, len(scene.rows()), len(scene.metadata())) == (count, count, count)
    await settled(scene)
    assert scene.server.count("GET /vector_stores/*/files") == -(-count // 100)


async def test_listing_that_is_lost(scene: EmbedScene) -> None:
    """Without sharepoint_map.csv files are embedded all the same."""
    scene.file("u1", "a b.md")
    scene.storage.map_file(scene.source, SharePointRow).unlink()
    await scene.embed()

    [stored] = scene.server.stores[scene.store_id].files.values()
    assert stored.attributes["url"] == "https://contoso.sharepoint.com/sites/demo/Shared%20Documents/a%20b.md"
