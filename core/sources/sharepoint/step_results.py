"""The results of the steps of a crawl for one source, as its report has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from core.sources.sharepoint.coverage import Coverage

Counts = TypeVar("Counts", "DownloadCounts", "ProcessCounts", "EmbedCounts")

NOT_DOWNLOADED = "Nothing was downloaded yet; the download step comes first."
NO_COPY = "Its copy is not on this disk; the next crawl brings it."
"""Why an item cannot be read whose source has no file of it."""


@dataclass(slots=True)
class DownloadCounts:
    """What the download step did. Every number is of something that was done."""

    listed: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    downloaded: int = 0
    failed: int = 0
    """Could not be downloaded, in all batches."""
    skipped_types: int = 0
    """In SharePoint, but of a type that is not embedded."""
    retried: int = 0
    held: int = 0
    """Gone from SharePoint, but kept: so many at once are removed only when a person agrees."""
    missing_in_map: int = 0
    missing_on_disk: int = 0
    orphans_deleted: int = 0
    moved: int = 0


@dataclass(slots=True)
class ProcessCounts:
    """What the process step did."""

    processed: int = 0
    unchanged: int = 0
    failed: int = 0
    skipped: int = 0
    """Had no original on disk; the next download brings it."""


@dataclass(slots=True)
class EmbedCounts:
    """What the embed step did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    """Items of which only name or place changed: the file stays in the store, with new attributes."""
    uploaded: int = 0
    embedded: int = 0
    failed: int = 0
    skipped: int = 0
    """Had no file on disk, or are of a type that the store does not take."""
    cleaned: int = 0
    """Rows of files that the store no longer has."""
    in_failed_folder: int = 0
    """Files in `03_failed` at the end of the step, also since earlier runs."""


@dataclass(slots=True)
class SourceStatistics:
    """All of it, as the report of a crawl has it."""

    source_id: str
    source_type: str
    status: str = ""
    error: str = ""
    """Why the source was skipped, or is incomplete."""
    seconds: float = 0.0
    download: DownloadCounts = field(default_factory=DownloadCounts)
    process: ProcessCounts = field(default_factory=ProcessCounts)
    embed: EmbedCounts = field(default_factory=EmbedCounts)
    coverage: Coverage = field(default_factory=Coverage)

    @classmethod
    def of(cls, source_id: str, source_type: str, read: Mapping[str, Any]) -> Self:
        """Return the statistics of a source that go on from what `to_json` wrote; what cannot be read counts anew."""
        seconds = read.get("seconds")
        return cls(
            source_id,
            source_type,
            seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
            download=_counted(DownloadCounts, read.get("download")),
            process=_counted(ProcessCounts, read.get("process")),
            embed=_counted(EmbedCounts, read.get("embed")),
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def _counted(counts: type[Counts], read: object) -> Counts:
    found = read if isinstance(read, dict) else {}
    return counts(**{one.name: value for one in fields(counts) if type(value := found.get(one.name)) is int})
