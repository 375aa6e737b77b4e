"""The global storage of files at OpenAI: upload, look for what a lost answer left there, delete.

There is no idempotency key. What was uploaded since a mark, with the same name and as many bytes, and is known to
nobody, is the upload whose answer was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from core.outputs.vector_store.io.openai_calls import OpenAiCalls
from core.sources.sharepoint.io.scratch_database import SeenIds

if TYPE_CHECKING:
    from openai.types import FileObject

FILES_PER_PAGE = 2_000
"""OpenAI gives up to 10,000; a page is held in memory."""
_SKEW_SECONDS = 2
"""Times are whole seconds of several servers."""
_QUOTE_IN_FORMS = "%22"


class OpenAiFiles:
    def __init__(self, calls: OpenAiCalls) -> None:
        self._calls = calls
        self._unattached: set[str] = set()
        """What this process uploaded and is not in the store yet."""
        self._turns: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    async def mark(self) -> str:
        """Return a mark of the newest file: what is uploaded from now on is not older."""
        page = await self._calls.send(lambda: self._calls.client.files.list(limit=1, order="desc"))
        return f"{page.data[0].created_at}" if page.data else "0"

    async def upload(
        self, path: Path, filename: str, mark: str, attached: Callable[[], Awaitable[Collection[str]]]
    ) -> FileObject:
        """Upload a file once, even if an answer is lost. Raises CallFailed, or OSError if it cannot be read.

        `attached` tells which files are in the store: those were uploaded before.
        """
        size = (await asyncio.to_thread(path.stat)).st_size

        async def send() -> FileObject:
            with path.open("rb") as content:
                return await self._calls.client.files.create(file=(filename, content), purpose="assistants")

        async def find() -> FileObject | None:
            taken = {*self._unattached, *await attached()}
            async for one in self.behind(mark):
                if one.id not in taken and is_same_file(one, filename, size):
                    return one
            return None

        # One upload per name and size at a time: two lost answers could not be told apart.
        turn = self._turns.setdefault((filename, size), asyncio.Lock())
        async with turn:
            uploaded = await self._calls.send(send, find)
            self._unattached.add(uploaded.id)
        return uploaded

    def attached(self, file_ids: Iterable[str]) -> None:
        """Take note that these are in the store now, or given up."""
        self._unattached.difference_update(file_ids)

    async def behind(self, mark: str) -> AsyncIterator[FileObject]:
        """Yield the files that were uploaded behind a mark, the newest first."""
        oldest = int(mark or 0) - _SKEW_SECONDS
        async for one in self._all():
            if one.created_at < oldest:
                return
            yield one

    async def upload_times(self) -> SeenIds:
        """Return every file with the second in which it was uploaded; an account may have a million of them."""
        times = SeenIds()
        async for one in self._all():
            times.add(one.id, one.created_at)
        return times

    async def exists(self, file_id: str) -> bool:
        return await self._calls.finds(lambda: self._calls.client.files.retrieve(file_id))

    async def delete(self, file_id: str) -> None:
        """Delete a file; nothing if it is not there."""
        await self._calls.finds(lambda: self._calls.client.files.delete(file_id))

    def _all(self) -> AsyncIterator[FileObject]:
        return self._calls.each(partial(self._calls.client.files.list, limit=FILES_PER_PAGE, order="desc"))


def is_same_file(one: FileObject, filename: str, size: int) -> bool:
    """Return whether the file has this name and size. Some servers keep quotes as forms escape them."""
    return one.bytes == size and one.filename in (filename, filename.replace('"', _QUOTE_IN_FORMS))
