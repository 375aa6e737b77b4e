"""The page Throttle, over real HTTP: whom we wait for and why, whose 304 is false, the pace of hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.keys import Keys
from core.models import Fetched, FetchRequest
from core.net.rate_limit import Gate
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.urls.pace import HostPace
from tests.api import ApiServer
from tests.feed_pages import feed_server
from tests.form_client import FormClient
from tests.web import FakeWeb

HOUR = 3_600.0
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def pages(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """A dashboard whose fetcher may ask loopback."""
    async with feed_server(settings) as running:
        yield running


async def test_an_empty_page_says_so(pages: ApiServer) -> None:
    """Nobody to wait for, nobody caught."""
    async with FormClient(pages) as person:
        status, _, text = await person.ask("GET", "/throttle")

    assert status == 200
    assert "We wait for nobody" in text
    assert "No host was caught" in text


async def test_a_retry_after_is_shown_with_whose_it_is(pages: ApiServer, web: FakeWeb) -> None:
    """A server that answered 429 closes its domain; the page and the API name it, the host and the end."""
    web.retry_after("/a", 429, "1800")
    fetched = await pages.opener.require().context.fetcher.fetch(FetchRequest(web.url("/a"), respect_robots=False))
    answer = await pages.get("/api/throttle")
    async with FormClient(pages) as person:
        _, _, text = await person.ask("GET", "/throttle")
    [gate] = answer.json["waiting"]

    assert isinstance(fetched, Fetched)
    assert (gate["reason"], gate["asked_by"]) == ("Retry-After (429)", "127.0.0.1")
    assert gate["closed_until_ts"] > 0
    assert "Retry-After (429)" in text
    assert gate["place"] in text


async def test_lines_and_crawl_delays_are_shown(pages: ApiServer, redis: Client, keys: Keys) -> None:
    """A gate with requests in line is listed with its gap, also the longer one of robots.txt; a served line is not."""
    gate = Gate(redis, keys)
    slow = HostPace("a.example.org", "a.example.org", 5.0, 2).with_crawl_delay(50.0)
    for token in ("t1", "t2", "t3"):
        await gate.enter(slow, token, 1_000)
    quick = HostPace("host:docs.example.org", "example.org", 7.0, 2)
    for token in ("t1", "t2"):
        await gate.enter(quick, token, 1_000)
    await gate.leave("host:docs.example.org", "t2")
    answer = await pages.get("/api/throttle")
    [one] = answer.json["waiting"]

    assert (one["place"], one["in_line"], one["under_way"]) == ("a.example.org", 2, 1)
    assert (one["gap_seconds"], one["crawl_delay_seconds"]) == (50.0, 50.0)
    async with FormClient(pages) as person:
        _, _, text = await person.ask("GET", "/throttle")
    assert "robots.txt asks for it" in text


async def test_what_has_ended_is_forgotten(pages: ApiServer, redis: Client, keys: Keys) -> None:
    """The index keeps no gate whose wait is over, however many there were."""
    await redis.zadd(keys.gates_waiting, {f"d{number}.example.org": 1.0 for number in range(50)})
    await Gate(redis, keys).close_for("b.example.org", 600, "Retry-After (503)", "www.b.example.org")

    assert await redis.zrange(keys.gates_waiting, 0, -1) == ["b.example.org"]
    assert 0 < await redis.ttl(keys.gates_waiting) <= 90_000
    assert (await pages.get("/api/throttle")).json["waiting"][0]["asked_by"] == "www.b.example.org"


async def test_unreadable_robots_are_listed_until_they_can_be_read(
    pages: ApiServer, web: FakeWeb, redis: Client, keys: Keys
) -> None:
    """A robots.txt that answers 500 is listed with the reason, until it is forgotten or asked for again."""
    web.page("/a", "x")
    web.robots(500)
    fetcher = pages.opener.require().context.fetcher
    await fetcher.fetch(FetchRequest(web.url("/a")))
    [unreadable] = (await pages.get("/api/throttle")).json["unreadable_robots"]
    async with FormClient(pages) as person:
        _, _, text = await person.ask("GET", "/throttle")
    await fetcher._robots.forget(unreadable["origin"])

    assert unreadable["origin"] == web.url("").rstrip("/")
    assert "HTTP 500" in text
    assert (await pages.get("/api/throttle")).json["unreadable_robots"] == []


async def test_hosts_that_lie_about_304(pages: ApiServer) -> None:
    """A host that was caught is listed with how often and until when; what its name is made of is text."""
    services = pages.opener.require()
    now = await connect.now(services.client)
    sources, leases = services.context.sources, services.context.leases
    await leases.run(sources.distrust("liar.example.org", now + HOUR))
    await leases.run(sources.distrust("liar.example.org", now + 2 * HOUR))
    await leases.run(sources.distrust(HOSTILE, now - HOUR))
    found = (await pages.get("/api/throttle")).json["untrusted"]
    async with FormClient(pages) as person:
        _, _, text = await person.ask("GET", "/throttle")

    assert [(one["host"], one["false_304"], one["is_believed"]) for one in found] == [
        ("liar.example.org", 2, False),
        (HOSTILE, 1, True),
    ]
    assert "whole pages only" in text
    assert "<script>alert" not in text


async def test_the_pace_of_a_host_is_set_and_taken_back(pages: ApiServer) -> None:
    """A form sets it, a button takes it back, and what is not a host is refused with a sentence."""
    async with FormClient(pages) as person:
        fields = {"host": "docs.example.org", "gap_seconds": "0", "parallel": "8", "back": "/throttle"}
        _, path, done = await person.submit("/throttle", "/throttle/pace", **fields)
        options = (await pages.get("/api/pace")).json["options"]
        wrong = await person.submit("/throttle", "/throttle/pace", host="no host", gap_seconds="1", back="/throttle")
        back = await person.submit("/throttle", "/throttle/pace", host="docs.example.org", back="/throttle")

    assert (path, "docs.example.org: a gap of 0 s, 8 at once." in done) == ("/throttle", True)
    assert (options[0]["gap_seconds"], options[0]["parallel"]) == (0.0, 8)
    assert "Take back" in done
    assert 'role="alert"' in wrong[2]
    assert "is not a host" in wrong[2]
    assert "Take back" not in back[2]
    assert (await pages.get("/api/pace")).json["options"] == []
