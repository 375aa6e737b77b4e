"""A refresh of mixed answers, end to end: the timer and a worker as processes, RQ between them, a web on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from core import ids
from core.keys import Keys
from core.models import Ref
from core.registry.io.due import DueItems
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.sources.io.domain_file import parse_domain
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.embedded import EmbeddedServer
from core.urls.normalise import normalise_url
from tests.faults.process import Worker
from tests.site import Site, html
from tests.web import FakeWeb

SID = "docs.site"
OTHER, DEAD = "127.0.0.2", "127.0.0.3"
PAGES = ("same", "changed", "moved301", "moved302", "missing", "gone", "forbidden", "error", "hang", "grown", "stub")
NEVER = ("secret", "huge", "photo", "quiet")
SETTINGS = {"FETCH_TIMEOUT_SECONDS": "1", "FETCH_MAX_BYTES": "100000", "LOG_LEVEL": "DEBUG"}


class Round:
    """The site, the store, and the two processes that keep one like the other."""

    def __init__(self, web: FakeWeb, client: connect.Client, keys: Keys, folder: Path, redis_url: str) -> None:
        self.web, self.client, self.keys = web, client, keys
        self.site = Site(web)
        self.log = ""
        self._folder, self._redis_url = folder, redis_url

    async def set_up(self) -> None:
        now = await connect.now(self.client)
        config = {"id": "docs", "web_sources": [{"id": "site", "url": self.web.url("/"), "sitemap": False}]}
        sources, registrar = SourceStore(self.client, self.keys), Registrar(self.client, self.keys, "host")
        for one in parse_domain(json.dumps(config), "/").sources():
            root = Ref(one.config["url"])
            await sources.add(one, item_id_of(root), now)
            await registrar.register([root], Listing(one.sid), now)
        single = [Ref(self.web.url("/busy", OTHER)), Ref(self.web.url("/dead", DEAD))]
        await registrar.register(single, Listing("urls"), now)

    async def go(self) -> None:
        """`timer --once`, then a worker until nothing waits."""
        for command in (("workers.timer", "--once"), ("workers", "refresh", "--burst")):
            with Worker(self._folder, self._redis_url, *command, **SETTINGS) as process:
                code = await asyncio.to_thread(process.process.wait, 90)
                self.log += process.log
                assert code == 0, process.log

    async def make_due(self) -> None:
        names = [key.rpartition(":")[2] for key in await self.client.keys(self.keys.item("*"))]
        now = await connect.now(self.client)
        await DueItems(self.client, self.keys).make_due(names, now)

    def id(self, path: str, host: str = "") -> str:
        return ids.item_id("url", normalise_url(self.web.url(path, host)))

    async def record(self, path: str, host: str = "") -> dict[str, str]:
        return await self.client.hgetall(self.keys.item(self.id(path, host)))

    async def text(self, path: str, host: str = "") -> str:
        return await self.client.hget(self.keys.document(self.id(path, host)), "markdown") or ""

    async def events(self) -> list[dict[str, str]]:
        return [fields for _, fields in await self.client.xrange(self.keys.events)]


@pytest.fixture
async def refresh(redis: connect.Client, keys: Keys, server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Round]:
    async with FakeWeb("127.0.0.1", OTHER) as web:
        made = Round(web, redis, keys, tmp_path, server.url)
        web.robots("User-agent: *\nDisallow: /secret")
        made.site.page("/", links=[f"/{name}" for name in (*PAGES, *NEVER)])
        for name in PAGES:
            made.site.page(f"/{name}", f"First about {name}.")
        made.site.page("/secret")
        made.site.page("/quiet", head='<meta name="robots" content="noindex">')
        made.site.page("/huge", "Huge. " * 50_000)
        web.wrong_type("/photo", b"\xff\xd8\xff\xe0" + bytes(range(256)) * 8, "image/jpeg")
        web.page(f"{OTHER}/busy", html("Busy", "First about busy."), etag='"1"')
        await made.set_up()
        yield made


async def test_refresh_of_mixed_answers(refresh: Round) -> None:
    """Every answer a web can give has its own record: what changed is new, what is trouble keeps its text."""
    web, site = refresh.web, refresh.site
    await refresh.go()

    # ── the first round: everything that can be read is ──
    for name in PAGES:
        record = await refresh.record(f"/{name}")
        assert (record["status"], record["httpStatusCode"]) == ("Crawled", "200"), (name, record)
        assert f"First about {name}." in await refresh.text(f"/{name}")
    assert "First about busy." in await refresh.text("/busy", OTHER)
    never = {name: await refresh.record(f"/{name}") for name in NEVER}
    assert {name: record["status"] for name, record in never.items()} == dict.fromkeys(NEVER, "OutOfScope")
    assert {name: record["httpRobotsAllowed"] for name, record in never.items()} == {
        **dict.fromkeys(NEVER, "true"),
        "secret": "false",
    }
    assert "noindex" in never["quiet"]["errorMessage"]
    assert "100,000" in never["huge"]["errorMessage"] or "large" in never["huge"]["errorMessage"]
    assert "image/jpeg" in never["photo"]["errorMessage"]
    assert not web.asked("/secret")
    dead = await refresh.record("/dead", DEAD)
    assert (dead["status"], dead["consecutiveFailures"], dead["httpStatusCode"]) == ("Error", "1", "0")
    assert dead["errorMessage"]

    # ── the web moves on ──
    first = {name: await refresh.record(f"/{name}") for name in PAGES}
    site.page("/changed", "Second about changed.")
    site.page("/new301", "First about moved301.")
    web.redirect("/moved301", "/new301", 301)
    site.page("/new302", "Elsewhere for now.")
    web.redirect("/moved302", "/new302", 302)
    site.remove("/missing", 404)
    site.remove("/gone", 410)
    site.remove("/forbidden", 403)
    site.remove("/error", 500)
    web.hang("/hang")
    site.page("/grown", "Grown. " * 50_000)
    web.page("/stub", "<html><body></body></html>" + " " * 400, etag='"stub"')
    web.retry_after(f"{OTHER}/busy", 429, "7200")
    web.requests.clear()
    await refresh.make_due()
    began = time.time()

    await refresh.go()

    # ── the second round ──
    after = {name: await refresh.record(f"/{name}") for name in PAGES}

    def says(name: str) -> tuple[str, str]:
        return after[name]["status"], after[name]["httpStatusCode"]

    def waits(record: dict[str, str]) -> float:
        return datetime.fromisoformat(record["nextCrawlAt"]).timestamp() - began

    assert says("same") == ("Crawled", "304")
    assert after["same"]["unchangedStreak"] == after["same"]["conditionalStreak"] == "1"
    assert [seen.headers["if-none-match"] for seen in web.asked("/same")] == [first["same"]["httpEtag"]]
    assert says("changed") == ("Crawled", "200")
    assert "Second about changed." in await refresh.text("/changed")
    assert after["changed"]["httpEtag"] != first["changed"]["httpEtag"]
    assert float(after["changed"]["changedTs"]) > float(first["changed"]["changedTs"])
    # 301: another name of the same page; 302: none.
    assert says("moved301") == ("Indexed", "200")
    assert after["moved301"]["aliasOf"] == refresh.id("/new301")
    assert json.loads(after["moved301"]["httpRedirectChain"]) == [web.url("/moved301")]
    assert await refresh.text("/moved301") == ""
    assert "First about moved301." in await refresh.text("/new301")
    assert says("moved302") == ("Crawled", "200")
    assert after["moved302"]["aliasOf"] == ""
    assert "Elsewhere for now." in await refresh.text("/moved302")
    # 404 hides, 410 ends.
    assert says("missing") == ("Error", "404")
    assert after["missing"]["missingChecks"] == "1"
    assert says("gone") == ("Gone", "410")
    assert after["gone"]["goneTs"]
    assert await refresh.text("/missing") == await refresh.text("/gone") == ""
    # Trouble keeps what we have, and comes back later.
    for name, status in (("forbidden", "403"), ("error", "500"), ("hang", "200"), ("grown", "200"), ("stub", "200")):
        assert says(name) == ("Error", status), (name, after[name])
        assert after[name]["consecutiveFailures"] == "1", name
        assert after[name]["errorMessage"], name
        assert after[name]["httpEtag"] == first[name]["httpEtag"], name
        assert 500 < waits(after[name]) < 800, name
        assert f"First about {name}." in await refresh.text(f"/{name}")
    busy = await refresh.record("/busy", OTHER)
    assert (busy["status"], busy["httpStatusCode"], busy["httpEtag"]) == ("Error", "429", '"1"')
    assert waits(busy) >= 7_200 - 5
    assert "First about busy." in await refresh.text("/busy", OTHER)
    # A host that refuses has no robots.txt either: for some minutes it is not even asked.
    assert (await refresh.record("/dead", DEAD))["consecutiveFailures"] == "1"
    assert await refresh.client.zscore(refresh.keys.due("urls"), refresh.id("/dead", DEAD)) > began + 500
    for name in NEVER:
        assert (await refresh.record(f"/{name}"))["status"] == "OutOfScope", name
    assert not web.asked("/secret")

    # ── and around them ──
    told = [(event["type"], event.get("id")) for event in await refresh.events()]
    assert told.count(("item.changed", refresh.id("/changed"))) == 2
    assert told.count(("item.changed", refresh.id("/same"))) == 1
    gone = [event for event in await refresh.events() if event["type"] == "item.gone"]
    assert sorted(event["id"] for event in gone) == sorted([refresh.id("/missing"), refresh.id("/gone")])
    assert {event["deleted"] for event in gone} == {"true"}
    names = [key.rpartition(":")[2] for key in await refresh.client.keys(refresh.keys.item("*"))]
    for name in names:
        record = await refresh.client.hgetall(refresh.keys.item(name))
        assert record["lockedUntil"] == "", record["fetchUrl"]
        places = [
            status
            for status in ("Pending", "Crawled", "Indexed", "Error", "OutOfScope", "Gone")
            if await refresh.client.sismember(refresh.keys.status(status), name)
        ]
        assert places == [record["status"]], record["fetchUrl"]
    assert await refresh.client.keys(refresh.keys.lease("*")) == []
    assert await refresh.client.keys(refresh.keys.crashes("*")) == []
    assert await refresh.client.zcard("rq:failed:refresh") == 0
    # Every page was asked for once: nothing was sent twice. (The root also to see whether the site is there at all.)
    for name in ("same", "changed", "missing", "gone", "forbidden", "grown", "stub"):
        assert len(web.asked(f"/{name}")) == 1, name
