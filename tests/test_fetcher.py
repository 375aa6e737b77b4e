"""The one fetcher, against a web that behaves and misbehaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult, Hop
from core.net.fetcher import Fetcher
from core.secret_text import SecretStr
from core.settings import Settings
from core.store.connect import Client
from tests import web_replies as replies
from tests.dns import FakeDns
from tests.web import FakeWeb

Open = Callable[..., Any]


@pytest.fixture
async def opened(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Open]:
    """Opens fetchers that may go to loopback and do not ask for robots.txt, unless told otherwise."""
    async with AsyncExitStack() as stack:

        async def opens(*, names: dict[str, list[list[str]]] | None = None, **changes: Any) -> Fetcher:
            # Not the switch off: tests of robots.txt turn it on.
            defaults = {"fetch_allowed_hosts": ("127.0.0.0/8",), "robots_respect": False}
            resolver = FakeDns(names) if names else None
            fetcher = Fetcher(settings.model_copy(update=defaults | changes), redis, keys, resolver=resolver)
            return await stack.enter_async_context(fetcher)

        yield opens


@pytest.fixture
async def fetcher(opened: Open) -> Fetcher:
    return await opened()


def failure(result: FetchResult) -> tuple[FailCode, FailDetail]:
    assert isinstance(result, Failed), result
    assert result.text.endswith(".")
    return result.code, result.detail


# ── answers ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_with_everything_in_it(web: FakeWeb, fetcher: Fetcher) -> None:
    """URL, status, body and headers in lower case."""
    web.page("/a", "hello", etag='"1"', headers={"X-Odd": "yes"})

    got = await fetcher.fetch(FetchRequest(web.url("/a#part")))

    assert isinstance(got, Fetched)
    assert (got.status, got.body, got.hops) == (200, b"hello", ())
    assert (got.url, got.final_url) == (web.url("/a#part"), web.url("/a"))
    assert got.headers["x-odd"] == "yes"
    assert got.header("ETag") == '"1"'


@pytest.mark.parametrize("status", [200, 203, 206, 304, 401, 403, 404, 410, 418, 429, 500, 503, 599])
async def test_every_status_is_an_answer(web: FakeWeb, fetcher: Fetcher, status: int) -> None:
    """Callers judge statuses; the fetcher does not."""
    web.page("/a", "page", status=status)

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert isinstance(got, Fetched)
    assert (got.status, got.body) == (status, b"" if status == 304 else b"page")


async def test_we_say_who_we_are_and_nothing_else(web: FakeWeb, opened: Open) -> None:
    """An honest User-Agent, no cookies even after being given some, no referrer, no zstd."""
    web.page("/a", "x", headers={"Set-Cookie": "id=1"})
    fetcher = await opened(user_agent="Freshet/9 (me@example.com)")

    first = await fetcher.fetch(FetchRequest(web.url("/a"), headers={"Accept": "text/html"}))
    await fetcher.fetch(FetchRequest(web.url("/a")))

    assert "set-cookie" not in first.headers
    assert web.requests[0].headers == {
        "host": f"127.0.0.1:{web.port}",
        "user-agent": "Freshet/9 (me@example.com)",
        "accept": "text/html",
        "accept-encoding": "gzip, deflate, br",
    }
    assert "cookie" not in web.requests[1].headers


@pytest.mark.parametrize("path", ["/a%2Fb?x=%7E&y=a+b|c&&z", "/ü?ü=ü", "/%", "/a//b/./c/../d"])
async def test_the_url_goes_out_byte_for_byte(web: FakeWeb, fetcher: Fetcher, path: str) -> None:
    """What is asked for is what the one URL parser says, without a second opinion."""
    await fetcher.fetch(FetchRequest(web.url(path)))

    shown = {"/ü?ü=ü": "/%C3%BC?%C3%BC=%C3%BC", "/a//b/./c/../d": "/a//b/d"}
    assert web.requests[0].target == shown.get(path, path)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_compressed_bodies_are_unpacked(web: FakeWeb, fetcher: Fetcher, encoding: str) -> None:
    """We only ask for what we can read."""
    web.on("/a", replies.packed("hello " * 1000, encoding))

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert got.body == b"hello " * 1000


async def test_headers_that_are_no_text_can_still_be_stored(web: FakeWeb, fetcher: Fetcher) -> None:
    """Bytes outside UTF-8 become Latin-1, so that no store chokes on them; good UTF-8 stays."""
    web.page("/a", headers={"X-Raw": "\udcff\udcfe", "X-Good": "ü", "Vary": "a", "vary": "b", "Age": "1", "age": "2"})

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert (got.headers["x-raw"], got.headers["x-good"]) == ("ÿþ", "ü")
    assert (got.headers["vary"], got.headers["age"]) == ("a, b", "1")


async def test_validators_are_answered_with_304(web: FakeWeb, fetcher: Fetcher) -> None:
    """If-None-Match goes out byte for byte."""
    web.page("/a", "x", etag='W/"ü"')

    got = await fetcher.fetch(FetchRequest(web.url("/a"), headers={"If-None-Match": 'W/"ü"'}))

    assert (got.status, got.body) == (304, b"")


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_a_bomb_ends_at_the_cap(web: FakeWeb, fetcher: Fetcher, encoding: str) -> None:
    """The decompressed bytes count."""
    web.bomb("/a", encoding, 64)

    got = await fetcher.fetch(FetchRequest(web.url("/a"), max_bytes=100_000))

    assert failure(got) == (FailCode.HTTP, FailDetail.TOO_LARGE)
    assert got.http_status == 200


async def test_the_cap_is_exact(web: FakeWeb, fetcher: Fetcher) -> None:
    """A body of just the allowed size passes, one byte more does not."""
    web.page("/fits", b"x" * 5_000)
    web.page("/not", b"x" * 5_001)

    assert len((await fetcher.fetch(FetchRequest(web.url("/fits"), max_bytes=5_000))).body) == 5_000
    assert failure(await fetcher.fetch(FetchRequest(web.url("/not"), max_bytes=5_000)))[1] is FailDetail.TOO_LARGE


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_large_honest_body_passes(web: FakeWeb, fetcher: Fetcher, encoding: str) -> None:
    """Also one that does not compress."""
    body = random.Random(1).randbytes(5_000_000)
    web.on("/a", replies.packed(body, encoding) if encoding else body)

    assert (await fetcher.fetch(FetchRequest(web.url("/a")))).body == body


async def test_of_an_error_page_the_beginning_is_kept(web: FakeWeb, fetcher: Fetcher) -> None:
    """A huge or broken error page is still an error with a status."""
    web.page("/huge", b"x" * 200_000, status=404)
    web.page("/damaged", "not gzip", status=503, headers={"Content-Encoding": "gzip"})

    huge = await fetcher.fetch(FetchRequest(web.url("/huge")))
    damaged = await fetcher.fetch(FetchRequest(web.url("/damaged")))

    assert (huge.status, len(huge.body)) == (404, 65_536)
    assert (damaged.status, damaged.body) == (503, b"")


async def test_a_304_that_promises_a_body_is_a_304(web: FakeWeb, fetcher: Fetcher) -> None:
    """Its Content-Length is the one of the page that is not sent."""
    web.on("/a", replies.bytes_as_they_are(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99999999\r\n\r\n"))

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert got.status == 304


@pytest.mark.parametrize(
    "reply",
    [replies.hang, replies.slow("x", 1000, 0.05), replies.late(60, replies.redirect("/b"))],
    ids=["never answers", "drips", "late"],
)
async def test_what_takes_too_long_is_a_timeout(web: FakeWeb, opened: Open, reply: replies.Reply) -> None:
    """Silence and dripping both end by the total."""
    web.on("/a", reply)
    fetcher = await opened(fetch_timeout_seconds=0.3)

    assert failure(await fetcher.fetch(FetchRequest(web.url("/a")))) == (FailCode.TIMEOUT, FailDetail.NONE)


async def test_redirects_share_one_time_budget(web: FakeWeb, opened: Open) -> None:
    """Ten slow hops may not take ten times as long as one."""
    for i in range(9):
        web.on(f"/{i}", replies.late(0.2, replies.redirect(f"/{i + 1}")))
    fetcher = await opened(fetch_timeout_seconds=0.5)

    assert failure(await fetcher.fetch(FetchRequest(web.url("/0"))))[0] is FailCode.TIMEOUT
    assert len(web.paths) < 5


async def test_concurrency_is_limited_on_the_wire(web: FakeWeb, opened: Open) -> None:
    """One at a time needs one connection, although the domain would take fifty."""
    fetcher = await opened(fetch_concurrency=1, fetch_host_parallel=50)

    await asyncio.gather(*(fetcher.fetch(FetchRequest(web.url(f"/{i}"))) for i in range(20)))

    assert len(web.requests) == 20
    assert web.connections == 1


# ── broken answers ──────────────────────────────────────────────────────────────────────────────

BROKEN = {
    "cut short": (replies.cut("half", 100), FailDetail.RESET),
    "reset in the body": (replies.reset_after("half", 100), FailDetail.RESET),
    "reset at once": (replies.reset, FailDetail.RESET),
    "closed at once": (replies.bytes_as_they_are(b""), FailDetail.RESET),
    "one huge header": (replies.header_flood(1, 200_000), FailDetail.PROTOCOL),
    "many headers": (replies.header_flood(5_000, 10), FailDetail.PROTOCOL),
    "not HTTP": (replies.bytes_as_they_are(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), FailDetail.PROTOCOL),
    "bad status": (replies.bytes_as_they_are(b"HTTP/1.1 abc OK\r\n\r\n"), FailDetail.PROTOCOL),
    "bad length": (replies.bytes_as_they_are(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx"), FailDetail.PROTOCOL),
    "bad gzip": (replies.Document(b"not gzip", headers={"Content-Encoding": "gzip"}), FailDetail.PROTOCOL),
    "bad br": (replies.Document(b"not brotli", headers={"Content-Encoding": "br"}), FailDetail.PROTOCOL),
    "bad chunk": (
        replies.bytes_as_they_are(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"),
        FailDetail.PROTOCOL,
    ),
    "cut in a chunk": (
        replies.bytes_as_they_are(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
        FailDetail.RESET,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answers_are_failures_with_a_name(web: FakeWeb, fetcher: Fetcher, name: str) -> None:
    """Whatever a server sends, the result is a value, and the next request works."""
    reply, detail = BROKEN[name]
    web.on("/a", reply)
    web.page("/next", "fine")

    assert failure(await fetcher.fetch(FetchRequest(web.url("/a")))) == (FailCode.HTTP, detail)
    assert (await fetcher.fetch(FetchRequest(web.url("/next")))).body == b"fine"


async def test_hosts_that_cannot_be_reached(opened: Open) -> None:
    """Refused and unknown each have their name."""
    async with FakeWeb() as closed:
        pass
    fetcher = await opened(names={"known.test": [["127.0.0.1"]]})

    assert failure(await fetcher.fetch(FetchRequest(closed.url("/"))))[1] is FailDetail.REFUSED
    assert failure(await fetcher.fetch(FetchRequest("http://unknown.test/")))[1] is FailDetail.DNS


async def test_a_host_without_tls_behind_https(fetcher: Fetcher) -> None:
    """An answer in clear text where encryption was expected."""

    async def shout(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        got = await fetcher.fetch(FetchRequest(f"https://127.0.0.1:{port}/"))

    assert failure(got) == (FailCode.HTTP, FailDetail.TLS)


async def test_the_systems_resolver_knows_localhost(web: FakeWeb, opened: Open) -> None:
    """Without a fake one, names are looked up as everywhere else on the machine."""
    web.page("/a", "here")
    fetcher = await opened(fetch_allowed_hosts=(f"localhost:{web.port}",))

    assert (await fetcher.fetch(FetchRequest(web.url("/a", "localhost")))).body == b"here"


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "x" * 300])
async def test_names_that_no_resolver_takes(opened: Open, host: str) -> None:
    """The system's own resolver refuses them in its own way; nothing is asked of the network."""
    fetcher = await opened()

    assert failure(await fetcher.fetch(FetchRequest(f"http://{host}/")))[1] is FailDetail.DNS


