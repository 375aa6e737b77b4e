"""The throttle page: which domains requests wait for and why, whose 304 is false, and the pace of hosts."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from workers.web.dashboard.page_table import Done, PageTable
from workers.web.models import NoParameters, RequestModel
from workers.web.routes import pace, throttle
from workers.web.routes.pace import SetHostRequest
from workers.web.routing import Call

ROUTES = PageTable()


class PaceForm(RequestModel):
    """How quickly a host is asked; what is left empty is taken back."""

    host: str = Field(min_length=1, max_length=260)
    gap_seconds: float | None = Field(default=None, ge=0, le=86_400)
    parallel: int | None = Field(default=None, ge=1, le=1_000)


@ROUTES.page("/throttle", "Throttle", "throttle.html")
async def show_throttle(call: Call, _: NoParameters) -> dict[str, Any]:
    found = await throttle.show_throttle(call, NoParameters())
    options = (await pace.list_options(call, NoParameters())).options
    settings = call.settings
    return {
        "waiting": found.waiting,
        "closed": sum(1 for one in found.waiting if one.closed_until_ts),
        "in_line": sum(one.in_line for one in found.waiting),
        "robots": found.unreadable_robots,
        "untrusted": found.untrusted,
        "options": [one for one in options if one.gap_seconds is not None or one.parallel is not None],
        "default_gap": settings.fetch_host_gap_seconds,
        "default_parallel": settings.host_parallel,
    }


@ROUTES.action("/throttle/pace")
async def set_pace(call: Call, asked: PaceForm) -> Done:
    request = SetHostRequest(host=asked.host, gap_seconds=asked.gap_seconds, parallel=asked.parallel)
    now = await pace.set_host(call, request)
    at_once = f"{now.parallel} at once" if now.parallel else "any number at once"
    return Done(f"{now.host}: a gap of {now.gap_seconds:g} s, {at_once}. All processes keep to it within seconds.")
