"""Map files against the vector store, both ways, with repair."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from core.keys import Keys
from core.outputs.vector_store.io.store_check import CheckedDomain, check_store
from core.outputs.vector_store.protocol import VectorStoreMissing, VectorStoreUnavailable
from core.outputs.vector_store.store_findings import StoreFinding, StoreProblem
from core.runs.run import source_scope
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.store import connect
from scripts import doctor
from tests import commands
from tests.embed_scene import EmbedScene
from tests.openai_store_server import OpenAiStoreServer


@pytest.fixture
async def scene(tmp_path: Path, openai_server: OpenAiStoreServer) -> EmbedScene:
    made = EmbedScene(tmp_path, openai_server)
    for number in range(3):
        made.file(f"u{number}", f"{number}.md")
    await made.embed()
    return made


async def check(scene: EmbedScene, *, fix: bool = False, busy: tuple[str, ...] = ()) -> list[StoreFinding]:
    domain = CheckedDomain(scene.source.domain_id, (scene.source.source_id,), busy)
    async with scene.store() as store:
        return [one async for one in check_store(store, scene.storage, domain, fix=fix)]


async def healed(scene: EmbedScene, expected: dict[StoreProblem, int]) -> None:
    """It is found, a look changes nothing, a repair heals it, and then nothing is wrong."""
    before = scene.state()
    looked = await check(scene)
    assert Counter(one.problem for one in looked) == expected
    assert not any(one.is_healed for one in looked)
    assert scene.state() == before
    repaired = await check(scene, fix=True)
    assert {one.problem for one in repaired} == set(expected)
    assert all(one.is_healed for one in repaired)
    assert await check(scene) == []


async def test_nothing_is_wrong(scene: EmbedScene) -> None:
    """After an embed step maps and store agree, and a repair changes nothing."""
    before = scene.state()
    assert await check(scene, fix=True) == []
    assert scene.state() == before


async def test_row_without_a_file(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A row of a file that the store lost is dropped, and the next embed step uploads it again."""
    rows = scene.rows()
    openai_server.delete_file(rows["u0"].openai_file_id)
    openai_server.delete_file(rows["u1"].openai_file_id, stays_listed=True)
    await healed(scene, {StoreProblem.ROW_WITHOUT_FILE: 2})
    await scene.embed()

    assert set(scene.contents()) == {"u0", "u1", "u2"}


