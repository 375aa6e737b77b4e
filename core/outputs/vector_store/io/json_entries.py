"""Read a JSON array of objects one by one: the file may be much larger than what fits into memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

CHUNK_BYTES = 1 << 16
MOST_ENTRY_CHARS = 10_000_000
"""Anything longer is not an entry: a quote or a bracket is missing."""
_SPACE = " \t\r\n"


class EntriesDamaged(Exception):
    """The text is not a JSON array of objects; the message says where it breaks off."""


def read_entries(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array. Raises EntriesDamaged, at the place of the damage."""
    text = _Text(file)
    if text.next_sign() != "[":
        raise EntriesDamaged("it does not begin with [")
    text.skip()
    count = 0
    while (sign := text.next_sign()) != "]":
        if count:
            if sign != ",":
                raise EntriesDamaged(f"there is no comma after entry {count}")
            text.skip()
            text.next_sign()
        entry = text.next_value(count)
        if not isinstance(entry, dict):
            raise EntriesDamaged(f"entry {count + 1} is not an object")
        yield entry
        count += 1
    text.skip()
    if text.next_sign():
        raise EntriesDamaged("there is something behind the last ]")


class _Text:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer = ""
        self._place = 0
        self._is_over = False

    def next_sign(self) -> str:
        """Skip spaces and return the next character; empty at the end."""
        while True:
            while self._place < len(self._buffer):
                if self._buffer[self._place] not in _SPACE:
                    return self._buffer[self._place]
                self._place += 1
            if not self._more():
                return ""

    def skip(self) -> None:
        self._place += 1

    def next_value(self, count: int) -> Any:
        decoder = json.JSONDecoder()
        while True:
            try:
                value, end = decoder.raw_decode(self._buffer, self._place)
            except ValueError as error:
                is_too_long = len(self._buffer) - self._place > MOST_ENTRY_CHARS
                if is_too_long or not self._more(len(self._buffer)):
                    raise EntriesDamaged(f"entry {count + 1} is not JSON") from error
                continue
            self._place = end
            return value

    def _more(self, wanted_chars: int = 0) -> bool:
        """Read on; False at the end. At least as much again as there is, so that a long value is tried few times."""
        if self._is_over:
            return False
        data = self._file.read(max(CHUNK_BYTES, wanted_chars))
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise EntriesDamaged("it is not UTF-8") from None
        self._is_over = not data
        self._buffer = self._buffer[self._place :] + text
        self._place = 0
        return bool(data)
