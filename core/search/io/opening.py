"""Open everything a search needs, and close it: embedder, replica, follower.

A replica that cannot be used is built anew: it holds nothing that Redis does not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from core.keys import Keys
from core.models import VectorSpace
from core.search.io.contents import ContentReader
from core.search.io.embedders import open_embedder
from core.search.io.follower import SPARE, Follower
from core.search.io.replica import Replica, ReplicaBroken
from core.search.io.replica_state import ReplicaFull, unusable
from core.search.io.searcher import Searcher
from core.search.io.vector_space import VectorSpaceStore
from core.settings import Settings
from core.store import connect

log = logging.getLogger("search")

FOLDER = "search"
BUSY_SECONDS = 5.0
SPARE_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
"""In memory: the other disks may be the one that is full."""


@asynccontextmanager
async def open_searcher(
    settings: Settings, client: connect.Client, keys: Keys, *, mend: bool = False
) -> AsyncIterator[Searcher]:
    """A searcher on this host's replica. `mend`: pages whose vectors or chunks it finds damaged are embedded again."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    try:
        # What Redis holds decides, not the settings: two processes with other settings share this replica.
        space = await VectorSpaceStore(client, keys).live()
        contents = ContentReader(client, raw, keys, embedder, mend=mend)
        with Replicas(_folder(settings)) as replicas:
            follower = Follower(client, keys, contents, replicas, await replicas.open(space), space)
            try:
                yield Searcher(client, keys, follower, contents, embedder)
            finally:
                follower.replica.close()
    finally:
        await embedder.close()
        await raw.aclose()


class Replicas:
    """Opens the replica of this host, or a spare one of this process where there is no room for that."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The spare one goes."""
        if self._spare:
            shutil.rmtree(self._spare, ignore_errors=True)

    async def open(self, space: VectorSpace | None) -> Replica:
        """The replica of this host; a spare one if the disk is full. Raises ReplicaUnusable."""
        if self._spare is None:
            try:
                return await open_replica(self._folder, space)
            except ReplicaFull as full:
                log.warning("⚠️ %s %s", full, SPARE)
        return await self.open_spare(space)

    async def open_spare(self, space: VectorSpace | None) -> Replica:
        """One in memory, or where temporary files go; filled from Redis, and gone with this process."""
        self._spare = self._spare or _temporary_folder()
        return await open_replica(self._spare / FOLDER, space)


def _temporary_folder() -> Path:
    parent = SPARE_FOLDER if os.access(SPARE_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    try:
        return Path(tempfile.mkdtemp(prefix="freshet-", dir=parent))
    except OSError as error:
        raise unusable(parent, error) from error


def _folder(settings: Settings) -> Path:
    """One for each store that this host searches."""
    name = f"{FOLDER}-{settings.key_prefix.strip(':{}')}" if settings.key_prefix else FOLDER
    return settings.persistent_storage_path / name


async def open_replica(folder: Path, space: VectorSpace | None) -> Replica:
    """The replica in this folder, made anew where it is broken or of other vectors. Raises ReplicaUnusable."""
    dimension = space.dimension if space else None
    while True:
        try:
            replica = _opened(folder, dimension)
            if replica is None and not Replica.erase(folder):
                await asyncio.sleep(BUSY_SECONDS)  # somebody writes it; it may be whole again in a moment
        except OSError as error:
            raise unusable(folder, error) from error
        if replica:
            return replica


def _opened(folder: Path, dimension: int | None) -> Replica | None:
    """The replica; None, with a line in the log, if it is broken."""
    replica: Replica | None = None
    try:
        replica = Replica(folder, dimension)
        if replica.try_write_lock():  # who writes looks at every byte, and some damage is seen by nobody else
            replica.stop_writing()
        return replica
    except ReplicaBroken as broken:
        if replica:
            replica.close()
        log.warning("🔧 %s", broken)
        return None
