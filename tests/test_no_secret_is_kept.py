"""Every kind of URL carries a secret; after feeds, articles, crawl, refresh and search none of them is kept."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from core.keys import Keys
from core.runtime import logs
from core.runtime.context import Context
from core.search.io.searcher import open_searcher
from core.search.models import Query
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import Client, now
from tests import commands
from tests.crawled_site import SID, add_site, crawl_context
from tests.site import html
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor
from workers.embed_jobs import embed_items

pytestmark = pytest.mark.long

CANARY = re.compile(r"canary\d+x", re.IGNORECASE)
SIGNED = (
    "access_token={}",
    "api_key={}",
    "apikey={}",
    "token={}",
    "key={}",
    "password={}",
    "client_secret={}",
    "sv=2024-08-04&se={}&sr=b&sp=r&skoid={}&sig={}",
    "X-Amz-Algorithm=AWS4&X-Amz-Credential={}&X-Amz-Security-Token={}&X-Amz-Signature={}",
    "X-Goog-Credential={}&X-Goog-Signature={}",
    "Expires={}&Policy={}&Signature={}&Key-Pair-Id={}",
    "AWSAccessKeyId={}&Signature={}",
    "u=http%3A%2F%2Fcdn.example%2Fa%3Fsig%3D{}",
    "u=http%3A%2F%2Fme%3A{}%40cdn.example%2Fa",
)


class Canaries:
    """Secrets that are easy to find again."""

    def __init__(self) -> None:
        self._numbers = count()

    def canary(self) -> str:
        return f"Canary{next(self._numbers)}x"

    def sign(self, address: str, kind: int) -> str:
        """The address with a signature of this kind."""
        pattern = SIGNED[kind % len(SIGNED)]
        signature = pattern.format(*(self.canary() for _ in range(pattern.count("{}"))))
        return f"{address}{'&' if '?' in address else '?'}{signature}"

    def signed(self, address: str) -> list[str]:
        """The address once with each kind of signature, each of them another page."""
        return [self.sign(f"{address}{kind}", kind) for kind in range(len(SIGNED))]


@pytest.fixture
async def web(redis: Client) -> AsyncIterator[FakeWeb]:
    async with FakeWeb() as running:
        yield running


@pytest.fixture
def logged(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Logging as a worker has it, all of it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure(settings.model_copy(update={"log_level": "DEBUG"}))
    yield
    root.handlers[:], root.level = before


def page(title: str, canaries: Canaries, links: list[str] | None = None, canonical: str = "") -> str:
    images = "".join(f'<img src="{url}" width=300 height=200>' for url in canaries.signed(f"/{title}.jpg?n="))
    head = f'<meta property="og:image" content="{canaries.sign("http://cdn.example/o.jpg", 7)}">'
    head += f'<link rel=canonical href="{canaries.sign(canonical, 0)}">' if canonical else ""
    return html(title, f"This is about {title}.", links or (), head).replace("</main>", f"{images}</main>")


def serve_feed(web: FakeWeb, canaries: Canaries) -> None:
    """A feed behind a token; its entries are signed, redirect to signed pages, or cannot be taken."""
    entries = canaries.signed("/story?n=")
    entries += [canaries.sign("/moved", 7), canaries.sign("/moved-for-good", 8), canaries.sign("/lost", 1)]
    body = "".join(
        f"<item><title>One</title><link>{web.url(url).replace('&', '&amp;')}</link><description>&lt;img src='"
        f"{canaries.sign('http://cdn.example/f.jpg', 1)}'&gt; A text.</description></item>"
        for url in entries
    )
    body += f"<item><title>No</title><link>http://me:{canaries.canary()}@news.example/</link></item>"
    web.page("/feed", f"<rss version='2.0'><channel><title>Feed</title>{body}</channel></rss>")
    web.page("/story", page("story", canaries, canonical=web.url("/story")))
    for path, status in (("/moved", 302), ("/moved-for-good", 301)):
        web.redirect(path, canaries.sign(f"{path}/there", 7), status)
        web.page(f"{path}/there", page(path[1:], canaries), etag='"1"')
    web.page("/lost", "no such page", status=500)


def serve_site(web: FakeWeb, canaries: Canaries) -> None:
    """A site whose links, redirects, canonicals, robots.txt and sitemaps are signed."""
    links = [*canaries.signed("/docs/page?n="), canaries.sign("/docs/hop", 1), canaries.sign("/docs/for-good", 8)]
    links += [canaries.sign("/docs/" + "x/" * 40, 0), canaries.sign("/docs/missing", 0)]
    links += [f"http://me:{canaries.canary()}@127.0.0.1:{web.port}/docs/page"]
    web.page("/docs/", page("root", canaries, links), etag='"root"')
    web.page("/docs/page", page("page", canaries, canonical=web.url("/docs/page")), etag='"page"')
    for path, status in (("/docs/hop", 302), ("/docs/for-good", 308)):
        web.redirect(path, canaries.sign(f"{path}/there", 8), status)
        web.page(f"{path}/there", page(path[6:], canaries), etag='"there"')
    web.page("/robots.txt", f"User-agent: *\nSitemap: {web.url(canaries.sign('/map.xml', 3))}\n")
    listed = "".join(
        f"<url><loc>{web.url(url).replace('&', '&amp;')}</loc></url>" for url in canaries.signed("/docs/page?s=")
    )
    web.page("/map.xml", f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{listed}</urlset>")


async def everything_runs(context: Context, web: FakeWeb, canaries: Canaries) -> list[str]:
    """Poll, fetch, register, crawl twice, embed, search; what the person gave us."""
    feed, by_hand = canaries.sign(web.url("/feed"), 0), canaries.sign(web.url("/story?by=hand"), 7)
    await context.client.sadd(context.keys.feeds("world"), feed)
    await context.client.sadd(context.keys.category_links("world"), by_hand)
    await ingestor.run_cycle(context)
    await canonical_fetcher.run_once(context, 60.0)
    blob = canaries.sign("https://account.blob.core.windows.net/notes/one.html", 7)
    for given in (blob, canaries.sign(web.url("/docs/page?given=1"), 10)):
        assert isinstance(await context.registrar.add(given, "url", await now(context.client)), str)
    await add_site(context, web.url("/docs/"))
    for mode in (CrawlMode.INCREMENTAL, CrawlMode.FULL, CrawlMode.INCREMENTAL):
        await crawl_source(context, SID, mode)
    waiting = await context.client.zrange(context.keys.embed_due, 0, -1)
    await embed_items(context.settings, list(waiting), time.monotonic() + 60)
    async with open_searcher(context.settings, context.client, context.keys) as searcher:
        found = await searcher.search(Query("about story"), time.time())
    assert found.results
    assert not CANARY.search(repr(found))
    return [feed, by_hand]


async def outputs(settings: Settings, web: FakeWeb, canaries: Canaries, feed: str) -> dict[str, str]:
    """What the scripts tell, by command; `feeds list` and `feeds export` give back the person's own URLs and are not
    among them."""
    page_url, nobody = canaries.sign(web.url("/docs/page?n=0"), 7), canaries.sign(web.url("/nobody"), 3)
    userinfo = f"http://me:{canaries.canary()}@news.example/feed"
    asked = (
        *(("status",), ("status", "--json"), ("feeds", "health"), ("feeds", "health", feed), ("domain", "list")),
        *(("domain", "report", "docs"), ("search", "about page", "--images"), ("search", "about", "--json")),
        *(("reindex", page_url, "--dry-run"), ("reindex", nobody), ("forget", page_url, "--dry-run")),
        *(
            ("forget", nobody),
            ("feeds", "add", "world", userinfo),
            ("feeds", "remove", nobody),
            ("feeds", "remove", feed),
        ),
        *(("domain", "add", nobody), ("domain", "add", userinfo), ("doctor",), ("doctor", "--json")),
    )
    said = {}
    for script, *words in asked:
        done = await commands.run(settings, f"scripts.{script}", *words, EMBEDDER="none", LOG_LEVEL="DEBUG")
        said[f"{script} {' '.join(words)}"] = done.stdout + done.stderr
    return said


def own_places(keys: Keys, given: list[str]) -> dict[str, list[str]]:
    """Where the person's own input stands, and nowhere else: the feed, the link added by hand and its stamp."""
    feed, by_hand = given
    world = [keys.category_links("world"), keys.category_links_seen("world")]
    return {keys.feeds("world"): [feed]} | {key: [by_hand] for key in world}


