"""Pause, resume and cancel: what a status becomes by what is asked, and by who still works."""

from __future__ import annotations

import pytest

from core.errors import FreshetError
from core.keys import Keys
from core.runs.io.run_control import RunControl
from core.runs.io.run_store import RunStore
from core.runs.run import SILENT_SECONDS, Run, RunKind, RunStatus, run_json
from core.runs.run_request import RunRequest
from core.settings import Settings
from core.store import connect
from core.store.connect import Client


@pytest.fixture
def runs(redis: Client, keys: Keys) -> RunStore:
    return RunStore(redis, keys)


@pytest.fixture
def control(settings: Settings, redis: Client, keys: Keys) -> RunControl:
    return RunControl(settings, redis, keys)


async def opened(runs: RunStore, now: float, source: str = "docs.site") -> Run:
    run, _ = await runs.open(RunKind.CRAWL, now, source=source, domain="docs", mode="full", started_by="script")
    return run


async def joined(runs: RunStore, run: Run, now: float, token: str, in_flight: int = 0) -> RunRequest:
    worker = {"ts": now, "in_flight": in_flight}
    return (await runs.step("join", run, now, token=token, worker=worker)).request


async def test_pause_is_paused_when_the_last_worker_has_left(
    runs: RunStore, control: RunControl, redis: Client, keys: Keys
) -> None:
    """Until then it is pausing, and says how many items are in flight; nobody can join it."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await joined(runs, run, now, "one", 3)
    await joined(runs, run, now, "two", 4)
    pausing = await control.pause(run.id)
    await runs.step("leave", run, now, token="one")
    between = await runs.require(run.id, now)
    await runs.step("leave", run, now, token="two")
    paused = await runs.require(run.id, now)
    since = await redis.hget(keys.runs_paused, "source:docs.site")

    assert paused.message == f"Paused since {since}"
    assert (pausing.status, pausing.in_flight) == (RunStatus.PAUSING, 7)
    assert (between.status, between.in_flight) == (RunStatus.PAUSING, 4)
    assert (paused.status, paused.in_flight) == (RunStatus.PAUSED, 0)
    assert await joined(runs, run, now, "three") is RunRequest.PAUSE
    assert await redis.hexists(keys.runs_paused, "source:docs.site")


async def test_silent_worker_does_not_keep_a_pause_waiting(runs: RunStore, control: RunControl, redis: Client) -> None:
    """A worker that was killed acknowledges nothing; its silence does."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await joined(runs, run, now - SILENT_SECONDS - 1, "dead", 5)

    assert (await control.pause(run.id)).status is RunStatus.PAUSED


async def test_flag_set_by_hand_pauses_and_resumes(runs: RunStore, redis: Client, keys: Keys) -> None:
    """`HSET run:<id> control pause` is read with the next heartbeat."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await joined(runs, run, now, "one")
    await redis.hset(keys.run(run.id), "control", "pause")
    beat = await runs.step("beat", run, now, token="one", worker={"ts": now})
    await runs.step("wait", run, now, token="one", worker={"ts": now, "waiting": True})
    paused = await runs.require(run.id, now)
    await redis.hset(keys.run(run.id), "control", "resume")
    again = await runs.step("wait", run, now, token="one", worker={"ts": now, "waiting": True})

    assert (beat.request, beat.status) == (RunRequest.PAUSE, "pausing")
    assert paused.status is RunStatus.PAUSED
    assert (again.request, again.status) == (RunRequest.NONE, "running")
    assert not await redis.hexists(keys.runs_paused, "source:docs.site")


async def test_flag_that_means_nothing_is_told(runs: RunStore, redis: Client, keys: Keys) -> None:
    """It is taken away, and the log of the run says what it may be."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await redis.hset(keys.run(run.id), "control", "nonsense")
    request = await joined(runs, run, now, "one")
    [line] = await runs.log_lines(run.id)

    assert request is RunRequest.NONE
    assert 'control "nonsense" is ignored; it may be pause, resume or cancel' in line
    assert await redis.hget(keys.run(run.id), "control") == ""


