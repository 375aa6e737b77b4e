"""Nobody makes us connect to what is not public: not by a link, a redirect, a robots.txt or a name that flips.

127.0.0.2 plays the public internet; a canary listens on other loopback addresses and must stay unheard.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import pytest

from core.keys import Keys
from core.models import Failed, Fetched, FetchRequest, FetchResult
from core.net.fetcher import Fetcher
from core.settings import Settings
from core.store.connect import Client
from tests import hostile
from tests.dns import FakeDns
from tests.web import FakeWeb, available
from tests.web_replies import Exchange

CANARY_HOSTS = available("127.0.0.1", "::1", "127.0.0.3", "127.0.0.53")
NAMES = {
    "public.test": [["127.0.0.2"]],
    "internal.test": [["127.0.0.3"]],
    "six.test": [["::1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "flip.test": [["127.0.0.2"], ["127.0.0.1"]],
    "both.test": [["10.1.1.1", "127.0.0.1", "::1"]],
    "localhost": [["127.0.0.1"]],
}

# Kinds that are known from the field, beside the collection's rows.
ATTACKS = [
    "http://127.0.0.1:{C}/",
    "http://127.1:{C}/",
    "http://0:{C}/",
    "http://0.0.0.0:{C}/",
    "http://[::]:{C}/",
    "http://0177.0.0.1:{C}/",
    "http://0x7f000001:{C}/",
    "http://127.0.0.1.:{C}/",
    "http://①②⑦.⓪.⓪.①:{C}/",
    "http://127%2e0%2e0%2e1:{C}/",
    "http://127。0。0。1:{C}/",
    "http://[::1]:{C}/",
    "http://[::127.0.0.1]:{C}/",
    "http://[::ffff:7f00:1]:{C}/",
    "http://[0:0:0:0:0:ffff:127.0.0.53]:{C}/",
    "http://[64:ff9b::127.0.0.1]:{C}/",
    "http://[2002:7f00:1::]:{C}/",
    "http://[::1%25lo]:{C}/",
    "http://localhost:{C}/",
    "http://LOCALHOST.:{C}/",
    "http://six.test:{C}/",
    "http://mapped.test:{C}/",
    "http://both.test:{C}/",
    "http://both.test/",
    "http://public.test@127.0.0.1:{C}/",
    "http://127.0.0.1:{C}\\@public.test/",
    "http:\\\\127.0.0.1:{C}\\",
    "http:127.0.0.1:{C}/",
    "http://public.test:{C}/",
    "\thttp://127.0.0.1:{C}/\n",
    "http://127.0.0.1\t:{C}/",
    "https://127.0.0.1:{C}/",
    "ftp://127.0.0.1:{C}/",
    "gopher://127.0.0.1:{C}/_x",
    "ws://127.0.0.1:{C}/",
    "file:///etc/passwd",
    "unix:///var/run/docker.sock",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://100.100.100.200/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[2001:db8::1]/",
    "http://255.255.255.255/",
    "http://224.0.0.1/",
]


class Connects:
    """Every connect() of this process, as Python's own audit sees it."""

    def __init__(self) -> None:
        self.addresses: list[str] | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect" and self.addresses is not None:
            self.addresses.append(f"{args[1][0]}:{args[1][1]}")


CONNECTS = Connects()  # audit hooks cannot be taken away, so there is one


@dataclass
class World:
    """The public side, the canary, and a fetch between them."""

    public: FakeWeb
    canary: FakeWeb
    settings: Settings
    redis: Client
    keys: Keys
    connected: list[str] = field(default_factory=list)

    def fill(self, text: str) -> str:
        return text.replace("{C}", str(self.canary.port)).replace("{P}", str(self.public.port))

    async def fetch(self, url: str, names: dict[str, list[list[str]]], times: int = 1) -> FetchResult:
        redis_port = int(self.redis.get_connection_kwargs()["port"])
        CONNECTS.addresses = []
        async with Fetcher(self.settings, self.redis, self.keys, resolver=FakeDns(names)) as fetcher:
            for _ in range(times):
                result = await fetcher.fetch(FetchRequest(self.fill(url), respect_robots=self.settings.robots_respect))
        self.connected = [address for address in CONNECTS.addresses if not address.endswith(f":{redis_port}")]
        CONNECTS.addresses = None
        return result

    def is_untouched(self) -> bool:
        """No canary heard anything, and the only address connected to is the allowed one."""
        allowed = f"127.0.0.2:{self.public.port}"
        return not self.canary.connections and set(self.connected) <= {allowed}


