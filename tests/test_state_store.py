"""The state of a knowledge base in Redis and as a file: followed, counted, saved, read."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import FreshetError
from core.keys import Keys
from core.registry.io.due import HOLD_SECONDS, RUN_HOLD_SECONDS, DueItems
from core.registry.record import iso
from core.runs import state_json
from core.runs.io import state_saver
from core.runs.io.run_store import RunStore
from core.runs.io.state_file import StateFiles
from core.runs.io.state_saver import StateSaver
from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import CrawlState, KbState
from core.runs.run import Run, RunKind, RunStatus
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain, remove_domain
from core.store import connect
from core.store.commands import Command
from core.store.connect import Client
from core.store.leases import Leases
from tests import commands

NOW = 1_800_000_000.0


@pytest.fixture
def states(redis: Client, keys: Keys) -> KbStateStore:
    return KbStateStore(redis, keys)


@pytest.fixture
async def docs(settings: Settings, redis: Client, keys: Keys) -> str:
    """A domain with one site."""
    text = json.dumps({"id": "docs", "web_sources": [{"id": "site", "url": "https://docs.example.org/guide/"}]})
    await add_domain(settings, redis, keys, parse_domain(text, "/"))
    return "docs"


async def put(
    redis: Client, keys: Keys, run_id: str = "jb_1_a", kind: RunKind = RunKind.CRAWL, **fields: object
) -> Run:
    """A run as its store has it, and as its callers hold it."""
    stored = {"status": "running", "phase": "crawling", "progress": 0, "heartbeat_ts": NOW, **fields}
    await redis.hset(keys.run(run_id), mapping={name: str(value) for name, value in stored.items()})
    created = float(run_id.split("_")[1])
    return Run(run_id, kind, RunStatus(str(stored["status"])), domain="docs", created_ts=created)


def raised(keys: Keys, counts: dict[str, int]) -> list[Command]:
    """Commands that raise counters, as commits do."""
    return [("HINCRBY", keys.kb_state("docs"), name, count) for name, count in counts.items()]


# ── the job section ──


async def test_job_is_a_copy_of_the_run(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Status, phase, percent, message, error and times."""
    more = {"progress": 45, "message": "Crawling: 9/20 pages", "started": "2026-01-01T00:00:05Z"}
    await states.follow(await put(redis, keys, "jb_1767225600_a", **more), NOW)
    job = (await states.require(docs, NOW)).job

    assert (job.status, job.phase, job.progress, job.message, job.error) == (
        *("running", "crawling", 45, "Crawling: 9/20 pages", None),
    )
    assert (job.created_at, job.started_at, job.completed_at) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", None)
    assert (job.paused, job.cancel_requested) == (False, False)


@pytest.mark.parametrize(
    ("status", "paused", "cancel_requested"),
    [
        *[("pausing", True, False), ("paused", True, False), ("cancelling", False, True), ("cancelled", False, True)],
        *[("failed", False, False), ("succeeded", False, False)],
    ],
)
async def test_flags_follow_the_status(
    states: KbStateStore, redis: Client, keys: Keys, docs: str, status: str, paused: bool, cancel_requested: bool
) -> None:
    """Paused and cancelled runs say so twice, for readers of either."""
    await states.follow(await put(redis, keys, status=status), NOW)
    job = (await states.require(docs, NOW)).job

    assert (job.status, job.paused, job.cancel_requested) == (status, paused, cancel_requested)