async def test_old_versions_and_orphans(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """Files of ours that no map names are deleted; those of others stay."""
    ours = {"domain": "DOMAIN01", "source_id": "docs", "source_type": "file_sources"}
    old = openai_server.add_file(scene.store_id, "0.md", unique_id="u0", generation="0", **ours)
    orphan = openai_server.add_file(scene.store_id, "gone.md", unique_id="gone", **ours)
    of_no_source = openai_server.add_file(scene.store_id, "x.md", unique_id="x", **{**ours, "source_id": "removed"})
    plain = openai_server.add_file(scene.store_id, "stranger.md")
    other = openai_server.add_file(scene.store_id, "o.md", **{**ours, "domain": "OTHER", "unique_id": "u0"})
    await healed(scene, {StoreProblem.OLD_VERSION: 1, StoreProblem.UNNAMED: 2})

    assert not {old, orphan, of_no_source} & set(openai_server.files)
    assert {plain, other} < set(openai_server.stores[scene.store_id].files)


async def test_embedding_under_way(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """What a run did not wait for is no fault, new or a new version: the next run writes it down."""
    scene.file("u0", "0.md", "another text", day=1)
    scene.file("u9", "9.md")
    openai_server.hold()
    await scene.embed(openai_wait_seconds=0.2)
    assert await check(scene, fix=True) == []
    openai_server.release()
    counts = await scene.embed()

    assert (counts.embedded, counts.uploaded, await check(scene)) == (2, 0, [])


@pytest.mark.parametrize("damage", [b"", b"\x00 no map"])
async def test_lost_map_is_rebuilt(scene: EmbedScene, openai_server: OpenAiStoreServer, damage: bytes) -> None:
    """A lost or damaged vectorstore_map.csv is written again as it was; nothing is uploaded or deleted for it."""
    path = scene.storage.map_file(scene.source, VectorStoreRow)
    before = path.read_bytes()
    path.write_bytes(damage) if damage else path.unlink()
    ids = set(openai_server.files)
    await healed(scene, {StoreProblem.NO_MAP: 1})

    assert path.read_bytes() == before
    assert set(openai_server.files) == ids


async def test_everything_local_is_lost(tmp_path: Path, scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """With nothing left on this disk the map comes back from attributes alone; downloads are known by their bytes."""
    fresh = EmbedScene(tmp_path / "fresh", openai_server, ids=scene.ids)
    await healed(fresh, {StoreProblem.NO_MAP: 1})
    assert {one.filename for one in fresh.rows().values()} == {"0.md", "1.md", "2.md"}
    for number in range(3):
        fresh.file(f"u{number}", f"{number}.md")
    counts = await fresh.embed()

    assert (counts.uploaded, len(openai_server.files)) == (0, 3)
    assert {one.file_size for one in fresh.rows().values()} == {"17"}


async def test_unrecorded_file(scene: EmbedScene) -> None:
    """A file whose row is missing gets one, of the version that the store has."""
    row = scene.rows()["u1"]
    path = scene.storage.map_file(scene.source, VectorStoreRow)
    lines = [line for line in path.read_text().splitlines(keepends=True) if row.openai_file_id not in line]
    path.write_text("".join(lines))
    await healed(scene, {StoreProblem.UNRECORDED: 1})

    assert scene.rows()["u1"] == row


async def test_rebuilt_row_of_another_version_is_compared(scene: EmbedScene) -> None:
    """Where the local file has other bytes than the store, the next embed step uploads them."""
    scene.storage.map_file(scene.source, VectorStoreRow).unlink()
    scene.file("u1", "1.md", "newer", day=1)
    await check(scene, fix=True)
    counts = await scene.embed()

    assert (counts.changed, counts.uploaded) == (1, 1)
    assert scene.contents()["u1"] == "newer"


async def test_failed_item_has_no_file_in_the_store(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A version of an item that is in 03_failed is removed from the store."""
    openai_server.fails["bad.md"] = "No."
    scene.file("bad", "bad.md")
    await scene.embed()
    ours = {"domain": "DOMAIN01", "source_id": "docs", "source_type": "file_sources", "unique_id": "bad"}
    openai_server.add_file(scene.store_id, "bad.md", **ours)
    await healed(scene, {StoreProblem.UNNAMED: 1})


async def test_busy_source_is_left_out(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A source that a run is at is not judged: its uploads have no rows yet."""
    openai_server.delete_file(scene.rows()["u0"].openai_file_id)

    assert await check(scene, fix=True, busy=("docs",)) == []
    assert len(scene.rows()) == 3


async def test_store_that_cannot_be_read(scene: EmbedScene, openai_server: OpenAiStoreServer) -> None:
    """A list that breaks off, or a store that is gone, changes nothing."""
    before = scene.disk()
    openai_server.refuse("GET /vector_stores/*/files", 500, times=9)
    with pytest.raises(VectorStoreUnavailable):
        await check(scene, fix=True)
    openai_server.stores.clear()
    with pytest.raises(VectorStoreMissing):
        await check(scene, fix=True)

    assert scene.disk() == before


async def test_map_without_a_download(scene: EmbedScene) -> None:
    """A source whose files_map.csv is lost keeps what its other map names."""
    scene.storage.map_file(scene.source, FileRow).unlink()

    assert await check(scene, fix=True) == []


# ── the doctor ──


async def told(capsys: pytest.CaptureFixture[str], *, fix: bool = False) -> tuple[int, dict[str, int], list[str]]:
    """Exit code, findings and notes."""
    capsys.readouterr()
    code = await doctor.doctor(fix=fix, as_json=True, stores=True)
    said = json.loads(capsys.readouterr().out)
    return code, said["findings"], said["notes"]


async def test_doctor_compares_stores(
    settings: Settings,
    redis: connect.Client,
    keys: Keys,
    scene: EmbedScene,
    openai_server: OpenAiStoreServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --stores the doctor tells what differs and heals it; a source in a run and a lost store are left."""
    source = {"source_id": "docs", "site_url": "https://contoso.sharepoint.com/sites/demo"}
    domain = {
        "id": "DOMAIN01",
        "index": "openai",
        "vector_store_id": scene.store_id,
        "file_sources": [{**source, "sharepoint_url_part": "/Shared Documents"}],
    }
    commands.adopt(monkeypatch, settings, **openai_server.environment)
    await add_domain(settings, redis, keys, parse_domain(json.dumps(domain), "/"))
    openai_server.delete_file(scene.rows()["u0"].openai_file_id)
    expected = {str(StoreProblem.ROW_WITHOUT_FILE): 1}

    await redis.hset(keys.runs_open, source_scope("DOMAIN01.docs"), "jb_1")
    code, findings, notes = await told(capsys, fix=True)
    assert (code, findings, any("being crawled" in one for one in notes)) == (1, {}, True)
    await redis.hdel(keys.runs_open, source_scope("DOMAIN01.docs"))

    assert (await told(capsys))[:2] == (1, expected)
    assert (await told(capsys, fix=True))[:2] == (0, expected)
    assert (await told(capsys))[:2] == (0, {})
    openai_server.stores.clear()
    code, findings, notes = await told(capsys)
    assert (code, findings, any("no vector store" in one for one in notes)) == (1, {}, True)
    for fix in (False, True):
        assert await doctor.doctor(fix=fix, as_json=False, stores=True) == 1
        page = capsys.readouterr().out
        assert "1 vector store could not be compared, which `--fix` cannot heal; the notes say what to do." in page
        assert "make it empty: then the next crawl makes a new one." in page
        assert all(words not in page for words in ("heals it", "others are at just now", "domain remove"))
    (settings.persistent_storage_path / "domains/DOMAIN01/domain.json").unlink()
    _, _, notes = await told(capsys)
    assert any(one.endswith("domain remove DOMAIN01`.") for one in notes), notes
