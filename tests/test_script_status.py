"""The registry's part of `python -m scripts.status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import FreshetError
from core.keys import Keys
from core.runs import state_json
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind
from core.store.connect import Client
from scripts import domain, domain_crawl, status
from tests.site import FILLER

pytestmark = pytest.mark.usefixtures("adopted")


@pytest.fixture
async def crawled(tmp_path: Path) -> str:
    """A crawled folder with one document."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(f"# A\n\n{FILLER}")
    await domain.add(str(folder), None)
    await domain_crawl.crawl("notes")
    return "notes.notes"


async def test_the_registry_for_programs(
    crawled: str, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Items by status, what is due, sources, runs with their counters, queues, totals."""
    await redis.zadd(keys.due("urls"), {"x": 0, "y": 0})
    capsys.readouterr()
    await status.status(as_json=True)
    seen = json.loads(capsys.readouterr().out)["registry"]

    assert seen["items"] == {"Pending": 0, "Crawled": 1, "Indexed": 0, "Error": 0, "OutOfScope": 0, "Gone": 0}
    assert seen["due"] == {"urls": 2}
    assert (seen["sources"][crawled]["items"], seen["sources"][crawled]["last_listing"]) == (1, "complete")
    assert [(run["source"], run["status"], run["counts"]["changed"]) for run in seen["runs"]] == [
        (crawled, "succeeded", 1),
        ("", "succeeded", 1),
    ]
    assert seen["queues"] == {"refresh": 0, "reindex": 0, "embed": 0}
    assert seen["refreshed"] == {"visited": "1", "changed": "1"}


async def test_the_registry_for_people(
    crawled: str, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, in lines."""
    await redis.hset(keys.source(crawled), "held", "too much would go")
    capsys.readouterr()
    await status.status(as_json=False)
    told = capsys.readouterr().out

    assert "Registry  1 Crawled" in told
    assert "Due now   nothing" in told
    assert "0 jobs wait in refresh" in told
    assert "🛑 too much would go" in told
    assert "succeeded" in told


async def test_a_running_run_shows_its_counters(redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """Live, as far as it has come."""
    runs = RunStore(redis, keys)
    now = float((await redis.time())[0])
    run, _ = await runs.open(RunKind.CRAWL, now, source="docs.site", domain="docs", mode="full")
    await runs.step("join", run, now, token="one", worker={"ts": now})
    await runs.update(run.id, {"visited": "7"})
    await status.status(as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)["registry"]["runs"]

    assert (shown["status"], shown["counts"]["visited"]) == ("running", 7)


async def test_a_queue_that_is_away_is_a_sentence(
    crawled: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else is told as always."""
    monkeypatch.setenv("QUEUE_REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    capsys.readouterr()

    assert await status.status(as_json=False) == 0
    told = capsys.readouterr().out
    assert "The queue's server at redis://127.0.0.1:1/0 does not answer" in told
    assert "secret" not in told
    assert "Registry  1 Crawled" in told


async def test_an_empty_store(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing yet is no error."""
    assert await status.status(as_json=False) == 0
    assert "Registry  none yet" in capsys.readouterr().out


# ── one knowledge base ──


async def test_state_for_programs(crawled: str, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """Exactly the schema, as it is in `state.json` and in Redis."""
    capsys.readouterr()
    assert await status.status(as_json=True, kb_id="notes") == 0
    told = capsys.readouterr().out

    assert [*json.loads(told)] == ["kb_id", "version", "updated_at", "job", "crawl", "processing", "metrics"]
    assert state_json.from_json("notes", told).kb_id == "notes"


async def test_state_for_people(crawled: str, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """The same, in lines."""
    fields = {"job.status": "paused", "job.progress": "40", "job.error": "", "crawl.pages_queued": "12"}
    urls = json.dumps([f"https://e.org/{number}" for number in range(12)])
    await redis.hset(keys.kb_state("notes"), mapping={**fields, "crawl.pending_urls": urls})
    capsys.readouterr()
    await status.status(as_json=False, kb_id="notes")
    told = capsys.readouterr().out

    assert "notes  paused" in told
    assert "40 %" in told
    assert "12 queued" in told
    assert "and 2 more" in told


async def test_unknown_knowledge_base_is_a_sentence() -> None:
    """It says where to look."""
    with pytest.raises(FreshetError, match=r"no knowledge base nothing. `python -m scripts.domain list`"):
        await status.status(as_json=True, kb_id="nothing")
