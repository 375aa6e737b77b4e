"""A web site as a source, on loopback: its root, its sitemaps, its pages."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest

from core.keys import Keys
from core.models import Deferred, Fetched, FetchRequest, FetchResult, ListingBatch, ListingEnd, Ref, RejectedUrl
from core.net.fetcher import Fetcher
from core.registry.record import Item
from core.settings import Settings
from core.sources.io import sitemap_walk
from core.sources.io.web import BATCH_REFS, MOST_REFUSED, WebSource
from core.store.connect import Client
from core.urls.scope import Scope
from tests.inline_pool import InlinePool
from tests.web import FakeWeb
from tests.web_replies import Exchange, Reply

DATE = "Sat, 01 Nov 2025 10:00:00 GMT"
XML = "application/xml"


@pytest.fixture
async def fetcher(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})
    async with Fetcher(changed, redis, keys) as running:
        yield running


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_763_000_000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A web source on a fake web, listed again and again with its own memory."""

    def __init__(self, web: FakeWeb, fetcher: Fetcher) -> None:
        self.web = web
        self.fetcher = fetcher
        self.pool = InlinePool()
        self.clock = Clock()
        self.memory: dict[str, str] = {}
        self.batches: list[ListingBatch] = []
        self.end = ListingEnd(is_complete=True)

    def source(self, *, root: str = "/", kind: str = "host", max_pages: int = 100_000, **options) -> WebSource:
        scope = Scope(self.web.url(root), kind, **options.pop("scope", {}))
        options.setdefault("named_sitemaps", self.named)
        return WebSource(self.fetcher, self.pool, scope, max_pages=max_pages, clock=self.clock, **options)

    async def named(self, origin: str) -> Sequence[str]:
        """As the fetcher will do it: through its own robots cache."""
        return await self.fetcher._robots.sitemaps_of(origin, partial(self.fetcher._fetch_robots_txt, 60.0))

    async def list(self, **options) -> list[Ref]:
        """A whole listing; all refs after the root."""
        self.web.requests.clear()
        said = [part async for part in self.source(**options).list(self.memory)]
        assert isinstance(said[-1], ListingEnd)
        self.batches, self.end = [part for part in said[:-1] if isinstance(part, ListingBatch)], said[-1]
        self.memory = dict(self.end.memory)
        assert len(self.batches) == len(said) - 1
        first, *rest = [ref for batch in self.batches for ref in batch.refs]
        assert first.depth == 0
        return rest

    def paths(self, refs):
        return [ref.address.removeprefix(self.web.url("")) for ref in refs]

    def sitemap(self, path: str, *pages: str, **options):
        """A sitemap of these pages, `path` or `path lastmod`."""
        return self.web.page(path, self.urlset(*pages), media_type=XML, **options)

    def urlset(self, *pages: str) -> str:
        return f"<urlset>{''.join(f'<url>{self.entry(page)}</url>' for page in pages)}</urlset>"

    def index(self, path: str, *children: str, **options):
        named = "".join(f"<sitemap>{self.entry(child)}</sitemap>" for child in children)
        return self.web.page(path, f"<sitemapindex>{named}</sitemapindex>", media_type=XML, **options)

    def entry(self, text: str) -> str:
        place, _, lastmod = text.partition(" ")
        url = place if "://" in place else self.web.url(place)
        return f"<loc>{url}</loc>" + (f"<lastmod>{lastmod}</lastmod>" if lastmod else "")


@pytest.fixture
def site(web: FakeWeb, fetcher: Fetcher) -> Site:
    return Site(web, fetcher)


# ── what is listed ──────────────────────────────────────────────────────────────────────────────


async def test_the_root_comes_first_and_before_any_request(site: Site) -> None:
    """The root is visited always, whatever becomes of the sitemaps."""
    said = site.source(root="/docs/").list({})
    assert await anext(said) == ListingBatch((Ref(site.web.url("/docs/"), depth=0),))
    assert site.web.requests == []
    await said.aclose()  # type: ignore[attr-defined]


