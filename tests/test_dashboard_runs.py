"""The pages of runs, over real HTTP: the list, one run, its buttons."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core.keys import Keys
from core.runs.io.run_list import MOST_LOOKED_AT, RunFilter, RunList
from core.runs.io.run_store import RunStore
from core.runs.run import SILENT_SECONDS, Run, RunKind, RunStatus
from core.store import connect
from core.store.connect import Client
from tests.api import ApiServer
from tests.form_client import PAGE, FormClient
from workers.web.dashboard.views.runs import PURPOSES

HOSTILE = ["<script>alert(1)</script>", "javascript:alert(1)", "\udc80 no text"]


@pytest.fixture
def runs(redis: Client, keys: Keys) -> RunStore:
    return RunStore(redis, keys)


async def opened(runs: RunStore, now: float, source: str = "docs.site", domain: str = "docs") -> Run:
    run, _ = await runs.open(RunKind.CRAWL, now, source=source, domain=domain, mode="full", started_by="script")
    return run


async def part_of_a_domain(runs: RunStore, now: float) -> tuple[Run, Run]:
    """Return an open run of a domain and the crawl that is a part of it."""
    whole, _ = await runs.open(RunKind.DOMAIN, now, domain="docs")
    part, _ = await runs.open(RunKind.CRAWL, now, source="docs.site", domain="docs", parent=whole.id)
    await runs.set_child(whole.id, part)
    return whole, part


async def failed(redis: Client, keys: Keys, run: Run, **reasons: str) -> None:
    for place, (item_id, code) in enumerate(reasons.items()):
        reason = {"url": f"http://e.org/{item_id}", "code": code, "text": "It is slow.", "ts": place}
        await redis.hset(keys.run_failed(run.id), item_id, json.dumps(reason))


# ── the list ──


async def test_open_runs_come_first(api: ApiServer, runs: RunStore, redis: Client) -> None:
    """The open run is on top though an ended one is newer; each has its status, and the open one its buttons."""
    now = await connect.now(redis)
    older = await opened(runs, now, "docs.old")
    newer = await opened(runs, now + 1, "docs.new")
    await runs.finish(newer, RunStatus.SUCCEEDED, now + 1)
    page = (await api.get("/runs", headers=PAGE)).text

    assert 0 < page.index(older.id) < page.index(newer.id)
    assert f"/runs/{older.id}/pause" in page
    assert f"/runs/{newer.id}/resume" not in page
    assert ("queued</span>" in page, "succeeded</span>" in page) == (True, True)


async def test_list_is_filtered_and_paged(api: ApiServer, runs: RunStore, redis: Client) -> None:
    """By kind, status and domain, an empty field means all; the older ones are on the next page."""
    now = await connect.now(redis)
    for number in range(52):
        run = await opened(runs, now + number, f"d{number}.s", f"d{number}")
        await runs.finish(run, RunStatus.SUCCEEDED if number else RunStatus.FAILED, now + number)
    first = (await api.get("/runs?kind=&status=&domain=", headers=PAGE)).text
    second = (await api.get("/runs?offset=50", headers=PAGE)).text
    of_failed = (await api.get("/runs?status=failed", headers=PAGE)).text
    of_domain = (await api.get("/runs?domain=d7&kind=crawl", headers=PAGE)).text
    none = (await api.get("/runs?kind=doctor", headers=PAGE)).text

    assert (">d51.s<" in first, ">d1.s<" in first, "offset=50" in first) == (True, False, True)
    assert (">d1.s<" in second, ">d0.s<" in second, "Newer" in second) == (True, True, True)
    assert (">d0.s<" in of_failed, of_failed.count('data-label="Kind"')) == (True, 1)
    assert (">d7.s<" in of_domain, of_domain.count('data-label="Kind"')) == (True, 1)
    assert "No run is like this" in none
    assert (await api.get("/runs?kind=nonsense", headers=PAGE)).status == 422


async def test_run_of_a_domain_shows_what_its_parts_do(
    api: ApiServer, runs: RunStore, redis: Client, keys: Keys
) -> None:
    """While it is paused, page and API say what its crawl has in flight, whatever its own worker knew."""
    now = await connect.now(redis)
    whole, part = await part_of_a_domain(runs, now)
    await runs.step("join", whole, now, token="one", worker={"ts": now})
    await redis.hset(keys.run(whole.id), "control", "pause")
    await runs.step("beat", whole, now, token="one", worker={"ts": now, "in_flight": 0}, fields={"parts": "2"})
    step = {"ts": now, "in_flight": 3}
    await runs.step("join", part, now, token="two", worker=step)
    await runs.step("beat", part, now, token="two", worker=step, fields={"progress": "40"})
    job = (await api.get(f"/v2/jobs/{whole.id}")).json
    listed = {one["id"]: one for one in (await api.get("/v2/jobs")).json["jobs"]}
    page = (await api.get(f"/runs/{whole.id}", headers=PAGE)).text

    assert (job["status"], job["in_flight"], job["progress"]) == ("pausing", 3, 20)
    assert (listed[whole.id]["in_flight"], listed[whole.id]["progress"]) == (3, 20)
    assert "3 in flight</strong>" in page


async def test_parts_are_folded_into_the_run_of_their_domain(
    api: ApiServer, runs: RunStore, redis: Client, keys: Keys
) -> None:
    """The crawls of a domain's run are not listed beside it, except where crawls are asked for; open or ended."""
    now = await connect.now(redis)
    whole, part = await part_of_a_domain(runs, now)
    opened_page = (await api.get("/runs", headers=PAGE)).text
    for run in (part, whole):
        await runs.finish(run, RunStatus.SUCCEEDED, now)
    ended_page = (await api.get("/runs", headers=PAGE)).text
    crawls = (await api.get("/runs?kind=crawl", headers=PAGE)).text

    for page in (opened_page, ended_page):
        assert (f"/runs/{whole.id}" in page, f"/runs/{part.id}" in page, "1 source" in page) == (True, False, True)
    assert f"/runs/{part.id}" in crawls


