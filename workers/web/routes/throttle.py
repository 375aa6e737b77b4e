"""The throttle route: closed domains, queues at gates, unreadable robots.txt, and hosts whose 304 is not believed."""

from __future__ import annotations

from pydantic import Field

from core.net.throttle_overview import ThrottleOverview, UnreadableRobots, WaitingGate
from core.sources.io.host_trust import untrusted_hosts
from workers.web.models import AnswerModel, NoParameters
from workers.web.routing import RouteTable, StoreCall

ROUTES = RouteTable("feeds")


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


class UntrustedHostAnswer(AnswerModel):
    """A host that answered 304 for a page that had changed."""

    host: str
    false_304: int
    until_ts: float
    is_believed: bool


class ThrottleAnswer(AnswerModel):
    """What requests wait for, and hosts whose 304 is not believed."""

    waiting: list[WaitingGateAnswer]
    unreadable_robots: list[UnreadableRobots]
    untrusted: list[UntrustedHostAnswer]


MOST = 200


@ROUTES.add("GET", "/api/throttle")
async def show_throttle(call: StoreCall, _: NoParameters) -> ThrottleAnswer:
    """Domains and hosts that we wait for and why, unreadable robots.txt, and hosts whose 304 is false."""
    now = await call.now()
    store = ThrottleOverview(call.client, call.keys, call.context.paces)
    return ThrottleAnswer(
        waiting=[_gate(one) for one in await store.waiting(now, MOST)],
        unreadable_robots=await store.unreadable_robots(now, MOST),
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
