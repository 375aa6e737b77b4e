"""A vector store of OpenAI: files are uploaded, attached in batches with their attributes, and waited for.

One file's failure is a result. What concerns the whole store is raised: VectorStoreMissing if it does not exist,
VectorStoreUnavailable if it cannot be used now.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.outputs.vector_store.io.openai_calls import CallFailed, OpenAiCalls
from core.outputs.vector_store.io.openai_files import OpenAiFiles, is_same_file
from core.outputs.vector_store.io.openai_wait import EmbedWait, stored_file
from core.outputs.vector_store.protocol import (
    BegunUpload,
    FileStatus,
    StoredFile,
    UploadRequest,
    UploadResult,
    VectorStoreMissing,
    VectorStoreUnavailable,
)
from core.sources.sharepoint.io.scratch_database import SeenIds

if TYPE_CHECKING:
    from openai.types import FileObject
    from openai.types.vector_stores import VectorStoreFile

FILES_PER_PAGE = 100
FILES_PER_BATCH = 2_000
UPLOADS_AT_ONCE = 8
LISTINGS = 3
"""How often a listing that changed while it was read is started again."""


class OpenAiStore:
    def __init__(
        self,
        calls: OpenAiCalls,
        store_id: str,
        wait_seconds: float,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._calls = calls
        self._files = OpenAiFiles(calls)
        self._id = store_id
        self._wait_seconds = wait_seconds
        self._should_stop = should_stop
        self._batches: dict[str, str] = {}
        """The batch in which a file was attached."""
        self._slots = asyncio.Semaphore(UPLOADS_AT_ONCE)

    @property
    def id(self) -> str:
        return self._id

    # ── looking ──

    async def files(self) -> AsyncIterator[StoredFile]:
        """Yield every file; of those that the global storage lacks, that they are missing."""
        async with self._whole_store():
            with await self._files.upload_times() as times:
                async for one in self._attached():
                    uploaded_ts = times.number_of(one.id)
                    is_missing = uploaded_ts is None and not await self._files.exists(one.id)
                    status = FileStatus.MISSING if is_missing else FileStatus(one.status)
                    yield replace(stored_file(one), status=status, uploaded_ts=float(uploaded_ts or 0))

    async def _attached(self) -> AsyncIterator[VectorStoreFile]:
        """Yield the files of the store; a list whose place was lost, since a file is gone, is read again."""
        with SeenIds() as seen:
            for number in range(LISTINGS):
                try:
                    async for one in self._listed():
                        if seen.add(one.id):
                            yield one
                    return
                except CallFailed as error:
                    if error.status != 400 or number == LISTINGS - 1:
                        raise

    def _listed(self) -> AsyncIterator[VectorStoreFile]:
        listing = self._calls.client.vector_stores.files
        return self._calls.each(partial(listing.list, self._id, limit=FILES_PER_PAGE, order="asc"))

    async def _attached_ids(self) -> set[str]:
        return {one.id async for one in self._attached()}

    # ── uploading ──

    async def upload_mark(self) -> str:
        async with self._whole_store():
            return await self._files.mark()

    async def forget_unrecorded(
        self, mark: str, uploads: Sequence[BegunUpload], is_named: Callable[[str], bool]
    ) -> int:
        """Delete unrecorded uploads of a killed process after the mark."""
        async with self._whole_store():
            attached = await self._attached_ids()
            lost = [
                one.id
                async for one in self._files.behind(mark)
                if one.id not in attached
                and any(is_same_file(one, begun.filename, begun.size_bytes) for begun in uploads)
            ]
            mine = await asyncio.to_thread(lambda: [file_id for file_id in lost if not is_named(file_id)])
            for file_id in mine:
                await self._files.delete(file_id)
        return len(mine)

    async def upload(self, requests: Sequence[UploadRequest]) -> list[UploadResult]:
        """Upload files, some at once, and attach them in batches; results are in the order of the requests."""
        if not requests:
            return []
        async with self._whole_store():
            mark = await self._files.mark()
            results = await asyncio.gather(*(self._upload(one, mark) for one in requests))
            pairs = list(zip(requests, results, strict=True))
            attached: dict[str, UploadResult] = {}
            uploaded = [(request, result) for request, result in pairs if result.file_id]
            for start in range(0, len(uploaded), FILES_PER_BATCH):
                attached |= await self._attach(uploaded[start : start + FILES_PER_BATCH])
            self._files.attached(result.file_id for _, result in uploaded)
        return [attached.get(result.file_id, result) for result in results]

    async def _upload(self, request: UploadRequest, mark: str) -> UploadResult:
        async with self._slots:
            try:
                uploaded: FileObject = await self._files.upload(
                    Path(request.path), request.filename, mark, self._attached_ids
                )
            except CallFailed as error:
                return UploadResult(request.unique_id, error=str(error), is_final=error.is_final)
            except OSError as error:
                return UploadResult(request.unique_id, error=f"The file cannot be read: {error.strerror}.")
        return UploadResult(request.unique_id, uploaded.id, float(uploaded.created_at))

    async def _attach(self, pairs: Sequence[tuple[UploadRequest, UploadResult]]) -> dict[str, UploadResult]:
        """Attach a batch; return other results by file id where a file could not be attached."""
        files = [
            {"file_id": result.file_id, "attributes": dict[str, str | float | bool](request.attributes)}
            for request, result in pairs
        ]
        wanted = {result.file_id for _, result in pairs}

        async def send() -> str:
            batches = self._calls.client.vector_stores.file_batches
            return (await batches.create(self._id, files=files)).id  # type: ignore[arg-type]

        async def find() -> str | None:
            return "" if wanted <= await self._attached_ids() else None

        try:
            batch_id = await self._calls.send(send, find)
        except CallFailed as error:
            await self.check()
            if error.is_final or error.is_missing:
                return await self._attach_singly(pairs)
            return {result.file_id: UploadResult(request.unique_id, error=str(error)) for request, result in pairs}
        self._batches |= dict.fromkeys(wanted, batch_id)
        return {}

    async def _attach_singly(self, pairs: Sequence[tuple[UploadRequest, UploadResult]]) -> dict[str, UploadResult]:
        """Attach one by one what was refused together: one of them may be at fault, and the others are not."""
        failed: dict[str, UploadResult] = {}
        for request, result in pairs:
            attributes = dict[str, str | float | bool](request.attributes)
            try:
                await self._calls.send(
                    lambda file_id=result.file_id, attributes=attributes: (  # type: ignore[misc]
                        self._calls.client.vector_stores.files.create(self._id, file_id=file_id, attributes=attributes)
                    )
                )
            except CallFailed as error:
                # An unattached upload would stay in the global storage for ever.
                with contextlib.suppress(CallFailed):
                    await self._files.delete(result.file_id)
                failed[result.file_id] = UploadResult(request.unique_id, error=str(error), is_final=error.is_final)
        return failed

    async def wait(self, file_ids: Sequence[str]) -> list[StoredFile]:
        async with self._whole_store():
            wait = EmbedWait(self._calls, self._id, time.monotonic() + self._wait_seconds, self._should_stop)
            found = await wait.for_files({file_id: self._batches.pop(file_id, "") for file_id in file_ids})
        if any(one.status is FileStatus.MISSING for one in found):
            await self.check()
        return found

    # ── changing and removing ──

    async def update_attributes(self, file_id: str, attributes: Mapping[str, str]) -> None:
        values = dict[str, str | float | bool](attributes)
        files = self._calls.client.vector_stores.files
        async with self._whole_store():
            await self._calls.send(lambda: files.update(file_id, vector_store_id=self._id, attributes=values))

    async def detach(self, file_id: str) -> None:
        files = self._calls.client.vector_stores.files
        async with self._whole_store():
            await self._calls.finds(lambda: files.delete(file_id, vector_store_id=self._id))

    async def delete(self, file_id: str) -> None:
        async with self._whole_store():
            await self._files.delete(file_id)

    async def check(self) -> None:
        """Raise VectorStoreMissing if the store does not exist."""
        try:
            await self._calls.send(lambda: self._calls.client.vector_stores.retrieve(self._id))
        except CallFailed as error:
            if error.is_missing:
                raise VectorStoreMissing(missing_sentence(self._id)) from None
            raise VectorStoreUnavailable(str(error)) from None

    @contextlib.asynccontextmanager
    async def _whole_store(self) -> AsyncIterator[None]:
        """Raise failures inside as failures of the whole store."""
        try:
            yield
        except CallFailed as error:
            if error.is_missing:
                await self.check()
            raise VectorStoreUnavailable(str(error)) from None


def missing_sentence(store_id: str) -> str:
    return (
        f"There is no vector store {store_id}. Correct vector_store_id in the domain.json, "
        "or make it empty: then the next crawl makes a new one."
    )
