"""Keep an index in Qdrant equal to Redis, as the replica of a host is kept: follow the events, rebuild after a gap.

Many hosts search one index. Of all their processes one writes at a time, by a lease in Redis.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from core.keys import Keys
from core.search.io import qdrant_connect
from core.search.io.embedders import open_embedder
from core.search.io.page_contents import PageContentReader
from core.search.io.qdrant_index import QdrantIndex
from core.search.io.replica import Replica
from core.search.io.replica_follower import ITEMS_AT_ONCE, ReplicaFollower
from core.search.io.replica_opener import ReplicaOpener, replica_folder
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.vector_spaces import Spaces
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

LEASE = "search-qdrant"
NAME = "freshet"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


def collection_prefix(settings: Settings) -> str:
    """Return how the names of this deployment's collections begin."""
    prefix = _NOT_PLAIN.sub("", settings.key_prefix)
    return f"{NAME}-{prefix}" if prefix else NAME


class QdrantFollower(ReplicaFollower):
    """Fills an index in Qdrant from Redis."""

    def __init__(
        self,
        settings: Settings,
        store: tuple[Client, Keys],
        contents: PageContentReader,
        qdrant: AsyncQdrantClient,
        spaces: Spaces,
    ) -> None:
        self._settings = settings
        self._qdrant = qdrant
        self._leases = Leases(*store)
        self.index = self._index_of(spaces)
        # To the searcher and to the code that follows, it is a replica; what only a folder has is overridden here.
        replica = cast(Replica, self.index)
        super().__init__(*store, contents, ReplicaOpener(replica_folder(settings)), replica, spaces)

    def _index_of(self, spaces: Spaces) -> QdrantIndex:
        is_local = qdrant_connect.is_local(self._settings)
        return QdrantIndex(self._qdrant, collection_prefix(self._settings), spaces, is_local=is_local)

    async def fill(self) -> int | None:
        """Read everything from Redis into the index, which is searched meanwhile.

        Returns how many items were read; None: another process is writing.
        """
        async with self._turn, self._write_lock() as is_writer:
            return await self._rebuild() if is_writer else None

    async def check_sample(self, count: int = 0) -> int:
        """Events tell of every change, and `compare` finds the rest: many processes would all look at the same."""
        return 0

    async def compare(self, *, fix: bool = False) -> dict[str, int]:
        """Count the pages that the index lacks or has otherwise, and those too many; with `fix`, then rebuild it."""
        await self.catch_up()
        counts = {"chunks": await self.index.count(), "missing": 0}
        extra = await self._item_ids()
        counts["pages"] = len(extra)
        async for item_ids in self._iter_items():
            here = await self.index.pages_of(item_ids)
            for item_id, content in (await self._contents.read(item_ids, self.spaces)).items():
                if content is None:
                    continue
                extra.discard(item_id)
                wanted = [(content.page, frozenset(chunk.id for chunk in content.chunks))] if content.chunks else []
                counts["missing"] += here.get(item_id, []) != wanted
        if fix and (counts["missing"] or extra):
            await self.fill()
        return counts | {"extra": len(extra)}

    async def _sync(self) -> int | None:
        await self.index.refresh()
        return await super()._sync()

    async def _rebuild(self) -> int:
        items_read = await super()._rebuild()
        await self._delete_extra()
        await self.index.delete_other_spaces()
        return items_read

    async def _delete_extra(self) -> None:
        """Remove pages that are in the index and no more in Redis."""
        here = sorted(await self._item_ids())
        for start in range(0, len(here), ITEMS_AT_ONCE):
            contents = await self._contents.read(here[start : start + ITEMS_AT_ONCE], self.spaces)
            await self.index.delete([item_id for item_id, content in contents.items() if content is None])
        await self.index.commit(self.index.checkpoint)

    async def _item_ids(self) -> set[str]:
        return {item_id async for _, item_id, _ in self.index.iter_ids()}

    async def _reopen(self) -> None:
        self.index = self._index_of(self.spaces)
        await self.index.open()
        self.replica = cast(Replica, self.index)

    @asynccontextmanager
    async def _write_lock(self) -> AsyncIterator[bool]:
        acquired = await self._leases.acquire(LEASE)
        if acquired is None:
            yield False
            return
        try:
            async with self._leases.keep_alive():
                yield True
        finally:
            self.index.forget_writes()
            await self._leases.release(acquired[0])
            await self._leases.clear_crashes(LEASE)


@asynccontextmanager
async def open_follower(
    settings: Settings, store: tuple[Client, Keys], contents: PageContentReader, spaces: Spaces
) -> AsyncIterator[QdrantFollower]:
    """Open the index of a vector space in Qdrant."""
    async with qdrant_connect.open_client(settings) as client:
        follower = QdrantFollower(settings, store, contents, client, spaces)
        await follower.index.open()
        yield follower


async def fill_qdrant(settings: Settings, client: Client, keys: Keys) -> tuple[int | None, int]:
    """Fill the index in Qdrant from Redis, whatever is searched; return how many items were read, and its chunks."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    try:
        spaces = await VectorSpaceStore(client, keys).live()
        contents = PageContentReader(client, raw, keys, embedder)
        async with open_follower(settings, (client, keys), contents, spaces) as follower:
            return await follower.fill(), await follower.index.count()
    finally:
        await embedder.close()
        await raw.aclose()
