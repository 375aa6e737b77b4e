"""Open the replica of this host, and rebuild one that cannot be used: it holds nothing that Redis does not.

Where the disk is full, each process searches a temporary replica of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from core.search.io.replica import Replica
from core.search.io.replica_state import ReplicaBroken, ReplicaFull, unusable
from core.search.io.replica_writer import erase
from core.search.vector_spaces import Spaces
from core.settings import Settings

log = logging.getLogger("search")

FOLDER = "search"
BUSY_SECONDS = 5.0
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
"""Preferred for temporary replicas: the other disks may be the one that is full."""
TEMPORARY = "Until then each search reads all texts from Redis, which takes longer."


class ReplicaOpener:
    """Opens the replica of this host, or a temporary one of this process where there is no room for that."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    async def open(self, spaces: Spaces) -> Replica:
        """Return the replica of this host; a temporary one if the disk is full. Raises ReplicaUnusable."""
        if self._temporary is None:
            try:
                return await open_replica(self._folder, spaces)
            except ReplicaFull as full:
                log.warning("⚠️ %s %s", full, TEMPORARY)
        return await self.open_temporary(spaces)

    async def open_temporary(self, spaces: Spaces) -> Replica:
        """Return a replica in memory, or where temporary files go; it ends with this process."""
        parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        try:
            self._temporary = self._temporary or Path(tempfile.mkdtemp(prefix="freshet-", dir=parent))
        except OSError as error:
            raise unusable(parent, error) from error
        return await open_replica(self._temporary / FOLDER, spaces)


def replica_folder(settings: Settings) -> Path:
    """Return the folder of the replica: one for each store that this host searches."""
    name = f"{FOLDER}-{settings.key_prefix.strip(':{}')}" if settings.key_prefix else FOLDER
    return settings.persistent_storage_path / name


async def open_replica(folder: Path, spaces: Spaces) -> Replica:
    """Open the replica in this folder, after erasing one that is broken or of other vectors. Raises ReplicaUnusable."""
    while True:
        try:
            replica = _try_open(folder, spaces)
            if replica is None and not erase(folder):
                await asyncio.sleep(BUSY_SECONDS)  # another process writes it; it may be whole again in a moment
        except OSError as error:
            raise unusable(folder, error) from error
        if replica:
            return replica


def _try_open(folder: Path, spaces: Spaces) -> Replica | None:
    """Return the replica; None, with a line in the log, if it is broken."""
    replica: Replica | None = None
    try:
        replica = Replica(folder, *spaces.dimensions[:2])
        if replica.try_write_lock():  # a writer checks every byte, and some damage is seen by nobody else
            replica.stop_writing()
        return replica
    except ReplicaBroken as broken:
        if replica:
            replica.close()
        log.warning("🔧 %s", broken)
        return None