async def test_resume_never_makes_a_second_run(runs: RunStore, control: RunControl, redis: Client) -> None:
    """Twice resumed, it is the same run; and starting the same work again continues it."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await control.pause(run.id)
    first, second = await control.resume(run.id), await control.resume(run.id)
    other, is_new = await runs.open(RunKind.CRAWL, now, source="docs.site", domain="docs")

    assert (first.id, second.id, other.id, is_new) == (run.id, run.id, run.id, False)
    assert first.status is second.status is RunStatus.QUEUED
    assert len(await runs.newest(10, now)) == 1


async def test_cancelled_run_can_be_run_again(runs: RunStore, control: RunControl, redis: Client, keys: Keys) -> None:
    """It keeps its counts, its percent and its id, tells how many items were left, and repeats none, failed or not."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await joined(runs, run, now, "one")
    await redis.zadd(keys.due("docs.site"), {"url_a": now - 5, "url_b": now + 900})
    await redis.hset(keys.run(run.id), mapping={"visited": "7", "failed": "1", "progress": "29"})
    await redis.hset(keys.item("url_c"), mapping={"id": "url_c", "sources": "docs.site"})
    await redis.hset(keys.run_failed(run.id), "url_c", '{"code": "FAIL_HTTP"}')
    cancelling = await control.cancel(run.id)
    await runs.step("leave", run, now, token="one")
    cancelled = await runs.require(run.id, now)
    again = await control.resume(run.id)

    assert cancelling.status is RunStatus.CANCELLING
    assert (cancelled.status, cancelled.left, cancelled.counts["visited"]) == (RunStatus.CANCELLED, 1, 7)
    assert (again.status, again.id, again.progress) == (RunStatus.QUEUED, run.id, 29)
    assert (again.counts["visited"], again.counts["failed"]) == (7, 1)
    assert await redis.zscore(keys.due("docs.site"), "url_c") is None


async def test_what_cannot_be_done_is_a_sentence(runs: RunStore, control: RunControl, redis: Client) -> None:
    """A run that has ended is not paused, cancelled or, after a success, resumed; nor is one whose place is taken."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await runs.finish(run, RunStatus.FAILED, now)
    other = await opened(runs, now)
    with pytest.raises(FreshetError, match="nothing to pause"):
        await control.pause(run.id)
    with pytest.raises(FreshetError, match="nothing to cancel"):
        await control.cancel(run.id)
    with pytest.raises(FreshetError, match=f"{other.id} works on source:docs.site now"):
        await control.resume(run.id)
    await runs.finish(other, RunStatus.SUCCEEDED, now)
    with pytest.raises(FreshetError, match="has succeeded"):
        await control.resume(other.id)
    with pytest.raises(FreshetError, match="There is no run jb_0_nothing"):
        await control.pause("jb_0_nothing")


async def test_slow_run_with_a_heartbeat_is_never_interrupted(runs: RunStore, redis: Client) -> None:
    """Only silence interrupts; the next worker that joins makes it running."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await joined(runs, run, now, "one")
    later = now + 10_000
    await runs.step("beat", run, later, token="one", worker={"ts": later})
    alive = (await runs.require(run.id, later + SILENT_SECONDS - 1)).status
    await runs.step("check", run, later + SILENT_SECONDS - 1)
    silent = later + SILENT_SECONDS + 1
    derived = (await runs.require(run.id, silent)).status
    written = (await runs.step("check", run, silent)).status
    await joined(runs, run, silent, "two")

    assert (alive, derived, written) == (RunStatus.RUNNING, RunStatus.INTERRUPTED, "interrupted")
    assert (await runs.require(run.id, silent)).status is RunStatus.RUNNING


