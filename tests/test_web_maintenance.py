"""Status, export, forget and doctor over HTTP."""

from __future__ import annotations

import json

import pytest

from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.store.connect import Client
from tests import commands
from tests.api import ApiServer
from tests.articles import ArticlePage
from tests.web import FakeWeb


@pytest.fixture
async def paper(context: Context, web: FakeWeb, api: ApiServer) -> ArticlePage:
    page = ArticlePage(context, web)
    page.write("As first reported.")
    await page.store()
    return page


async def test_status_is_that_of_the_script(api: ApiServer, settings: Settings, paper: ArticlePage) -> None:
    """The same values, but for time and memory."""
    script = json.loads((await commands.run(settings, "scripts.status", "--json")).stdout)
    answer = (await api.get("/api/status")).json

    for told in (script, answer):
        told["redis"].pop("used_memory_human")
        told.pop("now_ts")
    assert answer == script


async def test_export_streams_json_lines(api: ApiServer, settings: Settings, paper: ArticlePage) -> None:
    """The lines of `scripts.export`; filters narrow them down, and HEAD has none."""
    script = await commands.run(settings, "scripts.export", "--category", "world")
    answer = await api.get("/api/export?category=world&since=1h")
    none = await api.get("/api/export?category=world&until=2001-01-01")
    head = await api.ask("HEAD", "/api/export")

    assert (answer.status, answer.text) == (200, script.stdout)
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert json.loads(answer.text)["uid"] == paper.uid
    assert (none.text, head.status, head.text) == ("", 200, "")


async def test_forget_by_any_name(api: ApiServer, redis: Client, keys: Keys, paper: ArticlePage) -> None:
    """A dry run counts; then the article is gone with its link and item."""
    preview = await api.post("/api/forget", json={"name": paper.url, "dry_run": True})
    there = await redis.exists(keys.article(paper.uid))
    done = await api.post("/api/forget", json={"name": paper.uid})

    assert (preview.json["dry_run"], there) == (True, 1)
    assert preview.json["removed"] == done.json["removed"]
    assert (done.json["removed"]["articles"], done.json["removed"]["links"]) == (1, 1)
    assert await redis.exists(keys.article(paper.uid), keys.item(paper.id)) == 0


async def test_doctor_checks_and_repairs_a_sample(
    api: ApiServer, redis: Client, keys: Keys, paper: ArticlePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is named, and repaired only on request."""
    monkeypatch.setattr("core.doctor.io.doctor.CONFIRM_SECONDS", 0.0)
    await redis.zrem(keys.embed_due, paper.id)
    found = await api.post("/api/doctor", json={})
    repaired = await api.post("/api/doctor", json={"fix": True})
    after = await api.post("/api/doctor", json={})

    assert found.status == 200, found.text
    assert [one["name"] for one in found.json["findings"]] == [paper.id]
    assert (found.json["is_repaired"], repaired.json["is_repaired"]) == (False, True)
    assert after.json["findings"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "part"),
    [
        ("GET", "/api/export?category=nothing", None, 404, "There is no category nothing."),
        ("GET", "/api/export?domain=nothing", None, 404, "There is no domain nothing."),
        ("GET", "/api/export?domain=a&category=b", None, 400, "a category or a domain, not both"),
        ("GET", "/api/export?since=nonsense", None, 422, "nonsense is not a date"),
        ("POST", "/api/forget", {}, 422, "give one of name, feed and domain"),
        ("POST", "/api/forget", {"name": "https://e.org/"}, 404, "there is nothing of it"),
        ("POST", "/api/forget", {"feed": "https://e.org/"}, 404, "is in no category"),
        ("POST", "/api/forget", {"domain": "nothing"}, 404, "There is no domain nothing."),
        ("POST", "/api/doctor", {"sample": 0}, 422, "sample"),
    ],
)
async def test_bad_requests_are_sentences(
    api: ApiServer, method: str, path: str, body: dict | None, status: int, part: str
) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.ask(method, path, json=body)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]
