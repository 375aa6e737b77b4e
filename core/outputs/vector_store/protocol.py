"""The protocol of vector stores; `io/openai_store.py` and `io/redis_store.py` implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from core.outputs.vector_store.store_files import BegunUpload, StoredFile, UploadRequest, UploadResult


class VectorStore(Protocol):
    """The vector store of one domain, open. No method blocks the event loop."""

    @property
    def id(self) -> str:
        """Its id, as in `vectorstore_map.csv`."""

    def files(self) -> AsyncIterator[StoredFile]:
        """Every file of the store, of all sources; raise VectorStoreUnavailable if the list is cut short."""

    async def upload_mark(self) -> str:
        """Return a mark in the global storage: what is uploaded from now on comes behind it; empty if there is none."""

    async def forget_unrecorded(
        self, mark: str, uploads: Sequence[BegunUpload], is_named: Callable[[str], bool]
    ) -> int:
        """Delete what a killed process uploaded behind the mark; return how many.

        Only files with these names and sizes that are neither in the store nor named by a map of others.
        """

    async def upload(self, requests: Sequence[UploadRequest]) -> list[UploadResult]:
        """Upload files and attach them, at most some hundreds at once; a failure is a result, in the same order."""

    async def wait(self, file_ids: Sequence[str]) -> list[StoredFile]:
        """Wait until none of these is in progress; at the deadline they have FAILED, or wait for the next run.

        What still is IN_PROGRESS in the answer stays as it is; its `error` says why.
        """

    async def update_attributes(self, file_id: str, attributes: Mapping[str, str]) -> None:
        """Give a file other attributes, without a new upload."""

    async def detach(self, file_id: str) -> None:
        """Take a file out of the store; nothing if it is not there."""

    async def delete(self, file_id: str) -> None:
        """Delete a file for good, also outside the store; nothing if it is not there."""
