"""A crawl of a slow site: it shows what it has, says why it waits, and loses nothing when it is stopped or killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from core.keys import Keys
from core.net.rate_limit import DomainPace
from core.registry.io import commit_buffer as buffer
from core.runs.io import run_worker
from core.runs.io.run_store import RunStore
from core.settings import Settings
from core.sources.io import crawl_progress
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.crawl_progress import waiting_reason
from core.store import connect
from core.store.connect import Client
from core.store.leases import LEASE_SECONDS
from scripts import domain
from tests import commands
from tests.crawled_site import SID, add_site, crawl_context, item_id, text
from tests.site import Site, html
from tests.test_script_domain import start
from tests.web_replies import Exchange


def answer_after(site: Site, path: str, is_time: Callable[[], Awaitable[bool]]) -> list[bool]:
    """The page answers when something has come true; whether it has, or the asker had no more patience."""
    seen: list[bool] = []

    async def reply(exchange: Exchange) -> None:
        for _ in range(80):
            seen[:] = [await is_time()]
            if seen[0]:
                break
            await asyncio.sleep(0.05)
        await exchange.answer(200, {"Content-Type": "text/html"}, html("late", "Late.").encode())

    site.web.on(path, reply)
    return seen


async def test_what_was_read_is_stored_while_other_pages_are_awaited(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit comes by time as well as by count: a slow page keeps nobody else's text from the store."""
    monkeypatch.setattr(buffer, "COMMIT_SECONDS", 0.1)
    site.page("/", links=["/quick", "/slow"])
    site.page("/quick", "About weirs.")
    async with crawl_context(settings) as context:
        was_stored = answer_after(site, "/slow", lambda: _has_text(context, site.url("/quick")))
        await add_site(context, site.url("/"))
        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert was_stored == [True]
    assert run["visited"] == run["changed"] == "3"


async def _has_text(context, url: str) -> bool:
    return "About weirs." in await text(context, url)


async def test_living_run_beats_while_it_waits(settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for a slow page says so again and again; nobody takes it for interrupted."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.05)
    site.page("/", links=["/slow"])
    beats: set[float] = set()
    async with crawl_context(settings) as context:

        async def has_beaten() -> bool:
            runs = await RunStore(context.client, context.keys).newest(1, await connect.now(context.client))
            beats.add(runs[0].heartbeat_ts)
            return len(beats) > 2

        was_beating = answer_after(site, "/slow", has_beaten)
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert was_beating == [True]


async def test_living_run_keeps_its_hold(settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that a pass has picked stay its own for as long as it lives."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(crawl_progress, "HOLD_EVERY_SECONDS", 0.0)
    site.page("/", links=["/slow"])
    stamps: set[float] = set()
    async with crawl_context(settings) as context:

        async def is_renewed() -> bool:
            stamps.add(await context.client.zscore(context.keys.due(SID), item_id(site.url("/slow"))))
            return len(stamps) > 2

        was_renewed = answer_after(site, "/slow", is_renewed)
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert was_renewed == [True]


@pytest.fixture
async def half_read(settings: Settings, site: Site, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site whose root and first page answer, and all others never do."""
    commands.adopt(monkeypatch, settings)
    site.page("/", links=["/a", *(f"/slow{n}" for n in range(20))])
    site.page("/a", "About weirs.")
    for n in range(20):
        site.web.hang(f"/slow{n}")
    await domain.add(site.url(), "docs")
    return site


async def sid_of(redis: Client, keys: Keys) -> str:
    return str(next(iter(await redis.smembers(keys.sources))))


async def test_ctrl_c_keeps_what_was_read(settings: Settings, half_read: Site, redis: Client, keys: Keys) -> None:
    """What was decided is written at the stop, what was not is due at once, and the run says that it was stopped."""
    process = start(settings.model_copy(update={"fetch_timeout_seconds": 60}), "scripts.domain", "crawl", "docs")
    while "/slow3" not in half_read.web.paths or "/a" not in half_read.web.paths:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.to_thread(process.communicate, timeout=30)
    now, sid = await connect.now(redis), await sid_of(redis, keys)

    assert process.returncode == 130, err
    assert out.splitlines()[1].split()[1:4] == ["interrupted", "22", "2"]  # known and visited
    assert "About weirs." in (await redis.hget(keys.document(item_id(half_read.url("/a"))), "markdown") or "")
    slow = [await redis.zscore(keys.due(sid), item_id(half_read.url(f"/slow{n}"))) for n in range(20)]
    assert max(slow) <= now
    assert [key async for key in redis.scan_iter(keys.lease("*"))] == []
    assert (await RunStore(redis, keys).newest(1, now))[0].status == "interrupted"


async def test_killed_crawl_gives_its_pages_back_within_two_leases(
    settings: Settings, half_read: Site, redis: Client, keys: Keys
) -> None:
    """After a kill -9 everything that the run had picked is due again within two leases."""
    process = start(settings.model_copy(update={"fetch_timeout_seconds": 60}), "scripts.domain", "crawl", "docs")
    while "/slow3" not in half_read.web.paths:  # noqa: ASYNC110 - another process asks, nobody tells us
        await asyncio.sleep(0.05)
    process.kill()
    await asyncio.to_thread(process.communicate)
    now, sid = await connect.now(redis), await sid_of(redis, keys)

    slow = [await redis.zscore(keys.due(sid), item_id(half_read.url(f"/slow{n}"))) for n in range(20)]
    assert max(slow) <= now + 2 * LEASE_SECONDS


@pytest.mark.parametrize(
    ("pace", "done", "left", "spent", "said"),
    [
        (DomainPace(5.0), 4, 216, 20.0, "5 s between requests to this host, about 18 min left"),
        (DomainPace(5.0), 0, 3, 0.0, "5 s between requests to this host, about 15 s left"),
        (DomainPace(0.5), 10, 100, 60.0, "0.5 s between requests to this host, about 10 min left"),
        (
            DomainPace(5.0, 120.0, "Busy"),
            4,
            216,
            20.0,
            "the host asked us to wait (Busy), 2 min more",
        ),
        (DomainPace(0.0), 4, 216, 20.0, ""),
        (DomainPace(5.0), 4, 0, 20.0, ""),
        (None, 4, 216, 20.0, ""),
    ],
)
def test_reason_for_waiting(pace: DomainPace | None, done: int, left: int, spent: float, said: str) -> None:
    """People are told what is waited for and how long it will take; nothing where nobody waits."""
    assert waiting_reason(pace, done, left, spent) == said
