"""files_metadata.json: its entries, what people added to them, damage, and its cleanup."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from core.outputs.vector_store.file_metadata import STANDARD_FIELDS, carried_over, entry_of, updated
from core.outputs.vector_store.io.json_entries import EntriesDamaged, read_entries
from core.outputs.vector_store.io.metadata_file import clean_metadata, open_metadata
from core.outputs.vector_store.protocol import VectorStoreUnavailable
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import SharePointRow, VectorStoreRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource
from tests.embed_scene import EmbedScene
from tests.openai_store_server import OpenAiStoreServer

SOURCE = StoredSource("DOMAIN01", "docs", SharePointType.FILES, "https://e.org/sites/demo", "/Shared Documents")
ROW = VectorStoreRow(
    openai_file_id="file-1",
    sharepoint_listitem_id="7",
    sharepoint_unique_file_id="u1",
    filename="a.md",
    file_type="md",
    file_size="864368",
    file_relative_path="DOMAIN01\\01_files\\docs\\02_embedded\\a.md",
    last_modified_utc="2024-01-15T10:30:00.000000Z",
    last_modified_timestamp="1705314600",
    embedded_utc="2024-01-16T14:20:00.000000Z",
)
LISTED = SharePointRow(url="https://e.org/a%20b", raw_url="https://e.org/a b", server_relative_url="/a b")


@pytest.fixture
def scene(tmp_path: Path, openai_server: OpenAiStoreServer) -> EmbedScene:
    return EmbedScene(tmp_path, openai_server)


# ── entries ──


def test_entry_has_every_field() -> None:
    """An entry has the fields of both versions in order; sizes and times are numbers, addresses are the listing's."""
    entry = entry_of(SOURCE, ROW, LISTED)

    assert tuple(entry) == STANDARD_FIELDS
    assert entry == {
        "sharepoint_listitem_id": 7,
        "sharepoint_unique_file_id": "u1",
        "openai_file_id": "file-1",
        "file_relative_path": "DOMAIN01\\01_files\\docs\\02_embedded\\a.md",
        "url": "https://e.org/a%20b",
        "raw_url": "https://e.org/a b",
        "server_relative_url": "/a b",
        "filename": "a.md",
        "file_type": "md",
        "file_size": 864368,
        "last_modified_utc": "2024-01-15T10:30:00.000000Z",
        "last_modified_timestamp": 1705314600,
        "embedded_utc": "2024-01-16T14:20:00.000000Z",
        "source_id": "docs",
        "source_type": "file_sources",
    }


def test_newest_entry_is_carried_over() -> None:
    """Custom properties come from the entry that was embedded last, never over a standard field."""
    old = {"embedded_utc": "2024-01-01", "topic": "old", "only_old": 1, "filename": "x"}
    new = {"embedded_utc": "2024-02-01", "topic": ["new"], "source_id": "other"}
    entry = carried_over(entry_of(SOURCE, ROW, LISTED), [new, old, {"topic": "never embedded", "embedded_utc": None}])

    assert (entry["topic"], "only_old" in entry, entry["filename"], entry["source_id"]) == (
        ["new"],
        False,
        "a.md",
        "docs",
    )
    assert carried_over(entry, []) == entry


def test_known_entry_follows_a_rename() -> None:
    """Its fields are those of the maps now; what people added stays, and so does an address that the maps lost."""
    known = {**entry_of(SOURCE, ROW, LISTED), "filename": "old.md", "topic": "x"}

    assert updated(known, entry_of(SOURCE, ROW, None)) == {**entry_of(SOURCE, ROW, LISTED), "topic": "x"}


# ── the file ──


async def test_versions_and_custom_properties(scene: EmbedScene) -> None:
    """A new version gets a new entry with the custom properties of the last; the old entry stays as history."""
    scene.file("u1", "a.md", "old")
    await scene.embed()
    path = scene.storage.files_metadata("DOMAIN01")
    entries = json.loads(path.read_text())
    entries[0] |= {"topic": "Größe", "nested": {"a": [1, None]}}
    path.write_text(json.dumps(entries))
    scene.file("u1", "b.md", "new", day=1)
    await scene.embed()

    old, new = scene.metadata()
    assert (old["filename"], new["filename"]) == ("a.md", "b.md")
    assert old["openai_file_id"] != new["openai_file_id"] == scene.rows()["u1"].openai_file_id
    assert (new["topic"], new["nested"], new["file_size"]) == ("Größe", {"a": [1, None]}, 3)
    assert new["url"] == "https://contoso.sharepoint.com/sites/demo/Shared%20Documents/b.md"


async def test_removed_and_restored(scene: EmbedScene) -> None:
    """The entry of a removed file stays; a restored one inherits from it."""
    scene.file("u1", "a.md")
    await scene.embed()
    path = scene.storage.files_metadata("DOMAIN01")
    path.write_text(path.read_text().replace('"a.md"', '"a.md", "topic": "x"'))
    scene.forget("u1")
    await scene.embed()
    assert len(scene.metadata()) == 1
    scene.file("u1", "a.md")
    await scene.embed()

    assert [one["topic"] for one in scene.metadata()] == ["x", "x"]


