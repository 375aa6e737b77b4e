"""Everything a feed worker needs, opened together and closed together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core import polling, schedule
from core.console import log as console
from core.keys import Keys
from core.net.fetcher import Fetcher, open_fetcher
from core.parsing.pool import ParsePool
from core.settings import Settings
from core.sources import sample
from core.sources.rss import FeedSource
from core.stores import connect, version
from core.stores.feeds import FeedStore
from core.stores.links import LinkStore, Lives
from core.stores.roster import Roster
from core.stores.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class Tools:
    """What reaches out of this process: the guarded fetcher and the parse children."""

    fetcher: Fetcher
    pool: ParsePool


@asynccontextmanager
async def open_tools(settings: Settings, client: connect.Client, keys: Keys) -> AsyncIterator[Tools]:
    """Open both; children start with the first task."""
    pool = ParsePool(settings.parse_processes, settings.parse_cpu_seconds, settings.parse_memory_bytes)
    async with open_fetcher(sample.admitted(settings), client, keys, exempt=sample.hosts(settings)) as fetcher, pool:
        yield Tools(fetcher, pool)


@dataclass(frozen=True, slots=True)
class Desk:
    """The stores, the fetcher and the parse pool of one process."""

    settings: Settings
    keys: Keys
    client: connect.Client
    subscriptions: Subscriptions
    roster: Roster
    links: LinkStore
    feeds: FeedStore
    source: FeedSource
    policy: polling.Policy


@asynccontextmanager
async def open_desk(settings: Settings) -> AsyncIterator[Desk]:
    """Wait for the server, check it, open everything; close it all at the end."""
    console.set_up(settings)
    keys = Keys(settings.key_prefix)
    client = connect.open_store(settings)
    try:
        await connect.wait(client, settings)
        await connect.warn(client)
        await version.check(client, keys)
        async with open_tools(settings, client, keys) as tools:
            yield _furnish(settings, keys, client, tools)
    finally:
        await client.aclose()


def _furnish(settings: Settings, keys: Keys, client: connect.Client, tools: Tools) -> Desk:
    subscriptions = Subscriptions(client, keys)
    links = LinkStore(client, keys, Lives.of(settings))
    bounds = schedule.Bounds(settings.ingest_min_interval_seconds, settings.ingest_max_interval_seconds)
    return Desk(
        settings=settings,
        keys=keys,
        client=client,
        subscriptions=subscriptions,
        roster=Roster(client, subscriptions, links, settings),
        links=links,
        feeds=FeedStore(client, keys, links),
        source=FeedSource(
            tools.fetcher,
            tools.pool,
            settings.tracking_param_prefixes,
            sample.admitted(settings).fetch_allowed_hosts,
        ),
        policy=polling.Policy(bounds),
    )
