"""The throttle route: closed domains, queues at gates, unreadable robots.txt, and hosts whose 304 is not believed."""

from __future__ import annotations

from core.net.throttle_overview import ThrottleOverview, WaitingGate
from core.sources.io.host_trust import untrusted_hosts
from core.store import connect
from workers.web.models import NoParameters
from workers.web.routing import RouteTable, StoreCall
from workers.web.throttle_models import (
    ThrottleAnswer,
    UnreadableRobotsAnswer,
    UntrustedHostAnswer,
    WaitingGateAnswer,
)

MOST = 200
ROUTES = RouteTable("feeds")


@ROUTES.add(
    "GET",
    "/api/throttle",
    "Domains and hosts that we wait for and why, unreadable robots.txt, and hosts whose 304 is false.",
)
async def show_throttle(call: StoreCall, _: NoParameters) -> ThrottleAnswer:
    """Return what we wait for now."""
    services = call.services
    client, keys = services.client, services.keys
    now = await connect.now(client)
    store = ThrottleOverview(client, keys, services.context.paces)
    return ThrottleAnswer(
        waiting=[_gate(one) for one in await store.waiting(now, MOST)],
        unreadable_robots=[
            UnreadableRobotsAnswer(origin=one.origin, until_ts=one.until_ts, status=one.status, problem=one.problem)
            for one in await store.unreadable_robots(now, MOST)
        ],
        untrusted=[
            UntrustedHostAnswer(
                host=one.host, false_304=one.false_304, until_ts=one.until_ts, is_believed=one.until_ts <= now
            )
            for one in await untrusted_hosts(client, keys, MOST)
        ],
    )


def _gate(one: WaitingGate) -> WaitingGateAnswer:
    return WaitingGateAnswer(
        place=one.place,
        closed_until_ts=one.closed_until_ts or None,
        reason=one.reason,
        asked_by=one.asked_by,
        gap_seconds=one.gap_seconds,
        crawl_delay_seconds=one.gap_seconds if one.gap_seconds > one.set_gap_seconds else None,
        parallel=one.parallel,
        in_line=one.in_line,
        under_way=one.under_way,
        last_ts=one.last_ts or None,
        until_ts=one.until_ts or None,
    )
