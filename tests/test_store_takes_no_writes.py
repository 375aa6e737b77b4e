"""A server whose disk is full refuses every write, and PING too: what only reads goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from core.errors import StoreUnreachable
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded, redis_health
from core.store.connect import Client
from tests import commands, ports
from tests.search_site import Library, open_library


@pytest.fixture
async def library(settings: Settings, tmp_path: Path) -> AsyncIterator[Library]:
    """Two pages, embedded and searched once, in a server of our own that then cannot write to its disk."""
    folder = tmp_path / "server"
    server = embedded.start(folder, ports.take())
    try:
        own = settings.model_copy(update={"redis_url": SecretStr(server.url)})
        async with open_library(own, {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}) as opened:
            await opened.embed()
            await fill_disk(opened.context.client, folder)
            yield opened
    finally:
        server.process.kill()
        server.process.wait()


async def fill_disk(client: Client, folder: Path) -> None:
    """A snapshot that fails has the same consequence as an append-only file that cannot grow: MISCONF."""
    await client.config_set("save", "3600 1")
    shutil.rmtree(folder)
    await client.bgsave()
    while (await client.info("persistence"))["rdb_bgsave_in_progress"]:
        continue
    with pytest.raises(ResponseError, match="MISCONF"):
        await client.ping()


async def run(library: Library, *words: str) -> tuple[int, str, str]:
    model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    done = await commands.run(library.settings, *words, **model)
    return done.returncode, done.stdout, done.stderr


async def test_search_answers(library: Library) -> None:
    """Also with a replica that has yet to be built, and with a damaged vector that cannot be made anew now."""
    code, out, err = await run(library, "scripts.search", "weir repaired", "--json")

    assert code == 0, err
    assert json.loads(out)["results"][0]["url"] == library.site.url("/weir")
    assert "Traceback" not in err


async def test_status_tells_it(library: Library) -> None:
    """All figures, and the danger with what to do."""
    code, out, err = await run(library, "scripts.status")

    assert code == 0, err
    assert "Registry  3 Indexed" in out
    assert "0 jobs wait in embed" in out
    assert "cannot write to its disk" in out


@pytest.mark.parametrize("words", [("scripts.feeds", "list"), ("scripts.domain", "list")])
async def test_what_only_reads_goes_on(library: Library, words: tuple[str, ...]) -> None:
    """Lists of feeds and domains."""
    code, _, err = await run(library, *words)

    assert code == 0, err


async def test_what_writes_is_a_sentence(library: Library) -> None:
    """No traceback, and the sentence says that the disk is full."""
    code, _, err = await run(library, "scripts.reindex", library.site.url("/weir"))

    assert (code, "takes no writes, as it cannot write to its disk" in err) == (2, True)
    assert "Traceback" not in err


async def test_workers_wait_for_a_server_that_takes_writes(library: Library) -> None:
    """What has to write waits, or gives up with a sentence that says why."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    client = connect.open_store(library.settings)
    try:
        with pytest.raises(StoreUnreachable, match="cannot write to its disk"):
            await redis_health.wait_for_server(client, library.settings, sleep, give_up_seconds=5)
    finally:
        await client.aclose()
    assert slept