async def test_no_sitemap_is_normal(site: Site) -> None:
    """404 is no trouble: links decide."""
    assert await site.list() == []
    assert (site.end.is_complete, site.end.reason) == (False, "links decide")
    assert [seen.path for seen in site.web.requests] == ["/robots.txt", "/sitemap.xml"]


async def test_the_sitemap_at_its_usual_place(site: Site) -> None:
    """Its pages are one step deep, with what their dates say; newest first, each once, the root not again."""
    site.sitemap("/sitemap.xml", "/a", "/", "/b 2025-01-06T01:00:00+01:00", "/a", "/c 2030-01-01")

    refs = await site.list()

    assert refs == [
        Ref(site.web.url("/c"), depth=1, version=""),
        Ref(site.web.url("/b"), depth=1, version="2025-01-06T00:00:00Z"),
        Ref(site.web.url("/a"), depth=1, version=""),
    ]
    assert site.end.reason == "links decide"


async def test_sitemaps_named_by_robots_txt(site: Site) -> None:
    """Those are read instead of the usual place, and robots.txt is fetched once, pages included."""
    site.web.robots(f"User-agent: *\nDisallow: /no\nSitemap: {site.web.url('/one.xml')}\nSitemap: /two.xml")
    site.sitemap("/one.xml", "/1")
    site.sitemap("/two.xml", "/2")

    assert site.paths(await site.list()) == ["/1", "/2"]
    await site.source().fetch(Item("x", fetch_url=site.web.url("/1")), {})

    assert [seen.path for seen in site.web.requests] == ["/robots.txt", "/one.xml", "/two.xml", "/1"]


async def test_without_robots_the_usual_place_is_asked(site: Site) -> None:
    """Who gives no way to named sitemaps gets the usual place."""
    site.sitemap("/sitemap.xml", "/a")
    assert site.paths(await site.list(named_sitemaps=None)) == ["/a"]


async def test_sitemaps_can_be_left_out(site: Site) -> None:
    """Without sitemaps nothing is asked, the memory stays as it was."""
    site.memory = {"x": "y"}
    assert await site.list(sitemap=False) == []
    assert (site.web.requests, site.end.memory) == ([], {"x": "y"})


async def test_a_forbidden_sitemap_is_not_read(site: Site) -> None:
    """robots.txt is respected for sitemaps too."""
    site.web.robots("User-agent: *\nDisallow: /sitemap.xml")
    assert await site.list() == []
    assert "robots.txt does not allow" in site.end.reason
    assert site.web.paths == []


async def test_an_index_is_followed(site: Site) -> None:
    """Newest children first, gzip files and lists of lines included."""
    site.index("/sitemap.xml", "/lines.txt", "/packed.xml.gz 2025-01-02", "/plain.xml 2025-01-01")
    site.web.page("/packed.xml.gz", gzip.compress(site.urlset("/p").encode()), media_type="application/gzip")
    site.sitemap("/plain.xml", "/q")
    site.web.page("/lines.txt", site.web.url("/r") + "\n", media_type="text/plain")

    assert site.paths(await site.list()) == ["/p", "/q", "/r"]


async def test_what_is_out_of_scope_is_dropped_and_counted(site: Site) -> None:
    """Strangers and other folders are no refs and no refusals; the end has their number."""
    site.sitemap("/sitemap.xml", "/docs/a", "/blog/a", "http://other.example/docs/a", "/docs/deep/x")

    assert site.paths(await site.list(root="/docs/", kind="subpages", scope={"exclude": ["/docs/deep/*"]})) == [
        "/docs/a"
    ]
    assert [batch.refused for batch in site.batches] == [(), ()]
    assert site.end.reason == "links decide; 3 pages of the sitemaps are out of scope"


