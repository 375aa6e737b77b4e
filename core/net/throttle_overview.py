"""Show what requests wait for: closed domains, queues at gates, unreadable robots.txt. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.keys import Keys
from core.net.pace_store import PaceStore
from core.registry import field_parsing
from core.store.connect import Client
from core.store.pipeline import read_many
from core.urls.pace import OWN_GATE, Paces
from core.value_class import value_class

LINE_SECONDS = 60.0
"""A place in line that is older belongs to nobody any more."""


@value_class
class WaitingGate:
    """A registrable domain, or a host with a pace of its own, at which requests wait."""

    place: str
    closed_until_ts: float
    """Until when a server asked us to stay away; 0: none did."""
    reason: str
    asked_by: str
    """The host that asked; its whole domain is left alone."""
    gap_seconds: float
    """Between two requests, as it is now."""
    set_gap_seconds: float
    """As the settings or a person say; robots.txt asked for more if the gap is longer."""
    parallel: int | None
    in_line: int
    under_way: int
    last_ts: float
    next_ts: float
    """The next free place in line."""

    @property
    def until_ts(self) -> float:
        """When the wait ends."""
        return max(self.closed_until_ts, self.next_ts)


@value_class
class UnreadableRobots:
    """An origin of which nothing is fetched, because its robots.txt cannot be read."""

    origin: str
    until_ts: float
    status: str
    problem: str


class ThrottleOverview:
    """Reads what we wait for."""

    def __init__(self, client: Client, keys: Keys, paces: PaceStore) -> None:
        self._client = client
        self._keys = keys
        self._paces = paces

    async def waiting(self, now: float, most: int) -> list[WaitingGate]:
        """Return the gates at which something waits, the longest wait first."""
        keys = self._keys
        found = await self._client.zrange(
            keys.gates_waiting, "+inf", f"({now}", desc=True, byscore=True, offset=0, num=most
        )
        names = [str(name) for name in found]
        fields = ("until", "why", "host", "gap", "last_at", "next_at")
        states = await read_many(self._client, [("HMGET", keys.gate(name), *fields) for name in names])
        lines = await read_many(
            self._client, [("ZCOUNT", keys.gate_line(name), now - LINE_SECONDS, "+inf") for name in names]
        )
        busy = await read_many(self._client, [("ZCOUNT", keys.gate_busy(name), now, "+inf") for name in names])
        paces = await self._paces.current()
        rows = zip(names, states, lines, busy, strict=True)
        gates = [_gate(name, state, paces, int(line), int(under_way), now) for name, state, line, under_way in rows]
        return [gate for gate in gates if gate.closed_until_ts or gate.in_line]

    async def unreadable_robots(self, now: float, most: int) -> list[UnreadableRobots]:
        """Return the origins whose robots.txt cannot be read, with the reason."""
        key = self._keys.robots_unreadable
        found = await self._client.zrange(key, f"({now}", "+inf", byscore=True, offset=0, num=most, withscores=True)
        origins = cast(list[tuple[str, float]], found)
        read = [("HMGET", self._keys.robots(origin), "status", "why") for origin, _ in origins]
        return [
            UnreadableRobots(origin, until, str(status or ""), str(why or ""))
            for (origin, until), (status, why) in zip(origins, await read_many(self._client, read), strict=True)
        ]


def _gate(
    name: str, state: Sequence[str | None], paces: Paces, in_line: int, under_way: int, now: float
) -> WaitingGate:
    until, why, host, gap, last_at, next_at = state
    place, closed = name.removeprefix(OWN_GATE), field_parsing.timestamp(until)
    pace, is_closed = paces.of_url(f"http://{place}/"), closed > now
    set_gap = pace.gap_seconds if pace else 0.0
    return WaitingGate(
        place=place,
        closed_until_ts=closed if is_closed else 0.0,
        reason=(why or "") if is_closed else "",
        asked_by=(host or "") if is_closed else "",
        gap_seconds=max(field_parsing.number(gap), set_gap),
        set_gap_seconds=set_gap,
        parallel=pace.parallel if pace else None,
        in_line=in_line,
        under_way=under_way,
        last_ts=field_parsing.timestamp(last_at),
        next_ts=field_parsing.timestamp(next_at),
    )
