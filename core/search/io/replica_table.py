"""Which chunks there are, and of which page: the log on disk, and the same in memory.

The log is lines of checksum and JSON, only ever appended to; a page version is put and dropped as a whole.
The n-th chunk of the log is the n-th row of the vectors.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.search.facets import page_date, page_facets, required_facets
from core.search.io.replica_state import Checkpoint, ReplicaBroken
from core.search.models import Filters, IndexedPage

COMPACT_ABOVE_ROWS = 1_000
"""Fewer dead rows than this are not worth a rewrite."""


class PutPage(msgspec.Struct, frozen=True, tag="put"):
    """A version of a page came."""

    page: IndexedPage
    first: int
    """Number of its first chunk; never used again, so that it also names the chunk in the lexical index."""
    chunks: tuple[str, ...]
    has_vector: tuple[bool, ...]
    vectors_crc: int = 0


class DropPage(msgspec.Struct, frozen=True, tag="drop"):
    """A version of a page went."""

    item_id: str
    version: str


class CommitMarker(msgspec.Struct, frozen=True, tag="commit"):
    """All before this belongs to one commit, which tantivy is asked for next."""

    next_row: int
    checkpoint: Checkpoint


LogRecord = PutPage | DropPage | CommitMarker
_decoder = msgspec.json.Decoder(LogRecord)


def encode(record: LogRecord) -> bytes:
    """A line of the log."""
    body = msgspec.json.encode(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(lines: bytes) -> Iterator[LogRecord]:
    """The records of a committed piece of the log."""
    for line in lines.splitlines():
        if len(line) < 10 or line[:8] != b"%08x" % zlib.crc32(line[9:]):
            raise ReplicaBroken("The search replica's log is damaged: a line has the wrong checksum.")
        yield _decoder.decode(line[9:])


def first_commit(tail: bytes) -> tuple[CommitMarker, bytes] | None:
    """The first commit in what the log holds beyond the state, and the piece it ends."""
    size = 0
    for line in tail.splitlines(keepends=True):
        size += len(line)
        for record in decode(line):
            if isinstance(record, CommitMarker):
                return record, tail[:size]
    return None


@dataclass(frozen=True, slots=True)
class ChunkColumns:
    """The table at one moment, for searches; lists are shared, and only read up to `size`."""

    size: int
    numbers: NDArray[np.int64]
    page_of: NDArray[np.int32]
    is_live: NDArray[np.bool_]
    is_comparable: NDArray[np.bool_]
    """Live and with a vector."""
    dates: NDArray[np.float64]
    chunk_ids: list[str]
    pages: list[IndexedPage]
    facets: dict[str, list[int]]
    reading_of: NDArray[np.uint16]
    """For each page which of `readings` its text reads as."""
    readings: tuple[str, ...]

    def slots(self, numbers: Sequence[int]) -> list[int | None]:
        """Where the chunks of these numbers are; None: unknown or gone."""
        if not self.size:
            return [None] * len(numbers)
        wanted = np.array(numbers, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.numbers, wanted), self.size - 1)
        is_there = (self.numbers[at] == wanted) & self.is_live[at]
        return [slot if there else None for slot, there in zip(at.tolist(), is_there.tolist(), strict=True)]

    def allowed(self, filters: Filters) -> NDArray[np.bool_] | None:
        """Which rows the filters let through; None: all."""
        masks = [self._with_any(values) for values in required_facets(filters)]
        if filters.since_ts is not None or filters.until_ts is not None:
            masks.append(self._between(filters.since_ts, filters.until_ts))
        if not masks:
            return None
        page_mask: NDArray[np.bool_] = np.logical_and.reduce(masks)
        return page_mask[self.page_of]

    def unspoken(self, spoken: frozenset[str] | None) -> NDArray[np.bool_] | None:
        """Which rows read as a language that is not among these; None: not one."""
        is_unspoken = [bool(name) and spoken is not None and name not in spoken for name in self.readings]
        if not any(is_unspoken):
            return None
        page_mask = np.array(is_unspoken, dtype=np.bool_)[self.reading_of]
        return page_mask[self.page_of]

    def pending(self, unspoken: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Which live rows have no vector yet, and could be compared if they had one; None: not one."""
        rows = self.is_live & ~self.is_comparable
        if unspoken is not None:
            rows &= ~unspoken
        return rows if rows.any() else None

    def _with_any(self, facets: Iterable[str]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.dates), dtype=np.bool_)
        for facet in facets:
            numbers = np.array(self.facets.get(facet, ()), dtype=np.int64)
            mask[numbers[numbers < len(mask)]] = True
        return mask

    def _between(self, since: float | None, until: float | None) -> NDArray[np.bool_]:
        mask = self.dates > 0
        if since is not None:
            mask &= self.dates >= since
        if until is not None:
            mask &= self.dates <= until
        return mask