async def test_traps_are_refused_with_a_reason(site: Site) -> None:
    """A person can see what was there and why it was not taken; a flood of them is cut."""
    site.sitemap("/sitemap.xml", "/a?PHPSESSID=1", "/b.zip", "/c", *(f"/x/x/x/{n}" for n in range(1_500)))

    assert site.paths(await site.list()) == ["/c"]
    refused = [one for batch in site.batches for one in batch.refused]
    assert refused[:2] == [
        RejectedUrl(site.web.url("/a?PHPSESSID=1"), "a session id in the query"),
        RejectedUrl(site.web.url("/b.zip"), "no document"),
    ]
    assert len(refused) == MOST_REFUSED


async def test_fifty_thousand_pages_in_batches(site: Site) -> None:
    """The protocol's limit is listed whole, in bounded batches; what is beyond is told."""
    site.sitemap("/sitemap.xml", *(f"/p/{n}" for n in range(50_001)))

    refs = await site.list()

    assert (len(refs), len({ref.address for ref in refs})) == (50_000, 50_000)
    assert max(len(batch.refs) for batch in site.batches) == BATCH_REFS
    assert "/sitemap.xml lists more than 50,000" in site.end.reason


async def test_max_pages(site: Site) -> None:
    """The root counts; a sitemap that was cut is read again the next time, one that was not is not."""
    site.index("/sitemap.xml", "/one.xml", "/two.xml")
    site.sitemap("/one.xml", "/1", "/2", etag='"1"')
    site.sitemap("/two.xml", "/3", "/4", "/5", etag='"2"')

    assert site.paths(await site.list(max_pages=4)) == ["/1", "/2", "/3"]
    assert site.end.reason == "links decide; stopped at 4 pages"
    assert site.paths(await site.list(max_pages=6)) == ["/3", "/4", "/5"]
    assert site.end.reason == "links decide"


async def test_now_stamps_are_worth_nothing(site: Site) -> None:
    """A site that dates every page with the moment of the answer gives no versions."""
    site.sitemap("/sitemap.xml", "/a 2025-11-13T02:13:20Z", "/b 2025-11-13T02:13:10Z")
    assert [ref.version for ref in await site.list()] == ["", ""]


# ── what is remembered ──────────────────────────────────────────────────────────────────────────


async def test_an_unchanged_sitemap_is_one_tiny_request(site: Site) -> None:
    """304 lists nothing but the root, and the validators are kept for the next time."""
    site.web.robots(404)
    site.sitemap("/sitemap.xml", "/a", etag='"1"', last_modified=DATE)
    assert site.paths(await site.list()) == ["/a"]

    for _ in range(2):
        assert await site.list() == []
        (seen,) = site.web.requests
        assert (seen.headers["if-none-match"], seen.headers["if-modified-since"]) == ('"1"', DATE)


async def test_a_changed_sitemap_is_listed_again(site: Site) -> None:
    """200 after a 304 lists all of it."""
    site.sitemap("/sitemap.xml", "/a", etag='"1"')
    await site.list()
    site.sitemap("/sitemap.xml", "/a", "/b", etag='"2"')
    assert site.paths(await site.list()) == ["/a", "/b"]


async def test_the_same_body_without_validators_lists_nothing(site: Site) -> None:
    """A server without validators costs the download, not the parse and not the listing."""
    site.sitemap("/sitemap.xml", "/a")
    await site.list()
    assert await site.list() == []
    assert site.web.paths == ["/sitemap.xml"]


async def test_another_scope_reads_everything_anew(site: Site) -> None:
    """Pages that were outside may be inside now."""
    site.sitemap("/sitemap.xml", "/docs/a", "/b", etag='"1"')
    assert site.paths(await site.list(root="/docs/", kind="subpages")) == ["/docs/a"]
    assert site.paths(await site.list(root="/docs/", kind="host")) == ["/docs/a", "/b"]


