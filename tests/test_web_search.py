"""Search and SearchStatus of the HTTP API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from core.search.io.replica_follower import ReplicaFollower
from core.search.io.shared_searcher import SharedSearcher
from core.search.models import Query
from core.settings import Settings
from core.store import connect
from tests import commands
from tests.api import ApiServer, api_server
from tests.search_site import Library, open_library
from tests.site import html

PAGES = {"/weir": "The weir was repaired.", "/lock": "The lock is closed.", "/gauge": "The gauge was painted."}


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings, PAGES) as opened:
        await opened.embed()
        yield opened


@pytest.fixture
async def library_api(library: Library) -> AsyncIterator[ApiServer]:
    async with api_server(library.settings) as server:
        yield server


async def test_same_answer_as_the_script(library: Library, library_api: ApiServer) -> None:
    """Fields and values of `scripts.search --json`, and what the score is made of with `explain`."""
    model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    script = await commands.run(library.settings, "scripts.search", "weir repaired", "--json", **model)
    plain = await library_api.get("/api/Search?q=weir+repaired")
    explained = await library_api.get("/api/Search?q=weir+repaired&explain=true&freshness=1&nestImages=true")

    assert plain.status == 200, plain.text
    told = plain.json
    assert told.pop("notes") == []
    assert [result.pop("explain") for result in told["results"]] == [None] * len(told["results"])
    assert told == json.loads(script.stdout)
    assert set(explained.json["results"][0]["explain"]) == {"lexical", "semantic", "lexical_weight", "freshness"}
    assert 1 < explained.json["results"][0]["explain"]["freshness"] <= 2


async def test_every_hit_says_how_it_was_verified(library: Library, library_api: ApiServer) -> None:
    """Read at first; after a check that was answered by 304 that, and its time."""
    first = (await library_api.get("/api/Search?q=weir")).json["results"][0]
    keys, item_id = library.context.keys, library.id("/weir")
    await library.context.due.make_due([item_id], first["checked_ts"])
    await library.crawl()
    second = (await library_api.get("/api/Search?q=weir")).json["results"][0]

    assert (first["verified_by"], second["verified_by"]) == ("read", "304")
    assert second["verified_ts"] > first["verified_ts"]
    assert f"{second['verified_ts']:.3f}" == await library.context.client.hget(keys.item(item_id), "verifiedTs")


async def test_images_of_a_page(library: Library, library_api: ApiServer) -> None:
    """With nestImages each page has its images, which name it as their parent; without it none."""
    body = html("weir", "The weir was repaired.").replace("<h1>", '<img src="/weir.jpg" width=800 height=600><h1>')
    library.site.web.page("/weir", body)
    await library.context.due.make_due([library.id("/weir")], 0.0, force=True)
    await library.crawl()
    nested = await library_api.get("/api/Search?q=weir&nestImages=true")
    plain = await library_api.get("/api/Search?q=weir")

    [image] = nested.json["results"][0]["images"]
    assert (image["url"], image["parentPageId"]) == (library.site.url("/weir.jpg"), library.id("/weir"))
    assert plain.json["results"][0]["images"] == []


async def test_filters_and_pages(library: Library, library_api: ApiServer) -> None:
    """Comma-separated names are alternatives; pages follow each other; a name that nothing has is told."""
    found = await library_api.get("/api/Search?q=the&domain=docs,other&type=url&language=en&words=true&per_page=2")
    more = await library_api.get("/api/Search?q=the&words=true&per_page=2&page=2")
    wrong = await library_api.get("/api/Search?q=weir&category=news")
    later = await library_api.get("/api/Search?q=weir&since=2999-01-01")

    assert (found.json["total"], len(found.json["results"]), len(more.json["results"])) == (4, 2, 2)
    assert {one["id"] for one in found.json["results"]} & {one["id"] for one in more.json["results"]} == set()
    assert (wrong.json["results"], wrong.json["notes"]) == ([], ["There is no category news; there are: none."])
    assert later.json["total"] == 0


async def test_one_searcher_follows_the_store(library: Library, library_api: ApiServer) -> None:
    """Many searches at once, then a page that changed: found in its new version by the searcher that is open."""
    answers = await asyncio.gather(*(library_api.get("/api/Search?q=weir") for _ in range(20)))
    searcher = library_api.opener.require().searcher._searcher
    library.site.page("/weir", "The weir was demolished.")
    await library.context.due.make_due([library.id("/weir")], 0.0)
    await library.crawl()
    after = await library_api.get("/api/Search?q=demolished&words=true")

    assert {answer.status for answer in answers} == {200}
    assert after.json["results"][0]["url"] == library.site.url("/weir")
    assert library_api.opener.require().searcher._searcher is searcher


async def test_build_goes_on_after_the_query(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that cannot wait for the replica searches what is there; the build is not begun anew by the next one."""
    client, keys, builds = library.context.client, library.context.keys, 0
    may_end = asyncio.Event()
    rebuild = ReplicaFollower._rebuild

    async def slow_rebuild(follower: ReplicaFollower) -> int:
        nonlocal builds
        builds += 1
        await may_end.wait()
        return await rebuild(follower)

    monkeypatch.setattr(ReplicaFollower, "_rebuild", slow_rebuild)
    searcher = SharedSearcher(library.settings, client, keys, patience_seconds=0.01)
    try:
        early = [await searcher.search(Query("weir")) for _ in range(3)]
        may_end.set()
        while not (late := await searcher.search(Query("weir"))).results:
            pass
    finally:
        await searcher.aclose()

    assert [(one.results, one.by.endswith("not everything is in it yet")) for one in early] == [((), True)] * 3
    assert late.results[0].page.url == library.site.url("/weir")
    assert builds == 1


