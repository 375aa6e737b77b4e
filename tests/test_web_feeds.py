"""Feeds, categories and OPML over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.keys import Keys
from core.settings import Settings
from core.store.connect import Client
from tests.api import ApiServer, api_server
from tests.articles import rss
from tests.web import FakeWeb

OPML = """<opml version="2.0"><body><outline text="News"><outline text="World">
<outline xmlUrl="https://a.org/feed"/><outline xmlUrl="https://b.org/feed"/></outline></outline></body></opml>"""


@pytest.fixture
async def open_api(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """An API whose fetcher may ask loopback."""
    async with api_server(settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})) as running:
        yield running


async def test_add_poll_look_and_remove(open_api: ApiServer, web: FakeWeb, redis: Client, keys: Keys) -> None:
    """A feed found by way of its site, polled at once, seen with its health, and gone again."""
    web.page("/feed", rss(web.url("/a"), web.url("/b")))
    web.page("/", '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>')
    added = await open_api.post("/api/feeds", json={"category": "Our World", "url": web.url("/")})
    path = f"/api/feeds/{added.json['id']}"
    unpolled = await open_api.get(path)
    polled = await open_api.post(f"{path}/poll", json={})
    listed = await open_api.get("/api/feeds?category=our_world")
    one = await open_api.get(path)
    slower = await open_api.ask("PUT", path, json={"interval_seconds": 7200, "gap_seconds": 3})
    wrong = await open_api.ask("PUT", path, json={"interval_seconds": -1})
    preview = await open_api.ask("DELETE", f"{path}?dry_run=true&forget=true")
    removed = await open_api.ask("DELETE", f"{path}?forget=true")

    assert (added.status, added.json["category"], added.json["url"]) == (200, "our_world", web.url("/feed")), added.text
    assert added.json["found_by"] == web.url("/")
    assert (unpolled.json["status"], unpolled.json["polls"], unpolled.json["title"]) == ("new", 0, "News")
    assert (polled.json["end"], polled.json["new_links"]) == ("changed", 2), polled.text
    assert (listed.json["total"], listed.json["feeds"][0]) == (1, one.json)
    assert (one.json["status"], one.json["polls"], one.json["title"]) == ("ok", 1, "News")
    assert (slower.json["set_interval_seconds"], slower.json["set_gap_seconds"]) == (7200.0, 3.0), slower.text
    assert wrong.status == 400
    assert preview.json["removed"]["links"] == removed.json["removed"]["links"] == 2
    assert (preview.json["dry_run"], removed.json["categories"]) == (True, ["our_world"])
    assert (await open_api.get(path)).status == 404
    assert await redis.scard(keys.category_links("our_world")) == 0


async def test_no_feed_there(open_api: ApiServer, web: FakeWeb, redis: Client, keys: Keys) -> None:
    """A page without a feed, and an address that answers 404 with another feed on its site: named, not added."""
    web.page("/page", "<html><body>No feed here.</body></html>")
    web.page("/feed.xml", rss(web.url("/a")))
    web.on("/old", 404)
    none = await open_api.post("/api/feeds", json={"category": "world", "url": web.url("/page")})
    web.page("/", "<html></html>")
    dead = await open_api.post("/api/feeds", json={"category": "world", "url": web.url("/old")})

    assert {none.status, dead.status} <= {200, 422}
    assert dead.status == 422, dead.text
    assert f"{web.url('/old')} answers HTTP 404" in dead.error["message"]
    assert "The site has others" in dead.error["hint"]


async def test_opml_in_and_out(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Folders become categories; a second import adds nothing; a named one removes what it no longer has."""
    headers = {"Content-Type": "text/x-opml"}
    first = await api.post("/api/opml", data=OPML, headers=headers)
    again = await api.post("/api/opml", data=OPML, headers={"Content-Type": "application/xml"})
    named = await api.post("/api/opml?name=mine", data=OPML.replace("a.org", "c.org"), headers=headers)
    shorter = await api.post("/api/opml?name=mine", data=OPML, headers=headers)
    out = await api.get("/api/opml")
    counts = await api.get("/api/categories")
    one = await api.get("/api/categories/news_world")

    nothing = {"added": 0, "removed": 0, "refused": []}
    assert (first.json, again.json) == (nothing | {"added": 2}, nothing)
    assert (named.json["added"], shorter.json["removed"]) == (1, 1)
    assert out.headers["Content-Type"].startswith("text/x-opml")
    assert 'xmlUrl="https://a.org/feed"' in out.text
    assert "c.org" not in out.text
    assert counts.json == {"categories": [{"name": "news_world", "feeds": 2, "links": 0, "articles": 0}]}
    assert one.json == counts.json["categories"][0]
    assert await redis.smembers(keys.feeds("news_world")) == {"https://a.org/feed", "https://b.org/feed"}


