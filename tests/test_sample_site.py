"""The sample site over real HTTP on loopback: feeds that parse, pages that look real, and the planned oddities."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from aiohttp.test_utils import TestClient, TestServer
from lxml import etree, html

import sample_site
from sample_site import articles, markdown, newsroom, quirks
from sample_site.web import Site

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.xdist_group("up")  # one `up` at a time: its sample site looks for a free port
STARTED = datetime(2025, 3, 14, 9, 26, 53, tzinfo=UTC)
FEED_PATHS = [urlsplit(url).path for urls in sample_site.feeds("http://site").values() for url in urls]


@pytest.fixture
async def client():
    async with TestClient(TestServer(Site(STARTED).app())) as client:
        yield client


def edition(tick: int = 0) -> newsroom.Edition:
    return newsroom.edition(articles.load(), STARTED, tick)


async def links_of(client: TestClient, path: str) -> list[str]:
    """The story links of any of the feeds, in order."""
    body = await (await client.get(path)).read()
    if path.endswith(".json"):
        return [item["url"] for item in json.loads(body)["items"]]
    root = etree.fromstring(body)
    queries = {
        "/feeds/news.xml": "//item/link/text()",
        "/feeds/business.atom": "//*[local-name()='entry']/*[local-name()='link']/@href",
        "/feeds/sports.rdf": "//*[local-name()='item']/*[local-name()='link']/text()",
        "/news-sitemap.xml": "//*[local-name()='loc']/text()",
    }
    return [str(link) for link in root.xpath(queries[path])]


async def page(client: TestClient, path: str) -> html.HtmlElement:
    response = await client.get(path)
    assert response.status == 200
    return html.fromstring(await response.read())


# ── the newsroom ──


def test_enough_to_read():
    """About forty articles in four sections, each a real text of its own."""
    stories = [s for s in edition().stories if s.article.slug not in quirks.WITHOUT_PAGE]
    assert 38 <= len(stories) <= 45
    assert {story.article.section for story in stories} == set(articles.SECTIONS)
    assert all(len(markdown.blocks(story.article.body)) >= 4 for story in stories)
    bodies = {story.article.body for story in stories}
    assert len(bodies) == len(stories) - 1  # one is syndicated


def test_quirks_name_real_articles():
    """Every slug that is treated specially exists."""
    assert {article.slug for article in articles.load()} >= quirks.ODD


def test_same_arguments_same_paper():
    """An edition depends on start and tick only."""
    assert edition(9) == edition(9)


def test_tick_publishes_and_corrects():
    """One tick adds one story and changes the text of one other."""
    before, after = edition(0), edition(1)
    new = {s.article.slug for s in after.stories} - {s.article.slug for s in before.stories}
    changed = [s for s in before.stories if after.story(s.article.slug).article.body != s.article.body]
    assert len(new) == 1
    assert after.stories[0].article.slug in new
    assert len(changed) == 1
    assert after.story(changed[0].article.slug).updated > changed[0].updated


def test_third_tick_retires():
    """The oldest ordinary story goes; the odd ones stay for the demonstration."""
    assert edition(2).retired == frozenset()
    (slug,) = edition(3).retired
    assert edition(3).story(slug) is None
    assert quirks.ODD.isdisjoint(edition(60).retired)


def test_long_runs_stay_small():
    """After hundreds of ticks follow-ups have their own titles and the paper is not ever longer."""
    late = edition(500)
    assert len(late.stories) <= newsroom.FULL_STORIES
    assert len({story.article.title for story in late.stories}) >= len(late.stories) - 1
    assert "follow-up" in late.stories[0].article.title


# ── feeds ──


@pytest.mark.parametrize("path", FEED_PATHS)
async def test_feed_parses_and_leads_to_pages(client, path):
    """Each feed is well formed, and each of its links answers, bar the two that are meant not to."""
    links = await links_of(client, path)
    assert len(links) >= 10
    for link in links:
        parts = urlsplit(urljoin(path, link))
        status = (await client.get(f"{parts.path}?{parts.query}")).status
        expected = {quirks.MISSING: 404, quirks.UNAVAILABLE: 503}.get(parts.path.split("/")[-1], 200)
        assert status == expected, link


@pytest.mark.parametrize("path", [*FEED_PATHS, "/sitemap.xml", "/", "/news/flood-wall-vote"])
async def test_conditional_get(client, path):
    """With either validator an unchanged answer is 304 without a body; after a tick a feed is 200 again."""
    first = await client.get(path)
    for name, value in (
        ("If-None-Match", first.headers["ETag"]),
        ("If-Modified-Since", first.headers["Last-Modified"]),
    ):
        again = await client.get(path, headers={name: value})
        assert (again.status, await again.read()) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
    assert "max-age" in first.headers["Cache-Control"]


async def test_tick_changes_feeds_but_not_other_pages(client):
    """POST /tick makes both validators of a feed stale; a page that was not corrected stays the same."""
    feed, other = await client.get("/sitemap.xml"), await client.get("/news/lock-gates-reopen")
    assert (await (await client.post("/tick")).json())["tick"] == 1
    stale = {"If-None-Match": feed.headers["ETag"]}, {"If-Modified-Since": feed.headers["Last-Modified"]}
    assert [(await client.get("/sitemap.xml", headers=headers)).status for headers in stale] == [200, 200]
    same = await client.get("/news/lock-gates-reopen", headers={"If-None-Match": other.headers["ETag"]})
    assert same.status == 304


async def test_retired_is_gone(client):
    """A retired article answers 410 and is in no list any more."""
    for _ in range(newsroom.RETIRE_EVERY_TICKS):
        await client.post("/tick")
    (slug,) = edition(newsroom.RETIRE_EVERY_TICKS).retired
    section = next(article.section for article in articles.load() if article.slug == slug)
    assert (await client.get(f"/{section}/{slug}")).status == 410
    assert slug not in await (await client.get("/sitemap.xml")).text()


# ── pages ──


async def test_page_has_what_real_pages_have(client):
    """Metadata in every usual place, and noise around the text."""
    tree = await page(client, "/business/grain-prices")
    (canonical,) = tree.xpath("//link[@rel='canonical']/@href")
    assert urlsplit(canonical).path == "/business/grain-prices"
    assert tree.xpath("//meta[@property='og:image']/@content")[0].endswith("/images/grain-prices.svg")
    assert json.loads(tree.xpath("//script[@type='application/ld+json']/text()")[0])["author"]["name"] == "Pim Aldous"
    assert tree.xpath("//time/@datetime")
    assert len(tree.xpath("//article//table//tr")) == 6
    assert all(tree.xpath(f"//{tag}") for tag in ("nav", "aside", "footer", "form"))


async def test_drawing_is_an_image(client):
    """The picture that pages name is there, and is well-formed SVG."""
    response = await client.get("/images/grain-prices.svg")
    assert response.content_type == "image/svg+xml"
    assert etree.fromstring(await response.read()).tag.endswith("svg")


async def test_home_page_leads_to_the_feeds(client):
    """Autodiscovery finds every section's feed."""
    tree = await page(client, "/")
    assert set(tree.xpath("//link[@rel='alternate']/@href")) == {path for path in FEED_PATHS if "/feeds/" in path}