async def test_bad_request_headers_do_not_reach_the_wire(web: FakeWeb, fetcher: Fetcher) -> None:
    """A header with a line break is refused, not sent as two."""
    got = await fetcher.fetch(FetchRequest(web.url("/"), headers={"If-None-Match": "x\r\nX-Evil: 1"}))

    assert failure(got)[1] is FailDetail.PROTOCOL
    assert web.requests == []


# ── redirects ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_and_told(web: FakeWeb, fetcher: Fetcher, status: int) -> None:
    """Each hop keeps its own status, so that a permanent move can be told from a temporary one."""
    web.redirect("/a", "b?x=1#frag", status)
    web.redirect("/b", web.url("/c"), 302)
    web.page("/c", "here")

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert (got.status, got.body) == (200, b"here")
    assert (got.url, got.final_url) == (web.url("/a"), web.url("/c"))
    assert got.hops == (Hop(web.url("/a"), status), Hop(web.url("/b?x=1"), 302))


async def test_ten_redirects_are_followed_and_no_more(web: FakeWeb, fetcher: Fetcher) -> None:
    """The eleventh is refused without being asked."""
    for i in range(11):
        web.redirect(f"/{i}", f"/{i + 1}")
    web.page("/11", "end")

    assert (await fetcher.fetch(FetchRequest(web.url("/1")))).body == b"end"
    assert failure(await fetcher.fetch(FetchRequest(web.url("/0")))) == (FailCode.HTTP, FailDetail.REDIRECTS)
    assert len(web.asked("/11")) == 1


