"""Routes of pace: list what was set, and set the pace of a host."""

from __future__ import annotations

from dataclasses import asdict

from core.errors import FeedFileError
from core.feeds.io.feed_options import FeedOptions
from core.urls.pace import checked_host
from workers.web.models import NoParameters
from workers.web.pace_models import HostPaceAnswer, PaceOptionAnswer, PaceOptionsAnswer, SetHostRequest
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("feeds")


def _options(call: Call) -> FeedOptions:
    return FeedOptions(call.services.client, call.services.keys, call.services.settings)


@ROUTES.add("GET", "/api/pace", "Intervals, gaps and limits that were set for hosts, feeds and sources.")
async def list_options(call: Call, _: NoParameters) -> PaceOptionsAnswer:
    """List what was set for hosts, feeds and sources."""
    answers = [
        PaceOptionAnswer(
            scope=str(one.scope), name=one.name, origin=one.origin, hosts=list(one.hosts), **asdict(one.option)
        )
        for one in await _options(call).all()
    ]
    return PaceOptionsAnswer(options=answers)


@ROUTES.add(
    "PUT", "/api/pace/{host}", "Set the gap between requests to a host, and how many it gets at once.", fields_in="body"
)
async def set_host(call: Call, asked: SetHostRequest) -> HostPaceAnswer:
    """Set the gap of a host and how many requests at once it gets."""
    try:
        host = checked_host(asked.host)
    except ValueError as error:
        raise FeedFileError(f"{error}.") from None
    options, changes = _options(call), {name: getattr(asked, name) for name in asked.model_fields_set - {"host"}}
    await options.set_for_host(host, changes)
    pace = await options.pace_of(host)
    assert pace is not None  # checked_host has seen to that
    return HostPaceAnswer(
        host=host,
        gap_seconds=pace.gap_seconds,
        parallel=pace.parallel,
        set_for=str(pace.set_for) if pace.set_for else None,
        gate=pace.gate,
    )
