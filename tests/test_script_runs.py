"""scripts.runs: what a person sees of runs, and what they can do with them."""

from __future__ import annotations

import json

import pytest

from core.errors import FreshetError
from core.feeds.io.manual_poll import require_unpaused
from core.keys import Keys
from core.registry.record import iso
from core.runs.io.run_control import RunControl
from core.runs.io.run_list import RunList
from core.runs.io.run_store import RunStore
from core.runs.io.state_store import KbStateStore
from core.runs.run import RunKind, RunStatus
from core.runtime.context import Context
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from scripts import domain, domain_report, runs, status


@pytest.fixture
async def store(adopted: None, context: Context) -> RunStore:
    """A store with a failed run of a source, and a domain's run that is open."""
    now = await connect.now(context.client)
    failed, _ = await context.runs.open(RunKind.CRAWL, now - 60, source="docs.site", domain="docs", started_by="script")
    await context.runs.finish(failed, RunStatus.FAILED, now, {"error": "nothing could be read"})
    await context.runs.open(RunKind.DOMAIN, now, domain="docs", started_by="script")
    return context.runs


async def test_list_shows_the_last_runs(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Newest first, in a table and as JSON; `--open` leaves out what has ended."""
    await runs.list_runs(None, "docs", False, 20, False)
    lines = capsys.readouterr().out.splitlines()
    await runs.list_runs(None, None, True, 20, True)
    is_open = json.loads(capsys.readouterr().out)

    assert [line.split()[1] for line in lines] == ["KIND", "domain", "crawl"]
    assert [(one["kind"], one["status"]) for one in is_open] == [("domain", "queued")]


async def test_what_is_paused_is_named_without_a_run(
    adopted: None, redis: Client, keys: Keys, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """A domain and a kind, by every command that a person would look at, each with the command that ends it."""
    await redis.sadd(keys.domains, "docs")
    await redis.hset(keys.domain("docs"), mapping={"id": "docs", "sources": "docs.site"})
    await redis.hset(keys.source("docs.site"), "kind", "web")
    control = RunControl(settings, redis, keys)
    await control.pause_domain("docs")
    await control.pause_kind(RunKind.INGEST)
    commands = {
        "runs": runs.list_runs(None, None, True, 20, False),
        "status": status.status(as_json=False),
        "list": domain.list_domains(),
        "report": domain_report.report("docs"),
        "kb": status.status(as_json=False, kb_id="docs"),
    }
    for name, told in commands.items():
        assert await told == 0
        text = capsys.readouterr().out
        assert "domain resume docs" in text, name
        assert ("runs resume ingest" in text) == (name in ("runs", "status")), name
    assert (await KbStateStore(redis, keys).require("docs", 0.0)).job.paused
    with pytest.raises(FreshetError, match="runs resume ingest"):
        await require_unpaused(redis, keys)
    await control.resume_domain("docs")
    assert not (await KbStateStore(redis, keys).require("docs", 0.0)).job.paused


async def test_a_run_is_found_by_a_part_of_its_id(store: RunStore, context: Context) -> None:
    """By its beginning or end, or as the last; what fits several is refused with their names."""
    lookup = RunList(context.client, context.keys)
    newest = (await store.newest(2, await connect.now(context.client)))[0]

    assert (await lookup.find("last")).id == newest.id
    assert (await lookup.find(newest.id[-6:])).id == newest.id
    with pytest.raises(FreshetError, match="may be any of 2 runs"):
        await lookup.find("jb_")
    with pytest.raises(FreshetError, match="There is no run nope"):
        await lookup.find("nope")


async def test_show_tells_what_failed_and_what_is_left(
    store: RunStore, context: Context, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason of each failure, the first URLs that are still due, and the commands that go on."""
    now = await connect.now(redis)
    run = (await store.newest(1, now, kind=RunKind.CRAWL))[0]
    failure = {"url": "https://e.org/slow", "code": "FAIL_TIMEOUT", "text": "no answer in 15 s", "ts": now}
    await redis.hset(context.keys.run_failed(run.id), "url_a", json.dumps(failure))
    await redis.zadd(context.keys.due("docs.site"), {"url_b": now - 5})
    await redis.hset(context.keys.item("url_b"), mapping={"displaySource": "https://e.org/next", "firstSeen": iso(now)})
    await runs.show(run.id, False)
    page = capsys.readouterr().out

    assert "1 item failed: 1 FAIL_TIMEOUT" in page
    assert "https://e.org/slow" in page
    assert "no answer in 15 s" in page
    assert "https://e.org/next" in page
    assert f"runs retry {run.id}" in page
    assert f"runs resume {run.id}" in page
    assert "nothing could be read" in page


async def test_watch_ends_with_the_run(
    store: RunStore, context: Context, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe it prints a line per change; a failed run is exit code 1."""
    run = (await store.newest(1, await connect.now(redis), kind=RunKind.CRAWL))[0]

    assert await runs.watch(run.id) == 1
    assert capsys.readouterr().out.startswith(f"{run.id} failed 0 %")
