"""Rebuild the chunks of a store beside the live ones."""

from __future__ import annotations

from core.search.io.index_rebuild import IndexRebuild, RebuildTarget
from core.settings import Settings
from core.store import connect
from tests.search_site import open_library


async def test_chunks_are_rebuilt_while_search_answers(settings: Settings) -> None:
    """Every text is queued and cut anew; search finds everything before, between and after; images stay as they are."""
    async with open_library(settings, {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}) as library:
        await library.embed()
        client, keys = library.context.client, library.context.keys
        await client.hset(keys.item("url_image"), mapping={"status": "Indexed", "parentPageId": library.id("/weir")})
        await client.sadd(keys.status("Indexed"), "url_image")
        await client.hset(
            keys.chunk((await client.zrange(keys.chunks(library.id("/weir")), 0, 0))[0]), "text", "spoilt"
        )
        rebuild = IndexRebuild(library.settings, client, keys)
        preview = await rebuild.preview(RebuildTarget.CHUNKS)
        run = await rebuild.start(RebuildTarget.CHUNKS, started_by="test")
        counts = await rebuild.work(run.id)
        between = await library.urls("weir repaired")
        embedded = await library.embed()
        after = await library.urls("weir repaired")
        chunk = (await client.zrange(keys.chunks(library.id("/weir")), 0, 0))[0]
        ended = await library.context.runs.require(run.id, await connect.now(client))

        assert (preview, counts) == ({"pages": 4}, {"queued": 3})
        assert (ended.status, ended.counts["queued"], ended.progress) == ("succeeded", 3, 100)
        assert "3 texts wait to be embedded anew" in ended.message
        assert "`embed_waiting` of /health" in ended.message  # where to watch on
        assert "/weir" in between  # in which place depends on how far the replica has followed
        assert "/weir" in after
        assert (embedded["indexed"], embedded["embedded"]) == (3, 0)
        assert await client.hget(keys.chunk(chunk), "text") != "spoilt"
        assert await client.hget(keys.item("url_image"), "status") == "Indexed"
        assert await library.index_errors() == []


async def test_force_reads_everything_again(settings: Settings) -> None:
    """With force the generation of every item rises, beside the rebuild."""
    async with open_library(settings, {"/weir": "The weir was repaired."}) as library:
        rebuild = IndexRebuild(library.settings, library.context.client, library.context.keys)
        run = await rebuild.start(RebuildTarget.DUE, force=True)
        counts = await rebuild.work(run.id)

        assert counts is not None
        assert counts["forced"] == 2
        assert (await library.record("/weir"))["reindexRequested"] == "true"


async def test_cancelled_rebuild_does_nothing(settings: Settings) -> None:
    """A run that was cancelled before its job came is left as it is."""
    async with open_library(settings, {"/weir": "The weir was repaired."}) as library:
        client, keys = library.context.client, library.context.keys
        rebuild = IndexRebuild(library.settings, client, keys)
        run = await rebuild.start(RebuildTarget.DUE)
        await client.hset(keys.run(run.id), "control", "cancel")

        assert await rebuild.work(run.id) is None
        assert (await library.context.runs.require(run.id, await connect.now(client))).status == "cancelled"
