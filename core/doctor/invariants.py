"""The table of invariants: what can be wrong in a store, with a sentence for each problem.

Most are found and repaired by Lua in `io/checks.lua`; those between registry, texts and chunks by `io/index_checks.py`
and `io/index_repair.py`; the rest by `io/field_checks.py`, `io/queue_checks.py` and `io/record_recovery.py`. To add
one: a member here, its check there, and a plant in `tests/test_invariants.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from core.registry import field_parsing
from core.registry.record import MAY_HAVE_TEXT, Status
from core.value_class import value_class

FIELDS = ("status", "contentHash", "indexedHash", "aliasOf", "chunkCount")
"""The fields of a record that are read."""
Record = Mapping[str, str | None]


class Problem(StrEnum):
    """What can be wrong: the invariant that is broken, and a sentence about what breaks it.

    An invariant is a number that users see in `scripts.doctor --json`, or a word where it has none.
    """

    invariant: str

    def __new__(cls, invariant: str, sentence: str) -> Problem:
        """The sentence is the value."""
        member = str.__new__(cls, sentence)
        member._value_ = sentence
        member.invariant = invariant
        return member

    WRONG_TYPE = ("types", "a key that is of another type than it should be")
    NOT_EMBEDDED = ("I19", "indexed, and chunks or vectors are missing, damaged or of another space")
    NOT_QUEUED = ("I15", "waits for its chunks, and nobody knows")
    NO_TEXT = ("I20", "chunks of something that has no text any more")
    DANGLING_ID = ("I26", "not in the registry, and yet listed there or in search")
    MISPLACED = ("I17", "not in the sets of its status and partition, or in others")
    QUEUED_WITHOUT_TEXT = ("I26", "waits for chunks, and has no text")
    ORPHAN_CHUNK = ("I19", "a chunk or a vector that belongs to no page")
    RECORD_MISSING = ("I26", "an article that can be found, and its registry record is lost")
    DAMAGED_FIELDS = ("fields", "a record with fields that cannot be read")
    CREDENTIALS = ("I18", "a record that holds a secret")
    LISTED_WITHOUT_ARTICLE = ("I1", "in a category, and there is no such article")
    INDEXED_WITHOUT_ARTICLE = ("I3", "in the index of articles, and there is no such article")
    ARTICLE_NOT_IN_INDEX = ("I2", "an article that is not in the index")
    ARTICLE_NOT_IN_CATEGORY = ("I4", "an article that is not in its categories")
    WRONG_ARTICLE_TTL = ("I5", "an article without a TTL, or with a longer one than articles have")
    ARTICLE_NOT_ATTEMPTED = ("I7", "an article whose link is not remembered as attempted")
    STALE_ATTEMPT = ("I8", "an attempt remembered for longer than it should be, or without its time")
    BAD_FAILURE = ("I9", "a failure that is none, old, or not the last of its link")
    ALIAS_OF_NOTHING = ("I7", "an alias of an article that does not exist")
    ALTERED_TEXT = ("I6", "a text that is not what was stored")
    NOT_LISTED = ("I10", "an item that its source does not list")
    NEVER_DUE = ("I14", "an item that would never be checked again")
    DUE_AND_NOT_LISTED = ("I10", "due in a source that does not list it")
    WRONG_GENERATION = ("I16", "a forced reading that is counted wrongly")
    NO_PARENT = ("I21", "an image of a page that does not exist")
    ALIAS_CYCLE = ("aliases", "an alias of a page without a text, or of another alias")
    SOURCE_NOT_LISTED = ("I10", "a source that would never be listed again")
    SOURCE_DAMAGED = ("sources", "a source whose configuration cannot be read")
    DOMAIN_NOT_LISTED = ("I10", "a domain that is not in the list of domains")
    FEED_NEVER_DUE = ("I14", "a feed that would never be polled again")
    FEED_MISLISTED = ("I10", "a feed that is among the broken feeds and is not broken, or the other way round")
    LEASE_TOO_LONG = ("I11", "a lease that lasts longer than any worker asks for")
    NO_TTL = ("I12", "a key without a TTL that should have one")
    WRONG_COUNTERS = ("I28", "counters that are not the sum of their parts")
    JOB_MISPLACED = ("I24", "a job in several places of its queue, or in none")
    JOB_STUCK = ("I25", "a job that was taken and never begun")
    QUEUE_TYPE = ("types", "a key of RQ that is of another type than RQ's")


@value_class
class Finding:
    """One thing that is wrong."""

    problem: Problem
    name: str
    """The id of an item, article, chunk or job; or a key."""
    place: str = field(default="", compare=False)
    """Where it was found, if that matters: a partition, the `where` of a check in Lua, or a queue."""


def findings_of(problem: Problem, names: Iterable[str], place: str = "") -> list[Finding]:
    """Return one finding for each name."""
    return [Finding(problem, name, place) for name in names]


def page_problem(has_text: bool, record: Record, live: str, chunks: Sequence[str], waiting: object) -> Problem | None:
    """Tell what is wrong with a page by its record and its list of chunks; the chunks themselves are not read."""
    if not has_text:
        return Problem.NO_TEXT if chunks else None
    status = record["status"]
    if status not in MAY_HAVE_TEXT:
        return None
    knows = is_known(record)
    if status == Status.CRAWLED or (status != Status.INDEXED and not knows):
        if waiting is None:
            return Problem.NOT_QUEUED
        # Making a page due drops its indexed hash; its chunks may be of any version then.
        return Problem.NOT_EMBEDDED if live and record["indexedHash"] and live != record["indexedHash"] else None
    is_all = len(chunks) == field_parsing.integer(record["chunkCount"])
    return None if knows and is_all and live == record["indexedHash"] else Problem.NOT_EMBEDDED


def is_known(record: Record) -> bool:
    """Return whether search knows this very text, as far as the record says; never true of what is Crawled."""
    is_same = bool(record["indexedHash"]) and record["indexedHash"] == record["contentHash"]
    return is_same and record["status"] in MAY_HAVE_TEXT and record["status"] != Status.CRAWLED
