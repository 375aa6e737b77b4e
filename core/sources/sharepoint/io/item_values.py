"""The values of a listing's items for one pass, on the disk: cells of rows, texts of pages. Blocks: for threads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key

_NEXT_PAGE = "SELECT number, id, content FROM items WHERE (number, id) > (?, ?) ORDER BY number, id LIMIT ?"


class ItemValues(ScratchDatabase):
    """The values of each item, by its id and in order of its number in the list."""

    SCHEMA = (
        "CREATE TABLE items (id BLOB PRIMARY KEY, number INTEGER NOT NULL, content TEXT NOT NULL) WITHOUT ROWID",
        "CREATE UNIQUE INDEX by_number ON items (number, id)",
    )

    def add_all(self, items: Iterable[tuple[str, str, Mapping[str, str]]]) -> None:
        """Take items: the id, the number in the list, and the values; instead of those of the same id."""
        rows = ((as_key(one), _number(number), json.dumps(dict(values))) for one, number, values in items)
        self._write_all("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)

    def get(self, unique_id: str) -> dict[str, str] | None:
        found = self._ask("SELECT content FROM items WHERE id = ?", as_key(unique_id))
        return json.loads(found[0][0]) if found else None

    def by_number(self) -> Iterator[tuple[int, dict[str, str]]]:
        last, last_id = -1, b""
        while found := self._ask(_NEXT_PAGE, last, last_id, PAGE_ROWS):
            yield from ((number, json.loads(content)) for number, _, content in found)
            last, last_id, _ = found[-1]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