async def test_newest_run_is_followed(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """A late word from an older run, from a part of a run or from a run of no domain changes nothing."""
    await states.follow(await put(redis, keys, "jb_2_b", message="second"), NOW)
    await states.follow(await put(redis, keys, "jb_1_a", message="first"), NOW)
    child = await put(redis, keys, "jb_3_c", message="child")
    await states.follow(Run("jb_3_c", child.kind, child.status, domain="docs", parent="jb_2_b", created_ts=3.0), NOW)
    await states.follow(Run("jb_3_c", child.kind, child.status, created_ts=3.0), NOW)

    assert (await states.require(docs, NOW)).job.message == "second"
    assert await redis.keys("kb:*:state") == ["kb:docs:state"]


async def test_percent_never_falls_in_a_run(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Whoever reports late; the next run begins at its own."""
    seen = []
    for percent in (10, 60, 30, 61):
        await states.follow(await put(redis, keys, progress=percent), NOW)
        seen.append((await states.require(docs, NOW)).job.progress)
    await states.follow(await put(redis, keys, "jb_2_b", progress=5), NOW)

    assert seen == [10, 60, 60, 61]
    assert (await states.require(docs, NOW)).job.progress == 5


async def test_silent_run_is_interrupted(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """A reader says so by its heartbeat; one that beats is running however long it takes."""
    await states.follow(await put(redis, keys, started="2020-01-01T00:00:00Z"), NOW)

    assert (await states.require(docs, NOW + 80)).job.status == "running"
    assert (await states.require(docs, NOW + 100)).job.status == "interrupted"


async def test_indexing_until_no_text_waits(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Behind the crawl the phase is indexing while texts of this domain wait, then done; others' texts do not count."""
    await redis.zadd(keys.refs("docs.site"), {"a": 0, "b": 0})
    await redis.zadd(keys.embed_due, {"a": 1, "stranger": 1})
    await states.follow(await put(redis, keys, progress=95), NOW)
    await states.settle(docs, NOW)
    running = (await states.require(docs, NOW)).job
    await states.follow(
        await put(redis, keys, status="succeeded", phase="done", progress=100, ended="2026-01-01T00:00:09Z"), NOW
    )
    indexing = (await states.require(docs, NOW)).job
    await states.settle(docs, NOW)
    still = (await states.require(docs, NOW)).job
    await redis.zrem(keys.embed_due, "a")
    await states.settle(docs, NOW)
    done = (await states.require(docs, NOW)).job

    assert (running.phase, running.progress) == ("crawling", 95)
    assert (indexing.status, indexing.phase, indexing.progress) == ("succeeded", "indexing", 99)
    assert indexing.message == "Indexing: 1 texts wait to be embedded"
    assert still == indexing
    assert (done.phase, done.progress) == ("done", 100)
    assert done.message == "Done: 0 pages crawled, 0 documents indexed"


async def test_percent_never_falls_when_a_run_is_run_again(
    states: KbStateStore, redis: Client, keys: Keys, docs: str
) -> None:
    """A retry that brings new texts is indexing again; its percent stays."""
    await redis.zadd(keys.refs("docs.site"), {"a": 0})
    complete = {"status": "partial", "phase": "done", "progress": 100, "ended": "2026-01-01T00:00:09Z"}
    seen = []
    for fields in (complete, {"progress": 100}, complete):
        await states.follow(await put(redis, keys, **fields), NOW)
        seen.append((await states.require(docs, NOW)).job)
        await redis.zadd(keys.embed_due, {"a": 1})

    assert [(job.phase, job.progress) for job in seen] == [("done", 100), ("crawling", 100), ("indexing", 100)]


async def test_crawl_begins_to_count_anew(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Visits are counted by crawl; documents since the beginning. A refresh, or a second crawl beside an open one,
    goes on counting; a crawl beside a refresh begins."""
    visits = {"crawl.pages_crawled": 10, "crawl.pages_failed": 1, "crawl.last_doc_id": 9}
    seen = []
    for run_id, kind, status in (
        *[("jb_1_a", RunKind.CRAWL, "running"), ("jb_2_b", RunKind.CRAWL, "succeeded")],
        *[("jb_3_c", RunKind.REFRESH, "running"), ("jb_4_d", RunKind.DOMAIN, "running")],
    ):
        await states.follow(await put(redis, keys, run_id, kind, status=status), NOW)
        await Leases(redis, keys).run(raised(keys, visits))
        crawl = (await states.require(docs, NOW)).crawl
        seen.append((crawl.pages_crawled, crawl.pages_failed, crawl.last_doc_id))

    assert seen == [(10, 1, 9), (20, 2, 18), (30, 3, 27), (10, 1, 36)]


# ── save ──


async def test_save_writes_what_follows_from_other_keys(
    states: KbStateStore, settings: Settings, redis: Client, keys: Keys, docs: str
) -> None:
    """What is queued, the first addresses of it, the metrics, where the crawl begins; also as a file."""
    await redis.delete(keys.due("docs.site"))
    for number in range(3):
        await redis.hset(keys.item(f"i{number}"), "displaySource", f"https://docs.example.org/guide/{number}")
        await redis.zadd(keys.due("docs.site"), {f"i{number}": NOW - number})
    await redis.zadd(keys.due("docs.site"), {"held": NOW + RUN_HOLD_SECONDS, "tomorrow": NOW + 86_400})
    await states.follow(await put(redis, keys), NOW)
    counted = {"crawl.pages_crawled": 40, "processing.last_indexed_id": 21, "processing.last_chunked_id": 21}
    counted |= {"processing.chunks_total": 52, "processing.batches_processed": 5, "crawl.last_doc_id": 30}
    await Leases(redis, keys).run(raised(keys, counted))
    state = await StateSaver(settings, redis, keys).save_crawl(docs, NOW + 120)

    assert state is not None
    assert (state.updated_at, state.version) == ("2027-01-15T08:02:00.000Z", 1)
    assert (state.crawl.pages_queued, state.crawl.pending_urls) == (
        *(
            4,
            (
                "https://docs.example.org/guide/2",
                "https://docs.example.org/guide/1",
                "https://docs.example.org/guide/0",
            ),
        ),
    )
    assert (state.crawl.start_url, state.crawl.url_prefix) == (
        *("https://docs.example.org/guide/", "https://docs.example.org/guide"),
    )
    assert (state.metrics.documents_per_batch, state.metrics.avg_chunks_per_doc) == (4, 2)
    assert state.metrics.crawl_rate_pages_per_min == 20
    assert await states.read(docs, NOW) == state
    assert state_json.from_json(docs, _file(settings).read_text()) == state


async def test_what_jobs_have_picked_is_queued(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Until they have visited it; what waits for its own time meanwhile is not."""
    due, soon = keys.due("docs.site"), NOW + 700.5
    await redis.delete(due)
    for name, score, next_at in (
        *(("picked", NOW - 5, iso(NOW - 5)), ("never", NOW - 4, iso(NOW + 86_400)), ("later", soon, iso(soon))),
    ):
        await redis.zadd(due, {name: score})
        await redis.hset(keys.item(name), mapping={"nextCrawlAt": next_at, "displaySource": f"https://e.org/{name}"})
    picked = await DueItems(redis, keys).pick("docs.site", NOW, 10, HOLD_SECONDS)
    state = await states.save(docs, NOW + 60)
    await redis.zadd(due, {"picked": NOW + 86_400})
    visited = await states.save(docs, NOW + 61)

    assert picked == ["picked", "never"]
    assert state is not None
    assert visited is not None
    assert (state.crawl.pages_queued, set(state.crawl.pending_urls)) == (
        2,
        {"https://e.org/picked", "https://e.org/never"},
    )
    assert visited.crawl.pages_queued == 1


async def test_rate_stays_behind_the_run(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """It is that of the time since the start or the last resume, and no later save thins it out."""
    run = await put(redis, keys)
    await states.follow(run, NOW)
    await Leases(redis, keys).run(raised(keys, {"crawl.pages_crawled": 10}))
    await put(redis, keys, status="paused")
    await states.follow(run, NOW + 5)
    paused = await states.save(docs, NOW + 60)
    await put(redis, keys, status="running")
    await states.follow(run, NOW + 6_000)
    await Leases(redis, keys).run(raised(keys, {"crawl.pages_crawled": 30}))
    await put(redis, keys, status="succeeded")
    await states.follow(run, NOW + 6_059)
    ended, later = await states.save(docs, NOW + 6_060), await states.save(docs, NOW + 9_000)

    assert [state and state.metrics.crawl_rate_pages_per_min for state in (paused, ended, later)] == [10, 30, 30]


async def test_many_due_items(states: KbStateStore, redis: Client, keys: Keys, docs: str, full: bool) -> None:
    """Of a million too the state holds the first 200 that fit, and counts all."""
    count = 1_000_000 if full else 5_000
    script = "for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], i / 1000, 'url_' .. i) end"
    await redis.eval(script, 1, keys.due("docs.site"), count)
    for number in range(1, 201):
        await redis.hset(keys.item(f"url_{number}"), "displaySource", f"https://docs.example.org/guide/{number:0>40}")
    state = await states.save(docs, NOW)

    assert state is not None
    assert state.crawl.pages_queued == count + 1
    assert 90 < len(state.crawl.pending_urls) < 120
    assert len(state_json.to_json(state).encode()) <= 10_000
    assert sum(len(name) + len(value) for name, value in (await redis.hgetall(keys.kb_state(docs))).items()) <= 10_000


async def test_no_domain_no_state(states: KbStateStore, settings: Settings, redis: Client, keys: Keys) -> None:
    """A save of what was removed meanwhile brings nothing back."""
    assert await StateSaver(settings, redis, keys).save_crawl("gone", NOW) is None
    assert await redis.exists(keys.kb_state("gone")) == 0
    assert await states.read("gone", NOW) is None
    with pytest.raises(FreshetError, match="There is no knowledge base gone"):
        await states.require("gone", NOW)


async def test_removed_domain_leaves_no_state(settings: Settings, redis: Client, keys: Keys, docs: str) -> None:
    """Neither in Redis nor on disk; a dry run leaves both."""
    await StateSaver(settings, redis, keys).save_crawl(docs, NOW)
    await remove_domain(settings, redis, keys, docs, dry_run=True)
    assert (await redis.exists(keys.kb_state(docs)), _file(settings).exists()) == (1, True)
    await remove_domain(settings, redis, keys, docs)

    assert (await redis.exists(keys.kb_state(docs)), _file(settings).parent.exists()) == (0, False)


async def test_source_that_is_dropped_ends_its_run(settings: Settings, redis: Client, keys: Keys, docs: str) -> None:
    """Nobody could go on with it; the state says where the crawl begins now."""
    runs, saver = RunStore(redis, keys), StateSaver(settings, redis, keys)
    now = await connect.now(redis)
    run, _ = await runs.open(RunKind.CRAWL, now, source="docs.site", domain=docs)
    await redis.hset(keys.runs_paused, "source:docs.site", "since yesterday")
    await saver.save_crawl(docs, now)
    text = json.dumps({"id": "docs", "web_sources": [{"id": "other", "url": "https://other.example.org/"}]})
    await add_domain(settings, redis, keys, parse_domain(text, "/"))
    ended = await runs.require(run.id, now)
    state = await StateSaver(settings, redis, keys).save_crawl(docs, now)

    assert (ended.status, ended.message) == (RunStatus.CANCELLED, "Its source was removed.")
    assert (await runs.open_ids(), await redis.hgetall(keys.runs_paused)) == ({}, {})
    assert state is not None
    assert state.crawl.start_url == "https://other.example.org/"


async def test_domain_without_a_run(states: KbStateStore, docs: str) -> None:
    """Its state is there, and says that nothing has happened."""
    assert (await states.require(docs, NOW)).job.status == "pending"


async def test_damaged_counter_stops_nobody(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """It is put aside, and counting begins again."""
    await redis.hset(keys.kb_state(docs), "crawl.pages_crawled", "many")
    await Leases(redis, keys).run(raised(keys, {"crawl.pages_crawled": 2}))

    assert (await states.require(docs, NOW)).crawl.pages_crawled == 2


# ── several writers ──


async def test_three_writers_lose_nothing(settings: Settings, redis: Client, keys: Keys, docs: str) -> None:
    """Crawler, indexer and control, each with its own connection and at once: every count and the last word arrive."""
    rounds = 40

    async def crawler(client: Client) -> None:
        for _ in range(rounds):
            counts = {"crawl.pages_crawled": 3, "crawl.pages_failed": 1, "crawl.last_doc_id": 2}
            await Leases(client, keys).run(raised(keys, counts))
            await StateSaver(settings, client, keys).save_crawl(docs, NOW)

    async def indexer(client: Client) -> None:
        for _ in range(rounds):
            counts = {"processing.last_indexed_id": 2, "processing.chunks_total": 5, "processing.batches_processed": 1}
            await Leases(client, keys).run(raised(keys, counts))
            await StateSaver(settings, client, keys).save_index(docs, NOW)

    async def control(client: Client) -> None:
        for number in range(rounds):
            run = await put(client, keys, progress=number, message=f"step {number}")
            await KbStateStore(client, keys).follow(run, NOW)
            await StateSaver(settings, client, keys).save_crawl(docs, NOW)

    await put(redis, keys)
    clients = [connect.open_store(settings) for _ in range(3)]
    await KbStateStore(redis, keys).follow(await put(redis, keys), NOW)
    await asyncio.gather(*(writer(client) for writer, client in zip((crawler, indexer, control), clients, strict=True)))
    for client in clients:
        await client.aclose()
    state = await KbStateStore(redis, keys).require(docs, NOW)

    assert (state.crawl.pages_crawled, state.crawl.pages_failed, state.crawl.last_doc_id) == (120, 40, 80)
    assert (state.processing.last_indexed_id, state.processing.chunks_total) == (80, 200)
    assert (state.processing.batches_processed, state.job.progress) == (40, rounds - 1)
    assert state.job.message == f"step {rounds - 1}"
    assert state_json.from_json(docs, _file(settings).read_text()) == state


# ── the file ──

SAVER = """
import os, signal, sys
from pathlib import Path
from core.runs.io.state_file import StateFiles
files, left = StateFiles(Path(sys.argv[1])), int(sys.argv[2])
def save(letter):
    with files.lock("docs"):
        files.write("docs", letter * 9_000)
def count(event, _):
    global left
    if event.startswith(("open", "os.")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
save("a")
sys.addaudithook(count)
save("b")
"""
"""Kills itself before the nth step of a save: opening, renaming or removing a file."""


def test_killed_while_it_saves(tmp_path: Path) -> None:
    """At any step: the file is the old one or the new one, never half. What was left over goes with the next save."""
    files, folder = StateFiles(tmp_path), tmp_path / "knowledge_bases" / "docs"
    found, code, step = [], -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        step += 1
        command = [sys.executable, "-B", "-c", SAVER, str(tmp_path), str(step)]
        code = subprocess.run(command, cwd=commands.ROOT, check=False).returncode
        found.append((files.read("docs") or "").strip())

    assert code == 0
    assert step > 3
    assert set(found) == {"a" * 9_000, "b" * 9_000}
    assert (found[0][0], found[-1][0]) == ("a", "b")
    assert [path.name for path in folder.iterdir()] == ["state.json"]
    assert (folder.stat().st_mode & 0o777, (folder / "state.json").stat().st_mode & 0o777) == (0o700, 0o600)


async def test_disk_that_takes_nothing(
    settings: Settings, redis: Client, keys: Keys, docs: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the state is in Redis all the same."""
    blocked = settings.persistent_storage_path / "file"
    blocked.write_text("no folder")
    saver = StateSaver(settings.model_copy(update={"persistent_storage_path": blocked}), redis, keys)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            state = await saver.save_crawl(docs, NOW + number)

    assert state is not None
    assert state.updated_at == "2027-01-15T08:00:02.000Z"
    [line] = caplog.messages
    assert "state.json cannot be written" in line


async def test_full_disk_keeps_the_old_file(
    settings: Settings, redis: Client, keys: Keys, docs: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot grow is no file; the last whole one stays."""
    import resource

    saver = StateSaver(settings, redis, keys)
    await saver.save_crawl(docs, NOW)
    before, limit = _file(settings).read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with caplog.at_level(logging.WARNING):
            await saver.save_crawl(docs, NOW + 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)

    assert _file(settings).read_text() == before
    assert "cannot be written" in caplog.text
    assert [path.name for path in _file(settings).parent.iterdir()] == ["state.json"]


@pytest.mark.parametrize("kb_id", ["", ".", "..", "a/b", "a\\b", "a\0", "x" * 300, "a\nb"])
def test_names_that_are_no_folder(tmp_path: Path, kb_id: str) -> None:
    """Nothing is written outside of its own folder."""
    with pytest.raises(ValueError, match="cannot be the name"):
        StateFiles(tmp_path).path(kb_id)


# ── log lines ──


async def test_lines_are_few(
    settings: Settings,
    redis: Client,
    keys: Keys,
    docs: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a phase, and a save more than a minute after the last line, at info level; the others at debug."""
    saver = StateSaver(settings, redis, keys)
    monkeypatch.setattr(state_saver, "_logged_at", {})
    monkeypatch.setattr(state_saver, "_last_ends", {})
    await redis.delete(keys.due("docs.site"))
    await Leases(redis, keys).run(raised(keys, {"crawl.pages_crawled": 7, "processing.last_indexed_id": 5}))
    with caplog.at_level(logging.DEBUG, "refresh"), caplog.at_level(logging.DEBUG, "embed"):
        await saver.save_crawl(docs, NOW)
        await saver.save_crawl(docs, NOW, ended="jb_1")
        await saver.save_crawl(docs, NOW, ended="jb_1")  # the same end, told by another step
        state_saver._logged_at["crawl docs"] -= 61
        await saver.save_crawl(docs, NOW)
        await saver.save_index(docs, NOW)
        state_saver._logged_at["index docs"] -= 61
        await saver.save_index(docs, NOW)
        await saver.log_resumed(docs, NOW)
    lines = [(record.levelname, record.message) for record in caplog.records if record.name in ("refresh", "embed")]

    saved, indexed = "✓ State saved: 7 crawled, 0 queued", "✓ State saved: indexed up to doc_id 5"
    assert lines == [
        *(("DEBUG", saved), ("INFO", saved), ("DEBUG", saved), ("INFO", saved), ("DEBUG", indexed), ("INFO", indexed)),
        ("INFO", "Resuming from state: ID=0, crawled=7, queued=0"),
    ]


# ── restore ──


async def test_restored_state_never_replaces_work(states: KbStateStore, redis: Client, keys: Keys, docs: str) -> None:
    """Files are taken over, and again when they have changed, until something happens here."""
    old = KbState(kb_id=docs, crawl=CrawlState(pages_crawled=5, last_doc_id=5))
    newer = KbState(kb_id=docs, crawl=CrawlState(pages_crawled=6, last_doc_id=6))
    assert await states.restore(old, "one")
    assert await states.restore(newer, "two")
    assert (await states.require(docs, NOW), await states.origin_of(docs)) == (newer, "two")
    await states.follow(await put(redis, keys), NOW)
    assert not await states.restore(old, "three")

    await redis.delete(keys.kb_state(docs))
    await Leases(redis, keys).run(raised(keys, {"crawl.pages_crawled": 1}))
    assert not await states.restore(old, "four")


def _file(settings: Settings) -> Path:
    return StateFiles(settings.persistent_storage_path).path("docs")