@pytest.mark.parametrize("paths", [("/a",), ("/a", "/b"), ("/a", "/b", "/c")])
async def test_circles_end_at_the_first_repetition(web: FakeWeb, fetcher: Fetcher, paths: tuple[str, ...]) -> None:
    """No URL is asked twice in one fetch."""
    web.redirect_loop(*paths)

    assert failure(await fetcher.fetch(FetchRequest(web.url("/a")))) == (FailCode.HTTP, FailDetail.REDIRECTS)
    assert web.paths == list(paths)


async def test_a_redirect_without_target_is_an_answer(web: FakeWeb, fetcher: Fetcher) -> None:
    """3xx without Location comes back as it is, body and all."""
    web.page("/a", "choose", status=302)

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert (got.status, got.body) == (302, b"choose")


@pytest.mark.parametrize(
    ("target", "detail"),
    [
        ("http://u:p@127.0.0.1/", FailDetail.BLOCKED),
        ("ftp://127.0.0.1/", FailDetail.BLOCKED),
        ("file:///etc/passwd", FailDetail.BLOCKED),
        ("data:text/html,x", FailDetail.BLOCKED),
        ("http://10.0.0.1/", FailDetail.BLOCKED),
        ("http://[::1]/", FailDetail.BLOCKED),
        ("http://a b/", FailDetail.URL),
        ("/" + "x" * 4_000, FailDetail.URL),
    ],
)
async def test_each_hop_is_judged_like_the_first(
    web: FakeWeb, fetcher: Fetcher, target: str, detail: FailDetail
) -> None:
    """A redirect opens no door that a link would not."""
    web.redirect("/a", target)

    assert failure(await fetcher.fetch(FetchRequest(web.url("/a")))) == (FailCode.HTTP, detail)