async def test_row_has_its_counts_in_order_and_its_kind_once(
    api: ApiServer, runs: RunStore, redis: Client, keys: Keys
) -> None:
    """Counts have the same order in each row; a run that is known by its kind only does not name it twice."""
    now = await connect.now(redis)
    run, _ = await runs.open(RunKind.CANONICAL, now, counters=("unchanged", "failed", "visited", "tried", "changed"))
    await runs.finish(run, RunStatus.SUCCEEDED, now)
    counts = {"unchanged": 3, "failed": 4, "tried": 9, "visited": 8, "changed": 1}
    await redis.hset(keys.run(run.id), mapping=counts)
    page = (await api.get("/runs", headers=PAGE)).text
    row = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index(run.id) :].partition("</tr>")[0]))

    assert "8 visited, 1 changed, 3 unchanged, 4 failed, 9 tried" in row
    assert row.count("canonical") == 1


async def test_held_run_asks_for_a_review_first(api: ApiServer, runs: RunStore, redis: Client, keys: Keys) -> None:
    """What the loss guard stopped is answered by one button that stands out; resuming would stop at the same place."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await runs.finish(run, RunStatus.PARTIAL, now, {"problem": "held"})
    await failed(redis, keys, run, i1="FAIL_HTTP_404")
    page = (await api.get(f"/runs/{run.id}", headers=PAGE)).text
    actions = page[page.index('<div class="actions">') :].partition("</section>")[0]

    assert '<a href="/domains/docs/dry-run?source=docs.site" role="button">Review and approve</a>' in actions
    assert actions.index("Review and approve") < actions.index("Resume")
    assert re.search(r'<button[^>]*class="outline"[^>]*>Resume', actions)
    assert re.search(r'<button[^>]*class="small outline"[^>]*>Retry all', page)


async def test_silent_run_is_found_as_interrupted(runs: RunStore, redis: Client, keys: Keys) -> None:
    """The filter goes by what a status means now, not by what was stored."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await runs.step("join", run, now, token="one", worker={"ts": now})
    later = now + SILENT_SECONDS + 1
    pages = [
        await RunList(redis, keys).page(RunFilter(status=status), later, 10)
        for status in (RunStatus.INTERRUPTED, RunStatus.RUNNING)
    ]

    assert [[one.id for one in page.runs] for page in pages] == [[run.id], []]


async def test_whole_kind_is_paused(api: ApiServer, redis: Client, keys: Keys) -> None:
    """The switch, which every kind has, pauses what would start later, says so, and takes it back."""
    assert set(PURPOSES) == set(RunKind)
    async with FormClient(api) as person:
        _, path, paused = await person.submit("/runs", "/runs/kinds/ingest/pause", back="/runs")
        is_paused = await redis.hexists(keys.runs_paused, "ingest")
        _, _, resumed = await person.submit("/runs", "/runs/kinds/ingest/resume", back="/runs")

    assert (path, is_paused) == ("/runs", True)
    assert "Runs of the kind ingest are paused" in paused
    assert "/runs/kinds/ingest/resume" in paused
    assert "/runs/kinds/ingest/pause" in resumed
    assert not await redis.hexists(keys.runs_paused, "ingest")


# ── one run ──


