"""`python -m scripts.doctor`: what is wrong is told, healed with --fix, and then there is nothing left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from core.doctor.invariants import Problem
from core.models import Chunk
from core.search.io.searcher import open_searcher
from core.search.models import IndexedPage
from core.settings import Settings
from core.store import connect
from core.store.leases import Leases
from scripts import command_line, doctor
from tests import commands
from tests.search_site import Library, open_library
from tests.test_index_repair import (
    Plant,
    chunks_of_another_type,
    for_nothing,
    in_no_status,
    nobody_knows,
    record_deleted,
    record_of_another_type,
    stray_chunk,
    text_of_another_type,
    vector_of_another_type,
    vector_too_short,
    without_live,
    without_record,
    without_text,
    without_vector,
)

CLEAN = {"missing": 0, "extra": 0}


@pytest.fixture
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    pages = {"/a": "The weir.", "/b": "The sluice.", "/c": "The lock.", "/empty": "x"}
    async with open_library(settings, pages) as opened:
        commands.adopt(
            monkeypatch, opened.settings, EMBEDDER="openai", EMBED_API_URL=opened.server.url, EMBED_MODEL="first"
        )
        opened.site.web.page("/empty", "<html lang=en><title>Empty</title><body></body></html>")
        await opened.crawl()
        await opened.embed()
        opened.site.page("/b", "The sluice as it is now.")
        opened.site.remove("/c", 410)
        await opened.crawl()
        yield opened


async def told(capsys: pytest.CaptureFixture[str], *, fix: bool = False) -> tuple[int, dict[str, Any]]:
    """Exit code, and all it says."""
    capsys.readouterr()
    code = await doctor.doctor(fix=fix, as_json=True)
    return code, json.loads(capsys.readouterr().out)


async def run(
    capsys: pytest.CaptureFixture[str], *, fix: bool = False
) -> tuple[int, dict[str, object], dict[str, int]]:
    """Exit code, findings, replica."""
    code, said = await told(capsys, fix=fix)
    return code, said["findings"], {name: said["replica"][name] for name in CLEAN}


async def page(capsys: pytest.CaptureFixture[str], *, fix: bool) -> tuple[int, str]:
    """Exit code, and what people read."""
    capsys.readouterr()
    code = await doctor.doctor(fix=fix, as_json=False)
    return code, capsys.readouterr().out


async def test_clean_store_is_clean(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """No false alarm: not with pages that wait, gone ones or empty ones; also when all is embedded."""
    assert await run(capsys) == (0, {}, CLEAN)
    await library.embed()
    assert await run(capsys) == (0, {}, CLEAN)
    code, said = await page(capsys, fix=False)
    assert (code, "Registry, texts and chunks agree." in said, "heal" in said.lower()) == (0, True, False)


@pytest.mark.parametrize(
    "plant",
    [
        *(without_vector, vector_too_short, nobody_knows, without_text, without_record, for_nothing, stray_chunk),
        *(without_live, in_no_status, record_deleted),
    ],
    ids=lambda one: one.__name__,
)
async def test_what_is_wrong_is_healed(library: Library, capsys: pytest.CaptureFixture[str], plant: Plant) -> None:
    """Told with exit code 1, healed with --fix, clean at the second run."""
    expected = {str(one.problem): 1 for one in await plant(library)}

    code, findings, _ = await run(capsys)
    assert (code, findings) == (1, expected)
    code, findings, _ = await run(capsys, fix=True)
    assert (code, findings) == (0, expected)
    assert await run(capsys) == (0, {}, CLEAN)


async def test_page_in_no_status_stays_in_the_replica(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """It is put where its record says; nothing of it was too much."""
    await library.ask("weir")
    await in_no_status(library)

    assert await run(capsys, fix=True) == (0, {str(Problem.MISPLACED): 1}, CLEAN)
    assert await library.context.client.sismember(library.context.keys.status("Indexed"), library.id("/a"))
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]


@pytest.mark.parametrize(
    "plant",
    [chunks_of_another_type, vector_of_another_type, text_of_another_type, record_of_another_type],
    ids=lambda one: one.__name__,
)
async def test_key_of_another_type_is_set_right(
    library: Library, capsys: pytest.CaptureFixture[str], plant: Plant
) -> None:
    """It is told like all else, without an error; the replica is compared when it can be read again."""
    expected = {str(one.problem): 1 for one in await plant(library)}

    code, said = await told(capsys)
    assert (code, said["findings"], said["replica"]) == (1, expected, {})
    assert "not compared" in (await page(capsys, fix=False))[1]
    code, said = await told(capsys, fix=True)
    # A record that was put aside is lost, and its partition still names it: that is told and healed as well.
    assert (code, said["left"], expected.items() <= said["findings"].items()) == (0, 0, True)
    assert await run(capsys) == (0, {}, CLEAN)


def test_error_of_the_server_tells_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if nobody set REDIS_URL, since it is the embedded one."""

    async def fail() -> int:
        raise ResponseError("WRONGTYPE")

    monkeypatch.setenv("REDIS_URL", "")
    monkeypatch.setenv("PERSISTENT_STORAGE_PATH", str(tmp_path))
    connect.write_url(tmp_path, "redis://127.0.0.1:7777/0")

    assert command_line.run(fail()) == 2
    assert capsys.readouterr().err == "Redis at redis://127.0.0.1:7777/0 answers with an error: WRONGTYPE.\n"