async def test_validators_stay_with_their_url(web: FakeWeb, fetcher: Fetcher) -> None:
    """What belongs to the first URL is not shown to the second, not even on the same host."""
    web.redirect("/a", "/b", 301)
    web.page("/b", "x", etag='"1"')
    headers = {"If-None-Match": '"1"', "if-modified-since": "x", "Range": "bytes=0-", "Authorization": "t"}

    got = await fetcher.fetch(FetchRequest(web.url("/a"), headers=headers))

    assert got.status == 200
    assert web.asked("/a")[0].headers["if-none-match"] == '"1"'
    assert not {"if-none-match", "if-modified-since", "range"} & set(web.asked("/b")[0].headers)
    assert web.asked("/b")[0].headers["authorization"] == "t"


async def test_another_host_sees_no_credentials(web: FakeWeb, fetcher: Fetcher) -> None:
    """Whatever the header is called: only harmless ones go along, and they do not come back either."""
    async with FakeWeb("127.0.0.2") as other:
        web.redirect("/a", other.url("/b"))
        other.redirect("/b", web.url("/c"))
        secrets = {"Authorization": "t", "X-Api-Key": "t", "Cookie": "t", "PRIVATE-TOKEN": "t"}

        await fetcher.fetch(FetchRequest(web.url("/a"), headers={**secrets, "Accept": "text/html"}))

        for seen in (other.asked("/b")[0], web.asked("/c")[0]):
            assert "t" not in seen.headers.values()
            assert seen.headers["accept"] == "text/html"


