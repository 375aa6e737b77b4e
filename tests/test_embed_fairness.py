"""What waits to be embedded goes in turns: newest first, and no source behind all of another's pages."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from tests.faults.process import Worker
from workers.due_jobs import EMBED_BATCH, MOST_EMBED_JOBS

MANY, FEW = 200, 8


async def wait_for_embedding(settings: Settings, client: connect.Client, sources: Sequence[str]) -> list[str]:
    """Texts that wait, one for each of these sources, each newer than the one before."""
    keys, pipe = Keys.of(settings), client.pipeline(transaction=False)
    for number, source in enumerate(sources):
        item_id, url = f"url_{number:04}", f"https://x.test/{number}"
        record = {"id": item_id, "status": "Crawled", "contentHash": f"hash {number}", "normalizedSource": url}
        text = {"title": f"Page {number}", "url": url, "markdown": f"Gauge {number}.", "content_hash": f"hash {number}"}
        pipe.hset(keys.item(item_id), mapping={**record, "type": "url", "fetchUrl": url, "sources": source})
        pipe.hset(keys.document(item_id), mapping=text)
        pipe.sadd(keys.status("Crawled"), item_id)
        pipe.zadd(keys.embed_due, {item_id: 1_000.0 + number})
    await pipe.execute()
    return [f"url_{number:04}" for number in range(len(sources))]


async def test_sources_take_turns(settings: Settings, redis: connect.Client) -> None:
    """The newest of each source, then the next of each; a source that has no more leaves its turn to the others."""
    ids = await wait_for_embedding(settings, redis, ["files", "files", "site", "site", "site", "site"])
    queue = EmbedQueue(redis, Keys.of(settings))

    assert await queue.next(10) == [ids[n] for n in (5, 1, 4, 0, 3, 2)]
    assert await queue.next(3) == [ids[n] for n in (5, 1, 4)]
    assert await queue.next(0) == []


async def test_a_small_source_does_not_wait_for_a_large_one(
    settings: Settings, redis: connect.Client, server: EmbeddedServer
) -> None:
    """A real worker has embedded a folder of 8 files, older than 200 pages of a site, when most of these still wait."""
    keys = Keys.of(settings)
    ids = await wait_for_embedding(settings, redis, ["files"] * FEW + ["site"] * MANY)
    with Worker(settings.persistent_storage_path, server.url, "workers", "embed", "--burst", EMBEDDER="none") as worker:
        assert await worker.ended() == 0, worker.log

    events = await redis.xrange(keys.events)
    order = [fields["id"] for _, fields in events if fields["type"] == "item.indexed"]
    assert sorted(order) == ids
    assert max(map(order.index, ids[:FEW])) < MOST_EMBED_JOBS * EMBED_BATCH
