"""Our own proxy: what is its fault is nobody else's."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from core import ids
from core.errors import FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest
from core.net.connector import PROXY_PAUSE_SECONDS, Proxy
from core.net.fetcher import Fetcher
from core.runtime.context import open_context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store.connect import Client
from tests import web_replies as replies
from tests.articles import add, run
from tests.dns import FakeDns
from tests.web import FakeWeb
from tests.web_replies import Exchange

Open = Callable[..., Any]
TARGETS = ("http://somewhere.example/a", "https://somewhere.example/a")


@pytest.fixture
async def opened(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def opens(proxy: str, names: dict[str, list[list[str]]] | None = None) -> Fetcher:
            changes = {"robots_respect": False, "fetch_proxy_url": SecretStr(proxy)}
            resolver = FakeDns(names) if names is not None else None
            changed = settings.model_copy(update=changes)
            return await stack.enter_async_context(Fetcher(changed, redis, keys, resolver=resolver))

        yield opens


async def closed_port() -> str:
    async with FakeWeb() as gone:
        return gone.url("/")


@pytest.mark.parametrize("target", TARGETS)
async def test_a_proxy_that_does_not_listen(opened: Open, target: str) -> None:
    """The wrong port, or the proxy is down: wait, and say which setting."""
    got = await (await opened(await closed_port())).fetch(FetchRequest(target))

    assert isinstance(got, Deferred)
    assert "FETCH_PROXY_URL" in got.reason
    assert "cannot be reached" in got.reason


@pytest.mark.parametrize("target", TARGETS)
async def test_a_proxy_whose_name_does_not_resolve(opened: Open, target: str) -> None:
    """A slip in its name."""
    got = await (await opened("http://proxy.invalid:3128", names={})).fetch(FetchRequest(target))

    assert isinstance(got, Deferred)
    assert "cannot be reached" in got.reason


@pytest.mark.parametrize("target", TARGETS)
async def test_a_proxy_that_wants_a_password(web: FakeWeb, opened: Open, target: str) -> None:
    """407 for pages and for tunnels."""
    web.fallback = replies.Document(b"who are you", 407, headers={"Proxy-Authenticate": "Basic"})

    got = await (await opened(web.url("/"))).fetch(FetchRequest(target))

    assert isinstance(got, Deferred)
    assert "password" in got.reason


@pytest.mark.parametrize("target", TARGETS)
async def test_a_port_that_is_no_proxy(web: FakeWeb, opened: Open, target: str) -> None:
    """Something else listens there."""
    web.fallback = replies.bytes_as_they_are(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    got = await (await opened(web.url("/"))).fetch(FetchRequest(target))

    assert isinstance(got, Deferred)
    assert "does not speak HTTP" in got.reason


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_web_server_that_is_no_proxy(web: FakeWeb, opened: Open, status: int) -> None:
    """It knows no tunnels."""
    web.fallback = replies.Document(b"?", status)

    assert isinstance(await (await opened(web.url("/"))).fetch(FetchRequest(TARGETS[1])), Deferred)


@pytest.mark.parametrize("status", [403, 502, 503, 504])
async def test_what_a_proxy_says_of_a_host_is_the_hosts(web: FakeWeb, opened: Open, status: int) -> None:
    """The proxy works, and does not get through."""
    web.fallback = replies.Document(b"no", status)
    fetcher = await opened(web.url("/"))

    through = await fetcher.fetch(FetchRequest(TARGETS[1]))
    plain = await fetcher.fetch(FetchRequest(TARGETS[0]))

    assert isinstance(through, Failed)
    assert through.detail is FailDetail.REFUSED
    assert isinstance(plain, Fetched)
    assert plain.status == status


async def test_tls_trouble_behind_the_tunnel_is_the_hosts(web: FakeWeb, opened: Open) -> None:
    """The tunnel stands; what speaks at its end is not the proxy."""

    async def tunnel(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 Connection established\r\n\r\nno TLS here\r\n")

    web.fallback = tunnel

    got = await (await opened(web.url("/"))).fetch(FetchRequest(TARGETS[1]))

    assert isinstance(got, Failed)


async def test_407_without_a_proxy_is_an_answer(web: FakeWeb, redis: Client, keys: Keys, settings: Settings) -> None:
    """Then it is the host who says so."""
    web.page("/a", "odd", status=407)
    changes = {"robots_respect": False, "fetch_allowed_hosts": ("127.0.0.0/8",)}
    async with Fetcher(settings.model_copy(update=changes), redis, keys) as fetcher:
        assert (await fetcher.fetch(FetchRequest(web.url("/a")))).status == 407


async def test_it_is_told_once_and_asked_again_later(caplog: pytest.LogCaptureFixture) -> None:
    """In between nobody waits for it; after it worked, new trouble is told again."""
    now = [100.0]
    state = Proxy(True, lambda: now[0])
    with caplog.at_level(logging.ERROR, "net"):
        for _ in range(3):
            assert isinstance(state.check_status(407), Deferred)
        assert isinstance(state.pause, Deferred)
        now[0] += PROXY_PAUSE_SECONDS + 1
        assert state.pause is None
        assert state.check_status(200) is None
        state.check_status(407)

    assert [record.message.startswith("⚠️ The proxy of FETCH_PROXY_URL") for record in caplog.records] == [True, True]


@pytest.mark.parametrize("trouble", ["closed", "407"])
async def test_no_link_is_marked(web: FakeWeb, redis: Client, settings: Settings, trouble: str) -> None:
    """A run of the canonical fetcher through such a proxy: every link waits as it was, none is attempted or failed."""
    web.fallback = replies.Document(b"who are you", 407)
    proxy = await closed_port() if trouble == "closed" else web.url("/")
    links = [f"http://site{number}.example/{page}" for number in range(3) for page in range(3)]
    async with open_context(settings.model_copy(update={"fetch_proxy_url": SecretStr(proxy)})) as context:
        await add(context, *links)
        counts = await run(context)

        assert (counts["deferred"], counts["failed"], counts["retry"]) == (len(links), 0, 0)
        assert await context.client.smembers(context.keys.attempted) == set()
        assert await context.client.exists(*(context.keys.failure(ids.article_uid(link)) for link in links)) == 0
        assert await context.client.smembers(context.keys.category_links("world")) == set(links)