async def test_children_are_asked_when_the_index_is_unchanged(site: Site) -> None:
    """An index without dates says nothing about its children: each is asked for itself."""
    site.index("/sitemap.xml", "/one.xml", etag='"i"')
    site.sitemap("/one.xml", "/1", etag='"1"')
    await site.list()
    site.sitemap("/one.xml", "/1", "/2", etag='"2"')

    assert site.paths(await site.list()) == ["/1", "/2"]


async def test_children_that_have_not_moved_are_not_asked(site: Site) -> None:
    """By the dates of their index; after a week they are asked all the same."""
    site.index("/sitemap.xml", "/one.xml 2025-01-01", "/two.xml 2024-01-01")
    site.sitemap("/one.xml", "/1", etag='"1"')
    site.sitemap("/two.xml", "/2", etag='"2"')
    assert site.paths(await site.list()) == ["/1", "/2"]

    assert await site.list() == []
    assert site.web.paths == ["/sitemap.xml"]

    site.index("/sitemap.xml", "/one.xml 2025-01-01", "/two.xml 2025-06-01")
    site.sitemap("/two.xml", "/2", "/3", etag='"3"')
    assert site.paths(await site.list()) == ["/2", "/3"]
    assert site.web.paths == ["/sitemap.xml", "/two.xml"]

    site.clock.now += sitemap_walk.REFETCH_SECONDS
    assert await site.list() == []
    assert site.web.paths == ["/sitemap.xml", "/two.xml", "/one.xml"]


@pytest.mark.parametrize("memory", ["", "{", "[]", '{"etag": 1}'])
async def test_a_memory_of_another_kind_is_forgotten(site: Site, memory: str) -> None:
    """What cannot be read is read anew."""
    site.sitemap("/sitemap.xml", "/a")
    site.memory = {"scope": Scope(site.web.url("/"), "host").version, site.web.url("/sitemap.xml"): memory}
    assert site.paths(await site.list()) == ["/a"]


# ── trouble ─────────────────────────────────────────────────────────────────────────────────────


async def test_trouble_is_told_and_ends_nothing(site: Site) -> None:
    """Other sitemaps are listed; the memory of one that failed is kept, and it is asked again."""
    site.index("/sitemap.xml", "/bad.xml", "/page.xml", "/gone.xml", "/good.xml")
    site.sitemap("/bad.xml", "/b", etag='"b"').then(500)
    site.web.page("/page.xml", "<!doctype html><html></html>")
    site.web.gone("/gone.xml")
    site.sitemap("/good.xml", "/g", etag='"g"')
    assert site.paths(await site.list()) == ["/b", "/g"]

    assert await site.list() == []

    assert f"{site.web.url('/bad.xml')}: HTTP 500" in site.end.reason
    assert "HTML page" in site.end.reason
    assert "gone.xml" not in site.end.reason
    await site.list()
    assert site.web.asked("/bad.xml")[0].headers["if-none-match"] == '"b"'


async def test_a_bomb_costs_itself(site: Site) -> None:
    """Neither a gzip file that inflates without end, nor such an encoding, nor entities harm the rest."""
    site.index("/sitemap.xml", "/file.xml.gz", "/encoded.xml", "/laughs.xml", "/good.xml")
    site.web.page("/file.xml.gz", gzip.compress(bytes(60_000_000)))
    site.web.bomb("/encoded.xml", "gzip", 60)
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    laughs = f'<!DOCTYPE x [<!ENTITY l0 "ha">{lol}]><urlset><url><loc>http://a/&l9;</loc></url></urlset>'
    site.web.page("/laughs.xml", laughs)
    site.sitemap("/good.xml", "/g")

    assert site.paths(await site.list()) == ["/g"]
    assert "compressed sitemap is too large" in site.end.reason
    assert "/encoded.xml: " in site.end.reason


