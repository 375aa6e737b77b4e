"""The pages of feeds, over real HTTP: what they show, every form, hostile values, filters and pages."""

from __future__ import annotations

import re

import aiohttp
import pytest

from core import ids
from core.feeds.feed_state import FeedState, FeedStatus
from core.keys import Keys
from core.store.connect import Client
from tests.api import ApiServer
from tests.articles import article, rss
from tests.feed_pages import pages, person, put_every_health, put_feed
from tests.form_client import FormClient
from tests.web import FakeWeb
from workers import canonical_fetcher

__all__ = ["pages", "person"]

POLITENESS = ("fetch:", "freshet:")
"""What a preview may write: when a host was asked; and what the server itself writes meanwhile."""
SITE = '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>'


async def stored(redis: Client) -> dict[str, bytes]:
    """Every key with what it holds, but for politeness."""
    names = [name async for name in redis.scan_iter("*") if not name.startswith(POLITENESS)]
    return {name: await redis.dump(name) for name in names}


async def test_every_health_is_shown_with_its_reason(pages: ApiServer, person: FormClient) -> None:
    """A badge for each, why nothing comes, when the next poll is and why; hostile titles are text."""
    ids_by_health = await put_every_health(pages)
    status, _, text = await person.ask("GET", "/feeds")

    assert status == 200
    for fid in ids_by_health.values():
        assert f'href="/feeds/{fid}"' in text
    for sentence in (
        "Nothing new for 12d 6h: the server says that it has not changed (304).",
        "Its last poll failed: HTTP 503: the server is overloaded.",
        "410 Gone: the publisher retired this feed.",
        "It was not polled yet.",
        "every 15m, by how often it has news",
        "the server asked for it (Retry-After (503))",
        "lockkeepers.example.net",
    ):
        assert sentence in text, sentence
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count('<svg class="bars"') == 5


@pytest.mark.parametrize("health", ["working", "silent", "broken", "gone", "new"])
async def test_filter_by_health(pages: ApiServer, person: FormClient, health: str) -> None:
    """Only feeds of that health are listed; the tabs still count the others."""
    known = await put_every_health(pages)
    _, _, text = await person.ask("GET", f"/feeds?status={health}")

    assert re.findall(r'<tr id="feed-([0-9a-f]+)"', text) == [known[health]]
    assert text.count('<span class="count">1</span>') == 5


async def test_filter_by_words_and_category(pages: ApiServer, person: FormClient) -> None:
    """Words are looked for in titles and addresses, whatever their case; a category that is not there is named."""
    known = await put_every_health(pages)
    other = await put_feed(pages, "sports", FeedState("https://rowing.example.org/rss", title="Rowing"))
    _, _, by_title = await person.ask("GET", "/feeds?text=courier+HARBOUR")
    _, _, by_address = await person.ask("GET", "/feeds?text=mill.example")
    _, _, by_category = await person.ask("GET", "/feeds?category=sports&text=")
    _, _, nothing = await person.ask("GET", "/feeds?text=nowhere")
    missing = await person.ask("GET", "/feeds?category=sport")

    assert re.findall(r'<tr id="feed-([0-9a-f]+)"', by_title) == [known["working"]]
    assert re.findall(r'<tr id="feed-([0-9a-f]+)"', by_address) == [known["broken"]]
    assert re.findall(r'<tr id="feed-([0-9a-f]+)"', by_category) == [other]
    assert "No feed is like that" in nothing
    assert (missing[0], "Did you mean sports?" in missing[2]) == (404, True)


async def test_feeds_of_an_earlier_version_are_found(pages: ApiServer, person: FormClient, redis: Client) -> None:
    """A feed that was polled before summaries were kept is listed by its health, and then has one."""
    state = FeedState("https://a.example.org/", status=FeedStatus.GONE, title="Long gone")
    fid = await put_feed(pages, "world", state, with_summary=False)
    _, _, text = await person.ask("GET", "/feeds?status=gone&text=long")

    assert re.findall(r'<tr id="feed-([0-9a-f]+)"', text) == [fid]
    assert await redis.hget(Keys().feed_summaries, fid) == "gone 0 Long gone"


async def test_pages_of_feeds(pages: ApiServer, person: FormClient) -> None:
    """Thirty at a time; each feed is on one page; a page beyond the last is empty and leads back."""
    services = pages.opener.require()
    for number in range(120):
        await services.context.subscriptions.add("many", f"https://n{number:03}.example.org/rss")
    found: list[str] = []
    for path in ("/feeds", "/feeds?page=2", "/feeds?page=3", "/feeds?page=4"):
        _, _, text = await person.ask("GET", path)
        found += re.findall(r'<tr id="feed-([0-9a-f]+)"', text)
    _, _, beyond = await person.ask("GET", "/feeds?page=9")

    assert (len(found), len(set(found))) == (120, 120)
    assert "No feeds yet" in beyond or "No feed is like that" in beyond


