"""The items that wait to be embedded, and why embedding is paused."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.store.connect import Client, texts
from core.store.pipeline import read_many

MOST_LOOKED = 10_000
"""How many items are looked through for some that are not paused."""


class EmbedQueue:
    """Reads `embed:due`, reads and writes `embed:away`. Commits put items into `embed:due` and take them out."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def count(self) -> int:
        """Return how many items wait."""
        return int(await self._client.zcard(self._keys.embed_due))

    async def newest(self, count: int, paused_runs: Sequence[str] = ()) -> list[str]:
        """Return items that wait, those that changed last first, without those of paused runs."""
        found: list[str] = []
        for first in range(0, MOST_LOOKED, max(count, 1)):
            some = texts(await self._client.zrange(self._keys.embed_due, first, first + count - 1, desc=True))
            found += await self.without(some, paused_runs)
            if len(found) >= count or len(some) < count or not paused_runs:
                break
        return found[: max(count, 0)]

    async def without(self, item_ids: Sequence[str], paused_runs: Sequence[str]) -> list[str]:
        """Return those of the items that belong to none of these runs."""
        if not item_ids:
            return []
        asked = [("ZMSCORE", self._keys.run_items(run_id), *item_ids) for run_id in paused_runs]
        scores = await read_many(self._client, asked) if asked else []
        return [item for place, item in enumerate(item_ids) if all(one[place] is None for one in scores)]

    async def count_in(self, sources: Sequence[str]) -> int:
        """Return how many items of these sources wait; one that two of them list counts twice."""
        asked = [("ZINTERCARD", 2, self._keys.embed_due, self._keys.refs(source)) for source in sources]
        return sum(map(int, await read_many(self._client, asked))) if asked else 0

    async def pause_reason(self) -> str:
        """Return why nothing is embedded now; empty: embedding is not paused."""
        return str(await self._client.get(self._keys.embed_away) or "")

    async def pause(self, reason: str, seconds: int) -> None:
        """Send nobody work for so long."""
        await self._client.set(self._keys.embed_away, reason, ex=seconds)

    async def resume(self) -> None:
        """End a pause before its time."""
        await self._client.delete(self._keys.embed_away)
