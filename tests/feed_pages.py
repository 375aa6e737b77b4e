"""A dashboard that may fetch from loopback, and a store with feeds of every health."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core import ids
from core.feeds.daily_counts import counted
from core.feeds.feed_health import summary_of
from core.feeds.feed_state import FeedState, FeedStatus, to_hash
from core.feeds.io.feed_options import FeedOptions
from core.net.rate_limit import Gate
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.urls.pace import HostPace
from tests.api import ApiServer, api_server
from tests.form_client import FormClient

DAY = 86_400.0
HOSTILE = '<script>alert(1)</script> "quoted" \udc80'
LOOPBACK = ("127.0.0.0/8",)
GONE = "410 Gone: the publisher retired this feed. Remove it, or add it again to try once more."


@contextlib.asynccontextmanager
async def feed_server(settings: Settings) -> AsyncIterator[ApiServer]:
    """A dashboard whose fetcher may ask loopback."""
    async with api_server(settings.model_copy(update={"fetch_allowed_hosts": LOOPBACK})) as running:
        yield running


async def put_feed(api: ApiServer, category: str, state: FeedState, *, with_summary: bool = True) -> str:
    """Store a feed as a poll leaves it; return its id."""
    services, fid = api.opener.require(), ids.feed_id(state.url)
    await services.context.subscriptions.add(category, state.url)
    await services.client.hset(services.keys.feed(fid), mapping=to_hash(state, [category]))
    if with_summary:
        await services.client.hset(services.keys.feed_summaries, fid, summary_of(state))
    return fid


async def put_waits(api: ApiServer) -> None:
    """Store a closed domain, a line of requests, an unreadable robots.txt and a host that lies about 304."""
    services = api.opener.require()
    client, keys, now = services.client, services.keys, await connect.now(services.client)
    gate = Gate(client, keys)
    await gate.close_for("example.org", 5_400, "Retry-After (429)", "www.example.org")
    for token in ("t1", "t2", "t3", "t4"):
        await gate.enter(HostPace("news.example.net", "news.example.net", 5.0, 2).with_crawl_delay(10.0), token, 600)
    await client.zadd(keys.robots_unreadable, {"https://mill.example.com": now + 400})
    await client.hset(keys.robots("https://mill.example.com"), mapping={"policy": "wait", "status": "503"})
    await services.context.leases.run(services.context.sources.distrust("liar.example.org", now + 20 * DAY))
    options = FeedOptions(client, keys, services.settings)
    await options.set_for_host("docs.example.org", {"gap_seconds": 0.0, "parallel": 8})


async def put_every_health(api: ApiServer) -> dict[str, str]:
    """Store a feed of every health; return their ids by health."""
    now = await connect.now(api.opener.require().client)
    news = FeedState(
        "https://www.harbour.example.org/rss.xml",
        status=FeedStatus.OK,
        title="The Harbour Courier",
        kind="rss",
        last_poll_ts=now - 240,
        next_poll_ts=now + 660,
        next_poll_reason="interval 900 s",
        last_status=200,
        last_new_ts=now - 1800,
        entries=40,
        polls=320,
        polls_304=205,
        links_found=4_000,
        links_duplicate=3_640,
    )
    for back in range(13, -1, -1):
        news = replace(news, new_per_day=counted(news.new_per_day, now - back * DAY, (back * 7) % 11))
    quiet = replace(news, url="https://lockkeepers.example.net/feed", title="", last_status=304)
    broken = replace(news, url="https://mill.example.com/atom.xml", title=HOSTILE, status=FeedStatus.ERROR)
    gone = replace(news, url="https://old.example.com/feed", title="The Old Post", status=FeedStatus.GONE)
    states = {
        "working": news,
        "silent": replace(quiet, last_new_ts=now - 12.25 * DAY, new_per_day=()),
        "broken": replace(
            broken, error_text="HTTP 503: the server is overloaded.", next_poll_reason="Retry-After (503)"
        ),
        "gone": replace(gone, error_text=GONE, next_poll_ts=float("inf"), next_poll_reason="retired by 410"),
        "new": FeedState("https://tomorrow.example.org/rss"),
    }
    return {health: await put_feed(api, "world", state) for health, state in states.items()}


@pytest.fixture
async def pages(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """A dashboard whose fetcher may ask loopback."""
    async with feed_server(settings) as running:
        yield running


@pytest.fixture
async def person(pages: ApiServer) -> AsyncIterator[FormClient]:
    """Someone at the dashboard."""
    async with FormClient(pages) as client:
        yield client