async def test_no_secret_is_kept(
    settings: Settings, web: FakeWeb, logged: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a key, a value, an event, a file nor a log, except where the person put it; and all of it worked."""
    canaries = Canaries()
    serve_feed(web, canaries)
    serve_site(web, canaries)
    async with crawl_context(settings, snapshot_days=1.0, embedder="none") as context:
        given = await everything_runs(context, web, canaries)
        stored = await commands.everything(context.client)
        stories = await context.client.scard(context.keys.articles_by_category("world"))

    said = await outputs(settings, web, canaries, given[0])
    own = own_places(context.keys, given)
    leaks = []
    for key, value in stored.items():
        told = repr(value)
        for allowed in own.get(key, ()):
            told = told.replace(allowed, "")
        leaks += [f"{key}: {told[max(0, m.start() - 60) : m.end()]}" for m in CANARY.finditer(key + told)]
    assert leaks == []
    files = [path for path in settings.persistent_storage_path.rglob("*") if path.is_file()]
    assert [path for path in files if CANARY.search(path.read_bytes().decode("latin-1"))] == []
    logs = capsys.readouterr()
    assert CANARY.findall(logs.out + logs.err) == []
    assert "…" in logs.err
    assert {command: CANARY.findall(text) for command, text in said.items() if CANARY.search(text)} == {}
    assert stories >= 3  # the story under its name, and both behind their signed targets
    assert was_asked_signed(web, "/moved/there")


def was_asked_signed(web: FakeWeb, path: str) -> bool:
    """Was the signed target itself asked, with its signature?"""
    return any("Signature=" in seen.target or "sig=" in seen.target for seen in web.asked(path))
