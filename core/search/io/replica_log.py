"""The log of a replica: which page versions came and went, in lines of checksum and JSON that are only ever appended.

The n-th chunk of the log is the n-th row of the vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.search.io.replica_state import Checkpoint, ReplicaBroken, ReplicaState
from core.search.models import IndexedPage


class PutPage(msgspec.Struct, frozen=True, tag="put"):
    """A version of a page was added."""

    page: IndexedPage
    first: int
    """Number of its first chunk; never used again, so that it also names the chunk in the lexical index."""
    chunks: tuple[str, ...]
    has_vector: tuple[bool, ...]
    vectors_crc: int = 0
    has_other: tuple[bool, ...] = ()
    """Which of them have a vector of other languages; empty: none."""
    other_crc: int = 0


class DropPage(msgspec.Struct, frozen=True, tag="drop"):
    """A version of a page was removed."""

    item_id: str
    version: str


class CommitMarker(msgspec.Struct, frozen=True, tag="commit"):
    """All before this belongs to one commit, which tantivy is asked for next."""

    next_row: int
    checkpoint: Checkpoint


LogRecord = PutPage | DropPage | CommitMarker
_decoder = msgspec.json.Decoder(LogRecord)


def log_path(folder: Path, epoch: int) -> Path:
    """Return the path of the log."""
    return folder / "vectors" / f"{epoch}.log"


def encode(record: LogRecord) -> bytes:
    """Return a record as a line of the log."""
    body = msgspec.json.encode(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(lines: bytes) -> Iterator[LogRecord]:
    """Yield the records in whole lines of the log. Raises ReplicaBroken."""
    for line in lines.splitlines():
        if len(line) < 10 or line[:8] != b"%08x" % zlib.crc32(line[9:]):
            raise ReplicaBroken("The search replica's log is damaged: a line has the wrong checksum.")
        yield _decoder.decode(line[9:])


def read(folder: Path, state: ReplicaState, start: int = 0) -> Iterator[LogRecord]:
    """Yield the committed records from a byte of the log on. Raises ReplicaBroken."""
    try:
        with log_path(folder, state.epoch).open("rb") as file:
            file.seek(start)
            lines = file.read(state.log_bytes - start)
    except OSError as error:
        raise ReplicaBroken(f"The search replica's log cannot be read: {error}.") from error
    if len(lines) != state.log_bytes - start:
        raise ReplicaBroken("The search replica's log is shorter than it should be.")
    yield from decode(lines)


def next_commit(folder: Path, state: ReplicaState) -> tuple[list[LogRecord], int]:
    """Return the records of the first commit beyond the state, its marker last, and their bytes.

    Raises ReplicaBroken if there is none.
    """
    records: list[LogRecord] = []
    size = 0
    for line in log_path(folder, state.epoch).read_bytes()[state.log_bytes :].splitlines(keepends=True):
        records += decode(line)
        size += len(line)
        if isinstance(records[-1], CommitMarker):
            return records, size
    raise ReplicaBroken("The search replica's words and log do not fit together.")
