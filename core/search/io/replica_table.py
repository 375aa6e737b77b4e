"""The log of a replica in memory: which chunks there are, and of which page."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.search.io.replica_log import DropPage, LogRecord, PutPage
from core.search.models import Filters, IndexedPage
from core.value_class import value_class

COMPACT_ABOVE_ROWS = 1_000
"""Fewer dead rows than this are not worth a rewrite."""

Mask = NDArray[np.bool_]


@value_class
class ChunkColumns:
    """The table at one moment, for searches; lists are shared, and only read up to `size`."""

    size: int
    numbers: NDArray[np.int64]
    page_of: NDArray[np.int32]
    is_live: Mask
    is_comparable: Mask
    """Live and with a vector."""
    other_rows: NDArray[np.int32]
    """For each vector of other languages the row of its chunk."""
    is_other: Mask
    """Live and with a vector of other languages."""
    dates: NDArray[np.float64]
    chunk_ids: list[str]
    pages: list[IndexedPage]
    facets: dict[str, list[int]]
    languages: frozenset[str]
    """What pages declare as their language."""
    detected: tuple[str, ...]
    """The languages detected in texts."""
    detected_of: NDArray[np.uint16]
    """For each page the place of its language in `detected`."""

    def rows(self, numbers: Sequence[int]) -> list[int | None]:
        """Return the rows of the chunks with these numbers; None: unknown or dead."""
        if not self.size:
            return [None] * len(numbers)
        wanted = np.array(numbers, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.numbers, wanted), self.size - 1)
        is_there = (self.numbers[at] == wanted) & self.is_live[at]
        return [row if there else None for row, there in zip(at.tolist(), is_there.tolist(), strict=True)]

    def rows_of_pages(self, rows: Sequence[int]) -> Mask:
        """Return which rows are of the same pages as these."""
        page_mask = np.zeros(len(self.dates), dtype=np.bool_)
        page_mask[self.page_of[list(rows)]] = True
        mask: Mask = page_mask[self.page_of]
        return mask

    def allowed(self, filters: Filters) -> Mask | None:
        """Return which rows the filters let through; None: all."""
        masks = []
        for choices in filters.facet_choices:
            mask = np.zeros(len(self.dates), dtype=np.bool_)
            for facet in choices:
                pages = np.array(self.facets.get(facet, ()), dtype=np.int64)
                mask[pages[pages < len(mask)]] = True
            masks.append(mask)
        if filters.has_dates:
            masks.append(self.dates > 0)
        if filters.since_ts is not None:
            masks.append(self.dates >= filters.since_ts)
        if filters.until_ts is not None:
            masks.append(self.dates <= filters.until_ts)
        if not masks:
            return None
        page_mask: Mask = np.logical_and.reduce(masks)
        return page_mask[self.page_of]

    def foreign(self, model_languages: frozenset[str] | None) -> Mask | None:
        """Return which rows are in a language that the model does not understand; None: not one."""
        is_foreign = [
            bool(name) and model_languages is not None and name not in model_languages for name in self.detected
        ]
        if not any(is_foreign):
            return None
        page_mask = np.array(is_foreign, dtype=np.bool_)[self.detected_of]
        return page_mask[self.page_of]

    def pending(self, foreign: Mask | None, comparable: Mask) -> Mask | None:
        """Return which live rows have no vector yet, and could be compared if they had one; None: not one."""
        rows = self.is_live & ~comparable
        if foreign is not None:
            rows &= ~foreign
        return rows if rows.any() else None


class LivePut(NamedTuple):
    """A page that is live: its first row, its first row of other vectors, and the record that would put it."""

    row: int
    other_row: int
    put: PutPage


class _PutRows(NamedTuple):
    """Where the chunks and vectors of a page are."""

    start: int
    chunks: int
    crc: int
    other_start: int
    other_crc: int
    has_other: tuple[bool, ...]


class ChunkTable:
    """All chunks that were ever put, in the order of the log, and which of them are live."""

    def __init__(self, records: Iterable[LogRecord] = ()) -> None:
        self._dead = 0
        self._chunk_ids: list[str] = []
        self._numbers = array("q")
        self._page_of = array("i")
        self._is_live = bytearray()
        self._has_vector = bytearray()
        self._pages: list[IndexedPage] = []
        self._puts: list[_PutRows] = []
        self._other_rows = array("i")
        self._dates = array("d")
        self._facets: dict[str, list[int]] = {}
        self._detected: dict[str, int] = {}
        self._detected_of = array("H")
        self._live: dict[str, dict[str, int]] = {}
        self.apply(records)

    def __len__(self) -> int:
        return len(self._chunk_ids)

    @property
    def other_count(self) -> int:
        """How many vectors of other languages there are, dead ones too."""
        return len(self._other_rows)

    def apply(self, records: Iterable[LogRecord]) -> None:
        """Follow the log by these records."""
        for record in records:
            if isinstance(record, PutPage):
                self._put(record)
            elif isinstance(record, DropPage):
                self._drop(record.item_id, record.version)

    def versions(self, item_id: str) -> list[str]:
        """Return the live versions of a page."""
        return list(self._live.get(item_id, ()))

    def item_ids(self) -> set[str]:
        """Return the ids of all live pages that have chunks."""
        versions = list(self._live.items())
        return {item_id for item_id, own in versions if any(self._puts[number].chunks for number in own.values())}

    def pages(self, item_id: str) -> list[tuple[IndexedPage, frozenset[str]]]:
        """Return each live version of a page with the ids of its chunks."""
        pages = []
        for number in list(self._live.get(item_id, {}).values()):
            start, count = self._puts[number][:2]
            pages.append((self._pages[number], frozenset(self._chunk_ids[start : start + count])))
        return pages

    def should_compact(self) -> bool:
        """Return whether more than half of the table is dead."""
        return self._dead > COMPACT_ABOVE_ROWS and self._dead * 2 > len(self)

    def live_puts(self, since: int = 0) -> Iterator[LivePut]:
        """Yield every live page from a row on."""
        for number in sorted(number for versions in self._live.values() for number in versions.values()):
            start, count, crc, other_start, other_crc, has_other = self._puts[number]
            if start < since:
                continue
            rows = slice(start, start + count)
            has_vector = tuple(map(bool, self._has_vector[rows]))
            first = self._numbers[start] if count else 0
            chunks = tuple(self._chunk_ids[rows])
            put = PutPage(self._pages[number], first, chunks, has_vector, crc, has_other, other_crc)
            yield LivePut(start, other_start, put)

    def columns(self) -> ChunkColumns:
        """Return the table as it is now."""
        is_live = np.array(self._is_live, dtype=np.bool_)
        facets = list(self._facets)
        other_rows = np.array(self._other_rows, dtype=np.int32)
        is_other = np.zeros(len(is_live), dtype=np.bool_)
        is_other[other_rows] = True
        return ChunkColumns(
            size=len(self),
            numbers=np.array(self._numbers, dtype=np.int64),
            page_of=np.array(self._page_of, dtype=np.int32),
            is_live=is_live,
            is_comparable=is_live & np.array(self._has_vector, dtype=np.bool_),
            other_rows=other_rows,
            is_other=is_live & is_other,
            dates=np.array(self._dates, dtype=np.float64),
            chunk_ids=self._chunk_ids,
            pages=self._pages,
            facets=self._facets,
            languages=frozenset(name.partition(":")[2] for name in facets if name.startswith("language:")),
            detected=tuple(self._detected),
            detected_of=np.array(self._detected_of, dtype=np.uint16),
        )

    def _put(self, record: PutPage) -> None:
        number, count = len(self._pages), len(record.chunks)
        place = _PutRows(
            len(self), count, record.vectors_crc, len(self._other_rows), record.other_crc, record.has_other
        )
        self._puts.append(place)
        self._other_rows.extend(len(self) + at for at, is_there in enumerate(record.has_other) if is_there)
        self._chunk_ids.extend(record.chunks)
        self._numbers.extend(range(record.first, record.first + count))
        self._page_of.extend([number] * count)
        self._is_live.extend(b"\1" * count)
        self._has_vector.extend(map(int, record.has_vector))
        self._pages.append(record.page)
        self._dates.append(record.page.date_ts)
        self._detected_of.append(self._detected.setdefault(record.page.detected_language, len(self._detected)))
        for facet in record.page.facets:
            self._facets.setdefault(facet, []).append(number)
        self._live.setdefault(record.page.item_id, {})[record.page.version] = number

    def _drop(self, item_id: str, version: str) -> None:
        versions = self._live.get(item_id, {})
        number = versions.pop(version, None)
        if number is None:
            return
        if not versions:
            del self._live[item_id]
        start, count = self._puts[number][:2]
        self._is_live[start : start + count] = bytes(count)
        self._dead += count
