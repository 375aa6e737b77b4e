"""Read the Redis types of keys, and find those whose type is not that of their family."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.store.connect import Client, texts
from core.store.key_families import key_families
from core.store.packing import packed_json

AT_ONCE = 1_000
NOTHING = "none"
"""The type of a key that does not exist."""

# ARGV[1] JSON of any keys. The type of each. As many commands of their own would cost the client fifty times as much.
_TYPES = """
local types = {}
for i, key in ipairs(cjson.decode(ARGV[1])) do types[i] = redis.call('TYPE', key).ok end
return types
"""


class KeyTypes:
    """Asks Redis for the types of keys."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._families = key_families(keys)

    async def types_of(self, names: Sequence[str]) -> list[str]:
        """Return the type of each key; `NOTHING` for those that do not exist."""
        types: list[str] = []
        for start in range(0, len(names), AT_ONCE):
            some = packed_json(list(names[start : start + AT_ONCE]))
            types += texts(await self._client.eval(_TYPES, 0, some))
        return types

    async def mistyped(self, names: Sequence[str]) -> list[str]:
        """Return those of the keys that have another type than their family; no command of ours can read them."""
        expected = {name: kind for name in names if (kind := self._families.type_of(name))}
        types = zip(expected, await self.types_of(list(expected)), strict=True)
        return [name for name, kind in types if kind not in (NOTHING, expected[name])]
