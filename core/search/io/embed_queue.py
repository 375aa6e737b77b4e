"""What waits to be embedded, and why nothing is embedded now."""

from __future__ import annotations

from core.keys import Keys
from core.store.commit import Command
from core.store.connect import Client, texts


class EmbedQueue:
    """Reads `embed:due`, reads and writes `embed:away`. Commits put items into `embed:due` and take them out."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def count(self) -> int:
        """How many texts wait."""
        return int(await self._client.zcard(self._keys.embed_due))

    def let_go(self, item_id: str) -> Command:
        """The command after which an item waits no longer."""
        return ("ZREM", self._keys.embed_due, item_id)

    async def newest(self, count: int) -> list[str]:
        """Items that wait, those that changed last first."""
        return texts(await self._client.zrange(self._keys.embed_due, 0, count - 1, desc=True)) if count > 0 else []

    async def away(self) -> str:
        """Why nothing is embedded now; empty: no reason is known."""
        return str(await self._client.get(self._keys.embed_away) or "")

    async def pause(self, why: str, seconds: int) -> None:
        """For so long nobody is sent work."""
        await self._client.set(self._keys.embed_away, why, ex=seconds)
