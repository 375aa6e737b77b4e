"""The migration from three old files to one state, and back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.runs import state_json
from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import KbState
from core.settings import Settings, load
from core.store.connect import Client
from scripts.migrate_to_unified_state import migrate
from tests import commands

pytestmark = pytest.mark.usefixtures("adopted")
WRITTEN_TS = 1_764_584_123.456
URLS = [f"https://learn.example.com/en-us/azure/caf/page-{number:04}" for number in range(1_000)]
JOB = {
    "kb_id": "caf",
    "status": "running",
    "phase": "crawling",
    "progress": 45,
    "message": "Crawling: 150/200 pages",
    "error": None,
    "metrics": {"pages_crawled": 150},
    "created_at": "2025-12-01T10:00:00",
    "started_at": "2025-12-01T11:00:05.250000+01:00",
    "completed_at": None,
    "paused": True,
    "cancel_requested": True,
}
CRAWL = {
    "last_id": 150,
    "pages_crawled": 150,
    "to_visit": URLS,
    "visited": URLS[:150],
    "url_id_map": {url: number for number, url in enumerate(URLS[:150])},
}
INDEX = {"last_indexed_id": 150, "last_chunked_id": 150, "total_chunks": 1200, "chunks_per_doc": {"1": 8}}


class OldStore:
    """The folder of an earlier system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str, kb_id: str = "caf") -> Path:
        folder = self.root / "ingestion" / "jobs" if name == "job" else self.root / "knowledge_bases" / kb_id
        return folder / (f"{kb_id}.json" if name == "job" else f"{name}.json")

    def put(self, name: str, value: Any, kb_id: str = "caf") -> None:
        path, text = self.path(name, kb_id), value if isinstance(value, str | bytes) else json.dumps(value)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, (WRITTEN_TS, WRITTEN_TS))

    def complete(self, kb_id: str = "caf") -> None:
        for name, value in (("job", JOB), ("crawl_checkpoint", CRAWL), ("index_checkpoint", INDEX)):
            self.put(name, value, kb_id)

    def read(self, name: str, kb_id: str = "caf") -> Any:
        return json.loads(self.path(name, kb_id).read_bytes())

    def everything(self) -> dict[str, tuple[bytes, int]]:
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files if "server" not in path.parts}


@pytest.fixture
def old(settings: Settings) -> OldStore:
    return OldStore(settings.persistent_storage_path)


@pytest.fixture
def states(redis: Client, keys: Keys) -> KbStateStore:
    return KbStateStore(redis, keys)


