"""Runs and crawls over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.keys import Keys
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind, RunStatus
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store import connect
from tests.api import ApiServer
from tests.commands import everything
from workers.web.job_stream import new_lines


@pytest.fixture
async def shelf(settings: Settings, redis: connect.Client, tmp_path: Path) -> Path:
    """A folder of two files, added as the domain `shelf` with the source `notes`."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nA text about {name}.\n")
    domain = parse_domain(
        json.dumps({"id": "shelf", "folder_sources": [{"id": "notes", "path": str(folder)}]}), str(tmp_path)
    )
    await add_domain(settings, redis, Keys(), domain)
    return folder


# ── jobs ──


async def test_jobs_are_listed_by_pages_and_filters(api: ApiServer, redis: connect.Client) -> None:
    """Newest first; by kind, domain and status; the next page begins where the last one ended."""
    runs, now = RunStore(redis, Keys()), await connect.now(redis)
    ids: list[str] = []
    for number in range(3):
        run, _ = await runs.open(RunKind.CRAWL, now + number, source=f"d{number}.s", domain=f"d{number}")
        ids.insert(0, run.id)
    await runs.finish(run, RunStatus.SUCCEEDED, now)

    first = (await api.get("/v2/jobs?limit=2")).json
    rest = (await api.get(f"/v2/jobs?limit=2&offset={first['next_offset']}")).json
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids
    assert rest["next_offset"] is None
    for query, expected in (("domain=d1", ids[1:2]), ("status=succeeded", ids[:1]), ("kind=doctor", [])):
        assert [job["id"] for job in (await api.get(f"/v2/jobs?{query}")).json["jobs"]] == expected, query


@pytest.mark.parametrize("path", ["", "/log", "/failed", "/stream"])
async def test_missing_job_is_404(api: ApiServer, path: str) -> None:
    """A job that is not there is a sentence; so is an id that no job can have, whatever key it would name."""
    missing = await api.get(f"/v2/jobs/jb_1_00000000{path}")
    strange = await api.get(f"/v2/jobs/jb_1:log{path}")

    assert (missing.status, strange.status) == (404, 404)
    assert "There is no run jb_1_00000000" in missing.error["message"]


async def test_job_is_controlled(api: ApiServer, shelf: Path) -> None:
    """Pause, resume and cancel change the run and answer with it; what cannot be is a 409 with a sentence."""
    started = (await api.post("/v2/crawler/crawl?domain_id=shelf")).json["job"]
    path = f"/v2/jobs/{started['id']}"

    assert (await api.post(f"{path}/pause")).json["status"] == "paused"
    assert (await api.post(f"{path}/resume")).json["status"] == "queued"
    assert (await api.post(f"{path}/cancel")).json["status"] == "cancelled"
    again = await api.post(f"{path}/cancel")
    assert (again.status, again.error["code"]) == (409, "conflict")
    assert (await api.get(path)).json["status"] == "cancelled"


async def test_failed_items_are_listed_and_retried(api: ApiServer, redis: connect.Client, shelf: Path) -> None:
    """The failed items of a run have their reasons; nothing to retry is a 409."""
    run = (await api.post("/v2/crawler/crawl?domain_id=shelf&source_id=notes")).json["job"]
    key = Keys().run_failed(run["id"])
    await redis.hset(key, "url_a", json.dumps({"url": "u", "code": "FAIL_TIMEOUT", "text": "slow", "ts": "5"}))

    listed = (await api.get(f"/v2/jobs/{run['id']}/failed?code=FAIL_TIMEOUT")).json["items"]
    assert listed == [{"item_id": "url_a", "url": "u", "code": "FAIL_TIMEOUT", "text": "slow", "failed_ts": 5.0}]
    assert (await api.get(f"/v2/jobs/{run['id']}/failed?since=2h")).json["items"] == []
    assert (await api.get(f"/v2/jobs/{run['id']}/failed?since=soon")).status == 422
    assert (await api.post(f"/v2/jobs/{run['id']}/retry?code=FAIL_HTTP")).status == 409


async def test_job_is_followed_to_its_end(api: ApiServer, redis: connect.Client) -> None:
    """The stream of a run sends its state when it changes, its log, and its end; then it closes."""
    runs, now = RunStore(redis, Keys()), await connect.now(redis)
    run, _ = await runs.open(RunKind.CRAWL, now, source="d.s", domain="d")
    await redis.rpush(Keys().run_log(run.id), "a line")
    async with api.session.get(f"{api.url}/v2/jobs/{run.id}/stream") as reply:
        text = ""
        async for chunk in reply.content.iter_any():
            text += chunk.decode()
            if "event: job" in text and "event: end" not in text:
                await runs.finish(run, RunStatus.SUCCEEDED, now)

    assert 'data: {"line": "a line"}' in text
    assert text.rstrip().rpartition("event: ")[2].startswith("end\n")
    assert '"status":"succeeded"' in text


@pytest.mark.parametrize(
    ("lines", "last", "new"),
    [([], "", []), (["a", "b"], "", ["a", "b"]), (["a", "b"], "a", ["b"]), (["b", "c"], "a", ["b", "c"])],
)
def test_only_new_lines_are_sent(lines: list[str], last: str, new: list[str]) -> None:
    """Lines after the last one that was seen, or all if that one is gone."""
    assert new_lines(lines, last) == new


# ── the crawler ──


