"""The items that wait to be embedded, and why embedding is paused."""

from __future__ import annotations

from core.keys import Keys
from core.store.connect import Client, texts


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

    async def pause_reason(self) -> str:
        """Return why nothing is embedded now; empty: embedding is not paused."""
        return str(await self._client.get(self._keys.embed_away) or "")

    async def pause(self, reason: str, seconds: int) -> None:
        """Send nobody work for so long."""
        await self._client.set(self._keys.embed_away, reason, ex=seconds)