async def test_preview_shows_what_would_come_and_stores_nothing(
    person: FormClient, web: FakeWeb, redis: Client
) -> None:
    """A site leads to its feed: title, format, cleaned links, what is refused and why; the store is as before."""
    feed = rss(web.url("/a?utm_source=x"), web.url("/b"), "javascript:alert(1)", "http://10.0.0.1/x")
    web.page("/feed", feed.replace("<title>News</title>", "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>", 1))
    web.page("/", SITE)
    before = await stored(redis)
    _, path, text = await person.submit("/feeds/add", "/feeds/add", url=web.url("/"), category="Our World")

    assert path == "/feeds/add"
    assert "Found by way of" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert f'href="{web.url("/a")}"' in text
    assert "private_address" in text
    assert 'href="javascript:' not in text
    assert "Subscribe in our_world" in text
    assert await stored(redis) == before


async def test_preview_tells_new_from_known(pages: ApiServer, web: FakeWeb) -> None:
    """The API says the same: links of the category are known, also those that were attempted."""
    services = pages.opener.require()
    web.page("/feed", rss(web.url("/a"), web.url("/b"), web.url("/c")))
    await services.client.sadd(services.keys.category_links("world"), web.url("/a"))
    await services.client.sadd(services.keys.attempted, ids.article_uid(web.url("/b")))
    answer = await pages.post("/api/feed_preview", json={"url": web.url("/feed"), "category": "world"})

    assert (answer.json["new_links"], answer.json["known_links"]) == (1, 2), answer.text
    assert [entry["is_new"] for entry in answer.json["entries"]] == [False, False, True]
    assert (answer.json["kind"], answer.json["found_by"], answer.json["subscribed"]) == ("rss", "", [])


async def test_preview_reads_the_sitemaps_of_an_index(pages: ApiServer, web: FakeWeb) -> None:
    """An index of sitemaps lists nothing itself; what its sitemaps list would come."""
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    web.page("/index.xml", f"<sitemapindex {space}><sitemap><loc>{web.url('/one.xml')}</loc></sitemap></sitemapindex>")
    web.page("/one.xml", f"<urlset {space}><url><loc>{web.url('/a')}</loc></url></urlset>")
    answer = await pages.post("/api/feed_preview", json={"url": web.url("/index.xml")})

    assert (answer.json["kind"], answer.json["new_links"]) == ("sitemap_index", 1), answer.text


async def test_preview_of_nothing_says_what_there_is(person: FormClient, web: FakeWeb) -> None:
    """No feed, an address that answers 404, one that is no URL: a sentence on the page, with the site's other feeds."""
    web.page("/feed.xml", rss(web.url("/a")))
    web.on("/old", 404)
    dead = await person.submit("/feeds/add", "/feeds/add", url=web.url("/old"), category="world")
    wrong = await person.submit("/feeds/add", "/feeds/add", url="javascript:alert(1)", category="world")
    forbidden = await person.submit("/feeds/add", "/feeds/add", url="http://10.0.0.1/feed", category="world")

    assert (dead[0], "answers HTTP 404" in dead[2], web.url("/feed.xml") in dead[2]) == (200, True, True)
    assert (wrong[0], "is not a URL that can be fetched" in wrong[2]) == (200, True)
    assert (forbidden[0], "no feed" in forbidden[2]) == (200, True)


