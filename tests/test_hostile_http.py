"""Servers that want to hurt: every behaviour of the collection ends as a value, in bounded memory, and work goes on."""

from __future__ import annotations

import json
import resource
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult
from core.net.fetcher import Fetcher
from core.settings import Settings
from core.store.connect import Client
from tests import hostile
from tests import web_replies as replies
from tests.web import FakeWeb, available
from tests.web_script import Script

MEMORY_KB = 200 * 1024
TIMEOUT_SECONDS = 1.0
CANARY_HOSTS = available("127.0.0.1", "::1")


@pytest.fixture
async def web() -> AsyncIterator[FakeWeb]:
    async with FakeWeb("127.0.0.2") as running:
        running.page("/next", "fine")
        yield running


@pytest.fixture
async def fetcher(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    changes = {"fetch_allowed_hosts": ("127.0.0.2",), "fetch_timeout_seconds": TIMEOUT_SECONDS}
    async with Fetcher(settings.model_copy(update=changes), redis, keys) as running:
        yield running


@pytest.fixture
async def patient(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    """With so much time that a busy machine does not decide how a fetch ends."""
    changes = {"fetch_allowed_hosts": ("127.0.0.2",), "fetch_timeout_seconds": 300.0}
    async with Fetcher(settings.model_copy(update=changes), redis, keys) as running:
        yield running


async def fetch_in_bounds(fetcher: Fetcher, url: str, **options: Any) -> FetchResult:
    """Fetch, and see that memory stays where it was."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await fetcher.fetch(FetchRequest(url, **options))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KB
    return result


def is_as_expected(expected: str, result: FetchResult) -> bool:
    """The collection's words in ours. What it only calls `handled` may end in any value."""
    code = result.code if isinstance(result, Failed) else None
    detail = result.detail if isinstance(result, Failed) else None
    wanted = {
        # zstd is never asked for; without its decoder the answer is unreadable rather than too large.
        "FAIL_TOO_LARGE": detail in {FailDetail.TOO_LARGE, FailDetail.PROTOCOL},
        "cut at cap": detail is FailDetail.TOO_LARGE,
        "FAIL_TIMEOUT": code is FailCode.TIMEOUT,
        "FAIL_HTTP": code is FailCode.HTTP,
        "0 canary hits": code is FailCode.HTTP,
        "transient, retried": detail is FailDetail.RESET,
    }
    return wanted.get(expected, True)


@hostile.needed
@pytest.mark.parametrize("row", hostile.rows("bodies.jsonl", "http"))
async def test_every_http_row(web: FakeWeb, fetcher: Fetcher, keys: Keys, redis: Client, row: dict[str, Any]) -> None:
    """The outcome is the expected one, nobody is reached who must not be, and the next page is read."""
    async with FakeWeb(*CANARY_HOSTS) as canary:
        steps = json.loads(json.dumps(row["gen"]["script"]).replace("{C}", str(canary.port)))
        web.on("/", prepared(steps))

        result = await fetch_in_bounds(fetcher, web.url("/"), respect_robots=False)

        assert is_as_expected(row["expected"], result), result
        assert canary.connections == 0
    assert float(await redis.hget(keys.gate(f"127.0.0.2:{web.port}"), "until") or 0) <= (await redis.time())[0] + 86_401
    await redis.delete(keys.gate(f"127.0.0.2:{web.port}"))
    assert (await fetcher.fetch(FetchRequest(web.url("/next"), respect_robots=False))).body == b"fine"


def prepared(steps: list[list[Any]]) -> Script:
    """The script with all bodies built beforehand, so that building them is not what we measure."""
    make, bodies = hostile.maker(), {}
    for spec in (word for step in steps for word in step if isinstance(word, dict)):
        try:
            bodies[json.dumps(spec)] = make(spec)
        except ImportError as missing:
            pytest.skip(f"cannot build this body: {missing}")
    return Script(steps, lambda spec: bodies[json.dumps(spec)])


@hostile.needed
@pytest.mark.parametrize("row", hostile.rows("bodies.jsonl", "robots"))
async def test_every_robots_row(web: FakeWeb, fetcher: Fetcher, row: dict[str, Any]) -> None:
    """A hostile robots.txt is read up to its cap, delays us by a minute at most, and never breaks the fetch."""
    web.on("/robots.txt", replies.Document(hostile.maker()(row["gen"])))

    result = await fetch_in_bounds(fetcher, web.url("/next"), max_wait_seconds=0)

    assert isinstance(result, Fetched | Failed | Deferred)
    if isinstance(result, Deferred):
        assert result.wait_seconds <= 60
    assert (
        await fetcher.fetch(FetchRequest(web.url("/next"), respect_robots=False, max_wait_seconds=0))
    ).body == b"fine"


# ── kinds beside the rows ───────────────────────────────────────────────────────────────────────

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def endless(head: bytes, unit: bytes) -> replies.Reply:
    async def reply(exchange: replies.Exchange) -> None:
        await exchange.send(head)
        while True:
            await exchange.send(unit)

    return reply


def hanging(start: bytes) -> replies.Reply:
    async def reply(exchange: replies.Exchange) -> None:
        await exchange.send(start)
        await exchange.hang()

    return reply


KINDS = {
    "endless status line": endless(b"HTTP/1.1 200 ", b"x" * 65_536),
    "endless header": endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1_000),
    "endless interim answers": endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
    "endless body": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536),
    "endless chunk size": endless(CHUNKED, b"0" * 65_536),
    "endless chunk extension": endless(CHUNKED + b"1;", b"x" * 65_536),
    "endless tiny chunks": endless(CHUNKED, b"1\r\nx\r\n" * 1_000),
    "endless trailers": endless(CHUNKED + b"0\r\n", b"X: y\r\n" * 1_000),
    "many gzip members": replies.Document(
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0" * 50_000, headers={"Content-Encoding": "gzip"}
    ),
    "gzip of gzip": replies.Document(b"\x1f\x8b", headers={"Content-Encoding": "gzip, gzip"}),
    "encoding nobody knows": replies.Document(b"x", headers={"Content-Encoding": "x-evil"}),
    "error page that never ends": endless(b"HTTP/1.1 503 Sorry\r\n\r\n", b"x" * 65_536),
    "error page that hangs": hanging(b"HTTP/1.1 503 Sorry\r\nContent-Length: 9\r\n\r\nx"),
    "redirect with endless body": endless(b"HTTP/1.1 302 Found\r\nLocation: /next\r\n\r\n", b"x" * 65_536),
    "redirect to everywhere": replies.Document(status=302, headers={"Location": "http://" + "a." * 3_000 + "test/"}),
    "location with bytes": replies.Document(status=302, headers={"Location": "/\udcff\udc80"}),
    "two lengths": replies.bytes_as_they_are(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\nx"),
    "length and chunks": replies.bytes_as_they_are(CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    "nul in a header": replies.bytes_as_they_are(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
    "switching protocols": replies.bytes_as_they_are(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nyyy"),
    "http/0.9": replies.bytes_as_they_are(b"<html>hello</html>"),
    "http/2 preface": replies.bytes_as_they_are(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
}


@pytest.mark.parametrize("name", KINDS)
async def test_other_kinds(web: FakeWeb, fetcher: Fetcher, name: str) -> None:
    """Whatever it is, it is a value in the end, and the next page is read."""
    web.on("/", KINDS[name])

    result = await fetch_in_bounds(fetcher, web.url("/"), respect_robots=False)

    assert isinstance(result, Fetched | Failed)
    assert (await fetcher.fetch(FetchRequest(web.url("/next"), respect_robots=False))).body == b"fine"


@pytest.mark.parametrize(
    "name", ["endless interim answers", "endless chunk size", "endless chunk extension", "endless tiny chunks"]
)
async def test_framing_without_content_is_not_waited_out(web: FakeWeb, patient: Fetcher, name: str) -> None:
    """It costs a megabyte, not a CPU until the timeout."""
    web.on("/", KINDS[name])

    result = await patient.fetch(FetchRequest(web.url("/"), respect_robots=False))

    assert isinstance(result, Failed)
    assert (result.code, result.detail) == (FailCode.HTTP, FailDetail.PROTOCOL)


async def test_an_error_page_that_hangs_is_an_error_page(web: FakeWeb, fetcher: Fetcher) -> None:
    """Its status was told before the silence."""
    web.on("/", KINDS["error page that hangs"])

    result = await fetcher.fetch(FetchRequest(web.url("/"), respect_robots=False))

    assert isinstance(result, Fetched)
    assert (result.status, result.body) == (503, b"x")


async def test_a_bomb_as_robots(web: FakeWeb, fetcher: Fetcher) -> None:
    """robots.txt goes through the same counting as every body."""
    web.bomb("/robots.txt", "br", 256)

    assert (await fetch_in_bounds(fetcher, web.url("/next"))).body == b"fine"
