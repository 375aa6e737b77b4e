"""The diagram of the pipeline: stages with what they hold, arrows with what passes between them."""

from __future__ import annotations

from collections.abc import Iterator

from core.registry import metric_history
from core.registry.metric_history import VISITS, Increase
from core.registry.record import Status
from core.runtime.pipeline_monitor import PipelineState
from core.value_class import value_class

ALMOST_AN_HOUR = 3_500.0
Counted = tuple[int, str]


@value_class
class FlowStation:
    """A place where things are, and the arrow that leads on from it."""

    name: str
    count: int
    note: str = ""
    path: str = ""
    """Its page; empty: it has none."""
    passed: Counted | None = None
    """What went on from here to the next station; None: this is the last."""
    also: str = ""


@value_class
class Flow:
    """All stations in order."""

    stations: tuple[FlowStation, ...]
    period: str
    """The time that the arrows are about."""


def flow_of(state: PipelineState) -> Flow:
    grown = metric_history.increase(state.history.entries, state.now)
    return Flow(tuple(_stations(state, grown)), _period(grown.seconds))


def _stations(state: PipelineState, grown: Increase) -> Iterator[FlowStation]:
    metrics, backlog, counts = state.metrics, state.metrics.backlog, grown.counts
    visits, failed = sum(counts[name] for name in VISITS), counts["links_failed"]
    feeds = _first((metrics.broken_feeds, "broken"), (backlog.feeds_due, "due now"))
    polled = f"{counts['polled']:,} polls"
    yield FlowStation("Feeds", metrics.feeds, feeds, "/feeds", (counts["links_new"], "new links"), polled)
    stored = (counts["stored"], "stored")
    yield FlowStation("Links", state.links, "listed now", "", stored, _first((failed, "failed")))
    visited = (visits, "visits")
    yield FlowStation("Articles", metrics.articles, "", "/articles", visited, _first((counts["changed"], "changed")))
    sources = sum("." in sid for sid in backlog.due)
    items = _first((backlog.due_items, "due now"), (sources, "source" if sources == 1 else "sources"))
    written = (counts["written_chunks"], "written")
    yield FlowStation("Items", sum(metrics.items.values()), items, "/domains", written)
    indexed = (counts["indexed_pages"], "pages indexed")
    yield FlowStation("Chunks", metrics.chunks, "", "", indexed, _first((backlog.embed_waiting, "waiting")))
    yield FlowStation("Search", metrics.items[Status.INDEXED], "indexed", "/articles")


def _first(*counted: Counted) -> str:
    return next((f"{count:,} {word}" for count, word in counted if count), "")


def _period(seconds: float | None) -> str:
    if seconds is None:
        return "since the beginning"
    return "in the last hour" if seconds >= ALMOST_AN_HOUR else f"in the last {max(round(seconds / 60), 1)} min"
