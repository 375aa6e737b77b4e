"""The items that wait to be embedded, and why embedding is paused."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.store.connect import Client, texts
from core.store.pipeline import read_many


class EmbedQueue:
    """Reads `embed:due`, reads and writes `embed:away`. Commits put items into `embed:due` and take them out."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def count(self) -> int:
        """Return how many items wait."""
        return int(await self._client.zcard(self._keys.embed_due))

    async def newest(self, count: int) -> list[str]:
        """Return items that wait, those that changed last first."""
        return texts(await self._client.zrange(self._keys.embed_due, 0, count - 1, desc=True)) if count > 0 else []

    async def waiting_in(self, sources: Sequence[str], count: int) -> list[str]:
        """Return items of these sources that wait, among those that changed last; looks at `count` of them."""
        newest = await self.newest(count)
        if not newest:
            return []
        asked = [("ZMSCORE", self._keys.refs(source), *newest) for source in sources]
        scores = await read_many(self._client, asked)
        return [item for place, item in enumerate(newest) if any(one[place] is not None for one in scores)]

    async def pause_reason(self) -> str:
        """Return why nothing is embedded now; empty: embedding is not paused."""
        return str(await self._client.get(self._keys.embed_away) or "")

    async def pause(self, reason: str, seconds: int) -> None:
        """Send nobody work for so long."""
        await self._client.set(self._keys.embed_away, reason, ex=seconds)