async def test_robots_names_the_sitemap(client):
    """robots.txt allows the site and leads to a sitemap that lists every page."""
    text = await (await client.get("/robots.txt")).text()
    assert "Disallow: /\n" not in text
    assert text.rstrip().endswith("/sitemap.xml")


# ── the oddities ──


async def test_one_story_in_two_feeds(client):
    """The same article with different trackers."""
    links = [link for path in FEED_PATHS[:2] for link in await links_of(client, path) if quirks.TWO_FEEDS in link]
    assert len(links) == 2
    assert links[0] != links[1]
    assert urlsplit(links[0]).path == urlsplit(links[1]).path


async def test_odd_links(client):
    """A redirect in the news feed; an AMP page and a link without a host in the business feed."""
    assert any(link.endswith(quirks.REDIRECT_PATH) for link in await links_of(client, "/feeds/news.xml"))
    business = await links_of(client, "/feeds/business.atom")
    assert "/business/ferry-fares" in business
    amp = next(link for link in business if "/amp/" in link)
    tree = await page(client, urlsplit(amp).path)
    assert tree.xpath("//link[@rel='canonical']/@href")[0].endswith("/business/cannery-loft-offices")
    moved = await client.get(quirks.REDIRECT_PATH, allow_redirects=False)
    assert moved.status == 302
    assert quirks.REDIRECTED in moved.headers["Location"]


async def test_consent_wall(client):
    """The page hides the text that the feed gives in full."""
    sentence = "A dam is a very slow animal"
    assert sentence not in (await page(client, f"/news/{quirks.CONSENT_WALL}")).text_content()
    assert sentence in await (await client.get("/feeds/news.xml")).text()


async def test_unavailable_says_when(client):
    """503 comes with Retry-After."""
    response = await client.get(f"/sports/{quirks.UNAVAILABLE}")
    assert response.headers["Retry-After"] == "120"


@pytest.mark.parametrize(
    ("path", "charset", "header", "words"),
    [
        ("/culture/lettre-de-vernay", "iso-8859-1", "iso-8859-1", "péniche"),
        ("/culture/pismo-iz-zarechya", "windows-1251", None, "Самый опасный голос"),
    ],
)
async def test_charsets(client, path, charset, header, words):
    """Two pages are not UTF-8; one says so in its header, the other only in its <meta>."""
    response = await client.get(path)
    assert response.charset == header
    body = await response.read()
    assert words in body.decode(charset)
    assert f'<meta charset="{charset}">'.encode() in body


# ── the program ──


def test_serves_and_stops_on_sigterm():
    """The command says where it serves, answers there, and ends by itself when asked."""
    command = [sys.executable, "-m", "scripts.sample_site", "--port", "0", "--change-every", "3600"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        assert line.startswith("[sample] 🗞️ Serving the sample site → http://127.0.0.1:")
        with urllib.request.urlopen(line.split("→ ")[1].strip()) as answer:
            assert b"The Freshet Gazette" in answer.read()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
