"""AddUrlDocument and ReindexItem over HTTP, with a real worker where the claim is about what happens next."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store.connect import Client
from tests import commands
from tests.api import ApiServer, api_server
from tests.articles import article
from tests.crawled_site import SID, crawl_context, item_id
from tests.site import Site

ADD = "/api/AddUrlDocument"


@pytest.fixture
async def open_api(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """An API whose fetcher may ask loopback."""
    async with api_server(settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})) as running:
        yield running


@pytest.fixture
async def crawled(settings: Settings, site: Site, redis: Client, keys: Keys) -> AsyncIterator[Context]:
    """A domain with one crawled site."""
    site.page("/docs/", links=["/docs/a"])
    site.page("/docs/a", "About weirs.")
    text = (
        f'{{"id": "docs", "web_sources": [{{"id": "site", "url": "{site.url("/docs/")}", "exclude": ["/docs/x*"]}}]}}'
    )
    async with crawl_context(settings) as context:
        await add_domain(context.settings, redis, keys, parse_domain(text, "/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        yield context


async def test_new_urls_are_fetched_by_a_worker(
    open_api: ApiServer, settings: Settings, site: Site, redis: Client, keys: Keys
) -> None:
    """One as a single page, one as an article of a new category: both are there after one burst of a worker."""
    site.page("/page", "About weirs.")
    site.web.page("/story", article("Lock gates reopen"))
    page = await open_api.post(ADD, json={"url": f"{site.url('/page')}?utm_source=x#top"})
    story = await open_api.post(ADD, json={"url": site.url("/story"), "category": "Our World"})
    worker = await commands.run(settings, "workers", "refresh", "reindex", "--burst")

    assert (page.status, story.status, worker.returncode) == (200, 200, 0), (page.text, story.text, worker.stderr)
    assert page.json == {
        "id": item_id(site.url("/page")),
        "uid": ids.article_uid(site.url("/page")),
        "url": site.url("/page"),
        "source": "urls",
        "status": "Pending",
        "is_known": False,
        "is_queued": True,
        "next_step": "It is fetched by the next free worker.",
    }
    assert (await open_api.get(f"/api/items/{page.json['id']}")).json["record"]["status"] == "Crawled"
    stored = (await open_api.get(f"/api/articles/{story.json['uid']}")).json
    assert (stored["title"], stored["categories"]) == ("Lock gates reopen", ["our_world"])


async def test_known_url_is_checked_now(open_api: ApiServer, crawled: Context, site: Site) -> None:
    """It keeps its source and status, is due at once, and forced only if that is asked for."""
    key = crawled.keys.item(item_id(site.url("/docs/a")))
    known = await open_api.post(ADD, json={"url": site.url("/docs/a")})
    generation = await crawled.client.hget(key, "reindexGeneration")
    forced = await open_api.post(ADD, json={"url": site.url("/docs/a"), "force": True})

    assert (known.json["is_known"], known.json["source"], known.json["status"]) == (True, SID, "Crawled")
    assert known.json["next_step"] == "It is checked by the next free worker."
    assert forced.json["next_step"] == "It is read again, whatever its validators say, by the next free worker."
    assert await crawled.due.count(SID, float("inf")) == 2
    assert (generation, await crawled.client.hget(key, "reindexGeneration")) == ("0", "1")


async def test_page_of_a_domain(open_api: ApiServer, crawled: Context, site: Site) -> None:
    """A page that no page links to is taken by the source that covers it, and stays after the next crawl."""
    site.page("/docs/hidden", "About gauges.")
    added = await open_api.post(ADD, json={"url": site.url("/docs/hidden"), "domain": "docs"})
    for _ in range(2):
        await crawl_source(crawled, SID, CrawlMode.INCREMENTAL)
    status = await crawled.client.hmget(crawled.keys.item(item_id(site.url("/docs/hidden"))), ["status", "sources"])

    assert (added.json["source"], added.json["is_known"]) == (SID, False)
    assert status == ["Crawled", SID]


async def test_refusals_say_why_and_change_nothing(
    open_api: ApiServer, api: ApiServer, crawled: Context, site: Site
) -> None:
    """What fetcher or scope would refuse, and what is no request at all."""
    before = await commands.everything(crawled.client)
    cases: list[tuple[ApiServer, dict, int, str]] = [
        (open_api, {"url": "ftp://e.org/"}, 400, "only http and https are fetched"),
        (open_api, {"url": "https://user:secret@e.org/"}, 400, "it holds a user name or password"),
        (api, {"url": "http://127.0.0.1/"}, 400, "is not open to us"),
        (api, {"url": "https://e.org:22/"}, 400, "its port 22 is not open to us"),
        (open_api, {"url": "https://e.org/", "domain": "docs"}, 400, "docs.site: is of another place"),
        (open_api, {"url": site.url("/docs/x1"), "domain": "docs"}, 400, "docs.site: excluded"),
        (open_api, {"url": "https://e.org/", "domain": "nothing"}, 404, "There is no domain nothing."),
        (open_api, {"url": "https://e.org/", "domain": "docs", "category": "a"}, 400, "not to both"),
        (open_api, {"url": "https://e.org/", "category": "sample_x"}, 400, "are the sample's"),
        (open_api, {}, 422, "url: Field required"),
        (open_api, {"url": "https://e.org/", "force": "yes"}, 422, "force"),
    ]
    for server, body, status, part in cases:
        answer = await server.post(ADD, json=body)
        assert answer.status == status, (body, answer.text)
        assert part in answer.error["message"], (body, answer.text)
        assert "secret" not in answer.text

    ours = {key: value for key, value in before.items() if "processes" not in key}
    after = await commands.everything(crawled.client)
    assert {key: value for key, value in after.items() if "processes" not in key} == ours


async def test_reindex_by_id_source_and_set(open_api: ApiServer, crawled: Context, site: Site) -> None:
    """One item by its id or address, or a source; a dry run only counts."""
    name = item_id(site.url("/docs/a"))
    preview = await open_api.post("/api/ReindexItem", json={"domain": "docs", "dry_run": True})
    waiting = await crawled.due.count(SID, (await crawled.client.time())[0])
    done = [
        (await open_api.post("/api/ReindexItem", json=body)).json
        for body in ({"id": name, "force": True}, {"source": site.url("/docs/a")}, {"source": SID})
    ]

    assert (preview.json["items"], preview.json["requests"], preview.json["statuses"]) == (2, 2, {"Crawled": 2})
    assert waiting == 0
    assert [(one["items"], one["jobs"]) for one in done] == [(1, 1), (1, 1), (2, 1)]
    assert await crawled.client.hget(crawled.keys.item(name), "reindexRequested") == "true"


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({}, 422, "name one of id, source"),
        ({"id": "a", "all": True}, 422, "name one of id, source"),
        ({"id": "url_nothing"}, 404, "url_nothing is not in the registry."),
        ({"source": "docs.nothing"}, 404, "There is no source docs.nothing."),
        ({"category": "nothing"}, 400, "There is no category nothing."),
        ({"status": "Nonsense"}, 422, "status"),
    ],
)
async def test_bad_reindex_requests(api: ApiServer, body: dict, status: int, part: str) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.post("/api/ReindexItem", json=body)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]


async def test_rebuild_of_the_due_sets(
    open_api: ApiServer, crawled: Context, settings: Settings, site: Site, redis: Client
) -> None:
    """A lost schedule comes back from the records by a run; what is parked or not listed leaves it."""
    keys, page = crawled.keys, item_id(site.url("/docs/a"))
    times = dict(await redis.zrange(keys.due(SID), 0, -1, withscores=True))
    await redis.delete(keys.due(SID))
    await redis.zadd(keys.due(SID), {"url_stranger": 1.0})
    preview = await open_api.post("/api/RebuildIndex", json={"dry_run": True})
    started = await open_api.post("/api/RebuildIndex", json={"what": "due"})
    again = await open_api.post("/api/RebuildIndex", json={"what": "due"})
    other = await open_api.post("/api/RebuildIndex", json={"what": "chunks"})
    worker = await commands.run(settings, "workers", "reindex", "--burst")
    job = (await open_api.get(f"/v2/jobs/{started.json['job']['id']}")).json
    after = dict(await redis.zrange(keys.due(SID), 0, -1, withscores=True))

    assert worker.returncode == 0, worker.stderr
    assert preview.json == {
        "job": None,
        "would_change": {"sources": 3, "items": 2, "added": 2, "moved": 0, "removed": 1},
    }
    assert again.json["job"]["id"] == started.json["job"]["id"]
    assert (other.status, other.error["code"]) == (409, "conflict")
    assert (job["status"], job["counts"]["added"], job["counts"]["removed"]) == ("succeeded", 2, 1), job
    assert set(after) == set(times)
    assert abs(after[page] - times[page]) < 1
