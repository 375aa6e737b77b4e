"""Commits count documents, chunks and characters of knowledge bases where the work is done."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.registry.io.item_forgetter import ItemForgetter
from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import KbState
from core.search.io.chunk_count import ChunkCount
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from tests.crawled_site import add_site
from tests.search_site import Library, open_library


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """The front page and two more."""
    async with open_library(settings, {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}) as opened:
        yield opened


async def state_of(library: Library, kb_id: str = "docs") -> KbState:
    return await KbStateStore(library.context.client, library.context.keys).require(kb_id, 0.0)


async def stored_chunks(library: Library) -> int:
    client, keys = library.context.client, library.context.keys
    return sum([await client.zcard(key) async for key in client.scan_iter(keys.pattern(keys.chunks))])


def documents(state: KbState) -> tuple[int, int, int, int]:
    processing = state.processing
    assert processing.last_chunked_id == processing.last_indexed_id
    return (
        *(state.crawl.last_doc_id, processing.documents_saved),
        *(processing.last_indexed_id, processing.chunks_total),
    )


async def test_stored_then_indexed(library: Library) -> None:
    """A crawl counts documents and characters, an embed job the rest; together they add up."""
    crawled = await state_of(library)
    await library.embed()
    await library.embed()
    state, chunks = await state_of(library), await stored_chunks(library)
    texts = [await library.context.client.hget(f"index:doc:{library.id(path)}", "markdown") for path in PATHS]

    assert documents(crawled) == (3, 3, 0, 0)
    assert documents(state) == (3, 3, 3, chunks)
    assert state.processing.batches_processed == 1
    assert state.metrics.total_chars_ingested == sum(map(len, texts))
    assert state.metrics.documents_per_batch == 3


async def test_changed_page_is_saved_again(library: Library) -> None:
    """It is no other document; its chunks are those that it has now."""
    await library.embed()
    library.site.page("/weir", "# One\n\nThe weir.\n\n" + "A long text about it. " * 400)
    await library.crawl()
    await library.embed()
    state = await state_of(library)

    assert documents(state) == (3, 4, 3, await stored_chunks(library))
    assert state.processing.chunks_total > 3


async def test_what_is_gone_is_not_in_search(library: Library) -> None:
    """Its chunks are no longer counted, how ever it goes; documents stored never fall."""
    await library.embed()
    library.site.remove("/weir", 410)
    library.site.page("/", links=["/lock"])
    await library.crawl()
    gone = await state_of(library)
    forgetter = ItemForgetter(library.context.client, library.context.keys)
    await forgetter.items(await forgetter.remover.read([library.id("/lock")]))
    forgotten = await state_of(library)

    assert gone.crawl.last_doc_id == forgotten.crawl.last_doc_id == 3
    assert gone.processing.chunks_total > forgotten.processing.chunks_total == await stored_chunks(library)


async def test_unchanged_pages_count_nothing(library: Library) -> None:
    """A second crawl stores nothing, and says so."""
    await library.embed()
    before = documents(await state_of(library))
    await library.crawl()
    await library.embed()

    assert documents(await state_of(library)) == before


async def test_pages_that_another_knowledge_base_has(library: Library) -> None:
    """They are documents of both; what changes later counts for both."""
    await library.embed()
    await add_site(library.context, library.site.url("/"), "twin")
    await crawl_source(library.context, "twin.site", CrawlMode.INCREMENTAL)
    twin = documents(await state_of(library, "twin"))
    library.site.page("/weir", "The weir is new.")
    await library.crawl()
    await library.embed()

    assert twin == documents(await state_of(library))[:1] * 3 + (await stored_chunks(library),)
    assert documents(await state_of(library, "twin"))[1] == documents(await state_of(library))[1] == 4


PATHS = ("/", "/weir", "/lock")


async def test_all_chunks_are_counted(library: Library) -> None:
    """The counter of the whole store is what is stored, after a change and a removal too; a store of before counts."""
    client, keys = library.context.client, library.context.keys

    async def counted() -> dict[str, int]:
        return {name: int(value) for name, value in (await client.hgetall(keys.embed_stats)).items()}

    await library.embed()
    first, first_stored = await counted(), await stored_chunks(library)
    library.site.page("/weir", "# One\n\nThe weir.\n\n" + "A long text about it. " * 400)
    await library.crawl()
    await library.embed()
    second, second_stored = await counted(), await stored_chunks(library)
    forgetter = ItemForgetter(client, keys)
    await forgetter.items(await forgetter.remover.read([library.id("/weir")]))
    third, third_stored = await counted(), await stored_chunks(library)
    await client.delete(keys.embed_stats)
    starts = [await ChunkCount(client, keys).start(100.0) for _ in range(2)]

    assert first == {"chunks": first_stored, "written": first_stored, "pages": 3}
    assert second["chunks"] == second_stored > first_stored
    assert third["chunks"] == third_stored < second_stored
    assert starts == [True, False]
    assert await counted() == {"chunks": third_stored, "counted_ts": 100}