async def test_complete(old: OldStore, states: KbStateStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Every value goes to its place in Redis and in state.json; times are UTC; the old files stay; sizes are told."""
    old.complete()
    before = {name: old.read(name) for name in ("job", "crawl_checkpoint", "index_checkpoint")}
    assert await migrate() == 0
    state = await states.require("caf", 0.0)
    told = capsys.readouterr().out

    assert (await states.require("caf", WRITTEN_TS + 91)).job.status == "interrupted"  # nobody works on it
    assert state_json.from_json("caf", old.path("state").read_text()) == state
    assert state.updated_at == "2025-12-01T10:15:23.456Z"
    assert asdict(state.job) == {
        **{name: JOB[name] for name in ("status", "phase", "progress", "message", "error")},
        "created_at": "2025-12-01T10:00:00Z",
        "started_at": "2025-12-01T10:00:05.250Z",
        "completed_at": None,
        "paused": False,
        "cancel_requested": False,
    }
    assert (state.crawl.last_doc_id, state.crawl.pages_crawled, state.crawl.pages_queued) == (150, 150, 1000)
    assert state.crawl.pending_urls == tuple(URLS[: len(state.crawl.pending_urls)])
    assert len(state.crawl.pending_urls) > 100
    assert (state.processing.last_chunked_id, state.processing.last_indexed_id) == (150, 150)
    assert (state.processing.chunks_total, state.processing.batches_processed) == (1200, 0)
    assert state.metrics.avg_chunks_per_doc == 8
    assert {name: old.read(name) for name in before} == before
    assert "migrated" in told
    assert f"{sum(old.path(name).stat().st_size for name in before):,} bytes" in told
    assert told.count(" ms") == 2


@pytest.mark.parametrize("kept", ["job", "crawl_checkpoint", "index_checkpoint"])
async def test_partial(old: OldStore, states: KbStateStore, kept: str) -> None:
    """One file of the three is enough; the other sections have defaults."""
    old.put(kept, {"job": JOB, "crawl_checkpoint": CRAWL, "index_checkpoint": INDEX}[kept])
    assert await migrate(["caf"]) == 0
    state, blank = await states.require("caf", 0.0), KbState(kb_id="caf")

    assert (state.job == blank.job) == (kept != "job")
    assert (state.crawl == blank.crawl) == (kept != "crawl_checkpoint")
    assert (state.processing == blank.processing) == (kept != "index_checkpoint")


@pytest.mark.parametrize("content", ["", " \n", "{}"])
async def test_empty(old: OldStore, states: KbStateStore, content: str) -> None:
    """Files with nothing in them are no error."""
    for name in ("job", "crawl_checkpoint", "index_checkpoint"):
        old.put(name, content)
    assert await migrate() == 0

    assert replace(await states.require("caf", 0.0), updated_at=None) == KbState(kb_id="caf")


async def test_values_of_other_types(old: OldStore, states: KbStateStore) -> None:
    """What is no number, no time or no list counts as missing."""
    old.put("job", {"status": None, "progress": "a lot", "created_at": "yesterday", "message": ["x"]})
    old.put("crawl_checkpoint", {"last_id": "12", "to_visit": {"a": 1}, "visited": ["x", "y"]})
    old.put("index_checkpoint", {"last_indexed_id": 3.0, "total_chunks": None})
    assert await migrate() == 0
    state = await states.require("caf", 0.0)

    assert (state.job.status, state.job.progress, state.job.created_at, state.job.message) == ("pending", 0, None, "")
    assert (state.crawl.last_doc_id, state.crawl.pages_crawled, state.crawl.pages_queued) == (12, 2, 0)
    assert (state.processing.last_indexed_id, state.processing.chunks_total) == (3, 0)


@pytest.mark.parametrize("content", [b'{"last_id": 15', b"[1, 2]", b"\xff\xfe\x00", b"null", b"[" * 100_000])
async def test_corrupt(old: OldStore, states: KbStateStore, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """It is named and copied aside, once; its neighbours and all other knowledge bases are migrated."""
    old.complete()
    old.complete("docs")
    old.put("crawl_checkpoint", content)
    codes = [await migrate(), await migrate()]
    caf, docs = await states.require("caf", 0.0), await states.require("docs", 0.0)

    assert codes == [1, 1]
    assert (caf.job.progress, caf.crawl.pages_crawled, caf.processing.chunks_total) == (45, 0, 1200)
    assert docs.crawl.pages_crawled == 150
    assert f"{old.path('crawl_checkpoint')} is damaged" in capsys.readouterr().err
    assert old.path("crawl_checkpoint").read_bytes() == content
    asides = list(old.root.rglob("*.corrupt*"))
    assert [path.read_bytes() for path in asides] == [content]

    old.put("crawl_checkpoint", CRAWL)
    assert await migrate() == 0
    assert (await states.require("caf", 0.0)).crawl.pages_crawled == 150


async def test_nothing_but_corrupt_files(old: OldStore, redis: Client, keys: Keys) -> None:
    """No state is made up from them."""
    old.put("job", "{")
    assert await migrate() == 1
    assert await redis.exists(keys.kb_state("caf")) == 0
    assert not old.path("state").exists()


async def test_twice(old: OldStore, redis: Client) -> None:
    """The second time changes nothing, neither in Redis nor on disk."""
    old.complete()
    await migrate()
    before = await commands.everything(redis), old.everything()
    assert await migrate() == 0

    assert (await commands.everything(redis), old.everything()) == before


async def test_dry_run(old: OldStore, redis: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is told, nothing is written, not even a copy of what is damaged."""
    old.complete()
    old.put("index_checkpoint", "{", "docs")
    before = await commands.everything(redis), old.everything()
    assert await migrate(dry_run=True) == 1
    assert await migrate(back=True, dry_run=True) == 0

    assert (await commands.everything(redis), old.everything()) == before
    assert "caf             migrated" in capsys.readouterr().out


async def test_newer_state_is_kept(old: OldStore, redis: Client, keys: Keys, states: KbStateStore) -> None:
    """Once a run has worked here, old files change nothing any more."""
    old.complete()
    await migrate()
    fields = {"run_id": "jb_1_a", "crawl.pages_crawled": "7"}
    await redis.hset(keys.kb_state("caf"), mapping=fields)
    old.put("crawl_checkpoint", {**CRAWL, "pages_crawled": 999})
    assert await migrate() == 0
    assert await migrate(dry_run=True) == 0

    assert (await states.require("caf", 0.0)).crawl.pages_crawled == 7
    assert state_json.from_json("caf", old.path("state").read_text()).crawl.pages_crawled == 7


async def test_state_file_without_redis(old: OldStore, redis: Client, states: KbStateStore) -> None:
    """A state.json brings the state back into an empty Redis, also without old files; it wins over older ones."""
    old.complete()
    await migrate()
    before = await states.require("caf", 0.0)
    crawl = replace(before.crawl, pages_crawled=160)
    saved = replace(before, updated_at="2026-01-01T00:00:00.000Z", crawl=crawl)
    old.path("state").write_text(state_json.to_json(saved))
    await redis.flushall()
    assert await migrate(["caf"]) == 0

    assert await states.require("caf", 0.0) == saved


async def test_corrupt_state_file(old: OldStore, states: KbStateStore) -> None:
    """It is copied aside, and the old files count."""
    old.complete()
    old.put("state", "{half")
    assert await migrate() == 1

    assert (await states.require("caf", 0.0)).crawl.pages_crawled == 150
    assert old.path("state").with_name("state.json.corrupt").read_text() == "{half"
    assert state_json.from_json("caf", old.path("state").read_text()).crawl.pages_crawled == 150


async def test_back_after_migration(old: OldStore) -> None:
    """Old files that say the same stay as they are, to the byte."""
    old.complete()
    await migrate()
    before = old.everything()
    assert await migrate(back=True) == 0

    assert old.everything() == before


async def test_back_from_newer_state(old: OldStore, redis: Client, keys: Keys) -> None:
    """They say what the state says, keep what it has no place for, and what they said before is kept as .bak."""
    old.complete()
    await migrate()
    fields = {"job.status": "paused", "job.paused": "true", "crawl.pages_crawled": "160", "crawl.pages_queued": "2"}
    fields |= {"crawl.pending_urls": json.dumps(URLS[:2]), "processing.chunks_total": "1300"}
    await redis.hset(keys.kb_state("caf"), mapping=fields)
    assert await migrate(back=True) == 0
    job, crawl, index = (old.read(name) for name in ("job", "crawl_checkpoint", "index_checkpoint"))

    assert (job["status"], job["paused"], job["metrics"]["chunks_total"]) == ("paused", True, 1300)
    assert (crawl["pages_crawled"], crawl["to_visit"]) == (160, URLS[:2])
    assert crawl["url_id_map"] == CRAWL["url_id_map"]
    assert (index["total_chunks"], index["last_chunked_id"], index["chunks_per_doc"]) == (1300, 150, {"1": 8})
    assert json.loads(old.path("job").with_name("caf.json.bak").read_text()) == JOB


async def test_back_has_the_whole_queue(old: OldStore, redis: Client, keys: Keys) -> None:
    """Not only the beginning that a state has room for."""
    await redis.hset(keys.domain("docs"), mapping={"name": "Docs", "sources": "docs.site"})
    pipe = redis.pipeline(transaction=False)
    for number in range(1_500):
        pipe.zadd(keys.due("docs.site"), {f"i{number:04}": number})
        pipe.hset(keys.item(f"i{number:04}"), "displaySource", f"https://docs.example.org/{number}")
    await pipe.execute()
    await redis.hset(keys.kb_state("docs"), mapping={"crawl.pages_crawled": "1", "crawl.pages_queued": "1500"})
    assert await migrate(["docs"], back=True) == 0

    assert old.read("crawl_checkpoint", "docs")["to_visit"] == [
        f"https://docs.example.org/{number}" for number in range(1_500)
    ]
    assert old.read("job", "docs")["status"] == "pending"


async def test_there_and_back_in_an_empty_folder(old: OldStore, redis: Client, states: KbStateStore) -> None:
    """The three files alone hold what the state holds of them."""
    old.complete()
    await migrate()
    state = await states.require("caf", 0.0)
    for name in ("job", "crawl_checkpoint", "index_checkpoint"):
        old.path(name).unlink()
    await migrate(["caf"], back=True)
    await redis.flushall()
    old.path("state").unlink()
    await migrate(["caf"])
    again = await states.require("caf", 0.0)

    assert (again.job, again.processing) == (state.job, state.processing)
    assert again.crawl.pending_urls == state.crawl.pending_urls


async def test_unknown_knowledge_base(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a sentence and an exit code; a name that is a path is refused; nothing at all is fine."""
    assert await migrate(["nothing"]) == 1
    assert "There is no state of nothing" in capsys.readouterr().err
    assert await migrate(["nothing"], back=True) == 1
    with pytest.raises(FreshetError, match="cannot be the id"):
        await migrate(["../../etc"])
    assert await migrate() == 0
    assert "There is nothing to migrate" in capsys.readouterr().out


def test_old_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """USE_UNIFIED_STATE=false says where the old files come from now."""
    monkeypatch.setenv("USE_UNIFIED_STATE", "false")
    with pytest.raises(SettingsError, match=r"USE_UNIFIED_STATE.*migrate_to_unified_state --back"):
        load()
    monkeypatch.setenv("USE_UNIFIED_STATE", "true")
    assert load().use_unified_state