async def test_what_is_healed_and_what_is_left_is_told(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """One page is healed; another a worker holds: that is left, with exit code 1, until the worker lets go of it."""
    client, keys = library.context.client, library.context.keys
    await without_vector(library)
    await nobody_knows(library)
    leases = Leases(client, keys)
    taken = await leases.acquire(f"embed_{library.id('/b')}")
    assert taken

    code, said = await told(capsys)
    assert (code, said["healed"], said["left"]) == (1, 0, 2)
    code, said = await told(capsys, fix=True)
    assert (code, said["healed"], said["left"], said["waiting"]) == (1, 1, 1, 1)
    code, text = await page(capsys, fix=True)
    assert (code, "Healed: 0. Left: 1, which others are at just now" in text) == (1, True)
    assert "1 page waits for an embed worker." in text
    await leases.release(taken[0])
    code, text = await page(capsys, fix=True)
    assert (code, "Healed: 1. Nothing is left." in text) == (0, True)
    assert "2 pages wait for an embed worker." in text
    await library.embed()
    assert await run(capsys) == (0, {}, CLEAN)


async def test_replica_that_another_process_writes_is_left(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not healed by saying so."""
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        await searcher.follower.compare()
        replica = searcher.follower.replica
        assert replica.try_write_lock()
        await replica.delete([library.id("/a")])
        await replica.commit(replica.checkpoint)

        code, said = await told(capsys, fix=True)

        assert (code, said["healed"], said["left"]) == (1, 0, 1)
        replica.stop_writing()
    code, said = await told(capsys, fix=True)
    assert (code, said["healed"], said["left"]) == (0, 1, 0)


async def test_store_without_vectors_lacks_them_once_there_is_a_model(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With EMBEDDER=none all is well; with a model every page waits for it, and nothing else is wrong."""
    async with open_library(settings, {"/a": "The weir."}, embedder="none") as library:
        words = {"EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        await library.embed()
        commands.adopt(monkeypatch, library.settings, EMBEDDER="none")
        assert await run(capsys) == (0, {}, CLEAN)
        commands.adopt(monkeypatch, library.settings, EMBEDDER="openai", **words)
        code, findings, _ = await run(capsys, fix=True)
        assert (code, findings) == (0, {str(Problem.NOT_EMBEDDED): 2})
        await library.embed(embedder="openai")
        assert await run(capsys) == (0, {}, CLEAN)
        assert (await library.ask("weir", library.with_(embedder="openai"))).by == "words and meaning"


async def test_replica_with_too_much_and_too_little(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that nobody knows, one that is missing, one with other chunks: told, healed, clean."""
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        await searcher.follower.compare()
        replica = searcher.follower.replica
        assert replica.try_write_lock()
        extra = IndexedPage("url_nobody", "v", url="https://example.org/")
        await replica.upsert(extra, [Chunk("c_extra", "Nobody knows this page.")], {})
        await replica.delete([library.id("/a")])
        page = (await searcher._pages.read([library.id("/")]))[library.id("/")]
        assert page
        await replica.upsert(page.page, [Chunk("c_other", "Not what the page says.")], {})
        await replica.commit(replica.checkpoint)

    assert await run(capsys) == (1, {}, {"missing": 2, "extra": 1})
    assert await run(capsys, fix=True) == (0, {}, {"missing": 2, "extra": 1})
    assert await run(capsys) == (0, {}, CLEAN)
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]