async def obey_the_query(exchange: Exchange) -> None:
    """`?to=URL&code=N` redirects; everything else is a page."""
    _, _, query = exchange.seen.target.partition("?")
    if query.startswith("to=") or "&to=" in query:
        to = query[query.index("to=") + 3 :]
        code = int(parse_qs(query).get("code", ["302"])[0])
        await exchange.answer(code, {"Location": to})
    else:
        await exchange.answer(200, {}, b"User-agent: *\nAllow: /")


@pytest.fixture(params=[False, True], ids=["plain", "robots"])
async def world(request: pytest.FixtureRequest, settings: Settings, redis: Client, keys: Keys) -> AsyncIterator[World]:
    async with FakeWeb("127.0.0.2") as public, FakeWeb(*CANARY_HOSTS) as canary:
        public.fallback = obey_the_query
        changes = {"fetch_allowed_hosts": (f"public.test:{public.port}",), "robots_respect": request.param}
        yield World(public, canary, settings.model_copy(update=changes), redis, keys)


@hostile.needed
@pytest.mark.parametrize("row", hostile.rows("ssrf.jsonl"))
async def test_every_row(world: World, row: dict[str, Any]) -> None:
    """Attacks end without a packet to a forbidden address; controls get their page."""
    result = await world.fetch(row["url"], hostile.names(), times=2)

    assert world.is_untouched(), world.connected
    assert isinstance(result, Fetched) is (row["expected"] == "allowed"), result
    if isinstance(result, Fetched):
        assert result.status == 200


@pytest.mark.parametrize("url", ATTACKS)
async def test_a_link(world: World, url: str) -> None:
    """However the address is written, resolved or wrapped."""
    result = await world.fetch(url, NAMES, times=2)

    assert isinstance(result, Failed), result
    assert world.is_untouched(), world.connected


@pytest.mark.parametrize("url", ATTACKS)
async def test_a_redirect(world: World, url: str) -> None:
    """A public page that sends us there, directly or by a second redirect."""
    world.public.redirect("/one", "/two")
    world.public.redirect("/two", world.fill(url).strip())

    result = await world.fetch("http://public.test:{P}/one", NAMES)

    assert world.is_untouched(), world.connected
    # `http:x` without slashes is relative after a redirect, and then leads to the public host itself.
    assert isinstance(result, Failed) or result.final_url.startswith("http://public.test:")


@pytest.mark.parametrize("url", ATTACKS)
async def test_a_robots_txt(world: World, url: str) -> None:
    """A robots.txt that sends us there is no rules, and costs the site nothing."""
    world.public.redirect("/robots.txt", world.fill(url).strip())

    result = await world.fetch("http://public.test:{P}/hello", NAMES)

    assert isinstance(result, Fetched), result
    assert world.is_untouched(), world.connected


async def test_a_name_that_changes_its_mind(world: World) -> None:
    """Allowed at the first answer, loopback at the second: each connection is judged by itself."""
    changes = {"fetch_allowed_hosts": (f"127.0.0.2:{world.public.port}",)}
    world.settings = world.settings.model_copy(update=changes)
    names = {"flip.test": [["127.0.0.2"], ["127.0.0.1"]]}

    for _ in range(3):
        await world.fetch("http://flip.test:{P}/", names)

    assert world.is_untouched(), world.connected


async def test_a_connection_kept_alive_serves_only_its_own_host(world: World) -> None:
    """An open connection of an allowed host is not lent to another name on the same address."""
    async with Fetcher(world.settings, world.redis, world.keys, resolver=FakeDns(NAMES)) as fetcher:
        allowed = await fetcher.fetch(FetchRequest(world.fill("http://public.test:{P}/a")))
        refused = await fetcher.fetch(FetchRequest(world.fill("http://flip.test:{P}/a")))

    assert isinstance(allowed, Fetched)
    assert isinstance(refused, Failed)


async def test_the_environment_sets_no_proxy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY of the surroundings is not ours."""
    monkeypatch.setenv("HTTP_PROXY", world.canary.url("/"))
    monkeypatch.setenv("http_proxy", world.canary.url("/"))

    result = await world.fetch("http://public.test:{P}/hello", NAMES)

    assert isinstance(result, Fetched)
    assert world.is_untouched(), world.connected