# ── politeness ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_shuts_the_domain(web: FakeWeb, opened: Open, redis: Client, status: int) -> None:
    """Both forms count; every process then waits, and nothing is asked."""
    web.retry_after("/a", status, "120")
    one, two = await opened(), await opened()

    first = await one.fetch(FetchRequest(web.url("/a")))
    second = await two.fetch(FetchRequest(web.url("/b"), max_wait_seconds=10))

    assert (first.status, first.header("retry-after")) == (status, "120")
    assert isinstance(second, Deferred)
    assert (100 < second.wait_seconds <= 120, second.reason) == (True, f"Retry-After ({status})")
    assert web.paths == ["/a"]


async def test_a_year_of_retry_after_is_a_day(web: FakeWeb, opened: Open) -> None:
    """Nobody sends us away for ever."""
    web.retry_after("/a", 429, "31536000")
    fetcher = await opened()
    await fetcher.fetch(FetchRequest(web.url("/a")))

    got = await fetcher.fetch(FetchRequest(web.url("/b"), max_wait_seconds=10))

    assert isinstance(got, Deferred)
    assert 86_000 < got.wait_seconds <= 86_400


async def test_the_gap_is_kept_for_redirects_too(web: FakeWeb, opened: Open) -> None:
    """A second request to the domain waits its turn, or is deferred if that is too long."""
    web.redirect("/a", "/b")
    fetcher = await opened(fetch_host_gap_seconds=1_000)

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert isinstance(got, Deferred)
    assert web.paths == ["/a"]


async def test_an_exempt_server_is_never_waited_for(
    web: FakeWeb, redis: Client, keys: Keys, settings: Settings
) -> None:
    """The bundled sample site leaves no trace at the gate."""
    changed = settings.model_copy(
        update={"fetch_allowed_hosts": ("127.0.0.1",), "fetch_host_gap_seconds": 1_000, "robots_respect": False}
    )
    async with Fetcher(changed, redis, keys, exempt=[f"127.0.0.1:{web.port}"]) as fetcher:
        results = [await fetcher.fetch(FetchRequest(web.url(f"/{i}"))) for i in range(3)]

    assert [result.status for result in results] == [404] * 3
    assert await redis.keys("fetch:*") == []


# ── HEAD and APIs ───────────────────────────────────────────────────────────────────────────────


def head_only(status: int, **headers: str) -> replies.Reply:
    """As servers answer HEAD: the length of a body that does not come."""

    async def reply(exchange: replies.Exchange) -> None:
        await exchange.head(status, {"Content-Length": "50000000", **headers})
        exchange.keeps_alive = True

    return reply


async def test_head_brings_headers_and_no_body(web: FakeWeb, fetcher: Fetcher) -> None:
    """However large it would be; redirects are followed as HEAD, and the connection serves the next request."""
    web.on("/old", head_only(301, Location="/large"))
    web.on("/large", head_only(200, ETag='"h"'))
    web.page("/next", "fine")

    got = await fetcher.fetch(FetchRequest(web.url("/old"), method="HEAD", max_bytes=1_000))

    assert isinstance(got, Fetched)
    assert (got.status, got.body, got.header("etag")) == (200, b"", '"h"')
    assert got.header("content-length") == "50000000"
    assert [seen.method for seen in web.requests] == ["HEAD", "HEAD"]
    assert (await fetcher.fetch(FetchRequest(web.url("/next")))).body == b"fine"
    assert web.connections == 1


@pytest.mark.parametrize("status", [404, 405, 503])
async def test_head_that_is_refused_is_an_answer(web: FakeWeb, fetcher: Fetcher, status: int) -> None:
    """Not every server knows HEAD; callers judge that."""
    web.on("/a", head_only(status))

    got = await fetcher.fetch(FetchRequest(web.url("/a"), method="HEAD"))

    assert (got.status, got.body) == (status, b"")


async def test_an_api_is_asked_without_gap_and_robots(web: FakeWeb, opened: Open, redis: Client) -> None:
    """It counts by itself: nobody stands in line, and no robots.txt is read, whatever the settings say."""
    web.robots("User-agent: *\nDisallow: /")
    fetcher = await opened(fetch_host_gap_seconds=1_000, fetch_host_parallel=1, robots_respect=True)
    request = FetchRequest(web.url("/a"), is_api=True, max_wait_seconds=0)

    results = await asyncio.gather(*(fetcher.fetch(request) for _ in range(5)))

    assert [result.status for result in results] == [404] * 5
    assert [seen.path for seen in web.requests] == ["/a"] * 5
    assert await redis.keys("fetch:*") == []


