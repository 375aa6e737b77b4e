"""Search in Qdrant: filled from Redis by one command, kept up to date by events, the same answers as the replica's.

On the client's local mode; on a server, if QDRANT_URL of the environment names one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import SettingsError
from core.search.io import qdrant_connect, qdrant_follower
from core.search.io.qdrant_connect import QdrantUnreachable
from core.search.io.qdrant_follower import QdrantFollower
from core.search.io.searcher import open_searcher
from core.search.models import Query
from core.settings import Settings
from tests import commands
from tests.search_site import Library, open_library

SERVER = os.environ.get("QDRANT_URL", "")
TEXTS = {
    "/a": "The weir was repaired in spring.",
    "/b": "The sluice and the weir are closed.",
    "/c": "Repaired was the old mill, far from any weir or sluice.",
}


@pytest.fixture
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    """Pages that are embedded, and searched in Qdrant."""
    monkeypatch.setattr(qdrant_follower, "NAME", f"freshet{uuid.uuid4().hex}")
    url = SERVER or str(settings.persistent_storage_path / "qdrant")
    in_qdrant = settings.model_copy(update={"search_backend": "qdrant", "qdrant_url": url})
    async with open_library(in_qdrant, TEXTS) as opened:
        await opened.embed()
        yield opened
        async with qdrant_connect.open_client(opened.settings) as client:
            for one in (await client.get_collections()).collections:
                if one.name.startswith(qdrant_follower.NAME):
                    await client.delete_collection(one.name)


async def compared(library: Library) -> dict[str, int]:
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        return await searcher.follower.compare()


def rebuilds(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.text.count("Building the search replica anew")


@pytest.mark.parametrize("text", ["weir", "repaired mill", '"was repaired"', '"weir repaired"', "closed sluice", "xyz"])
@pytest.mark.parametrize("weight", [1.0, 0.7])
async def test_answers_are_those_of_the_replica(library: Library, text: str, weight: float) -> None:
    """The same pages, by words, by both, and by phrases; and the best one first."""
    in_qdrant = await library.urls(text, lexical_weight=weight)
    by_replica = await library.urls(text, library.with_(search_backend="replica"), lexical_weight=weight)

    assert set(in_qdrant) == set(by_replica)
    assert in_qdrant[:1] == by_replica[:1]


async def test_follows_the_events(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """Changed, new and gone pages while nobody followed; nothing is built anew."""
    await library.urls("weir")
    caplog.clear()
    library.site.page("/", links=["/a", "/b", "/d"])
    library.site.page("/d", "The weir has a new lock.")
    library.site.page("/a", "The mill.")
    library.site.remove("/b", 410)
    await library.crawl()
    await library.embed()

    assert "/d" in await library.urls("weir", lexical_weight=1.0)
    assert not {"/a", "/b"} & set(await library.urls("weir", lexical_weight=1.0))
    assert rebuilds(caplog) == 0
    assert (await compared(library))["missing"] == (await compared(library))["extra"] == 0


async def test_a_gap_in_the_events_is_filled(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """Everything is read again, and what is gone is removed."""
    await library.urls("weir")
    caplog.clear()
    library.site.remove("/b", 410)
    await library.crawl()
    await library.context.client.xtrim(library.context.keys.events, maxlen=1, approximate=False)

    assert "/b" not in await library.urls("sluice", lexical_weight=1.0)
    assert rebuilds(caplog) == 1
    assert (await compared(library))["extra"] == 0


async def test_search_answers_while_it_is_filled(library: Library) -> None:
    """Every answer meanwhile is that of the full index."""
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:

        async def ask() -> set[str]:
            found = await searcher.search(Query("weir", lexical_weight=1.0), time.time(), should_follow=False)
            return {one.page.url for one in found.results}

        await searcher.follower.catch_up()
        whole = await ask()
        assert isinstance(searcher.follower, QdrantFollower)
        filling = asyncio.create_task(searcher.follower.fill())
        answers = [await ask()]
        while not filling.done():
            answers.append(await ask())

    assert len(whole) == 3
    assert all(answer == whole for answer in answers)
    assert filling.result() >= 3


async def test_another_vector_space_is_filled_beside_the_old_one(library: Library) -> None:
    """After a cut-over pages are found by the new model, and the old collections are gone."""
    await library.urls("weir")
    second = library.with_(embed_model="second")
    model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "second"}
    done = await commands.run(library.settings, "scripts.reindex", "--embeddings", **model)
    assert done.returncode == 0, done.stderr
    found = await library.ask("weir", second)
    async with qdrant_connect.open_client(library.settings) as client:
        names = [one.name for one in (await client.get_collections()).collections]

    assert found.by.startswith("words and meaning")
    assert {library.site.url(path) for path in TEXTS} <= {one.page.url for one in found.results}
    assert len([name for name in names if name.startswith(qdrant_follower.NAME)]) == 2  # chunks and state


# ── the command ──


async def run(library: Library, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    place = {"QDRANT_URL": library.settings.qdrant_url}
    return await commands.run(library.settings, *command, **(model | place | more))


async def test_one_command_fills_it(library: Library) -> None:
    """While the replica is searched; then the setting, and the same pages are found there; the doctor agrees."""
    filled = await run(library, "scripts.reindex", "--qdrant")
    found = await run(library, "scripts.search", "weir repaired", SEARCH_BACKEND="qdrant")
    checked = await run(library, "scripts.doctor", SEARCH_BACKEND="qdrant")

    assert filled.returncode == 0, filled.stderr
    assert filled.stdout == "Qdrant has 4 chunks of 4 items.\nSet SEARCH_BACKEND=qdrant to search there.\n"
    assert library.site.url("/a") in found.stdout
    assert "Building" not in found.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_without_an_address_it_is_a_sentence(settings: Settings, tmp_path: Path) -> None:
    """QDRANT_URL is named, whether it is not set or nobody answers there."""
    with pytest.raises(SettingsError, match="QDRANT_URL is not set"):
        async with qdrant_connect.open_client(settings):
            pass
    with pytest.raises(QdrantUnreachable, match="QDRANT_URL"):
        async with qdrant_connect.open_client(
            settings.model_copy(update={"qdrant_url": "http://127.0.0.1:1"})
        ) as client:
            await client.get_collections()
