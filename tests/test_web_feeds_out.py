"""Republished feeds over HTTP: categories, broken feeds, saved searches; validators; the token of feed readers."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import feedparser
import pytest

from core import ids
from core.feeds.parse import parse_feed
from core.keys import Keys
from core.runtime.context import Context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store.connect import Client
from tests.api import Answer, ApiServer, api_server
from tests.articles import NOW, ArticlePage, put_article
from tests.search_site import open_library
from tests.web import FakeWeb
from workers import ingestor
from workers.web.routes import ROUTES

TOKEN = "a-token-of-some-length"
FEED_TOKEN = hmac.new(TOKEN.encode(), b"feeds", hashlib.sha256).hexdigest()
ENDINGS = {"rss": "application/rss+xml", "atom": "application/atom+xml", "json": "application/feed+json"}


@pytest.fixture
async def world(redis: Client, keys: Keys) -> None:
    """Two articles in a category, and a category without any."""
    await redis.sadd(keys.categories, "world", "empty")
    await put_article(redis, keys, "first", NOW, title="<script>alert(1)</script>", image="javascript:alert(1)")
    await put_article(redis, keys, "second", NOW + 100, published_ts=str(NOW - 50))


def titles(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [entry.title for entry in parse_feed(answer.text.encode(), str(answer.headers)).entries]


# ── a category ──


@pytest.mark.parametrize("ending", ENDINGS)
async def test_newest_articles_of_a_category(api: ApiServer, world: None, ending: str) -> None:
    """Newest first, in each format with its content type; nothing in them is a tag or a script."""
    answer = await api.get(f"/feeds/world.{ending}")
    shorter = await api.get(f"/feeds/world.{ending}?limit=1")

    assert titles(answer) == ["second", "<script>alert(1)</script>"]
    assert titles(shorter) == ["second"]
    assert answer.headers["Content-Type"] == f"{ENDINGS[ending]}; charset=utf-8"
    assert "javascript:" not in answer.text
    assert "<script" not in answer.text or ending == "json"


async def test_whole_article(api: ApiServer, context: Context, web: FakeWeb) -> None:
    """An article that was fetched: its text in paragraphs, its canonical link, an id that is no address, its dates."""
    paper = ArticlePage(context, web)
    head = '<link rel=canonical href="/canonical"><meta name=author content="Ada Lock">'
    paper.write("As first reported.", head=head + '<meta property="og:image" content="/weir.png">')
    await context.client.sadd(context.keys.categories, "world")
    await paper.store()
    parsed = feedparser.parse(io.BytesIO((await api.get("/feeds/world.rss")).text.encode()))
    (entry,) = parsed.entries

    assert not parsed.bozo
    assert (entry.id, entry.guidislink) == (f"tag:freshet,2026:{paper.uid}", False)
    assert (entry.title, entry.author, entry.link) == ("Lock gates reopen", "Ada Lock", web.url("/canonical"))
    assert entry.content[0].value.count("<p>") >= 3
    assert "As first reported." in entry.content[0].value
    assert entry.published_parsed
    assert entry.enclosures[0].href == web.url("/weir.png")
    assert [tag.term for tag in entry.tags] == ["world"]


async def test_copies_are_left_out(api: ApiServer, redis: Client, keys: Keys) -> None:
    """The same text comes once, unless the first to have it is in another category; the others fill the feed up."""
    await redis.sadd(keys.categories, "world", "sport")
    original = await put_article(redis, keys, "original", NOW)
    foreign = await put_article(redis, keys, "foreign", NOW, category="sport")
    await put_article(redis, keys, "kept", NOW + 1, duplicate_of=foreign)
    for number in range(5):
        await put_article(redis, keys, f"copy{number}", NOW + 2 + number, duplicate_of=original)

    assert titles(await api.get("/feeds/world.rss?limit=2")) == ["kept", "original"]


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/feeds/nope.rss", 404, "There is no category nope."),
        ("/feeds/world.xml", 404, "There is nothing at /feeds/world.xml."),
        ("/feeds/world.rss?limit=501", 422, "limit"),
        ("/feeds/world.rss?q=x", 422, "no parameter q"),
        ("/feeds/search.rss", 422, "q"),
        ("/feeds/search.rss?q=...", 422, "Say what to look for"),
        ("/feeds/search.rss?q=x&since=soon", 422, "soon is not a date"),
    ],
)
async def test_bad_requests_are_sentences(api: ApiServer, world: None, path: str, status: int, part: str) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.get(path)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_empty_feeds_are_feeds(api: ApiServer, world: None, ending: str) -> None:
    """A category without articles, and no failure: valid, and without entries."""
    for name in ("empty", "failures"):
        answer = await api.get(f"/feeds/{name}.{ending}")
        assert titles(answer) == []
        assert "Last-Modified" not in answer.headers


# ── validators ──


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_who_has_it_gets_304(api: ApiServer, redis: Client, keys: Keys, world: None, method: str) -> None:
    """By ETag, which wins, or by date; without a body, and until an article comes."""
    first = await api.get("/feeds/world.atom")
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]

    async def status(**headers: str) -> int:
        asked = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await api.ask(method, "/feeds/world.atom", headers=asked)
        assert answer.text == "" or answer.status == 200
        assert (answer.headers["ETag"], answer.headers["Last-Modified"]) == (etag, modified)
        assert answer.headers["Cache-Control"] == "private, max-age=60"
        return answer.status

    assert modified == formatdate(NOW + 100, usegmt=True)
    assert not etag.startswith("W/")
    assert await status() == 200
    assert await status(If_None_Match=etag) == 304
    assert await status(If_None_Match=f'"x", W/{etag}') == 304
    assert await status(If_None_Match="*") == 304
    assert await status(If_None_Match='"x"') == 200
    assert await status(If_Modified_Since=modified) == 304
    assert await status(If_Modified_Since=formatdate(NOW + 99, usegmt=True)) == 200
    assert await status(If_Modified_Since="yesterday") == 200
    assert await status(If_None_Match='"x"', If_Modified_Since=modified) == 200
    await put_article(redis, keys, "third", NOW + 200)
    changed = await api.ask(method, "/feeds/world.atom", headers={"If-None-Match": etag, "If-Modified-Since": modified})
    assert (changed.status, changed.headers["ETag"] != etag) == (200, True)


# ── addresses ──


async def test_self_link_is_how_the_client_reached_us(settings: Settings, redis: Client, world: None) -> None:
    """By the allowed name in Host, and nothing else of it; Link has hub and self too; the token is in none."""
    changes = {"api_allowed_hosts": ("news.example",), "websub_hub": "https://hub.example/"}
    async with api_server(settings.model_copy(update=changes)) as api:
        answer = await api.get("/feeds/world.json?limit=7&token=abc", headers={"Host": "me@news.example:81"})
        refused = await api.get("/feeds/world.json", headers={"Host": "evil.example"})
        strange = await api.get("/feeds/world.rss", headers={"Host": 'localhost:x"><script>'})

    told = json.loads(answer.text)
    assert (told["feed_url"], told["home_page_url"]) == (
        "http://news.example:81/feeds/world.json?limit=7",
        "http://news.example:81/",
    )
    assert told["hubs"] == [{"type": "WebSub", "url": "https://hub.example/"}]
    links = '<http://news.example:81/feeds/world.json?limit=7>; rel="self", <https://hub.example/>; rel="hub"'
    assert answer.headers["Link"] == links
    assert refused.status == 403
    assert "script" not in strange.text.replace("&lt;script&gt;", "").replace("&lt;/script&gt;", "").replace(
        "description", ""
    )


# ── broken feeds ──


async def test_tells_when_a_feed_breaks(api: ApiServer, context: Context, web: FakeWeb) -> None:
    """One entry for each broken feed, why and since when, the same after more failures; none once it works."""
    web.on("/broken", 500)
    web.page("/fine", '<rss version="2.0"><channel><title>F</title></channel></rss>')
    for path in ("/broken", "/fine"):
        await context.subscriptions.add("world", web.url(path))
    await ingestor.run_cycle(context)
    first = await api.get("/feeds/failures.rss")
    await context.feeds.make_due([web.url("/broken")])
    await ingestor.run_cycle(context)
    second = await api.get("/feeds/failures.rss")
    health = (await api.get("/api/feeds?category=world")).json["feeds"]
    web.page("/broken", '<rss version="2.0"><channel><title>F</title></channel></rss>')
    await context.feeds.make_due([web.url("/broken")])
    await ingestor.run_cycle(context)
    third = await api.get("/feeds/failures.rss")

    (entry,) = parse_feed(first.text.encode(), "").entries
    assert entry.link == web.url("/broken")
    assert web.url("/broken") in entry.title
    assert "500" in entry.content
    assert [one["broken_since_ts"] for one in health if one["status"] == "ok"] == [None]
    assert [int(one["broken_since_ts"]) for one in health if one["status"] == "error"] == [entry.published_ts]
    assert [one.id for one in parse_feed(second.text.encode(), "").entries] == [entry.id]
    assert second.headers["ETag"] == first.headers["ETag"]
    assert titles(third) == []


async def test_broken_feed_without_a_web_address(api: ApiServer, context: Context, redis: Client) -> None:
    """Its entry leads to the feed's page, not to JSON."""
    await context.subscriptions.add("world", "ftp://old.example/feed")
    await ingestor.run_cycle(context)
    (entry,) = parse_feed((await api.get("/feeds/failures.rss")).text.encode(), "").entries

    assert entry.link.endswith(f"/feeds/{ids.feed_id('ftp://old.example/feed')}")
    assert "/api/" not in entry.link


