"""The context: everything that a process works with, opened together and closed together.

Start reading here. Workers run inside `async with open_context(settings) as context`, or `build_context` on a client
that is open already, and pass the context on to the code that does the work. Each attribute is one store or tool; its
class says what it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from core import schedule
from core.feeds.io import sample
from core.feeds.io.feed_fetcher import FeedFetcher
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.io.subscribed_feeds import SubscribedFeeds
from core.feeds.io.subscription_sync import SubscriptionSync
from core.feeds.io.subscriptions import Subscriptions
from core.feeds.poll_decision import PollingPolicy
from core.keys import Keys
from core.net.fetcher import Fetcher
from core.net.pace_store import PaceStore
from core.registry import decide
from core.registry.io.article_store import ArticleStore
from core.registry.io.document_store import DocumentStore
from core.registry.io.due import DueItems
from core.registry.io.item_store import ItemStore
from core.registry.io.registrar import Registrar
from core.runs.io.run_store import RunStore
from core.runs.io.state_saver import StateSaver
from core.runtime import garbage, logs
from core.runtime.parse_pool import ParsePool
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.store import connect, redis_health
from core.store.leases import Leases
from core.value_class import value_class


@value_class
class Context:
    """The stores, the fetcher and the parse pool of one process."""

    settings: Settings
    keys: Keys
    client: connect.Client
    leases: Leases
    subscriptions: Subscriptions
    subscription_sync: SubscriptionSync
    subscribed_feeds: SubscribedFeeds
    links: LinkStore
    feeds: FeedStore
    articles: ArticleStore
    items: ItemStore
    documents: DocumentStore
    registrar: Registrar
    sources: SourceStore
    source_items: SourceItems
    due: DueItems
    runs: RunStore
    state_saver: StateSaver
    paces: PaceStore
    fetcher: Fetcher
    pool: ParsePool
    body_slots: asyncio.Semaphore
    """How many pages may be in memory at once."""
    feed_fetcher: FeedFetcher
    polling_policy: PollingPolicy
    recheck_policy: decide.RecheckPolicy


@asynccontextmanager
async def open_context(settings: Settings, *, once: bool = False) -> AsyncIterator[Context]:
    """Wait for the server (for ever, or `once` for a while), check it, and yield the context of this process."""
    garbage.settle()
    logs.configure(settings)
    async with (
        redis_health.open_when_ready(settings, once=once, should_warn=True) as (client, keys),
        build_context(settings, client, keys) as context,
    ):
        yield context


@asynccontextmanager
async def build_context(settings: Settings, client: connect.Client, keys: Keys) -> AsyncIterator[Context]:
    """Yield a context on an open client; its parse children start with the first task."""
    pool = ParsePool(settings.parse_processes, settings.parse_cpu_seconds, settings.parse_memory_bytes)
    sample_hosts = sample.hosts(settings)
    allowed_hosts = (*settings.fetch_allowed_hosts, *sample_hosts)
    fetch_settings = settings.model_copy(update={"fetch_allowed_hosts": allowed_hosts})
    leases = Leases(client, keys)
    paces = PaceStore(client, keys, settings)
    fetching = Fetcher(fetch_settings, client, keys, exempt=sample_hosts, paces=paces, token_prefix=leases.prefix)
    async with fetching as fetcher, pool, leases.keep_alive():
        ttls = Ttls.of(settings)
        subscriptions = Subscriptions(client, keys)
        links, feeds = LinkStore(client, keys, ttls), FeedStore(client, keys, ttls, leases)
        state_saver = StateSaver(settings, client, keys)
        bounds = schedule.Bounds(settings.ingest_min_interval_seconds, settings.ingest_max_interval_seconds)
        yield Context(
            settings=settings,
            keys=keys,
            client=client,
            leases=leases,
            subscriptions=subscriptions,
            subscription_sync=SubscriptionSync(client, subscriptions, settings),
            subscribed_feeds=SubscribedFeeds(client, keys, subscriptions, feeds),
            links=links,
            feeds=feeds,
            articles=ArticleStore(client, keys, ttls),
            items=ItemStore(client, keys),
            documents=DocumentStore(client, keys, ttls, settings.snapshot_days, settings.registry_partition_strategy),
            registrar=Registrar(
                client,
                keys,
                settings.registry_partition_strategy,
                settings.tracking_param_prefixes,
                partial(read_permission.sign_file, settings),
            ),
            sources=SourceStore(client, keys),
            source_items=SourceItems(client, keys),
            due=DueItems(client, keys),
            runs=RunStore(client, keys, state_saver.save_step),
            state_saver=state_saver,
            paces=paces,
            fetcher=fetcher,
            pool=pool,
            body_slots=asyncio.Semaphore(settings.fetch_concurrency),
            feed_fetcher=FeedFetcher(fetcher, pool, settings.tracking_param_prefixes, allowed_hosts),
            polling_policy=PollingPolicy(bounds, min(PollingPolicy().renew_seconds, ttls.link / 4)),
            recheck_policy=decide.RecheckPolicy(
                base_seconds=settings.crawl_base_interval_seconds,
                max_seconds=settings.crawl_max_interval_seconds,
                error_base_seconds=settings.crawl_error_backoff_base,
                gone_after_checks=settings.gone_after_checks,
            ),
        )
