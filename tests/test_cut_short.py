"""Bodies that break off: on the wire, in robots.txt, sitemaps, articles. A part is never taken for the whole."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import brotli
import pytest

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest
from core.net.fetcher import Fetcher
from core.runtime.context import Context
from core.runtime.parse_pool import ParsePool
from core.settings import Settings
from core.sources.sitemap_pages import SitemapTask
from core.store.connect import Client
from tests import web_replies as replies
from tests.articles import ArticlePage, add, article, failure, run, stored
from tests.web import FakeWeb

PLAIN = " ".join(random.Random(3).choices(["rain", "river", "freshet", "bank", "flood"], k=60)).encode()
PACKED = {"gzip": gzip.compress(PLAIN), "deflate": zlib.compress(PLAIN), "br": brotli.compress(PLAIN), "": PLAIN}


@pytest.fixture
async def fetcher(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    changes = {"fetch_allowed_hosts": ("127.0.0.0/8",), "robots_respect": False}
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(Fetcher(settings.model_copy(update=changes), redis, keys))


def lengths(whole: int) -> list[int]:
    """Every cut point near both ends, and a few between."""
    return sorted({*range(1, 25), *range(25, whole, 11), *range(whole - 12, whole)} & set(range(1, whole)))


def chunked(body: bytes, size: int = 40) -> bytes:
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_compressed_body_cut_by_its_server(web: FakeWeb, fetcher: Fetcher, coding: str) -> None:
    """The framing is honest, the length is right, and the end of the stream is missing: a transient failure."""
    whole = PACKED[coding]
    for length in lengths(len(whole)):
        web.page("/a", whole[:length], headers={"Content-Encoding": coding})
        got = await fetcher.fetch(FetchRequest(web.url("/a")))
        assert isinstance(got, Failed), length
        assert (got.code, got.detail, got.http_status) == (FailCode.HTTP, FailDetail.TRUNCATED, 200)
    web.page("/a", whole, headers={"Content-Encoding": coding})
    assert (await fetcher.fetch(FetchRequest(web.url("/a")))).body == PLAIN


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("coding", ["gzip", "br", ""])
async def test_a_connection_that_closes_early(web: FakeWeb, fetcher: Fetcher, coding: str, framing: str) -> None:
    """Wherever the last byte was sent, and whatever the framing: the part is no answer."""
    body = PACKED[coding]
    packing = f"Content-Encoding: {coding}\r\n".encode() if coding else b""
    frame = b"Transfer-Encoding: chunked" if framing == "chunked" else b"Content-Length: %d" % len(body)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + packing + frame + b"\r\n\r\n"
    sent = chunked(body) if framing == "chunked" else body

    for length in lengths(len(sent)):
        web.on("/a", replies.bytes_as_they_are(head + sent[:length]))
        assert isinstance(await fetcher.fetch(FetchRequest(web.url("/a"))), Failed), length
    web.on("/a", replies.bytes_as_they_are(head + sent))
    assert (await fetcher.fetch(FetchRequest(web.url("/a")))).body == PLAIN


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_body_that_ends_with_its_connection(web: FakeWeb, fetcher: Fetcher, coding: str) -> None:
    """Without any framing only the compression knows the end."""
    head = f"HTTP/1.0 200 OK\r\nContent-Encoding: {coding}\r\n\r\n".encode()
    whole = PACKED[coding]

    for length in (1, len(whole) // 2, len(whole) - 1):
        web.on("/a", replies.bytes_as_they_are(head + whole[:length]))
        got = await fetcher.fetch(FetchRequest(web.url("/a")))
        assert isinstance(got, Failed)
        assert got.detail is FailDetail.TRUNCATED
    web.on("/a", replies.bytes_as_they_are(head + whole))
    assert (await fetcher.fetch(FetchRequest(web.url("/a")))).body == PLAIN


@pytest.mark.parametrize("status", [200, 204, 304, 404])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_no_body_at_all_is_no_cut(web: FakeWeb, fetcher: Fetcher, coding: str, status: int) -> None:
    """Servers name a coding for answers that have no body."""
    web.page("/a", b"", status=status, headers={"Content-Encoding": coding})

    for method in ("GET", "HEAD"):
        got = await fetcher.fetch(FetchRequest(web.url("/a"), method=method))
        assert isinstance(got, Fetched)
        assert (got.status, got.body) == (status, b"")


async def test_packed_data_that_unpacks_to_nothing(web: FakeWeb, fetcher: Fetcher) -> None:
    """Empty blocks without end are met by the cap, although no byte comes out."""
    endless = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * 60_000
    web.page("/a", endless, headers={"Content-Encoding": "gzip"})

    got = await fetcher.fetch(FetchRequest(web.url("/a"), max_bytes=100_000))

    assert isinstance(got, Failed)
    assert got.detail is FailDetail.TOO_LARGE


async def test_an_error_page_cut_short_is_an_error_page(web: FakeWeb, fetcher: Fetcher) -> None:
    """Its status is the news."""
    web.page("/a", PACKED["gzip"][:40], status=503, headers={"Content-Encoding": "gzip"})

    assert (await fetcher.fetch(FetchRequest(web.url("/a")))).status == 503


async def test_half_a_robots_txt_allows_nothing(web: FakeWeb, redis: Client, keys: Keys, settings: Settings) -> None:
    """The missing half may forbid: it is waited for, and the page is not blamed."""
    rules = "User-agent: *\nAllow: /\n" + "\n".join(f"Disallow: /{number}/" for number in range(500))
    web.on("/robots.txt", replies.packed_part(rules, "gzip"))
    web.page("/a", "page")
    changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), "robots_respect": True})

    async with Fetcher(changed, redis, keys) as fetcher:
        got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert isinstance(got, Deferred)
    assert web.paths == []


async def test_a_sitemap_file_cut_short_lists_nothing() -> None:
    """Every prefix of the `.xml.gz`: a failure that another try may mend, never a shorter list."""
    urls = "".join(f"<url><loc>https://e.org/{number}</loc></url>" for number in range(50))
    packed = gzip.compress(f"<urlset>{urls}</urlset>".encode())
    async with ParsePool(1, 5, 1_000_000_000) as pool:
        for length in lengths(len(packed))[1:]:
            got = await pool.run("sitemap", SitemapTask(packed[:length], "https://e.org/s.xml.gz"))
            assert isinstance(got, Failed), length
            assert got.detail is FailDetail.TRUNCATED
        whole = await pool.run("sitemap", SitemapTask(packed, "https://e.org/s.xml.gz"))

    assert len(whole.pages) == 50


# ── articles ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_half_an_article_is_not_stored(context: Context, web: FakeWeb, coding: str) -> None:
    """The first visit: it is tried again later, and then it is whole."""
    url = web.url("/a")
    web.on("/a", replies.packed_part(article() * 20, coding))
    await add(context, url)

    counts = await run(context)

    assert (counts["retry"], counts["stored"]) == (1, 0)
    assert await stored(context, url) == {}
    assert (await failure(context, url))["detail"] == "truncated"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_half_an_article_replaces_nothing(context: Context, web: FakeWeb, coding: str, share: float) -> None:
    """A later visit: the good text stays, and so do its validators."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    before = await paper.hash()
    rest = "".join(f"<p>Paragraph {number} of the report, added later.</p>" for number in range(400))
    web.on("/a", replies.packed_part(article(text=rest), coding, share, ETag='"half"'))

    await paper.visit()

    after = await paper.hash()
    assert {name: after[name] for name in ("clean_text", "etag", "text_len", "status")} == {
        name: before[name] for name in ("clean_text", "etag", "text_len", "status")
    }
    assert (await paper.item())["httpEtag"] == before["etag"]