async def test_lost_file_is_written_again(scene: EmbedScene) -> None:
    """Every embedded file has an entry after a run, also if the file was lost or the last run killed before it."""
    scene.file("u1", "a.md")
    await scene.embed()
    before = scene.metadata()
    scene.storage.files_metadata("DOMAIN01").unlink()
    await scene.embed()

    assert scene.metadata() == before


@pytest.mark.parametrize(
    "damage", ['[{"openai_file_id": "x", "topic": 1},\n{"torn', "not JSON", '{"a": 1}', "[1]", "\xff"]
)
async def test_damaged_file_is_kept(scene: EmbedScene, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be read is put aside byte for byte, with a sentence; entries before the damage live on."""
    scene.file("u1", "a.md")
    path = scene.storage.files_metadata("DOMAIN01")
    path.parent.mkdir(parents=True)
    path.write_bytes(damage.encode("latin-1"))
    await scene.embed()

    [aside] = path.parent.glob("files_metadata.json.damaged-*")
    assert aside.read_bytes() == damage.encode("latin-1")
    assert [one["openai_file_id"] for one in scene.metadata()][-1] == scene.rows()["u1"].openai_file_id
    assert ("x" in [one["openai_file_id"] for one in scene.metadata()]) == damage.startswith('[{"openai_file_id"')
    assert any("cannot be read" in message for message in caplog.messages)


def test_updates_at_once_lose_nothing(tmp_path: Path) -> None:
    """Many writers change the file one after the other."""
    storage = CrawlerStorage(tmp_path)

    def write(number: int) -> None:
        with open_metadata(storage, "D") as entries:
            entries.put({"openai_file_id": f"f{number}", "sharepoint_unique_file_id": "u", "x": number} | _blank())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entries = json.loads(storage.files_metadata("D").read_text())
    assert {one["openai_file_id"] for one in entries} == {f"f{number}" for number in range(12)}


def _blank() -> dict[str, Any]:
    return {"url": "", "raw_url": "", "server_relative_url": ""}


@pytest.mark.parametrize("size", [0, 1, 3, 2_000])
def test_written_file_is_plain_json(tmp_path: Path, size: int) -> None:
    """The file is an array that any reader reads; half characters survive."""
    storage = CrawlerStorage(tmp_path)
    with open_metadata(storage, "D") as entries:
        for number in range(size):
            entries.append({"openai_file_id": str(number), "text": "ä\ud800\n" * 30})

    read = json.loads(storage.files_metadata("D").read_bytes())
    assert [one["openai_file_id"] for one in read] == [str(number) for number in range(size)]
    assert {one["text"] for one in read} <= {"ä\ud800\n" * 30}


@pytest.mark.parametrize("text", ["[]", " [ ] \n", '\ufeff[{"a":1}]', '[{"a": "' + "x" * 200_000 + '"}, {"b": "ä"}]'])
def test_arrays_of_any_form_are_read(text: str) -> None:
    """Spaces, a byte order mark and entries longer than what is read at once are no matter."""
    assert list(read_entries(io.BytesIO(text.encode()))) == json.loads(text.removeprefix("\ufeff"))


@pytest.mark.parametrize("text", ["", "{}", "[", '[{"a":1}', '[{"a":1} {"b":2}]', '[{"a":1},]', '[{"a":1}] x', "[1]"])
def test_no_array(text: str) -> None:
    """Anything else is damage."""
    with pytest.raises(EntriesDamaged):
        list(read_entries(io.BytesIO(text.encode())))


# ── cleanup ──


async def test_cleanup_by_both_rules(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Entries of files that the store lost and of items that no map has are removed, and both numbers returned."""
    scene.file("u1", "a.md", "old")
    scene.file("u2", "b.md")
    scene.file("u3", "c.md")
    await scene.embed()
    scene.file("u1", "a.md", "new", day=1)
    scene.forget("u2")
    await scene.embed()
    stranger = openai_server.add_file(scene.store_id, "d.md")
    added = [{"openai_file_id": stranger, "sharepoint_unique_file_id": "nobody"}, {"topic": "no ids at all"}]
    scene.storage.files_metadata("DOMAIN01").write_text(json.dumps([*scene.metadata(), *added]))
    async with scene.store() as store:
        first = await clean_metadata(store, scene.storage, "DOMAIN01")
        second = await clean_metadata(store, scene.storage, "DOMAIN01")

    assert (first, second) == ({"removed": 4, "remaining": 2}, {"removed": 0, "remaining": 2})
    assert {one["sharepoint_unique_file_id"] for one in scene.metadata()} == {"u1", "u3"}


async def test_cleanup_that_cannot_see_removes_nothing(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A store or a map that cannot be read is no reason to remove anything."""
    scene.file("u1", "a.md")
    await scene.embed()
    before = scene.disk()
    async with scene.store() as store:
        openai_server.refuse("GET /vector_stores/*/files", 500, times=9)
        with pytest.raises(VectorStoreUnavailable):
            await clean_metadata(store, scene.storage, "DOMAIN01")
        openai_server._faults.clear()
        assert scene.disk() == before
        path = scene.storage.map_file(scene.source, VectorStoreRow)
        path.write_bytes(b"\x00")
        with pytest.raises(VectorStoreUnavailable, match="cannot be read"):
            await clean_metadata(store, scene.storage, "DOMAIN01")

    assert len(scene.metadata()) == 1
