"""Health of the deployment, and its metrics for Prometheus."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from core.errors import StoreUnreachable
from core.runtime import health_report, metrics
from core.runtime.health_report import HealthReport, HealthStatus
from workers.web.models import NoParameters, shown
from workers.web.routing import JSON, Call, RouteTable, encoded

TEXT = "text/plain"
shown(HealthReport, "HealthAnswer")
ROUTES = RouteTable("operation")


@ROUTES.add("GET", "/health", answer=HealthReport, statuses=(200, 503), is_public=True)
async def show_health(call: Call, _: NoParameters) -> web.Response:
    """Whether the store, the processes and the workers are there, and how late they are.

    200 while work is done; 503 when Redis does not answer, or what is due is 15 minutes late and nobody is alive
    who could do it. Needs no token, and names no host, URL or item.
    """
    try:
        report = await call.services.monitor.health()
    except StoreUnreachable:  # not opened yet; its sentence names the server
        report = health_report.unreachable("Redis does not answer.")
    status = 503 if report.status is HealthStatus.DOWN else 200
    return web.Response(status=status, body=encoded(report), content_type=JSON)


@ROUTES.add("GET", "/metrics", other_types=(TEXT,))
async def show_metrics(call: Call, _: NoParameters) -> web.Response:
    """Metrics in the text format of Prometheus."""
    values = await call.services.monitor.metrics()
    return web.Response(body=metrics.exposition(values), headers={"Content-Type": CONTENT_TYPE_LATEST})
