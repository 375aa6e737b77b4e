"""Store the history in Redis: one entry a minute, whichever process writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from redis.exceptions import ResponseError

from core.keys import Keys
from core.registry.metric_history import HistoryEntry, RecentHistory, minute_of, parse_entry, to_fields
from core.store.connect import Client

KEPT_ENTRIES = 2_880
"""Two days."""
AT_ONCE = 500


class HistoryStore:
    """Reads and writes `freshet:history`; keeps what it has read, so that a second look reads only what is new."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._known: list[HistoryEntry] = []
        self._last = RecentHistory()
        """What was returned last."""

    async def add(self, ts: float, values: Mapping[str, float]) -> bool:
        """Write the entry of this minute; False: someone has written it already, or a later one."""
        words = [word for pair in to_fields(values).items() for word in pair]
        stamp = f"{minute_of(ts) * 1000}-0"
        command = ("XADD", self._keys.history, "MAXLEN", KEPT_ENTRIES, stamp, *words)
        try:
            await self._client.execute_command(*command)
        except ResponseError as error:
            if "equal or smaller" not in str(error):
                raise
            return False
        return True

    async def read(self, since_ts: float) -> RecentHistory:
        """Return the entries since then."""
        if self._known and not await self._is_there(self._known[-1].ts):
            self._known = []  # someone deleted the history, or restored another one
        while rows := await self._next():
            self._known += [parse_entry(_time(name), fields) for name, fields in rows]
            if len(rows) < AT_ONCE:
                break
        self._known = self._known[-KEPT_ENTRIES:]
        entries = tuple(entry for entry in self._known if entry.ts >= since_ts)
        if entries != self._last.entries:
            self._last = RecentHistory(entries)
        return self._last

    async def _is_there(self, ts: float) -> bool:
        stamp = f"{int(ts * 1000)}-0"
        return bool(await self._client.xrange(self._keys.history, stamp, stamp))

    async def _next(self) -> list[tuple[str, dict[str, str]]]:
        after = f"({int(self._known[-1].ts * 1000)}-0" if self._known else "-"
        rows = await self._client.xrange(self._keys.history, after, "+", AT_ONCE)
        return cast(list[tuple[str, dict[str, str]]], rows)


def _time(name: str) -> float:
    return int(name.partition("-")[0]) / 1000