async def test_subscribe_poll_look_set_and_remove(
    pages: ApiServer, person: FormClient, web: FakeWeb, redis: Client, keys: Keys
) -> None:
    """From the form to the articles and out again, by buttons alone."""
    web.page("/feed", rss(web.url("/a"), web.url("/broken")))
    web.page("/a", article("A story", text="About something."))
    web.on("/broken", 404)
    _, path, added = await person.submit("/feeds/add", "/feeds", url=web.url("/feed"), category="world")
    fid = ids.feed_id(web.url("/feed"))
    polled = await person.submit(path, f"/feeds/{fid}/poll", back=path)
    await canonical_fetcher.run_once(pages.opener.require().context, 60.0)
    _, _, one = await person.ask("GET", path)
    again = await person.submit(path, f"/feeds/{fid}/poll", back=path)
    slower = await person.submit(path, f"/feeds/{fid}/options", interval_minutes="120", back=path)
    wrong = await person.submit(path, f"/feeds/{fid}/options", interval_minutes="-5", back=path)
    back = await person.submit(path, f"/feeds/{fid}/options", back=path)
    gone = await person.submit(path, f"/feeds/{fid}/remove", forget="true")

    assert (path, "Subscribed to News in world." in added) == (f"/feeds/{fid}", True)
    assert "Polled: 2 new entries, 0 known, 0 refused." in polled[2]
    assert f'href="/articles/{ids.article_uid(web.url("/a"))}"' in one
    assert "A story" in one
    assert "FAIL_HTTP" in one
    assert "/why?url=" in one
    assert "the feed has not changed" in again[2] or "0 new entries" in again[2]
    assert 'value="120"' in slower[2]
    assert "2 h, as set" in slower[2]
    assert (wrong[1], "interval_minutes: " in wrong[2]) == (path, True)
    assert 'placeholder="by itself"' in back[2]
    assert "adapts to how often it has news" in back[2]
    assert (gone[1], "1 articles went with it" in gone[2]) == ("/feeds", True), gone[2]
    assert not await redis.hexists(keys.feed_summaries, fid)


async def test_a_poll_that_fails_is_shown_as_a_failure(person: FormClient, pages: ApiServer, web: FakeWeb) -> None:
    """The notice is an alert with the reason, and the page has the reason too."""
    web.on("/feed", 500)
    await pages.opener.require().context.subscriptions.add("world", web.url("/feed"))
    fid = ids.feed_id(web.url("/feed"))
    _, path, text = await person.submit(f"/feeds/{fid}", f"/feeds/{fid}/poll", back=f"/feeds/{fid}")

    assert path == f"/feeds/{fid}"
    assert 'role="alert"' in text
    assert "The poll failed:" in text
    assert "broken" in text


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
async def test_opml_by_upload(person: FormClient, pages: ApiServer, encoding: str) -> None:
    """A file is read in its own encoding; folders become categories; one that is no OPML is refused with a sentence."""
    opml = f"""<?xml version="1.0" encoding="{encoding}"?><opml version="2.0"><body><outline text="Économie">
    <outline xmlUrl="https://a.example.org/feed"/><outline xmlUrl="javascript:alert(1)"/></outline></body></opml>"""
    _, _, page = await person.ask("GET", "/feeds")
    token = re.search(r'name="csrf" value="([^"]+)"', page)[1]

    def form(body: bytes) -> aiohttp.FormData:
        data = aiohttp.FormData({"csrf": token, "back": "/feeds"})
        data.add_field("opml", body, filename="mine.opml", content_type="text/x-opml")
        return data

    _, _, done = await person.ask("POST", "/feeds/import", data=form(opml.encode(encoding)))
    _, _, refused = await person.ask("POST", "/feeds/import", data=form(b"no opml at all"))

    assert "1 feeds added" in done
    assert "left out (1): javascript:alert(1)." in done
    assert await pages.opener.require().context.subscriptions.by_category() == {
        "economie": ["https://a.example.org/feed"]
    }
    assert 'role="alert"' in refused


async def test_categories_are_polled_renamed_and_dropped(person: FormClient, pages: ApiServer, redis: Client) -> None:
    """A category has its republished feeds, can be renamed, and goes with its feeds."""
    subscriptions = pages.opener.require().context.subscriptions
    await subscriptions.add("world", "https://a.example.org/feed")
    _, _, page = await person.ask("GET", "/feeds")
    polled = await person.submit("/feeds", "/feeds/categories/poll", name="world", back="/feeds")
    renamed = await person.submit("/feeds", "/feeds/categories/rename", name="world", to="earth")
    wrong = await person.submit("/feeds", "/feeds/categories/rename", name="earth", to="No Name", back="/feeds")
    dropped = await person.submit("/feeds", "/feeds/categories/drop", name="earth")

    assert all(f'href="/feeds/world.{kind}"' in page for kind in ("rss", "atom", "json"))
    assert "polls 1 feeds of world now" in polled[2]
    assert "world is earth now: 1 feeds" in renamed[2]
    assert 'role="alert"' in wrong[2]
    assert "earth is dropped" in dropped[2]
    assert await subscriptions.by_feed() == {}


async def test_a_feed_that_is_not_there_is_a_page(person: FormClient) -> None:
    """An unknown id, and one that is none, are told so."""
    unknown = await person.ask("GET", "/feeds/0123456789abcdef")
    none = await person.ask("GET", "/feeds/no-id")

    assert (unknown[0], "There is no feed 0123456789abcdef." in unknown[2]) == (404, True)
    assert none[0] == 404
