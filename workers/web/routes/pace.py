"""How quickly hosts are asked: what was set, and whom requests wait for now."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import Field

from core.errors import FeedFileError
from core.net.throttle_overview import ThrottleOverview, WaitingGate
from core.sources.io.host_trust import untrusted_hosts
from core.urls.pace import checked_host
from workers.web.models import AnswerModel, NoParameters, RequestModel
from workers.web.routes.feeds import feed_options
from workers.web.routing import Call, RouteTable, StoreCall


class SetHostRequest(RequestModel):
    """How quickly a host is asked; null takes back what was set."""

    host: str = Field(min_length=1, max_length=260, examples=["docs.example.org"])
    gap_seconds: float | None = None
    parallel: int | None = None


class HostPaceAnswer(AnswerModel):
    """What holds for a host."""

    host: str
    gap_seconds: float = Field(description="Between two requests; robots.txt may ask for more.")
    parallel: int | None = Field(description="Requests at once; null: no limit.")
    set_for: str | None = Field(description="host, feed or source; null: it is the gap of the settings.")
    gate: str = Field(description="Who shares this limit: `fetch:gate:<gate>`.")


class PaceOptionAnswer(AnswerModel):
    """An option that someone set."""

    scope: str = Field(description="host, feed or source.")
    name: str
    origin: str = Field(description="command, the path of a feed file, or the domain of the source.")
    interval_seconds: float | None
    gap_seconds: float | None
    parallel: int | None
    hosts: list[str] = Field(description="The hosts for which the gap of a feed or source holds.")


class PaceOptionsAnswer(AnswerModel):
    """All options."""

    options: list[PaceOptionAnswer]


ROUTES = RouteTable("feeds")


@ROUTES.add("GET", "/api/pace", "Intervals, gaps and limits that were set for hosts, feeds and sources.")
async def list_options(call: Call, _: NoParameters) -> PaceOptionsAnswer:
    """List what was set for hosts, feeds and sources."""
    stored = await feed_options(call).all()
    return PaceOptionsAnswer(options=[PaceOptionAnswer.copied(one, **asdict(one.option)) for one in stored])


@ROUTES.add(
    "PUT", "/api/pace/{host}", "Set the gap between requests to a host, and how many it gets at once.", fields_in="body"
)
async def set_host(call: Call, asked: SetHostRequest) -> HostPaceAnswer:
    """Set the gap of a host and how many requests at once it gets."""
    try:
        host = checked_host(asked.host)
    except ValueError as error:
        raise FeedFileError(f"{error}.") from None
    options, changes = feed_options(call), {name: getattr(asked, name) for name in asked.model_fields_set - {"host"}}
    await options.set_for_host(host, changes)
    pace = await options.pace_of(host)
    assert pace is not None  # checked_host has seen to that
    return HostPaceAnswer.copied(pace, host=host)


class WaitingGateAnswer(AnswerModel):
    """A registrable domain, or a host with a pace of its own, at which requests wait."""

    place: str
    closed_until_ts: float | None = Field(description="Until when a server asked us to stay away; null: none did.")
    reason: str
    asked_by: str = Field(description="The host that asked; its whole domain is left alone.")
    gap_seconds: float = Field(description="Between two requests, as it is now.")
    crawl_delay_seconds: float | None = Field(description="The gap that robots.txt asks for, where it is longer.")
    parallel: int | None
    in_line: int
    under_way: int
    last_ts: float | None
    until_ts: float | None = Field(description="When the wait ends.")


class UnreadableRobotsAnswer(AnswerModel):
    """An origin whose robots.txt cannot be read; nothing is fetched there meanwhile."""

    origin: str
    until_ts: float
    status: str
    problem: str


class UntrustedHostAnswer(AnswerModel):
    """A host that answered 304 for a page that had changed."""

    host: str
    false_304: int
    until_ts: float
    is_believed: bool


class ThrottleAnswer(AnswerModel):
    """What requests wait for, and hosts whose 304 is not believed."""

    waiting: list[WaitingGateAnswer]
    unreadable_robots: list[UnreadableRobotsAnswer]
    untrusted: list[UntrustedHostAnswer]


MOST = 200


@ROUTES.add(
    "GET",
    "/api/throttle",
    "Domains and hosts that we wait for and why, unreadable robots.txt, and hosts whose 304 is false.",
)
async def show_throttle(call: StoreCall, _: NoParameters) -> ThrottleAnswer:
    """Return what we wait for now."""
    now = await call.now()
    store = ThrottleOverview(call.client, call.keys, call.context.paces)
    return ThrottleAnswer(
        waiting=[_gate(one) for one in await store.waiting(now, MOST)],
        unreadable_robots=[UnreadableRobotsAnswer.copied(one) for one in await store.unreadable_robots(now, MOST)],
        untrusted=[
            UntrustedHostAnswer.copied(one, is_believed=one.until_ts <= now)
            for one in await untrusted_hosts(call.client, call.keys, MOST)
        ],
    )


def _gate(one: WaitingGate) -> WaitingGateAnswer:
    return WaitingGateAnswer.copied(
        one,
        closed_until_ts=one.closed_until_ts or None,
        crawl_delay_seconds=one.gap_seconds if one.gap_seconds > one.set_gap_seconds else None,
        last_ts=one.last_ts or None,
        until_ts=one.until_ts or None,
    )