async def test_percent_and_phase_never_run_backwards(runs: RunStore, redis: Client) -> None:
    """Whoever of several workers reports last."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    for percent, phase in (("40", "processing"), ("10", "crawling"), ("55", "indexing"), ("54", "processing")):
        fields = {"progress": percent, "phase": phase}
        await runs.step("beat", run, now, token="one", worker={"ts": now}, fields=fields)
    seen = await runs.require(run.id, now)

    assert (seen.progress, seen.phase) == (55, "indexing")


async def test_run_as_json(runs: RunStore, redis: Client) -> None:
    """Times are ISO 8601 or null, counters are numbers."""
    now = await connect.now(redis)
    shown = run_json(await opened(runs, now))

    assert str(shown["id"]).startswith(f"jb_{int(now)}_")
    assert (shown["status"], shown["started_at"], shown["counts"]) == (
        "queued",
        None,
        dict.fromkeys(("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded"), 0),
    )


async def test_a_kind_is_paused_between_two_runs(runs: RunStore, control: RunControl, redis: Client) -> None:
    """Nobody can join the next run of it until the kind is resumed."""
    now = await connect.now(redis)
    without_runs = await control.pause_kind(RunKind.INGEST)
    run, _ = await runs.open(RunKind.INGEST, now)
    paused = await joined(runs, run, now, "one")
    resumed = await control.resume_kind(RunKind.INGEST)

    assert without_runs == []
    assert paused is RunRequest.PAUSE
    assert [one.id for one in resumed] == [run.id]
    assert await joined(runs, run, now, "one") is RunRequest.NONE


async def test_resumed_domain_goes_on_with_its_cancelled_crawl(
    runs: RunStore, control: RunControl, redis: Client, keys: Keys
) -> None:
    """Where nothing is paused or open; a domain without any such crawl has nothing to go on with."""
    now = await connect.now(redis)
    await redis.hset(keys.domain("docs"), "sources", "docs.site")
    nothing = await control.resume_domain("docs")
    run, _ = await runs.open(RunKind.DOMAIN, now, domain="docs")
    await control.cancel_domain("docs")
    await control.pause_domain("docs")
    only_unpaused = await control.resume_domain("docs")
    again = await control.resume_domain("docs")

    assert nothing == only_unpaused == []
    assert [(one.id, one.status) for one in again] == [(run.id, RunStatus.QUEUED)]


@pytest.mark.parametrize("kind", [RunKind.DOMAIN, RunKind.INGEST])
async def test_pause_after_a_flag_that_nobody_has_read(
    runs: RunStore, control: RunControl, redis: Client, keys: Keys, kind: RunKind
) -> None:
    """`HSET run:<id> control resume` takes back what was asked before it, not a pause that is asked for later."""
    now = await connect.now(redis)
    await redis.hset(keys.domain("docs"), "sources", "docs.site")
    run, _ = await runs.open(kind, now, domain="docs" if kind is RunKind.DOMAIN else "")
    await joined(runs, run, now, "one")
    await redis.hset(keys.run(run.id), "control", "resume")
    asked = await (control.pause_domain("docs") if kind is RunKind.DOMAIN else control.pause_kind(kind))

    assert [one.status for one in asked] == [RunStatus.PAUSING]
    assert await redis.hexists(keys.runs_paused, run.scope)
    assert (await runs.step("beat", run, now, token="one", worker={"ts": now})).request is RunRequest.PAUSE


async def test_a_cancelled_domain_counts_what_its_sources_have_left(
    runs: RunStore, control: RunControl, redis: Client, keys: Keys
) -> None:
    """And it lists what failed in its parts."""
    now = await connect.now(redis)
    domain, _ = await runs.open(RunKind.DOMAIN, now, domain="docs")
    part, _ = await runs.open(RunKind.CRAWL, now, source="docs.site", domain="docs", parent=domain.id)
    await runs.set_child(domain.id, part)
    await redis.zadd(keys.due("docs.site"), {"url_a": now - 5, "url_b": now - 4, "url_c": now + 900})
    await redis.hset(keys.run_failed(part.id), "url_d", '{"url": "https://e.org/d", "code": "FAIL_HTTP", "ts": 5}')
    cancelled = await control.cancel(domain.id)

    assert (cancelled.status, cancelled.left) == (RunStatus.CANCELLED, 2)
    assert [one.item_id for one in await runs.all_failed_items(cancelled, now)] == ["url_d"]
