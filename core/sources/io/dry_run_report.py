"""What a crawl of one source would find and ask for, as scripts print it and the API sends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.sources.io.source import COMPLETE, UNCHANGED, Source
from core.urls.secrets import redact

MOST_NAMED = 20
"""How many of each group are named."""


@dataclass(slots=True)
class DryRunReport:
    """What a crawl of one source would find and ask for."""

    source: Source
    added: int = 0
    """Items that are not known yet, or known and never read."""
    changed: int = 0
    """Known, and the listing says that it has moved. A site's pages say so only when they are fetched."""
    removed: int = 0
    """Missing from a complete listing; unknown for a site."""
    unchanged: int = 0
    refused: int = 0
    listing_requests: int = 0
    visits: int = 0
    """Requests for the items themselves, at most; a folder needs none."""
    download_bytes: int = 0
    """What would be downloaded, where the listing tells sizes."""
    uploads: int = 0
    """Files that a vector store would get."""
    how: str = ""
    """How the listing ended."""
    held: str = ""
    """Why a crawl would not remove that many."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """The first that would be `added`, `changed`, `removed` or `refused`, the last with the reason."""

    def name(self, group: str, name: str) -> None:
        named = self.names.setdefault(group, [])
        if len(named) < MOST_NAMED:
            named.append(redact(name))

    @property
    def is_incomplete(self) -> bool:
        """Could the source not be listed to its end, though its listing is evidence?"""
        return self.source.is_listing_evidence and self.how not in (COMPLETE, UNCHANGED)

    @property
    def requests(self) -> int:
        return self.listing_requests + self.visits

    def to_json(self) -> dict[str, object]:
        """Return the report as scripts print it and the API sends it."""
        return {
            "source": self.source.sid,
            "kind": self.source.state.record.kind,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed if self.source.is_listing_evidence else None,
            "unchanged": self.unchanged,
            "refused": self.refused,
            "requests": self.requests,
            "listing": self.how,
            "held": self.held,
            "download_bytes": self.download_bytes,
            "uploads": self.uploads,
            "names": self.names,
        }
