"""The registry's part of `python -m scripts.status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.keys import Keys
from core.registry.io.runs import RunStore
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
    assert [(run["source"], run["status"], run["changed"]) for run in seen["runs"]] == [(crawled, "finished", "1")]
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
    assert "finished" in told


async def test_a_running_run_shows_its_counters(redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """Live, as far as it has come."""
    runs = RunStore(redis, keys)
    now = float((await redis.time())[0])
    run_id = await runs.start("docs.site", "docs", "full", now)
    await runs.update(run_id, {"visited": "7"})
    await status.status(as_json=True)
    (run,) = json.loads(capsys.readouterr().out)["registry"]["runs"]

    assert (run["status"], run["visited"]) == ("running", "7")


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
