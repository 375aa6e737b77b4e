"""Wait until OpenAI has embedded files. Its own helpers have no deadline; this one has.

A batch is asked as a whole, and in the end for the names of what failed. Files whose batch is not known are asked one
by one. What is in progress at the deadline goes on in the store, and the next run waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.outputs.vector_store.io.openai_calls import CallFailed, OpenAiCalls
from core.outputs.vector_store.protocol import FileStatus, StoredFile

if TYPE_CHECKING:
    from openai.types.vector_stores import VectorStoreFile

FILES_PER_PAGE = 100
ASKED_AT_ONCE = 8
FIRST_POLL_SECONDS = 0.1
LONGEST_POLL_SECONDS = 10.0
_POLL_GROWTH = 1.5
_STOP_SECONDS = 0.5
"""How often a wait looks whether the run was stopped."""
_TOO_LATE = "It was not embedded in time (OPENAI_WAIT_SECONDS); the next run looks again."
_CANCELLED = "Its embedding was cancelled."
_GONE = "It is not in the vector store any more."


class EmbedWait:
    def __init__(self, calls: OpenAiCalls, store_id: str, deadline: float, should_stop: Callable[[], bool]) -> None:
        """The deadline is monotonic. A stop leaves what is in progress as it is."""
        self._calls = calls
        self._store_id = store_id
        self._deadline = deadline
        self._should_stop = should_stop

    async def for_files(self, batches: Mapping[str, str]) -> list[StoredFile]:
        """Return what became of each file; `batches` has their ids, each with its batch, empty if it is not known."""
        found: dict[str, StoredFile] = {}
        for batch_id in dict.fromkeys(batches.values()):
            if batch_id:
                await self._until_done(batch_id)
                found |= {one.id: stored_file(one) async for one in self._batch_files(batch_id) if one.id in batches}
        slots = asyncio.Semaphore(ASKED_AT_ONCE)
        rest = [file_id for file_id in batches if file_id not in found or _is_busy(found[file_id])]
        found |= {one.file_id: one for one in await asyncio.gather(*(self._one(one, slots) for one in rest))}
        return [found[file_id] for file_id in batches]

    async def _until_done(self, batch_id: str) -> None:
        batches = self._calls.client.vector_stores.file_batches.with_raw_response
        await self._polled(lambda: batches.retrieve(batch_id, vector_store_id=self._store_id))

    async def _polled(self, ask: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
        """Ask until it is not in progress any more, and return it; True: the deadline came first."""
        pause = FIRST_POLL_SECONDS
        while True:
            answer = await self._calls.send(ask)
            found = answer.parse()
            if found.status != "in_progress" or self._should_stop():
                return found, False
            if not await self._pause(pause, answer.headers):
                return found, True
            pause = min(pause * _POLL_GROWTH, LONGEST_POLL_SECONDS)

    def _batch_files(self, batch_id: str) -> AsyncIterator[VectorStoreFile]:
        """Yield the files of a batch: which of them failed, and why."""
        listing = self._calls.client.vector_stores.file_batches.list_files
        of_batch = partial(listing, batch_id, vector_store_id=self._store_id)
        return self._calls.each(partial(of_batch, limit=FILES_PER_PAGE, order="asc"))

    async def _one(self, file_id: str, slots: asyncio.Semaphore) -> StoredFile:
        files = self._calls.client.vector_stores.files.with_raw_response

        async def ask() -> Any:
            async with slots:
                return await files.retrieve(file_id, vector_store_id=self._store_id)

        try:
            found, is_late = await self._polled(ask)
        except CallFailed as error:
            if error.is_missing:
                return StoredFile(file_id, FileStatus.MISSING, _GONE)
            raise
        return replace(stored_file(found), error=_TOO_LATE) if is_late else stored_file(found)

    async def _pause(self, seconds: float, headers: Mapping[str, str]) -> bool:
        """Wait for the next poll, as the answer asks for; False if the deadline has come."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        with contextlib.suppress(ValueError):
            seconds = float(headers.get("openai-poll-after-ms", "")) / 1000
        ends_at = time.monotonic() + min(max(seconds, FIRST_POLL_SECONDS), LONGEST_POLL_SECONDS, left)
        while (rest := ends_at - time.monotonic()) > 0 and not self._should_stop():  # noqa: ASYNC110
            await asyncio.sleep(min(rest, _STOP_SECONDS))
        return True


def stored_file(one: VectorStoreFile) -> StoredFile:
    attributes = {name: str(value) for name, value in (one.attributes or {}).items()}
    error = one.last_error.message if one.last_error else ""
    if one.status == "cancelled" and not error:
        error = _CANCELLED
    return StoredFile(one.id, FileStatus(one.status), error, embedded_ts=float(one.created_at), attributes=attributes)


def _is_busy(one: StoredFile) -> bool:
    return one.status is FileStatus.IN_PROGRESS
