"""The first page: the pipeline at a glance."""

from __future__ import annotations

from typing import Any

from workers.web.dashboard.pages import page
from workers.web.models import NoParameters
from workers.web.routing import Call


async def show_overview(call: Call, _: NoParameters) -> dict[str, Any]:
    """Show what is there and what is going on."""
    return {"metrics": await call.services.monitor.metrics()}


ROUTES = (page("/", "Overview", "overview.html", show_overview, NoParameters),)
