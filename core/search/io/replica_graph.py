"""A graph over the vectors of a replica (HNSW, by usearch), so that a large one need not compare every row.

    <folder>/vectors/<epoch>-<born>-<rows>-<checksum>.usearch

It knows the first so many rows of an epoch; later ones are compared exactly. It only proposes rows: their scores come
from the rows themselves, which is why it may keep them with eight bits for each number. Nothing depends on it: without
usearch, or with a file that is missing, damaged or of another replica, all rows are compared.
"""

from __future__ import annotations

import re
import threading
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.search.io.replica_state import ReplicaState

HNSW_ABOVE = 100_000
"""Rows. Up to here all are compared exactly: 8 ms on a free machine, 15 ms of CPU on a busy one."""
CONNECTIVITY = 16
EXPANSION_ADD = 64
"""How well a row is placed. 128 took nearly twice the time. Made-up clusters of 50, 100,000 rows: recall@10 1.0 with
both, recall@200, where all but 50 are equally far, .61 against .64."""
_BORN_LETTERS = 8
_NAME = re.compile(r"(\d+-[0-9a-f]+)-(\d+)-([0-9a-f]{8})\.usearch")
_READ_BYTES = 1 << 20


class VectorGraph:
    """A graph, open for searching."""

    def __init__(self, path: Path, rows: int, index: Any) -> None:
        self.path = path
        self.rows = rows
        """How many rows it covers; those of them without a vector are not in it."""
        self._index = index
        # usearch gives every search of one thread the same place to work in, and releases the GIL meanwhile.
        self._lock = threading.Lock()

    def near(self, query: NDArray[np.float32], count: int) -> NDArray[np.intp]:
        """Return so many rows that are probably the nearest, in the order of their numbers."""
        with self._lock:
            keys = self._index.search(query, count, threads=1).keys
        return np.sort(keys.astype(np.intp))


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph on disk, and what the name of its file says."""

    path: Path
    rows: int
    crc: int

    def load(self, dimension: int, *, is_view: bool) -> Any | None:
        """Return the index of usearch, mapped or in memory; None: it is of no use. Any: usearch is optional."""
        library = usearch()
        try:
            # usearch trusts what it reads: a changed byte could lead it anywhere in memory.
            if library is None or checksum(self.path) != self.crc:
                return None
            index = library.Index.restore(str(self.path), view=is_view)
        except (OSError, ValueError, RuntimeError):
            return None
        return index if index is not None and index.ndim == dimension and len(index) <= self.rows else None


def file_prefix(state: ReplicaState) -> str:
    """Return how the names of all graphs begin that fit this replica and its epoch."""
    return f"{state.epoch}-{state.born[:_BORN_LETTERS]}"


def graph_files(folder: Path, state: ReplicaState) -> list[GraphFile]:
    """Return the graphs on disk for the rows of this state, the one that covers most first."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in (folder / "vectors").glob("*.usearch")]
    files = [
        GraphFile(path, int(match[2]), int(match[3], 16))
        for path, match in matches
        if match and match[1] == file_prefix(state)
    ]
    return sorted((file for file in files if file.rows <= state.rows), key=lambda file: -file.rows)


def open_graph(folder: Path, state: ReplicaState, current: VectorGraph | None = None) -> VectorGraph | None:
    """Return the graph to use, `current` if it is still the best; None: compare all rows."""
    if state.dimension is None or state.rows <= HNSW_ABOVE:
        return None
    for file in graph_files(folder, state):
        if current and current.path == file.path:
            return current
        index = file.load(state.dimension, is_view=True)
        if index is not None:
            return VectorGraph(file.path, file.rows, index)
    return None


def new_index(dimension: int) -> Any | None:
    """Return an empty index of usearch; None: it is not installed."""
    library = usearch()
    if library is None:
        return None
    return library.Index(
        ndim=dimension,
        metric="cos",
        dtype="i8",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        enable_key_lookups=False,
    )


def checksum(path: Path) -> int:
    """Return the CRC of a whole file, read in parts."""
    crc = 0
    with path.open("rb") as file:
        while raw := file.read(_READ_BYTES):
            crc = zlib.crc32(raw, crc)
    return crc


@cache
def usearch() -> Any | None:
    """Import the library when a replica is first large enough; None: it is not installed."""
    try:
        import usearch.index
    except ImportError:
        return None
    return usearch.index
