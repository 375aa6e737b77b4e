"""Count the chunks in search: in the commits that write and remove them, and once in a store from before that."""

from __future__ import annotations

from core.keys import Keys
from core.registry.record import MAY_HAVE_TEXT
from core.store import scanning
from core.store.connect import Client
from core.store.pipeline import read_many

COUNTED = "counted_ts"


class ChunkCount:
    """Reads and starts `embed:stats`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def start(self, now: float) -> bool:
        """Count the chunks of a store whose commits did not count them yet; False: that was done before.

        What is committed meanwhile may be missed, by as many chunks as that is.
        """
        if await self._client.hexists(self._keys.embed_stats, COUNTED):
            return False
        total = 0
        for status in MAY_HAVE_TEXT:
            async for item_ids in scanning.set_members(self._client, self._keys.status(str(status))):
                sizes = await read_many(self._client, [("ZCARD", self._keys.chunks(one)) for one in item_ids])
                total += sum(sizes)
        await self._client.hset(self._keys.embed_stats, mapping={"chunks": str(total), COUNTED: f"{now:.0f}"})
        return True
