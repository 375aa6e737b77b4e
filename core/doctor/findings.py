"""What can be wrong in a store, by the invariant it breaks. Values only; reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from core.registry import field_parsing
from core.registry.record import MAY_HAVE_TEXT, Status

FIELDS = ("status", "contentHash", "indexedHash", "aliasOf", "chunkCount")
"""What of a record is asked."""
Record = Mapping[str, str | None]


class Wrong(StrEnum):
    """What can be wrong."""

    WRONG_TYPE = "a key that is of another type than it should be"
    NOT_EMBEDDED = "indexed, and chunks or vectors are missing, damaged or of another space"
    NOT_WAITING = "waits for its chunks, and nobody knows"
    NO_TEXT = "chunks of something that has no text any more"
    NO_RECORD = "not in the registry, and yet listed there or in search"
    MISPLACED = "not in the sets of its status and partition, or in others"
    WAITS_FOR_NOTHING = "waits for chunks, and has no text"
    ASTRAY = "a chunk or a vector that belongs to no page"
    RECORD_LOST = "an article that can be found, and its registry record is lost"
    DAMAGED_FIELDS = "a record with fields that cannot be read"
    CREDENTIALS = "a record that holds a secret"
    LISTED_WITHOUT_ARTICLE = "in a category, and there is no such article"
    INDEXED_WITHOUT_ARTICLE = "in the index of articles, and there is no such article"
    ARTICLE_NOT_IN_INDEX = "an article that is not in the index"
    ARTICLE_NOT_IN_CATEGORY = "an article that is not in its categories"
    ARTICLE_TTL = "an article without a TTL, or with a longer one than articles have"
    ARTICLE_NOT_REMEMBERED = "an article whose link is not remembered as attempted"
    OLD_MEMORY = "an attempt remembered for longer than it should be, or without its time"
    FAILURE = "a failure that is none, old, or not the last of its link"
    ALIAS_OF_NOTHING = "an alias of an article that does not exist"
    ALTERED_TEXT = "a text that is not what was stored"
    NOT_LISTED = "an item that its source does not list"
    NEVER_DUE = "an item that would never be checked again"
    DUE_AND_NOT_LISTED = "due in a source that does not list it"
    GENERATION = "a forced reading that is counted wrongly"
    NO_PARENT = "an image of a page that does not exist"
    ALIAS_CYCLE = "an alias of a page without a text, or of another alias"
    SOURCE_NOT_LISTED = "a source that would never be listed again"
    SOURCE_DAMAGED = "a source whose configuration cannot be read"
    DOMAIN_NOT_LISTED = "a domain that is not in the list of domains"
    FEED_NEVER_DUE = "a feed that would never be polled again"
    LEASE_TOO_LONG = "a lease that lasts longer than any worker asks for"
    NO_TTL = "a key without a TTL that should have one"
    COUNTERS = "counters that are not the sum of their parts"
    JOB_MISPLACED = "a job in several places of its queue, or in none"
    JOB_STUCK = "a job that was taken and never begun"
    QUEUE_TYPE = "a key of RQ that is of another type than RQ's"


IDS: Mapping[Wrong, str] = {
    Wrong.WRONG_TYPE: "types",
    Wrong.NOT_EMBEDDED: "I19",
    Wrong.NOT_WAITING: "I15",
    Wrong.NO_TEXT: "I20",
    Wrong.NO_RECORD: "I26",
    Wrong.MISPLACED: "I17",
    Wrong.WAITS_FOR_NOTHING: "I26",
    Wrong.ASTRAY: "I19",
    Wrong.RECORD_LOST: "I26",
    Wrong.DAMAGED_FIELDS: "fields",
    Wrong.CREDENTIALS: "I18",
    Wrong.LISTED_WITHOUT_ARTICLE: "I1",
    Wrong.ARTICLE_NOT_IN_INDEX: "I2",
    Wrong.INDEXED_WITHOUT_ARTICLE: "I3",
    Wrong.ARTICLE_NOT_IN_CATEGORY: "I4",
    Wrong.ARTICLE_TTL: "I5",
    Wrong.ARTICLE_NOT_REMEMBERED: "I7",
    Wrong.OLD_MEMORY: "I8",
    Wrong.FAILURE: "I9",
    Wrong.ALIAS_OF_NOTHING: "I7",
    Wrong.ALTERED_TEXT: "I6",
    Wrong.NOT_LISTED: "I10",
    Wrong.NEVER_DUE: "I14",
    Wrong.DUE_AND_NOT_LISTED: "I10",
    Wrong.GENERATION: "I16",
    Wrong.NO_PARENT: "I21",
    Wrong.ALIAS_CYCLE: "aliases",
    Wrong.SOURCE_NOT_LISTED: "I10",
    Wrong.SOURCE_DAMAGED: "sources",
    Wrong.DOMAIN_NOT_LISTED: "I10",
    Wrong.FEED_NEVER_DUE: "I14",
    Wrong.LEASE_TOO_LONG: "I11",
    Wrong.NO_TTL: "I12",
    Wrong.COUNTERS: "I28",
    Wrong.JOB_MISPLACED: "I24",
    Wrong.JOB_STUCK: "I25",
    Wrong.QUEUE_TYPE: "types",
}
"""The invariant that is broken, as the reliability notes number them; a word where they have no number."""


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
    is_all = len(chunks) == field_parsing.integer(record["chunkCount"])
    return None if knows and is_all and live == record["indexedHash"] else Wrong.NOT_EMBEDDED


def is_known(record: Record) -> bool:
    """Does search know this very text, as far as the record tells? What is Crawled is not looked at so closely."""
    is_same = bool(record["indexedHash"]) and record["indexedHash"] == record["contentHash"]
    return is_same and record["status"] in MAY_HAVE_TEXT and record["status"] != Status.CRAWLED
