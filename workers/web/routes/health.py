"""Health of the deployment, and its metrics for Prometheus."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from core.errors import StoreUnreachable
from core.runtime import health, metrics
from core.runtime.health import HealthReport, HealthStatus
from core.settings import VERSION
from workers.web.models import AnswerModel, NoParameters
from workers.web.routing import JSON, Call, RouteTable

TEXT = "text/plain"
ROUTES = RouteTable("operation")


class HealthAnswer(AnswerModel):
    """How the deployment is."""

    status: HealthStatus = Field(description="ok; degraded: something is missing; down: nothing works, or work is late")
    version: str
    problems: list[str] = Field(description="A sentence each.")
    server: bool = Field(description="Whether Redis answers.")
    workers: dict[str, int] = Field(description="Live workers by queue.", examples=[{"refresh": 1}])
    workers_alive: int
    processes: dict[str, bool] = Field(description="Whether they have a heartbeat.", examples=[{"timer": True}])
    lag_seconds: float = Field(description="How long the oldest due item or feed has been overdue.")
    due_items: int
    feeds_due: int
    embed_waiting: int
    paused_kinds: list[str] = Field(description="Kinds of runs that are paused as a whole.", examples=[["ingest"]])
    paused_scopes: int = Field(description="How much is paused: kinds, domains and sources.")


@ROUTES.add("GET", "/health", answer=HealthAnswer, statuses=(200, 503), is_public=True)
async def show_health(call: Call, _: NoParameters) -> web.Response:
    """Whether the store, the processes and the workers are there, and how late they are.

    200 while work is done; 503 when Redis does not answer, or what is due is 15 minutes late and nobody is alive
    who could do it. Needs no token, and names no host, URL or item.
    """
    try:
        report = await call.services.monitor.health()
    except StoreUnreachable:  # not opened yet; its sentence names the server
        report = health.unreachable("Redis does not answer.")
    status = 503 if report.status is HealthStatus.DOWN else 200
    return web.Response(status=status, body=_answer(report).model_dump_json().encode(), content_type=JSON)


def _answer(report: HealthReport) -> HealthAnswer:
    return HealthAnswer(
        version=VERSION,
        **{**asdict(report), "problems": list(report.problems), "paused_kinds": list(report.paused_kinds)},
    )


@ROUTES.add("GET", "/metrics", other_types=(TEXT,))
async def show_metrics(call: Call, _: NoParameters) -> web.Response:
    """Metrics in the text format of Prometheus."""
    values = await call.services.monitor.metrics()
    return web.Response(body=metrics.exposition(values), headers={"Content-Type": CONTENT_TYPE_LATEST})
