"""What can be wrong between registry and search, and how a record tells it. Values only; reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from core import lenient
from core.registry import MAY_HAVE_TEXT, Status

FIELDS = ("status", "contentHash", "indexedHash", "aliasOf", "chunkCount")
"""What of a record is asked."""
Record = Mapping[str, str | None]


class Wrong(StrEnum):
    """What can be wrong between registry and search."""

    WRONG_TYPE = "a key that is of another type than it should be"
    NOT_EMBEDDED = "indexed, and chunks or vectors are missing, damaged or of another space"
    NOT_WAITING = "waits for its chunks, and nobody knows"
    NO_TEXT = "chunks of something that has no text any more"
    NO_RECORD = "not in the registry, and yet listed there or in search"
    MISPLACED = "not in the sets of its status and partition, or in others"
    WAITS_FOR_NOTHING = "waits for chunks, and has no text"
    ASTRAY = "a chunk or a vector that belongs to no page"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    wrong: Wrong
    item_id: str
    """Of an item; of what is astray, the chunk's; of another type, the key."""
    place: str = field(default="", compare=False)
    """The partition that names what has no record, or none that can be read."""


def every(wrong: Wrong, names: Sequence[str]) -> list[Finding]:
    """The same of all these."""
    return [Finding(wrong, name) for name in names]


def judge(has_text: bool, record: Record, live: str, chunks: Sequence[str], waiting: object) -> Wrong | None:
    """What the record and the list of chunks tell; whether these are whole is another question."""
    if not has_text:
        return Wrong.NO_TEXT if chunks else None
    status = record["status"]
    if status not in MAY_HAVE_TEXT:
        return None
    knows = is_known(record)
    if status == Status.CRAWLED or (status != Status.INDEXED and not knows):
        if waiting is None:
            return Wrong.NOT_WAITING
        # Whoever makes a page due forgets what search knows of it; then its chunks may be of any version.
        return Wrong.NOT_EMBEDDED if live and record["indexedHash"] and live != record["indexedHash"] else None
    is_all = len(chunks) == lenient.integer(record["chunkCount"])
    return None if knows and is_all and live == record["indexedHash"] else Wrong.NOT_EMBEDDED


def is_known(record: Record) -> bool:
    """Does search know this very text, as far as the record tells? What is Crawled is not looked at so closely."""
    is_same = bool(record["indexedHash"]) and record["indexedHash"] == record["contentHash"]
    return is_same and record["status"] in MAY_HAVE_TEXT and record["status"] != Status.CRAWLED
