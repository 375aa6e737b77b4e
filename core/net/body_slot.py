"""Bodies in memory, counted from the wire until somebody has done with them.

Waiting at a gate takes no slot; a body that waits to be parsed does. So fetching never runs far ahead of reading.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class BodySlot:
    """Room for one body: `async with Room(semaphore) as slot: await fetcher.fetch(request, slot); …read it…`."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._is_taken = False

    async def take(self) -> None:
        """Called by the fetcher when it goes on the wire; a redirect takes no second place."""
        if not self._is_taken:
            await self._semaphore.acquire()
            self._is_taken = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_taken:
            self._semaphore.release()
