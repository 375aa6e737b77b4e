"""Read what the overview shows: current counts and runs, what needs attention, and the last day.

Reads counters, sizes and the first few of lists, never a whole key space.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.feeds.io.broken_feeds import BrokenFeed, BrokenFeeds
from core.feeds.io.subscriptions import SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook, WebhookStatus
from core.registry.io.metric_history_store import HistoryStore
from core.registry.metric_history import HistoryEntry, RecentHistory
from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run
from core.runtime import health_report
from core.runtime.health_report import HealthReport, Needs
from core.runtime.history_recorder import history_values
from core.runtime.store_monitor import MetricValues, StoreMonitor
from core.sources.io.source_store import SourceNotice, SourceStore
from core.store import redis_health
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

HISTORY_SECONDS = 86_400.0
DANGER_SECONDS = 60.0
"""How long the server's configuration is taken to be as it was."""
MOST_FEEDS = 5
MOST_WEBHOOKS = 5
MOST_RUNS = 10


@value_class
class PipelineState:
    """The deployment at one moment."""

    now: HistoryEntry
    """The values that the history has of each minute."""
    metrics: MetricValues
    health: HealthReport
    links: int
    """Links in all categories together."""
    runs: Sequence[Run]
    """The first few of those that have not ended."""
    newest_broken: Sequence[BrokenFeed]
    notices: Sequence[SourceNotice]
    has_webhooks: bool
    disabled_webhooks: Sequence[Webhook]
    """The first few."""
    dangers: Sequence[str]
    """Sentences about a server that can lose data, or cannot tell that it did."""
    has_sample: bool
    history: RecentHistory
    """Of a day."""


class PipelineMonitor:
    def __init__(self, monitor: StoreMonitor, client: Client, keys: Keys) -> None:
        self._monitor = monitor
        self._client = client
        self._keys = keys
        self._history = HistoryStore(client, keys)
        self._broken = BrokenFeeds(client, keys)
        self._subscriptions = Subscriptions(client, keys)
        self._runs = RunList(client, keys)
        self._sources = SourceStore(client, keys)
        self._webhooks = WebhookStore(client, keys)
        self._dangers: list[str] = []
        self._asked_at = -DANGER_SECONDS

    async def read(self) -> PipelineState:
        metrics = await self._monitor.metrics()
        now, backlog = metrics.now_ts, metrics.backlog
        webhooks = metrics.webhooks
        needs = Needs(metrics.feeds > 0, webhooks.webhooks > 0)
        categories = await self._subscriptions.categories()
        links = await read_many(self._client, [("SCARD", self._keys.category_links(name)) for name in categories])
        return PipelineState(
            now=HistoryEntry(now, history_values(metrics)),
            metrics=metrics,
            health=health_report.judge(backlog, metrics.queues, metrics.process_beats, needs, now),
            links=sum(links),
            runs=(await self._runs.open(RunFilter(), now))[:MOST_RUNS] if metrics.open_runs else (),
            newest_broken=await self._broken.newest(MOST_FEEDS) if metrics.broken_feeds else (),
            notices=await self._sources.notices([sid for sid in backlog.due if "." in sid]),
            has_webhooks=webhooks.webhooks > 0,
            disabled_webhooks=await self._disabled() if webhooks.by_status[WebhookStatus.DISABLED] else (),
            dangers=await self._server_dangers(),
            has_sample=any(name.startswith(SAMPLE_PREFIX) for name in categories),
            history=await self._history.read(now - HISTORY_SECONDS),
        )

    async def _disabled(self) -> list[Webhook]:
        """Return the first few webhooks whose receivers want nothing any more; of the others only a word is read."""
        webhook_ids = list(await self._webhooks.changes())
        commands = [("HGET", self._keys.webhook(name), "status") for name in webhook_ids]
        statuses = await read_many(self._client, commands)
        pairs = zip(webhook_ids, statuses, strict=True)
        disabled = [name for name, status in pairs if status == WebhookStatus.DISABLED]
        return await self._webhooks.read_all(disabled[:MOST_WEBHOOKS]) if disabled else []

    async def _server_dangers(self) -> list[str]:
        """Return what is dangerous about the server, asked once a minute: its whole INFO is long."""
        if time.monotonic() - self._asked_at >= DANGER_SECONDS:
            self._dangers = await redis_health.dangers(self._client)
            self._asked_at = time.monotonic()
        return self._dangers