async def test_an_api_that_asks_for_patience_gets_it(web: FakeWeb, opened: Open) -> None:
    """Retry-After shuts its gate like any other."""
    web.retry_after("/a", 429, "120")
    fetcher = await opened(fetch_host_gap_seconds=1_000)

    results = [await fetcher.fetch(FetchRequest(web.url("/a"), is_api=True, max_wait_seconds=10)) for _ in range(2)]

    assert results[0].status == 429
    assert isinstance(results[1], Deferred)
    assert len(web.requests) == 1


async def test_where_an_api_sends_us_is_a_site_like_any_other(web: FakeWeb, opened: Open) -> None:
    """Another origin did not ask to be asked without manners."""
    async with FakeWeb("127.0.0.2") as other:
        other.robots("User-agent: *\nDisallow: /")
        web.redirect("/a", other.url("/b"))
        fetcher = await opened(robots_respect=True)

        got = await fetcher.fetch(FetchRequest(web.url("/a"), is_api=True))

        assert failure(got) == (FailCode.HTTP, FailDetail.ROBOTS)
        assert other.paths == []


async def test_hold_off_shuts_a_domain_for_all(web: FakeWeb, opened: Open) -> None:
    """For servers that ask for patience by headers of their own; every process hears it at once."""
    one, two = await opened(fetch_host_gap_seconds=1_000), await opened()

    await one.hold_off(web.url("/any"), 300, "GitHub's rate limit")
    results = [
        await fetcher.fetch(FetchRequest(web.url("/b"), is_api=is_api, max_wait_seconds=10))
        for fetcher in (one, two)
        for is_api in (True, False)
    ]

    assert {result.reason for result in results} == {"GitHub's rate limit"}
    assert web.requests == []


@pytest.mark.parametrize(("url", "seconds"), [("nonsense", 60), ("http://10.0.0.1/", 60), ("http://127.0.0.1/", 0)])
async def test_hold_off_of_nothing(fetcher: Fetcher, redis: Client, url: str, seconds: float) -> None:
    """A URL that is never asked, or no time at all, leaves no trace."""
    await fetcher.hold_off(url, seconds, "why")

    assert await redis.keys("fetch:*") == []


# ── addresses, with names ───────────────────────────────────────────────────────────────────────


async def test_of_several_addresses_only_allowed_ones_are_tried(web: FakeWeb, opened: Open) -> None:
    """A name with a private and an allowed address is reached through the allowed one alone, by happy eyeballs."""
    async with FakeWeb("127.0.0.2") as allowed:
        names = {"mixed.test": [["10.0.0.1", "::1", "127.0.0.2"]]}
        fetcher = await opened(fetch_allowed_hosts=(f"127.0.0.2:{allowed.port}",), names=names)
        allowed.page("/a", "here")

        got = await fetcher.fetch(FetchRequest(allowed.url("/a", "mixed.test")))

        assert got.body == b"here"


async def test_all_addresses_private_is_blocked(opened: Open) -> None:
    """However many there are."""
    fetcher = await opened(fetch_allowed_hosts=(), names={"in.test": [["10.0.0.1", "192.168.0.1", "::1", "127.0.0.1"]]})

    assert failure(await fetcher.fetch(FetchRequest("http://in.test/"))) == (FailCode.HTTP, FailDetail.BLOCKED)


async def test_a_proxy_is_asked_instead_of_the_host(web: FakeWeb, opened: Open) -> None:
    """With a proxy configured every request goes to it, with the whole URL."""
    web.fallback = replies.Document(b"by proxy")
    fetcher = await opened(fetch_allowed_hosts=(), fetch_proxy_url=SecretStr(web.url("/")))

    got = await fetcher.fetch(FetchRequest("http://somewhere.example/a"))

    assert got.body == b"by proxy"
    assert web.requests[0].target == "http://somewhere.example/a"
    assert failure(await fetcher.fetch(FetchRequest("http://127.0.0.1/")))[1] is FailDetail.BLOCKED
