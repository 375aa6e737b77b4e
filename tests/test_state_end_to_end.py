"""A small site, crawled and indexed by real processes: every value of its state, at every step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.keys import Keys
from core.registry import field_parsing
from core.settings import Settings
from core.store.connect import Client
from tests import commands
from tests.site import Site

PATHS = ("/", "/guide/", "/guide/weir", "/guide/lock", "/guide/gauge", "/guide/broken")


async def state_of(settings: Settings) -> dict[str, Any]:
    """What `scripts.status --kb` prints, which is what the file says."""
    done = await commands.run(settings, "scripts.status", "--kb", "docs", "--json")
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    path = Path(settings.persistent_storage_path) / "knowledge_bases" / "docs" / "state.json"
    assert json.loads(path.read_text()) == state
    return dict(state)


async def test_every_value(settings: Settings, redis: Client, keys: Keys, site: Site) -> None:
    """After the crawl, after the embed worker, and after another crawl that finds one page changed."""
    for path in PATHS[:-1]:
        site.page(path, links=PATHS)
    site.remove("/guide/broken", 500)
    added = await commands.run(settings, "scripts.domain", "add", site.url("/guide/"), "--id", "docs")
    crawled = await commands.run(settings, "scripts.domain", "crawl", "docs", LOG_LEVEL="INFO")
    first = await state_of(settings)
    embedded = await commands.run(settings, "workers", "embed", "--burst", EMBEDDER="none", LOG_LEVEL="INFO")
    second = await state_of(settings)
    site.page("/guide/weir", "The weir is new.", links=PATHS)
    await commands.run(settings, "scripts.domain", "crawl", "docs")
    third = await state_of(settings)

    assert (added.returncode, crawled.returncode, embedded.returncode) == (0, 0, 0), crawled.stderr
    items = await redis.zrange(keys.refs("docs." + (await redis.smembers(keys.sources)).pop().partition(".")[2]), 0, -1)
    chunks = sum([await redis.zcard(keys.chunks(name)) for name in items])
    texts = [await redis.hget(keys.document(name), "markdown") for name in items]

    assert (first["kb_id"], first["version"]) == ("docs", 1)
    job = first["job"]
    assert (job["status"], job["phase"], job["progress"], job["error"]) == ("partial", "indexing", 99, None)
    assert job["message"] == "Indexing: 4 texts wait to be embedded"
    assert (job["paused"], job["cancel_requested"]) == (False, False)
    times = [field_parsing.iso_timestamp(job[name]) for name in ("created_at", "started_at", "completed_at")]
    assert times == sorted(times, key=float)
    assert all(job[name].endswith("Z") for name in ("created_at", "started_at", "completed_at"))
    assert first["crawl"] == {
        "last_doc_id": 4,
        "pages_crawled": 5,
        "pages_queued": 0,
        "pages_failed": 1,
        "pending_urls": [],
        "start_url": site.url("/guide/"),
        "url_prefix": site.url("/guide"),
    }
    assert first["processing"] == {
        "documents_saved": 4,
        "last_chunked_id": 0,
        "last_indexed_id": 0,
        "chunks_total": 0,
        "batches_processed": 0,
    }
    assert first["metrics"]["crawl_rate_pages_per_min"] > 0

    assert (second["job"]["status"], second["job"]["phase"], second["job"]["progress"]) == ("partial", "done", 100)
    assert second["processing"] == {
        "documents_saved": 4,
        "last_chunked_id": 4,
        "last_indexed_id": 4,
        "chunks_total": chunks,
        "batches_processed": 1,
    }
    assert second["metrics"]["documents_per_batch"] == 4
    assert second["metrics"]["avg_chunks_per_doc"] == round(chunks / 4)
    assert second["crawl"] == first["crawl"]
    assert second["metrics"]["crawl_rate_pages_per_min"] == first["metrics"]["crawl_rate_pages_per_min"]

    assert (third["crawl"]["last_doc_id"], third["processing"]["documents_saved"]) == (4, 5)
    assert third["crawl"]["pages_crawled"] == 5
    assert third["job"]["phase"] == "indexing"
    assert third["metrics"]["total_chars_ingested"] > second["metrics"]["total_chars_ingested"] > 0
    assert sum(map(len, filter(None, texts))) < third["metrics"]["total_chars_ingested"]

    assert "✓ State saved: 5 crawled, 0 queued" in crawled.stderr
    assert "✓ State saved: indexed up to doc_id 4" in embedded.stderr
