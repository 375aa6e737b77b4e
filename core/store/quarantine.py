"""Quarantine damaged keys and fields, so that everything else goes on.

Nothing is deleted. What was quarantined stays for 30 days under `freshet:quarantine:<milliseconds>:<key>`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from core.keys import Keys
from core.registry.record import Status
from core.store.key_families import KeyFamilies, key_families

log = logging.getLogger("store")

QUARANTINE_SECONDS = 30 * 86_400
AT_ONCE = 1_000

# ARGV: index of the quarantine, how its keys begin, TTL in seconds; then pairs of key and the type it has to be.
# Names of the keys that were of another type, and are quarantined.
MOVE = """
local call = redis.call
local clock = call('TIME')
local stamp = clock[1] .. string.format('%03d', math.floor(clock[2] / 1000))
local moved = {}
for i = 4, #ARGV, 2 do
  local key = ARGV[i]
  local kind = call('TYPE', key).ok
  if kind ~= 'none' and kind ~= ARGV[i + 1] then
    local aside = ARGV[2] .. stamp .. ':' .. key
    call('RENAME', key, aside)
    call('EXPIRE', aside, ARGV[3])
    if call('TYPE', ARGV[1]).ok ~= 'zset' then call('DEL', ARGV[1]) end
    call('ZADD', ARGV[1], clock[1], aside)
    moved[#moved + 1] = key
  end
end
if #moved > 0 then
  call('ZREMRANGEBYSCORE', ARGV[1], '-inf', clock[1] - ARGV[3])
  call('EXPIRE', ARGV[1], ARGV[3])
end
return moved
"""

# ARGV: index, how keys begin, TTL; the hash; then triples of field, the value that is damaged, what to put there
# (empty: nothing). A field that has changed since is left alone. How many were quarantined.
_MOVE_FIELDS = """
local call = redis.call
if call('TYPE', ARGV[4]).ok ~= 'hash' then return 0 end
local clock = call('TIME')
local aside = ARGV[2] .. clock[1] .. string.format('%03d', math.floor(clock[2] / 1000)) .. ':' .. ARGV[4]
local moved = 0
for i = 5, #ARGV, 3 do
  if call('HGET', ARGV[4], ARGV[i]) == ARGV[i + 1] then
    call('HSET', aside, ARGV[i], ARGV[i + 1])
    if ARGV[i + 2] == '' then call('HDEL', ARGV[4], ARGV[i]) else call('HSET', ARGV[4], ARGV[i], ARGV[i + 2]) end
    moved = moved + 1
  end
end
if moved > 0 then
  call('EXPIRE', aside, ARGV[3])
  call('ZADD', ARGV[1], clock[1], aside)
  call('EXPIRE', ARGV[1], ARGV[3])
end
return moved
"""


class CommandClient(Protocol):
    """A client with or without the guard."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""


async def quarantined_keys(client: CommandClient, keys: Keys, count: int) -> list[str]:
    """Return the names of quarantined keys, the newest first."""
    reply = await client.execute_command("ZRANGE", keys.quarantine, 0, count - 1, "REV")
    return [_text(name) for name in cast(list[str | bytes], reply)]


class Quarantine:
    """Finds what is damaged among some keys, and puts it aside."""

    def __init__(self, client: CommandClient, keys: Keys, families: KeyFamilies | None = None) -> None:
        self._client = client
        self._families = families or key_families(keys)
        self._place = (keys.quarantine, keys.quarantined(""), str(QUARANTINE_SECONDS))

    async def put_aside(self, names: Iterable[str]) -> list[str]:
        """Put aside what is damaged about these keys, types before fields; log and return which they were."""
        known = [name for name in dict.fromkeys(names) if self._families.type_of(name)]
        return await self.mistyped(known) or [name for name in known if await self._repair(name)]

    async def mistyped(self, names: Sequence[str]) -> list[str]:
        """Put aside those of the keys that are of another type than their family; return them."""
        moved: list[str] = []
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            pairs = [word for name in some for word in (name, self._families.type_of(name))]
            reply = await self._client.execute_command("EVAL", MOVE, 0, *self._place, *pairs)
            moved += [_text(name) for name in cast(list[str | bytes], reply)]
        for name in moved:
            log.warning("⚠️ Skipped and put aside, as it is of another type than it has to be → %s", name)
        return moved

    async def whole(self, name: str) -> None:
        """Put a key aside as it is: it cannot be read, and nothing tells what it was."""
        await self._client.execute_command("EVAL", MOVE, 0, *self._place, name, "")
        log.warning("⚠️ Put aside, as it cannot be read → %s", name)

    async def _repair(self, name: str) -> bool:
        from core.store import field_types  # here: what fields hold is asked only where something is damaged

        family = self._families.of(name)
        if family is None:
            return False
        if family.name in field_types.COUNTERS:
            value = _text(await self._client.execute_command("GET", name) or "")
            if field_types.INTEGER(value):
                return False
            await self._client.execute_command("DEL", name)
            log.warning("⚠️ Removed, as it is no number → %s", name)
            return True
        if family.type != "hash":
            return False
        reply = await self._client.execute_command("HGETALL", name)
        pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
        return bool(await self.mend_fields(name, family.name, {_text(field): _text(value) for field, value in pairs}))

    async def mend_fields(self, name: str, family: str, stored: Mapping[str, str]) -> list[str]:
        """Put aside those fields of a hash that cannot be read; return them."""
        from core.store import field_types  # as above

        wrong = field_types.damaged(family, stored)
        if not wrong:
            return []
        words = [word for field, value in wrong.items() for word in (field, value, _instead(family, field, stored))]
        if not await self._client.execute_command("EVAL", _MOVE_FIELDS, 0, *self._place, name, *words):
            return []
        log.warning("⚠️ Put aside, as it cannot be read → %s of %s", ", ".join(sorted(wrong)), name)
        return sorted(wrong)


def _instead(family: str, field: str, stored: Mapping[str, str]) -> str:
    """Return what a damaged field becomes; empty: nothing. A status follows from the other fields of the record."""
    if (family, field) != ("item", "status"):
        return ""
    content, indexed = stored.get("contentHash", ""), stored.get("indexedHash", "")
    if not content:
        return str(Status.PENDING)
    return str(Status.INDEXED if indexed == content else Status.CRAWLED)


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