async def test_build_that_ends_with_the_patience_is_no_timeout(library: Library) -> None:
    """Both end in the same moment, as often as not: that is neither an error nor a reason to wait again."""
    context, seconds = library.context, 0.002

    class Follower:
        async def catch_up(self) -> int:
            await asyncio.sleep(seconds)
            return 1

    searcher = SharedSearcher(context.settings, context.client, context.keys, patience_seconds=seconds)
    for _ in range(20):
        assert await searcher._catch_up(SimpleNamespace(follower=Follower())) in (True, False)


async def test_bytes_that_are_no_text(library: Library, library_api: ApiServer) -> None:
    """What somebody wrote into the store in another encoding is shown with question marks, not as an error."""
    key = library.context.keys.item(library.id("/weir"))
    await library.context.client.hset(key, "note", b"\xff\xfe")
    answer = await library_api.get(f"/api/items/{library.id('/weir')}")

    assert (answer.status, answer.json["record"]["note"]) == (200, "??"), answer.text


async def test_model_that_is_away(library: Library, library_api: ApiServer) -> None:
    """Words alone, with the reason; and by meaning again when it is back."""
    library.server.then(401)
    away = await library_api.get("/api/Search?q=weir")
    back = await library_api.get("/api/Search?q=weir")

    assert (away.status, back.json["by"]) == (200, "words and meaning")
    assert away.json["by"].startswith("words (")
    assert away.json["results"][0]["url"] == library.site.url("/weir")


@pytest.mark.parametrize(
    ("query", "status", "part"),
    [
        ("", 422, "q: Field required"),
        ("q=%3F%21", 422, "Say what to look for, for instance: q=flood wall."),
        ("q=x&page=0", 422, "page: Input should be greater than or equal to 1"),
        ("q=x&page=300", 422, "Only the first 2,000 results are ranked"),
        ("q=x&since=yesterday", 422, "yesterday is not a date"),
        ("q=x&type=page", 422, "There is no type page; there are: url, file."),
        ("q=x&nestImages=maybe", 422, "nestImages"),
        ("q=x&freshness=nan", 422, "freshness"),
    ],
)
async def test_bad_queries_are_sentences(api: ApiServer, query: str, status: int, part: str) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.get(f"/api/Search?{query}")

    assert answer.status == status, answer.text
    assert part in answer.error["message"]


async def test_pages_that_never_could_be_read_are_errors(library: Library, library_api: ApiServer) -> None:
    """They have no text whose age could count, but their visits failed."""
    context, now = library.context, await connect.now(library.context.client)
    record = {"id": "url_dead", "status": "Error", "checkedTs": f"{now:.3f}", "missingChecks": "1"}
    await context.client.hset(context.keys.item("url_dead"), mapping=record)
    await context.client.sadd(context.keys.status("Error"), "url_dead")
    status = (await library_api.get("/api/SearchStatus")).json

    assert status["last_day"] == {"checked": 5, "change_rate": 0.8, "error_rate": 0.2}
    assert status["age_seconds"]["sampled"] == 4


async def test_status_of_search(library: Library, library_api: ApiServer) -> None:
    """Counts by status, rates, ages by a sample, and what waits."""
    await library.context.due.make_due([library.id("/weir")], 1_700_000_000.0)
    status = (await library_api.get("/api/SearchStatus")).json

    assert status["items"]["Indexed"] == status["indexed"] == 4
    assert status["visits"]["changed"] == 4
    assert (status["change_rate"], status["error_rate"]) == (1.0, 0.0)
    assert (status["age_seconds"]["sampled"], status["last_day"]["checked"]) == (4, 4)
    assert 0 <= status["age_seconds"]["p50"] <= status["age_seconds"]["p95"] < 600
    assert (status["backlog"]["due"], status["backlog"]["due_by_source"]) == (1, {"docs.site": 1})
    assert status["backlog"]["lag_seconds"] > 1_000_000
    assert status["backlog"]["queues"] == {"refresh": 0, "reindex": 0, "embed": 0}
    assert status["space"].startswith("first-")
