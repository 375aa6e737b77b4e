"""Store in Redis the pace that people set for hosts, feeds and sources; every process obeys it.

One HASH for all: a field is `<scope> <name> <origin>`, its value JSON. Each origin, a file or a command, writes and
removes only its own fields.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from core.keys import Keys
from core.registry import field_parsing
from core.settings import Settings
from core.store.commands import Command
from core.store.connect import Client
from core.urls.pace import COMMAND, PaceDefaults, PaceOption, Paces, PaceScope, StoredPace, checked_option

MEMORY_SECONDS = 5.0
"""How long a process goes on with what it has read: a changed option counts everywhere after this."""
OPTION_FIELDS = ("interval_seconds", "gap_seconds", "parallel")


class PaceStore:
    """Reads and writes the options."""

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._client = client
        self._keys = keys
        self._defaults = PaceDefaults(settings.fetch_host_gap_seconds, settings.fetch_host_parallel)
        self._paces = Paces((), self._defaults)
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def current(self) -> Paces:
        """Return the paces, at most some seconds old."""
        if time.monotonic() - self._read_at > MEMORY_SECONDS:
            async with self._reading:
                if time.monotonic() - self._read_at > MEMORY_SECONDS:
                    await self.read()
        return self._paces

    async def read(self) -> Paces:
        """Return the paces as they are now."""
        self._paces = Paces(await self.all(), self._defaults)
        self._read_at = time.monotonic()
        return self._paces

    async def all(self) -> list[StoredPace]:
        """Return every option; what cannot be read is left out."""
        fields: Mapping[Any, Any] = await self._client.hgetall(self._keys.paces)
        return [one for field, value in fields.items() if (one := _read(str(field), str(value)))]

    async def set(self, one: StoredPace) -> None:
        """Set an option; one that says nothing is removed."""
        field = _field(one)
        if one.option.is_empty:
            await self._client.hdel(self._keys.paces, field)
        else:
            await self._client.hset(self._keys.paces, field, _value(one))

    async def sync(self, origin: str, wanted: Sequence[StoredPace]) -> tuple[list[StoredPace], int]:
        """Make what an origin has set equal to `wanted`; return what is new or changed, and how many were removed."""
        known = {_field(one): one for one in await self.all() if one.origin == origin}
        listed = {_field(one): one for one in wanted if not one.option.is_empty}
        changed = {field: one for field, one in listed.items() if known.get(field) != one}
        removed = known.keys() - listed.keys()
        async with self._client.pipeline(transaction=True) as pipe:
            for field, one in changed.items():
                pipe.hset(self._keys.paces, field, _value(one))
            if removed:
                pipe.hdel(self._keys.paces, *removed)
            await pipe.execute()
        return list(changed.values()), len(removed)


def source_commands(keys: Keys, sid: str, hosts: Sequence[str] = (), gap_seconds: float | None = None) -> list[Command]:
    """Return the commands that set the gap of a source's hosts, or without one remove it."""
    domain = sid.partition(".")[0]
    one = StoredPace(PaceScope.SOURCE, sid, domain, PaceOption(gap_seconds=gap_seconds), tuple(hosts))
    if gap_seconds is None or not hosts:
        return [("HDEL", keys.paces, _field(one))]
    return [("HSET", keys.paces, _field(one), _value(one))]


def removed_feeds(keys: Keys, fids: Sequence[str]) -> Command:
    """Return the command that removes what commands set for feeds that nobody subscribes to any more."""
    return ("HDEL", keys.paces, *(f"{PaceScope.FEED} {fid} {COMMAND}" for fid in fids))


def _field(one: StoredPace) -> str:
    return f"{one.scope} {one.name} {one.origin}"


def _value(one: StoredPace) -> str:
    values = {name: value for name, value in asdict(one.option).items() if value is not None}
    return json.dumps(values | ({"hosts": list(one.hosts)} if one.hosts else {}), sort_keys=True)


def _read(field: str, value: str) -> StoredPace | None:
    scope, name, origin = [*field.split(" ", 2), "", ""][:3]
    read = field_parsing.mapping(value)
    hosts = read.pop("hosts", [])
    if scope not in set(PaceScope) or not name or not isinstance(hosts, list):
        return None
    try:
        option = checked_option(read, OPTION_FIELDS)
    except ValueError:
        return None
    return None if option.is_empty else StoredPace(PaceScope(scope), name, origin, option, tuple(map(str, hosts)))
