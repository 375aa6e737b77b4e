"""Prometheus metrics of the deployment, by a collector of our own on a registry of our own.

Labels are bounded: statuses, outcomes, queues, processes, quantiles, and the ids of at most 200 sources; never a URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from core.registry import field_parsing
from core.runtime.store_monitor import MetricValues
from core.settings import VERSION

MOST_SOURCES = 200
"""Sources with a label of their own, the first by name; `freshet_sources` counts all of them."""


def exposition(values: MetricValues) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(values))
    return generate_latest(registry)


class StoreCollector(Collector):
    def __init__(self, values: MetricValues) -> None:
        self._values = values

    def describe(self) -> list[Metric]:
        """Describe nothing beforehand: the registry lives for one scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield _labelled("freshet_build_info", "The version that answers; always 1.", "version", {VERSION: 1})
        yield from self._store()
        yield from self._backlog()
        yield from self._webhooks()
        yield from self._counters()
        yield from self._processes()

    def _store(self) -> Iterator[Metric]:
        values = self._values
        yield _labelled("freshet_items", "Items of the registry by status.", "status", values.items)
        yield GaugeMetricFamily("freshet_articles", "Articles that feeds listed.", values.articles)
        yield GaugeMetricFamily("freshet_feeds", "Feeds that are polled.", values.feeds)
        yield GaugeMetricFamily("freshet_broken_feeds", "Feeds whose last poll failed.", values.broken_feeds)
        yield GaugeMetricFamily("freshet_chunks", "Chunks that search has.", values.chunks)
        yield GaugeMetricFamily("freshet_events", "Events that the stream holds; old ones are trimmed.", values.events)
        yield GaugeMetricFamily(
            "freshet_last_event_timestamp_seconds", "When something last happened.", values.last_event_ts
        )
        age = GaugeMetricFamily(
            "freshet_freshness_age_seconds",
            "Time since the text of an item was last proved to be current, by quantile of a sample of items.",
            labels=["quantile"],
        )
        for quantile, seconds in values.freshness.age_seconds.items():
            age.add_metric([f"{quantile:g}"], seconds)
        yield age
        yield GaugeMetricFamily("freshet_freshness_sampled_items", "Size of that sample.", values.freshness.sampled)
        yield GaugeMetricFamily("freshet_sources", "Sources; `rss` and `urls` too.", len(values.backlog.due))
        first = dict(sorted(values.source_success_ts.items())[:MOST_SOURCES])
        yield _labelled(
            "freshet_source_last_success_timestamp_seconds",
            f"When a pass over a source last succeeded; the first {MOST_SOURCES} by name.",
            "source",
            first,
        )

    def _backlog(self) -> Iterator[Metric]:
        backlog = self._values.backlog
        for name, text, value in (
            ("freshet_due_items", "Items that are due.", backlog.due_items),
            ("freshet_due_lag_seconds", "How long the oldest due item is overdue.", backlog.lag_seconds),
            ("freshet_due_feeds", "Feeds that are due.", backlog.feeds_due),
            ("freshet_feed_lag_seconds", "How long the oldest due feed is overdue.", backlog.feed_lag_seconds),
            ("freshet_embed_waiting_items", "Items whose text has no vectors yet.", backlog.embed_waiting),
            ("freshet_embed_lag_seconds", "How long the oldest of them has waited.", backlog.embed_lag_seconds),
            ("freshet_open_runs", "Runs that have not ended.", self._values.open_runs),
            ("freshet_paused_scopes", "Sources, domains and loops that are paused.", len(backlog.paused)),
        ):
            yield GaugeMetricFamily(name, text, value)

    def _webhooks(self) -> Iterator[Metric]:
        totals = self._values.webhooks
        yield _labelled("freshet_webhooks", "Webhooks by status.", "status", totals.by_status)
        for name, text, value in (
            ("freshet_failing_webhooks", "Webhooks whose last attempt failed.", totals.failing),
            ("freshet_webhook_waiting_events", "Events that wait for their delivery.", totals.waiting),
            ("freshet_webhook_dead_letters", "Events that were given up and can be replayed.", totals.dead),
            ("freshet_webhook_lost_events", "Events that were gone before they could be queued.", totals.lost_events),
        ):
            yield GaugeMetricFamily(name, text, value)

    def _counters(self) -> Iterator[Metric]:
        values = self._values
        for name, text, counts in (
            ("freshet_fetches", "Visits of items by outcome.", values.fetches),
            ("freshet_links", "Links of feeds by what became of them.", values.links),
            ("freshet_feed_polls", "Polls of feeds by outcome.", values.polls),
        ):
            counter = CounterMetricFamily(name, text, labels=["outcome"])
            for outcome, count in counts.items():
                counter.add_metric([outcome], count)
            yield counter
        for name, text, count in (
            ("freshet_new_links", "Links that no feed had listed before.", values.ingested["links_new"]),
            ("freshet_indexed_pages", "Pages that search was given.", values.indexed["pages"]),
            ("freshet_written_chunks", "Chunks that search was given.", values.indexed["written"]),
        ):
            yield CounterMetricFamily(name, text, count)

    def _processes(self) -> Iterator[Metric]:
        queues = self._values.queues
        yield _labelled("freshet_queue_items", "Jobs that wait, by queue.", "queue", queues.waiting)
        yield _labelled("freshet_queue_workers", "Live workers, by queue.", "queue", queues.workers)
        yield GaugeMetricFamily("freshet_workers", "Live workers.", len(queues.live))
        yield _labelled(
            "freshet_process_heartbeat_timestamp_seconds",
            "The last heartbeat of a process.",
            "process",
            self._values.process_beats,
        )


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([field_parsing.text(key)], value)
    return family