async def test_crawl_is_one_run(api: ApiServer, shelf: Path) -> None:
    """A crawl answers with its queued run; asked again, or for a part of it, it is the same run."""
    first = await api.post("/v2/crawler/crawl?domain_id=shelf&mode=full")
    again = await api.post("/v2/crawler/crawl?domain_id=shelf")
    one = await api.post("/v2/crawler/crawl?domain_id=shelf&source_type=folder_sources")

    assert (first.status, first.json["job"]["kind"], first.json["job"]["status"]) == (200, "domain", "queued")
    assert first.json["job"]["id"].startswith("jb_")
    assert again.json["job"]["id"] == first.json["job"]["id"]
    assert one.json["job"]["id"] == first.json["job"]["id"]


async def test_dry_run_changes_nothing(api: ApiServer, redis: connect.Client, shelf: Path) -> None:
    """It answers what would be added; no key of the store is another afterwards."""
    before = await everything(redis)
    for action in ("crawl", "download_data", "process_data", "embed_data"):
        answer = await api.post(f"/v2/crawler/{action}?domain_id=shelf&dry_run=true")

        assert answer.status == 200, answer.text
        assert answer.json["job"] is None
        if "data" not in action:
            assert [one["added"] for one in answer.json["preview"]] == [2]
    assert await everything(redis) == before


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("domain_id=nowhere", 404),
        ("domain_id=shelf&source_id=nothing", 404),
        ("domain_id=shelf&source_type=web_sources", 404),
        ("domain_id=shelf&scope=files", 404),
        ("", 422),
        ("domain_id=shelf&mode=half", 422),
        ("domain_id=shelf&dry_run=yes", 422),
        ("domain_id=shelf&retry_batches=0", 422),
        ("domain_id=shelf&format=xml", 422),
        ("domain_id=shelf&modus=full", 422),
    ],
)
async def test_what_is_not_there_is_a_sentence(api: ApiServer, shelf: Path, query: str, status: int) -> None:
    """A missing domain, source or type is a 404; what cannot be meant is a 422."""
    answer = await api.post(f"/v2/crawler/crawl?{query}")

    assert answer.status == status
    assert answer.error["message"]


async def test_known_items_are_read_again(api: ApiServer, context: Context, shelf: Path) -> None:
    """process_data makes every known item of the domain due, embed_data embeds what waits of it: each is a run."""
    await crawl_source(context, "shelf.notes", CrawlMode.INCREMENTAL)
    again = (await api.post("/v2/crawler/process_data?domain_id=shelf&mode=full")).json
    waiting = (await api.post("/v2/crawler/embed_data?domain_id=shelf")).json

    assert (again["items"], again["job"]["kind"], again["job"]["started_by"]) == (2, "reindex", "api")
    assert (waiting["items"], waiting["job"]["kind"], waiting["job"]["counts"]["texts"]) == (2, "embed", 2)
    listed = (await api.get("/v2/jobs?domain=shelf")).json["jobs"]
    assert {job["id"] for job in (again["job"], waiting["job"])} < {job["id"] for job in listed}


async def test_cleanup_needs_sharepoint(api: ApiServer, shelf: Path) -> None:
    """A domain without SharePoint sources has no metadata to clean, and is told so."""
    answer = await api.post("/v2/crawler/cleanup_metadata?domain_id=shelf")

    assert (answer.status, answer.error["code"]) == (409, "no_sharepoint_source")
    assert (await api.post("/v2/crawler/cleanup_metadata?domain_id=nowhere")).status == 404


async def test_crawl_answers_as_a_page_and_as_a_stream(api: ApiServer, redis: connect.Client, shelf: Path) -> None:
    """format=html is a page that names the run; format=stream follows it to its end."""
    page = await api.post("/v2/crawler/crawl?domain_id=shelf&format=html")
    job_id = (await api.get("/v2/jobs")).json["jobs"][0]["id"]
    await api.post(f"/v2/jobs/{job_id}/cancel")
    dry = await api.post("/v2/crawler/crawl?domain_id=shelf&format=stream&dry_run=true")

    assert page.headers["Content-Type"].startswith("text/html")
    assert job_id in page.text
    assert dry.headers["Content-Type"].startswith("text/event-stream")
    assert dry.text.startswith("event: result\n")
    assert dry.text.endswith("event: end\ndata: {}\n\n")


async def test_domain_is_paused_as_a_whole(api: ApiServer, redis: connect.Client, shelf: Path) -> None:
    """Pausing a domain pauses its runs, resuming and cancelling concern them all."""
    job_id = (await api.post("/v2/crawler/crawl?domain_id=shelf")).json["job"]["id"]
    for action, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        answer = (await api.post(f"/v2/domains/shelf/{action}")).json

        assert [(job["id"], job["status"]) for job in answer["jobs"]] == [(job_id, status)], action
    assert (await api.post("/v2/domains/nowhere/pause")).status == 404


async def test_state_is_the_unified_state(api: ApiServer, shelf: Path) -> None:
    """The state of a domain has the four sections, also before its first crawl."""
    state = (await api.get("/v2/domains/shelf/state")).json

    assert list(state) == ["kb_id", "version", "updated_at", "job", "crawl", "processing", "metrics"]
    assert (state["kb_id"], state["crawl"]["pages_crawled"]) == ("shelf", 0)
    assert (await api.get("/v2/domains/nowhere/state")).status == 404
