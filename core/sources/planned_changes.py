"""The planned changes of a crawl of a source with local copies, and what they would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from core.value_class import value_class


@value_class
class PlannedChanges:
    """Nothing of it was done."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    refused: int = 0
    """There, but of a type that is not embedded."""
    requests: int = 0
    """Requests that were sent to find this out."""
    downloads: int = 0
    """Requests that a crawl would send besides."""
    download_bytes: int = 0
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The first URLs that would be `added`, `changed` or `removed`."""
    problem: str = ""
    """Why nothing is known: a crawl would skip the source."""

    @property
    def uploads(self) -> int:
        """How many files a vector store would get."""
        return self.added + self.changed

    @property
    def known(self) -> int:
        """How many items the source has, with those that would go and those that would come."""
        return self.added + self.changed + self.unchanged + self.removed