class ChunkTable:
    """The log, read."""

    def __init__(self) -> None:
        self.dead = 0
        self._chunk_ids: list[str] = []
        self._numbers = array("q")
        self._page_of = array("i")
        self._is_live = bytearray()
        self._has_vector = bytearray()
        self._pages: list[IndexedPage] = []
        self._puts: list[tuple[int, int, int]] = []
        self._dates = array("d")
        self._facets: dict[str, list[int]] = {}
        self._reading_of = array("H")
        self._readings: dict[str, int] = {}
        self._live: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._chunk_ids)

    def apply(self, record: LogRecord) -> None:
        """Follow the log by one record."""
        if isinstance(record, PutPage):
            self._put(record)
        elif isinstance(record, DropPage):
            self._drop(record.item_id, record.version)

    def versions(self, item_id: str) -> list[str]:
        """The versions of a page that are there."""
        return list(self._live.get(item_id, ()))

    def item_ids(self) -> set[str]:
        """All pages that are there, and have chunks."""
        versions = list(self._live.items())
        return {item_id for item_id, own in versions if any(self._puts[number][1] for number in own.values())}

    def held(self, item_id: str) -> list[tuple[IndexedPage, frozenset[str]]]:
        """What there is of a page: each version with its chunks."""
        found = []
        for number in list(self._live.get(item_id, {}).values()):
            start, count, _ = self._puts[number]
            found.append((self._pages[number], frozenset(self._chunk_ids[start : start + count])))
        return found

    def should_compact(self) -> bool:
        """Is more than half of it dead?"""
        return self.dead > COMPACT_ABOVE_ROWS and self.dead * 2 > len(self)

    def live_puts(self, since: int = 0) -> Iterator[tuple[int, PutPage]]:
        """Every page that is there, from a row on: its first row, and a record that would put it."""
        for number in sorted(number for versions in self._live.values() for number in versions.values()):
            start, count, crc = self._puts[number]
            if start < since:
                continue
            rows = slice(start, start + count)
            has_vector = tuple(map(bool, self._has_vector[rows]))
            first = self._numbers[start] if count else 0
            yield start, PutPage(self._pages[number], first, tuple(self._chunk_ids[rows]), has_vector, crc)

    def columns(self) -> ChunkColumns:
        """The table as it is now."""
        is_live = np.array(self._is_live, dtype=np.bool_)
        return ChunkColumns(
            size=len(self),
            numbers=np.array(self._numbers, dtype=np.int64),
            page_of=np.array(self._page_of, dtype=np.int32),
            is_live=is_live,
            is_comparable=is_live & np.array(self._has_vector, dtype=np.bool_),
            dates=np.array(self._dates, dtype=np.float64),
            chunk_ids=self._chunk_ids,
            pages=self._pages,
            facets=self._facets,
            reading_of=np.array(self._reading_of, dtype=np.uint16),
            readings=tuple(self._readings),
        )

    def languages(self) -> frozenset[str]:
        """The languages of all pages."""
        return frozenset(name.partition(":")[2] for name in list(self._facets) if name.startswith("language:"))

    def _put(self, record: PutPage) -> None:
        number, count = len(self._pages), len(record.chunks)
        self._puts.append((len(self), count, record.vectors_crc))
        self._chunk_ids.extend(record.chunks)
        self._numbers.extend(range(record.first, record.first + count))
        self._page_of.extend([number] * count)
        self._is_live.extend(b"\1" * count)
        self._has_vector.extend(map(int, record.has_vector))
        self._pages.append(record.page)
        self._dates.append(page_date(record.page))
        self._reading_of.append(self._readings.setdefault(record.page.reads_as, len(self._readings)))
        for facet in page_facets(record.page):
            self._facets.setdefault(facet, []).append(number)
        self._live.setdefault(record.page.item_id, {})[record.page.version] = number

    def _drop(self, item_id: str, version: str) -> None:
        versions = self._live.get(item_id, {})
        number = versions.pop(version, None)
        if number is None:
            return
        if not versions:
            del self._live[item_id]
        start, count, _ = self._puts[number]
        self._is_live[start : start + count] = bytes(count)
        self.dead += count