@pytest.mark.parametrize("name", ["", "?name=mine"])
async def test_opml_entry_that_is_no_url_is_refused(api: ApiServer, redis: Client, keys: Keys, name: str) -> None:
    """It is named, and the others are imported."""
    body = OPML.replace("https://a.org/feed", "javascript:alert(1)")
    answer = await api.post(f"/api/opml{name}", data=body, headers={"Content-Type": "text/x-opml"})

    assert answer.json == {"added": 1, "removed": 0, "refused": ["javascript:alert(1)"]}
    assert await redis.smembers(keys.feeds("news_world")) == {"https://b.org/feed"}


async def test_category_is_polled_by_the_ingestor(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Its feeds are due at once."""
    await api.post("/api/opml", data=OPML, headers={"Content-Type": "text/xml"})
    await redis.zadd(keys.feeds_due, {ids.feed_id("https://a.org/feed"): 9e9})
    answer = await api.post("/api/categories/news_world/poll", json={})

    assert answer.json == {"due": 2, "waiting": {}}
    assert await redis.zcount(keys.feeds_due, 0, 0) == 2


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "part"),
    [
        ("GET", "/api/feeds/0123456789abcdef", {}, 404, "There is no feed 0123456789abcdef."),
        ("DELETE", "/api/feeds/0123456789abcdef", {}, 404, "There is no feed 0123456789abcdef."),
        ("GET", "/api/feeds?category=nothing", {}, 404, "There is no category nothing."),
        ("GET", "/api/categories/nothing", {}, 404, "There is no category nothing."),
        ("POST", "/api/categories/nothing/poll", {"json": {}}, 404, "There is no category nothing with feeds."),
        ("POST", "/api/feeds", {"json": {"category": "a", "url": "http://127.0.0.1:1/"}}, 422, "Cannot fetch"),
        ("POST", "/api/feeds", {"json": {"category": "a", "url": "ftp://e.org/"}}, 400, "is not a URL"),
        ("POST", "/api/feeds", {"json": {"url": "https://e.org/"}}, 422, "category: Field required"),
        ("POST", "/api/opml", {"data": "<html/>", "headers": {"Content-Type": "text/xml"}}, 400, "not an OPML file"),
        ("POST", "/api/opml", {"data": "", "headers": {"Content-Type": "text/xml"}}, 422, "There is no OPML"),
        ("POST", "/api/opml", {"json": {}}, 415, "does not take application/json"),
    ],
)
async def test_bad_requests_are_sentences(
    api: ApiServer, redis: Client, method: str, path: str, options: dict, status: int, part: str
) -> None:
    """Each answers 4xx, says what is wrong, and subscribes to nothing."""
    answer = await api.ask(method, path, **options)

    assert answer.status == status, answer.text
    assert part in answer.json["error"]["message"]
    assert await redis.keys("rss:*") == []


async def test_category_is_renamed_and_dropped(open_api: ApiServer, web: FakeWeb, redis: Client, keys: Keys) -> None:
    """As by the commands: a dry run first, a name that cannot be, a category that is not there."""
    web.page("/feed", rss(web.url("/a"), web.url("/b")))
    added = await open_api.post("/api/feeds", json={"category": "world", "url": web.url("/feed")})
    await open_api.post(f"/api/feeds/{added.json['id']}/poll", json={})
    planned = await open_api.post("/api/categories/world/rename", json={"to": "planet", "dry_run": True})
    renamed = await open_api.post("/api/categories/world/rename", json={"to": "planet"})
    wrong = await open_api.post("/api/categories/planet/rename", json={"to": "New Name"})
    unknown = await open_api.ask("DELETE", "/api/categories/mars")
    dropped = await open_api.ask("DELETE", "/api/categories/planet")

    assert planned.json | {"dry_run": False} == renamed.json, planned.text
    assert (renamed.json["feeds"], renamed.json["links"]) == (1, 2)
    assert (wrong.status, unknown.status) == (400, 404), (wrong.text, unknown.text)
    assert (dropped.json["feeds"], dropped.json["links"]) == (1, 2), dropped.text
    assert await redis.smembers(keys.categories) == set()


async def test_pace_of_a_host(open_api: ApiServer, redis: Client, keys: Keys) -> None:
    """Set, listed, and taken back; a name that is not a host is refused."""
    given = await open_api.ask("PUT", "/api/pace/docs.example.org", json={"gap_seconds": 0.5, "parallel": 8})
    listed = await open_api.get("/api/pace")
    wrong = await open_api.ask("PUT", "/api/pace/no%20host", json={"gap_seconds": 1})
    back = await open_api.ask("PUT", "/api/pace/docs.example.org", json={"gap_seconds": None, "parallel": None})

    assert given.json == {
        "host": "docs.example.org",
        "gap_seconds": 0.5,
        "parallel": 8,
        "set_for": "host",
        "gate": "host:docs.example.org",
    }, given.text
    assert [one["name"] for one in listed.json["options"]] == ["docs.example.org"]
    assert wrong.status == 400
    assert (back.json["set_for"], await redis.exists(keys.paces)) == (None, 0)