async def test_indexes_that_name_each_other_end(site: Site) -> None:
    """Each sitemap is asked once, also itself by itself."""
    site.index("/sitemap.xml", "/sitemap.xml", "/other.xml")
    site.index("/other.xml", "/sitemap.xml", "/other.xml", "/a.xml")
    site.sitemap("/a.xml", "/a")

    assert site.paths(await site.list()) == ["/a"]
    assert site.web.paths == ["/sitemap.xml", "/other.xml", "/a.xml"]


async def test_indexes_go_three_deep(site: Site) -> None:
    """An index of indexes is followed, a longer chain is cut and told."""
    for depth in range(1, 6):
        site.index("/sitemap.xml" if depth == 1 else f"/{depth}.xml", f"/{depth + 1}.xml")

    await site.list()

    assert site.web.paths == ["/sitemap.xml", "/2.xml", "/3.xml"]
    assert "more than 3 deep" in site.end.reason


async def test_five_hundred_sitemaps_at_most(site: Site) -> None:
    """An index of thousands is read as far as that."""
    site.index("/sitemap.xml", *(f"/{n}.xml" for n in range(600)))
    await site.list()
    assert len(site.web.paths) == sitemap_walk.MOST_SITEMAPS
    assert "more than 500 sitemaps" in site.end.reason


async def test_sitemaps_of_other_domains_are_not_asked(site: Site) -> None:
    """An index cannot make us ask strangers; robots.txt may name a sitemap elsewhere, whose children are its own."""
    async with FakeWeb("127.0.0.2") as other:
        site.web.robots(f"Sitemap: {site.web.url('/own.xml')}\nSitemap: {other.url('/named.xml')}")
        site.index("/own.xml", other.url("/x.xml"))
        child = f"<sitemapindex><sitemap><loc>{other.url('/child.xml')}</loc></sitemap></sitemapindex>"
        other.page("/named.xml", child, media_type=XML)
        other.page("/child.xml", site.urlset("/a"), media_type=XML)

        assert site.paths(await site.list()) == ["/a"]
        assert other.paths == ["/named.xml", "/child.xml"]
        assert "names sitemaps of other domains" in site.end.reason


async def test_a_site_that_is_down_still_lists_its_root(site: Site) -> None:
    """Nothing is raised; the reason is told."""
    site.web.reset("/robots.txt")
    site.web.reset("/sitemap.xml")
    assert await site.list() == []
    assert "/sitemap.xml: " in site.end.reason


# ── fetching ────────────────────────────────────────────────────────────────────────────────────


async def test_validators_go_to_the_url_they_came_from(site: Site) -> None:
    """A page that has them gets them back and answers 304."""
    site.web.page("/a", "hello", etag='"1"')
    item = Item("x", fetch_url=site.web.url("/a"), etag='"1"', validators_url=site.web.url("/a"))

    got = await site.source().fetch(item, {"If-None-Match": '"1"'})

    assert isinstance(got, Fetched)
    assert got.status == 304
    assert "cache-control" not in site.web.asked("/a")[0].headers


async def test_a_forced_visit_wants_no_cache(site: Site) -> None:
    """Neither ours nor one on the way."""
    site.web.page("/a", "hello", etag='"1"')

    got = await site.source().fetch(Item("x", fetch_url=site.web.url("/a"), generation=2), {})

    assert isinstance(got, Fetched)
    assert (got.status, got.body) == (200, b"hello")
    assert site.web.asked("/a")[0].headers["cache-control"] == "no-cache"


async def test_robots_txt_is_respected(site: Site) -> None:
    """A page that robots.txt forbids is not asked for."""
    site.web.robots("User-agent: *\nDisallow: /no")
    await site.source().fetch(Item("x", fetch_url=site.web.url("/no")), {})
    assert site.web.paths == []


