"""The values measured of a deployment: read by `store_monitor`, shown by `metrics`, recorded by `history_recorder`."""

from __future__ import annotations

from collections.abc import Mapping

from core.outputs.io.webhook_totals import WebhookTotals
from core.registry.freshness import Freshness
from core.registry.io.backlog import Backlog
from core.runtime.queue_monitor import QueueState
from core.value_class import value_class


@value_class
class MetricValues:
    """What a scrape reads from the store."""

    now_ts: float
    items: Mapping[str, int]
    articles: int
    feeds: int
    broken_feeds: int
    """Feeds whose last poll failed, or that were retired."""
    chunks: int
    events: int
    last_event_ts: float
    fetches: Mapping[str, int]
    links: Mapping[str, int]
    polls: Mapping[str, int]
    ingested: Mapping[str, int]
    """`polled` feeds and `links_new`, since the beginning."""
    indexed: Mapping[str, int]
    """`pages` and chunks (`written`) that search was given since the beginning."""
    open_runs: int
    source_success_ts: Mapping[str, float]
    backlog: Backlog
    freshness: Freshness
    webhooks: WebhookTotals
    queues: QueueState
    process_beats: Mapping[str, float]
