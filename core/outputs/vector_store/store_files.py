"""The files of a vector store, as values that every store returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from core.errors import FreshetError, NotFound
from core.value_class import value_class


class FileStatus(StrEnum):
    """How far a store is with a file."""

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
    """A local file that a store should have."""

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
