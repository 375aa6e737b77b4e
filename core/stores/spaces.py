"""Which vector space this store is in. Vectors of two spaces are never compared (trap T70)."""

from __future__ import annotations

from core.errors import SettingsError
from core.keys import Keys
from core.models import Space
from core.stores.connect import Client

FIELD = "space"
NEXT_FIELD = "space_next"


class Spaces:
    """The space of the live index, and the one that is being built beside it."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def current(self) -> str:
        """The name of the live space; empty: nothing was ever embedded."""
        return str(await self._client.hget(self._keys.version, FIELD) or "")

    async def claim(self, space: Space | None) -> None:
        """A new store takes the first space; another one than the store's is refused with a sentence."""
        if space is None:
            return
        await self._client.hsetnx(self._keys.version, FIELD, space.name)
        current = await self.current()
        if current != space.name:
            raise SettingsError(
                f"This store's vectors are of {current}, the settings ask for {space.name}; they cannot be compared. "
                "`python -m scripts.reindex --embeddings` builds the new ones beside the old and then changes over."
            )

    async def cut_over(self, space: Space) -> None:
        """From now on this is the live space."""
        await self._client.hset(self._keys.version, FIELD, space.name)