# ── saved searches ──


async def test_saved_search(settings: Settings) -> None:
    """What /api/Search finds with the same filters, newest first, with whole texts; also more than one page of it."""
    pages = {f"/lock{number}": f"Lock number {number} was repaired." for number in range(3)}
    async with open_library(settings, pages) as library, api_server(library.settings) as api:
        found = (await api.get("/api/Search?q=lock+repaired&words=true")).json
        answer = await api.get("/feeds/search.json?q=lock+repaired&words=true")
        nothing = await api.get("/feeds/search.json?q=lock&category=nope")
        one = await api.get("/feeds/search.rss?q=lock&words=true&domain=docs&limit=1")

    told = json.loads(answer.text)
    assert {item["url"] for item in told["items"]} == {one["url"] for one in found["results"]}
    assert len(told["items"]) >= 3
    assert told["title"] == "Freshet: Search: lock repaired"
    assert any("number 2 was repaired" in item["content_html"] for item in told["items"])
    dates = [item["date_published"] for item in told["items"]]
    assert dates == sorted(dates, reverse=True)
    assert (json.loads(nothing.text)["items"], "no category nope" in nothing.text) == ([], True)
    assert len(titles(one)) == 1


# ── the token ──


@pytest.fixture
async def locked(settings: Settings, redis: Client, world: None) -> AsyncIterator[ApiServer]:
    """An API with a token."""
    async with api_server(settings.model_copy(update={"api_token": SecretStr(TOKEN)})) as running:
        yield running