async def test_run_is_shown_whole(api: ApiServer, runs: RunStore, redis: Client, keys: Keys) -> None:
    """Progress, counts that add up, who began it, heartbeat, in flight while pausing, failures by code, its log."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await runs.step("join", run, now, token="one", worker={"ts": now, "in_flight": 3})
    await runs.update(run.id, {"progress": "40", "message": "Visiting: 4/10", "visited": "7", "changed": "5"})
    await runs.update(run.id, {"unchanged": "1", "failed": "1", "parameters": json.dumps({"retry": "jb_1_a"})})
    await redis.rpush(keys.run_log(run.id), "a line of its log")
    await failed(redis, keys, run, url_a="FAIL_TIMEOUT", url_b="FAIL_TIMEOUT", url_c="FAIL_HTTP")
    async with FormClient(api) as person:
        await person.submit(f"/runs/{run.id}", f"/runs/{run.id}/pause", back=f"/runs/{run.id}")
        _, _, page = await person.ask("GET", f"/runs/{run.id}")

    assert "pausing</span>" in page
    assert "3 in flight" in page
    for part in ("40 %", "Visiting: 4/10", "by script", "1 worker", "a line of its log", "jb_1_a", "<b>7</b> visited"):
        assert part in page, part
    assert page.index("FAIL_TIMEOUT") < page.index("FAIL_HTTP")
    assert '<span class="quiet">2</span>' in page
    assert page.count("Retry these") == 2
    assert "/why?url=http%3A%2F%2Fe.org%2Furl_a" in page


async def test_run_is_controlled(api: ApiServer, runs: RunStore, redis: Client) -> None:
    """Each button leads back with a sentence; what cannot be done is a sentence, too."""
    run = await opened(runs, await connect.now(redis))
    path = f"/runs/{run.id}"
    async with FormClient(api) as person:
        for act, sentence in (
            ("pause", "docs.site is paused. It stays so"),
            ("resume", "docs.site is queued. The next free worker takes it."),
            ("cancel", "docs.site is cancelled. Items left: 0."),
            ("cancel", "there is nothing to cancel"),
            ("retry", "has failed that way"),
        ):
            status, at, page = await person.submit(path, f"{path}/{act}", back=path)

            assert (status, at, sentence in page) == (200, path, True), (act, page)


async def test_failed_items_are_retried_by_code(api: ApiServer, runs: RunStore, redis: Client, keys: Keys) -> None:
    """“Retry these” makes the items of one code due, and no others."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    await failed(redis, keys, run, url_a="FAIL_TIMEOUT", url_b="FAIL_HTTP")
    for item_id in ("url_a", "url_b"):
        await redis.hset(keys.item(item_id), mapping={"status": "Error", "sources": "docs.site", "type": "url"})
        await redis.zadd(keys.refs("docs.site"), {item_id: 0})
        await redis.zadd(keys.due("docs.site"), {item_id: now + 9_000})
    async with FormClient(api) as person:
        _, _, page = await person.submit(f"/runs/{run.id}", f"/runs/{run.id}/retry", code="FAIL_TIMEOUT")
    due = await redis.zrange(keys.due("docs.site"), "-inf", str(await connect.now(redis)), byscore=True)

    assert "Items that are due again: 1." in page
    assert due == ["url_a"]


async def test_many_failures_are_looked_at_in_part(runs: RunStore, redis: Client, keys: Keys) -> None:
    """However many failed, a thousand are looked at, and the total is known."""
    now = await connect.now(redis)
    run = await opened(runs, now)
    reason = json.dumps({"url": "u", "code": "FAIL_HTTP", "text": "", "ts": 1})
    many = {f"url_{number}": reason for number in range(MOST_LOOKED_AT + 500)}
    await redis.hset(keys.run_failed(run.id), mapping=many)
    found = await RunList(redis, keys).failures(run, now)

    assert (found.total, found.looked_at) == (len(many), MOST_LOOKED_AT)
    assert [(group.code, group.count, len(group.examples)) for group in found.groups] == [
        ("FAIL_HTTP", MOST_LOOKED_AT, 5)
    ]


async def test_missing_run_is_a_page(api: ApiServer) -> None:
    """404 as a page, also for an id that no run can have."""
    for run_id in ("jb_1_00000000", "nonsense", "jb_1:log"):
        answer = await api.get(f"/runs/{run_id}", headers=PAGE)

        assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize("value", HOSTILE)
async def test_hostile_values_are_text(
    api: ApiServer, runs: RunStore, redis: Client, keys: Keys, tmp_path: Path, value: str
) -> None:
    """Whatever a run holds, wherever it came from, is text: no element, no link."""
    run = await opened(runs, await connect.now(redis), source="docs.site", domain="docs")
    hostile = {"message": value, "error": value, "started_by": value, "mode": value, "parent": value}
    await runs.update(run.id, hostile | {"parameters": json.dumps({value: value}), "receipt": value})
    reason = json.dumps({"url": value, "code": value, "text": value, "ts": 1})
    await redis.hset(keys.run_failed(run.id), "url_a", reason)
    await redis.rpush(keys.run_log(run.id), value)
    for path in ("/runs", f"/runs/{run.id}"):
        answer = await api.get(path, headers=PAGE)

        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert 'href="javascript:' not in answer.text
