"""What is noted of a complete listing: which rows it had, and from which point on Microsoft Graph tells changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.stored_source import StoredSource
from core.value_class import value_class

_DIGESTS = 1 << 256


@value_class
class ListingMemory:
    """Holds for one configuration of a source and one set of rows; anything else is listed anew."""

    source: str
    link: str
    """Where Graph tells what has changed since."""
    rows: str


class RowsDigest:
    """One text for a set of rows, in whatever order they come: a map that is older or was edited has another."""

    def __init__(self) -> None:
        self._sum = self._count = 0

    def add(self, rows: Iterable[SharePointRow]) -> None:
        for row in rows:
            cells = json.dumps(row.cells()).encode()
            self._sum = (self._sum + int.from_bytes(hashlib.sha256(cells).digest())) % _DIGESTS
            self._count += 1

    def text(self) -> str:
        return f"{self._count}:{self._sum:064x}"


def fingerprint(source: StoredSource) -> str:
    """Return a text that changes with whatever decides what is listed."""
    parts = (source.site_url, source.sharepoint_url_part, source.filter, source.drive_id)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
