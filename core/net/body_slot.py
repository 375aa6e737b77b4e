"""A limit on the bodies in memory, from the request until the body is parsed.

Waiting at a gate takes no slot; a body that waits to be parsed does. So fetching never runs far ahead of parsing.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class BodySlot:
    """One body in memory: `async with BodySlot(semaphore) as slot: await fetcher.fetch(request, slot); …parse…`."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._is_taken = False

    async def take(self) -> None:
        """Take the slot, once: the fetcher does so before each request, also after a redirect."""
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