def binary(etag: str = "", last_modified: str = "", length: int = 2_000_000, head_status: int = 200) -> Reply:
    """A large file whose server ignores validators."""

    async def reply(exchange: Exchange) -> None:
        headers = {"Content-Type": "application/pdf", "ETag": etag, "Last-Modified": last_modified}
        headers = {name: value for name, value in headers.items() if value} | {"Content-Length": str(length)}
        is_head = exchange.seen.method == "HEAD"
        await exchange.head(head_status if is_head else 200, headers)
        if not is_head:
            await exchange.send(b"x" * length)

    return reply


def stored(web: FakeWeb, **changes) -> Item:
    told = {"etag": '"1"', "last_modified": DATE, "content_length": 2_000_000, "mime_type": "application/pdf"}
    return Item("x", fetch_url=web.url("/f"), **{"validators_url": web.url("/f"), **told, **changes})


@pytest.mark.parametrize(
    ("name", "file", "item", "methods", "status"),
    [
        ("same etag", binary('"1"'), {}, ["HEAD"], 304),
        ("same date and length", binary("", DATE), {}, ["HEAD"], 304),
        ("etags of two servers, one file", binary('"2"', DATE), {}, ["HEAD"], 304),
        ("another etag", binary('"2"'), {}, ["HEAD", "GET"], 200),
        ("another length", binary("", DATE, 2_000_001), {}, ["HEAD", "GET"], 200),
        ("nothing to compare", binary(), {}, ["HEAD", "GET"], 200),
        ("HEAD is refused", binary('"1"', head_status=405), {}, ["HEAD", "GET"], 200),
        ("HEAD is forbidden", binary('"1"', head_status=403), {}, ["HEAD", "GET"], 200),
        ("HEAD is unknown", binary('"1"', head_status=501), {}, ["HEAD", "GET"], 200),
        ("HEAD knows validators", binary('"1"', head_status=304), {}, ["HEAD"], 304),
        ("validators of another URL", binary('"1"', DATE), {"validators_url": "http://x/"}, ["HEAD", "GET"], 200),
        ("a small file", binary('"1"'), {"content_length": 1_000_000}, ["GET"], 200),
        ("a large page", binary('"1"'), {"mime_type": "text/html"}, ["GET"], 200),
        ("a large xhtml page", binary('"1"'), {"mime_type": "application/xhtml+xml"}, ["GET"], 200),
        ("of unknown type", binary('"1"'), {"mime_type": ""}, ["GET"], 200),
    ],
)
async def test_large_files_are_looked_at_first(
    site: Site, name: str, file: Reply, item: dict, methods: list[str], status: int
) -> None:
    """A HEAD saves megabytes where a server ignores validators; where it tells nothing, the GET does."""
    site.web.on("/f", file)

    got = await site.source().fetch(stored(site.web, **item), {"If-None-Match": '"1"'})

    assert isinstance(got, Fetched)
    assert [seen.method for seen in site.web.asked("/f")] == methods, name
    assert (got.status, len(got.body) > 0) == (status, status == 200)


async def test_a_forced_large_file_is_read_at_once(site: Site) -> None:
    """Without validators there is nothing to compare."""
    site.web.on("/f", binary('"1"'))
    await site.source().fetch(stored(site.web, generation=1), {})
    assert [seen.method for seen in site.web.asked("/f")] == ["GET"]


async def test_waiting_is_not_answered_by_a_second_request() -> None:
    """Where politeness puts off the HEAD, the GET is put off too."""

    class Busy:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def fetch(self, request: FetchRequest, slot: object = None) -> FetchResult:
            self.asked.append(request.method)
            return Deferred(30, "gap")

    busy = Busy()
    source = WebSource(busy, InlinePool(), Scope("http://e.org/"), max_pages=10)
    item = Item("x", fetch_url="http://e.org/f", content_length=2_000_000, mime_type="application/pdf")

    assert await source.fetch(item, {"If-None-Match": '"1"'}) == Deferred(30, "gap")
    assert busy.asked == ["HEAD"]
