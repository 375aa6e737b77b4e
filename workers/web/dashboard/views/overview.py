"""The first page: the pipeline at a glance, live.

What it shows is counted in `core.runtime.pipeline_monitor`; `flow` makes its stations, `attention` its warnings.
"""

from __future__ import annotations

from typing import Any

from core.runtime.pipeline_monitor import PipelineState
from core.runtime.process_beats import ALIVE_SECONDS, INGESTOR, TIMER, WEB, WEBHOOKS
from core.search.io.embed_queue import EmbedQueue
from workers.web.dashboard import charts
from workers.web.dashboard.attention import attention_of
from workers.web.dashboard.flow import flow_of
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.models import NoParameters
from workers.web.routing import Call

ROUTES = PageTable()


@ROUTES.page("/", "Overview", "overview.html")
async def show_overview(call: Call, _: NoParameters) -> dict[str, Any]:
    state = await call.services.pipeline.read()
    return {
        "state": state,
        "metrics": state.metrics,
        "backlog": state.metrics.backlog,
        "attention": attention_of(state),
        "flow": flow_of(state),
        "charts": charts.day_charts(state.history),
        "ages": state.metrics.freshness.age_seconds,
        "processes": _processes(state),
        "is_empty": _is_empty(state),
    }


def _processes(state: PipelineState) -> list[tuple[str, float, bool]]:
    """Return name, last heartbeat and whether it is alive, of those that should run."""
    beats = state.metrics.process_beats
    names = (INGESTOR, TIMER, WEB, *((WEBHOOKS,) if state.has_webhooks else ()))
    return [(name, beats.get(name, 0.0), state.now.ts - beats.get(name, 0.0) < ALIVE_SECONDS) for name in names]


def _is_empty(state: PipelineState) -> bool:
    metrics = state.metrics
    return not (metrics.feeds or metrics.articles or any("." in sid for sid in metrics.backlog.due))


@ROUTES.action("/embed/resume")
async def resume_embedding(call: Call, _: NoParameters) -> Done:
    """Send texts to the embedder again, without waiting for the end of its pause."""
    await EmbedQueue(call.client, call.keys).resume()
    return Done("Embedding is tried again with the timer's next round.")
