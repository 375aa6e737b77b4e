"""Open everything a search needs, and close it: embedder, replica, follower.

A replica that cannot be used is built anew: it holds nothing that Redis does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from core.indexes import replica_state
from core.indexes.contents import ContentReader
from core.indexes.embedders import open_embedder
from core.indexes.follower import Follower
from core.indexes.replica import Replica, ReplicaBroken
from core.indexes.searcher import Searcher
from core.keys import Keys
from core.models import Space
from core.settings import Settings
from core.stores import connect
from core.stores.spaces import Spaces

log = logging.getLogger("search")

FOLDER = "search"
BUSY_SECONDS = 5.0


@asynccontextmanager
async def open_searcher(
    settings: Settings, client: connect.Client, keys: Keys, *, mend: bool = False
) -> AsyncIterator[Searcher]:
    """A searcher on this host's replica. `mend`: pages whose vectors or chunks it finds damaged are embedded again."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    try:
        # What Redis holds decides, not the settings: two processes with other settings share this replica.
        space = await Spaces(client, keys).live()
        opener, contents = (
            partial(open_replica, _folder(settings)),
            ContentReader(client, raw, keys, embedder, mend=mend),
        )
        follower = Follower(client, keys, contents, opener, await opener(space), space)
        try:
            yield Searcher(client, keys, follower, contents, embedder)
        finally:
            follower.replica.close()
    finally:
        await embedder.close()
        await raw.aclose()


def _folder(settings: Settings) -> Path:
    """One for each store that this host searches."""
    name = f"{FOLDER}-{settings.key_prefix.strip(':{}')}" if settings.key_prefix else FOLDER
    return settings.persistent_storage_path / name


async def open_replica(folder: Path, space: Space | None) -> Replica:
    """The replica in this folder, made anew where it is broken or of other vectors."""
    dimension = space.dimension if space else None
    while True:
        replica: Replica | None = None
        try:
            replica = Replica(folder, dimension)
            if replica.try_write_lock():  # who writes looks at every byte, and some damage is seen by nobody else
                replica.stop_writing()
            return replica
        except OSError as error:
            raise replica_state.unusable(folder, error) from error
        except ReplicaBroken as broken:
            if replica:
                replica.close()
            log.warning("🔧 %s", broken)
            if not Replica.erase(folder):
                await asyncio.sleep(BUSY_SECONDS)  # somebody writes it; it may be whole again in a moment
