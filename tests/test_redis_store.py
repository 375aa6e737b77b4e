"""Freshet's own index as a vector store: what a crawl has read is embedded at once, in this process."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest

from core.outputs.vector_store.io.redis_store import STORE_ID, open_redis_store
from core.outputs.vector_store.protocol import FileStatus, UploadRequest, VectorStoreUnavailable
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.step_results import NO_COPY
from core.store import connect
from tests.crawled_site import crawl_context, item, item_id
from tests.sharepoint_files_on_disk import DOMAIN, LocalLibrary

FILLER = "The pump station reports its level every ten minutes to the office down the valley. " * 3


@pytest.fixture
async def library(settings: Settings, redis: connect.Client) -> AsyncIterator[LocalLibrary]:
    async with crawl_context(settings, embedder="none") as context:
        made = LocalLibrary(context)
        await made.add(index="openai")  # for which there is no key: so nothing is embedded yet
        yield made


def request(library: LocalLibrary, name: str, body: str | bytes) -> UploadRequest:
    content = body.encode() if isinstance(body, str) else body
    digest = hashlib.sha256(content).hexdigest()
    return UploadRequest(f"id-{name}", "/nowhere", name, library.url(name), digest, {})


async def test_an_upload_is_searchable(library: LocalLibrary) -> None:
    """It is embedded here, is in the list of the store's files, and no worker has anything left to do."""
    library.put("a.txt", FILLER)
    await library.embed()

    async with open_redis_store(library.context, DOMAIN, [library.sid]) as store:
        [uploaded] = await store.upload([request(library, "a.txt", FILLER)])
        [waited] = await store.wait([uploaded.file_id])
        listed = [one async for one in store.files()]

    digest = hashlib.sha256(FILLER.encode()).hexdigest()
    assert uploaded.file_id == f"{STORE_ID}-{item_id(library.url('a.txt'))}-{digest[:12]}"
    assert (waited.status, waited.embedded_ts > 0) == (FileStatus.COMPLETED, True)
    assert [(one.file_id, one.attributes["unique_id"]) for one in listed] == [(uploaded.file_id, "id-a.txt")]
    assert listed[0].attributes["source_id"] == "docs"
    assert (await item(library.context, library.url("a.txt")))["status"] == "Indexed"
    assert await EmbedQueue(library.context.client, library.context.keys).count() == 0


async def test_what_cannot_be_read_has_failed(library: LocalLibrary) -> None:
    """With the reason that the registry has."""
    body = b"PK\x03\x04" + bytes(600)
    library.put("a.pptx", body)
    await library.embed()

    async with open_redis_store(library.context, DOMAIN, [library.sid]) as store:
        [uploaded] = await store.upload([request(library, "a.pptx", body)])
        [waited] = await store.wait([uploaded.file_id])
        listed = [one async for one in store.files()]

    assert (waited.status, "are not read" in waited.error, listed) == (FileStatus.FAILED, True, [])


async def test_what_was_not_read_waits_for_the_next_crawl(library: LocalLibrary) -> None:
    """An item that nobody registered, or whose file is another one by now, is no failure of the file."""
    library.put("a.txt", FILLER)
    await library.embed()

    async with open_redis_store(library.context, DOMAIN, [library.sid]) as store:
        uploads = [request(library, "new.txt", FILLER), request(library, "a.txt", f"Other. {FILLER}")]
        results = await store.upload(uploads)

    assert [(one.file_id, bool(one.error), one.is_final) for one in results] == [("", True, False)] * 2


async def test_a_missing_copy_is_no_failure_of_the_file(library: LocalLibrary) -> None:
    """What is uploaded is there; the copy that a visit did not find is another source's."""
    library.put("a.txt", FILLER)
    library.remove("id-a.txt")
    library.put_row(FileRow(sharepoint_unique_file_id="a", server_relative_url=library.place("a.txt")))
    await library.embed()

    async with open_redis_store(library.context, DOMAIN, [library.sid]) as store:
        [uploaded] = await store.upload([request(library, "a.txt", FILLER)])
        [waited] = await store.wait([uploaded.file_id])

    assert (waited.status, waited.error) == (FileStatus.MISSING, NO_COPY)


async def test_an_item_that_a_worker_embeds_is_waited_for(library: LocalLibrary) -> None:
    """The lease decides who embeds it; nobody does it twice."""
    library.put("a.txt", FILLER)
    await library.embed()
    [held] = await library.context.leases.acquire_many([f"embed_{item_id(library.url('a.txt'))}"], until_text="")
    assert held

    async with open_redis_store(library.context, DOMAIN, [library.sid]) as store:
        [uploaded] = await store.upload([request(library, "a.txt", FILLER)])
        before = (await item(library.context, library.url("a.txt")))["status"]
        await library.context.leases.release_many([held[0]])
        [waited] = await store.wait([uploaded.file_id])

    assert (before, waited.status) == ("Crawled", FileStatus.COMPLETED)


async def test_without_an_embedder_the_store_is_unavailable(settings: Settings, redis: connect.Client) -> None:
    """Nothing is counted against any file; the sentence says what to do."""
    nowhere = {"embedder": "openai", "openai_base_url": "http://127.0.0.1:9/v1", "openai_api_key": None}
    async with crawl_context(settings, **nowhere) as context:
        library = LocalLibrary(context)
        await library.add()
        library.put("a.txt", FILLER)
        run = await library.embed()
        assert (run["status"], run["problem"]) == ("partial", "unpublished")
        with pytest.raises(VectorStoreUnavailable):
            async with open_redis_store(context, DOMAIN, [library.sid]) as store:
                await store.upload([request(library, "a.txt", FILLER)])
