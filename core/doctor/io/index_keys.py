"""The keys of search, whatever is in them: walked over, all or a slice at a time, and looked at by their type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from core.keys import Keys
from core.store import scanning
from core.store.connect import Client, texts
from core.store.key_families import KeyFamilies

SCAN = 1_000
MOST_CALLS = 10
"""In a slice: of a store with few keys of search among many others, a slice may find none."""
SLICE = 500
CURSOR_FIELD = "index"
NOTHING = "none"

# ARGV any keys. The type of each. As many commands of their own would cost the client twenty times as much.
_TYPES = """
local found = {}
for i, key in ipairs(ARGV) do found[i] = redis.call('TYPE', key).ok end
return found
"""


class IndexKeys:
    """Walks over `index:*`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._families = KeyFamilies(keys)

    # ── walking ──

    async def all(self) -> AsyncIterator[list[str]]:
        """Every key, in pieces."""
        async for names in scanning.keys(self._client, self._keys.index_pattern):
            yield names

    async def next(self) -> list[str]:
        """The next few; where we are is kept in the store, so that one slice after the other all are seen."""
        pattern, cursors = self._keys.index_pattern, self._keys.prune_cursors
        names = await scanning.next_keys(self._client, pattern, cursors, CURSOR_FIELD, SCAN, MOST_CALLS, SLICE)
        return list(dict.fromkeys(names))

    # ── looking ──

    async def mistyped(self, names: Sequence[str]) -> list[str]:
        """Those of the keys that are of another type than such a key is; no command of ours can read them."""
        wanted = [name for name in names if self._families.type_of(name)]
        found = zip(wanted, await types_of(self._client, wanted), strict=True)
        return [name for name, kind in found if kind not in (NOTHING, self._families.type_of(name))]

    async def of_pages(self, item_ids: Sequence[str]) -> list[str]:
        """Keys of these pages, and of their records, that are of another type."""
        return await self.mistyped([build(one) for one in item_ids for build in self._of_page])

    def page_of(self, name: str) -> str:
        """The id of the page whose record, text or list of chunks this is; empty: it is something else."""
        return next((name.removeprefix(build("")) for build in self._of_page if name.startswith(build(""))), "")

    @property
    def _of_page(self) -> tuple[Callable[[str], str], ...]:
        return (self._keys.item, self._keys.document, self._keys.chunks)


async def types_of(client: Client, names: Sequence[str]) -> list[str]:
    """The type of each key; `NOTHING` of what is not there."""
    found: list[str] = []
    for start in range(0, len(names), SCAN):
        some = names[start : start + SCAN]
        found += texts(await client.eval(_TYPES, 0, *some))
    return found


def ids_in(names: Sequence[str], build: Callable[[str], str]) -> list[str]:
    """The ids in those of the keys that this family has."""
    return [name.removeprefix(build("")) for name in names if name.startswith(build(""))]
