"""The protocol of vector stores, and the values of it; `io/openai_store.py` and `io/redis_store.py` implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from core.errors import FreshetError, NotFound
from core.value_class import value_class


class FileStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSING = "missing"
    """Listed, and yet its bytes were deleted from the global storage: it has to be uploaded again."""


@value_class
class StoredFile:
    file_id: str
    status: FileStatus
    error: str = ""
    """Why it failed, for people."""
    uploaded_ts: float = 0.0
    embedded_ts: float = 0.0
    attributes: Mapping[str, str] = field(default_factory=dict)
    """`domain`, `source_id`, `unique_id`, `content_hash`, `generation`, and the place: `filename`, `url`."""


@value_class
class UploadRequest:
    unique_id: str
    path: str
    """Absolute."""
    filename: str
    """Name of the local file: a processed page is `Home.html`, although SharePoint calls it `Home.aspx`."""
    url: str
    content_hash: str
    """sha256 of the bytes."""
    attributes: Mapping[str, str]


@value_class
class UploadResult:
    """What became of an upload: a file id, or why there is none."""

    unique_id: str
    file_id: str = ""
    uploaded_ts: float = 0.0
    error: str = ""
    is_final: bool = False
    """Whether the store would refuse the same bytes again; otherwise the next run tries again."""


@value_class
class BegunUpload:
    """An upload that was begun; a killed process may have left it in the global storage, and no map names it."""

    filename: str
    size_bytes: int


class VectorStoreMissing(NotFound):
    """The vector store of a domain does not exist; the message says what to do."""


class VectorStoreUnavailable(FreshetError):
    """The vector store cannot be used now: no key, no connection, no permission, or it could not be created."""


class VectorStore(Protocol):
    """The vector store of one domain, open. No method blocks the event loop.

    What a store has no need of does nothing here.
    """

    @property
    def id(self) -> str:
        """Its id, as in `vectorstore_map.csv`."""

    def files(self) -> AsyncIterator[StoredFile]:
        """Every file of the store, of all sources; raise VectorStoreUnavailable if the list is cut short."""

    async def upload_mark(self) -> str:
        """Return a mark in the global storage: what is uploaded from now on comes behind it; empty if there is none."""
        return ""

    async def forget_unrecorded(
        self, mark: str, uploads: Sequence[BegunUpload], is_named: Callable[[str], bool]
    ) -> int:
        """Delete what a killed process uploaded behind the mark; return how many.

        Only files with these names and sizes that are neither in the store nor named by a map of others.
        """
        return 0

    async def upload(self, requests: Sequence[UploadRequest]) -> list[UploadResult]:
        """Upload files and attach them, at most some hundreds at once; a failure is a result, in the same order."""

    async def wait(self, file_ids: Sequence[str]) -> list[StoredFile]:
        """Wait until none of these is in progress; at the deadline they have FAILED, or wait for the next run.

        What still is IN_PROGRESS in the answer stays as it is; its `error` says why.
        """

    async def update_attributes(self, file_id: str, attributes: Mapping[str, str]) -> None:
        """Give a file other attributes, without a new upload."""
        return

    async def detach(self, file_id: str) -> None:
        """Take a file out of the store; nothing if it is not there."""
        return

    async def delete(self, file_id: str) -> None:
        """Delete a file for good, also outside the store; nothing if it is not there."""
        return