async def test_feed_token_opens_feeds_only(locked: ApiServer) -> None:
    """It reads every feed and nothing else; the token of the API is not taken from an address, and no other either."""
    for route in ROUTES:
        path = route.path.format_map(dict.fromkeys(route.path_fields, "none"))
        answer = await locked.ask(route.method, f"{path}?token={FEED_TOKEN}")
        is_open = answer.status != 401
        assert is_open is (route.takes_feed_token or route.is_public), route.path
        assert route.takes_feed_token is route.path.startswith("/feeds/"), route.path

    assert titles(await locked.get(f"/feeds/world.rss?token={FEED_TOKEN}"))
    for wrong in ("", TOKEN, FEED_TOKEN[:-1], FEED_TOKEN.upper(), "%ff%fe", "ä"):
        assert (await locked.get(f"/feeds/world.rss?token={wrong}")).status == 401
    for path in ("/feeds/../api/articles", "/feeds/%2e%2e/api/articles", "/feeds/world.rss/x"):
        assert (await locked.get(f"{path}?token={FEED_TOKEN}")).status == 401
    assert (await locked.post(f"/feeds/world.rss?token={FEED_TOKEN}")).status == 401
    as_bearer = {"Authorization": f"Bearer {FEED_TOKEN}"}
    assert (await locked.get("/feeds/world.rss", headers=as_bearer)).status == 401


async def test_who_has_the_api_token_is_told_the_feed_token(locked: ApiServer, api: ApiServer) -> None:
    """Nobody else; without an API token there is none."""
    bearer: dict[str, Any] = {"headers": {"Authorization": f"Bearer {TOKEN}"}}

    assert (await locked.get("/api/feeds_token", **bearer)).json == {"token": FEED_TOKEN}
    assert (await locked.get("/api/feeds_token")).status == 401
    assert titles(await locked.get("/feeds/world.rss", **bearer))
    assert (await api.get("/api/feeds_token")).json == {"token": ""}
    assert FEED_TOKEN not in (await locked.get(f"/feeds/world.rss?token={FEED_TOKEN}")).text
