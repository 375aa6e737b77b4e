"""A graph over the vectors of a replica (HNSW, by usearch), so that a large one need not compare every row.

    <folder>/vectors/<epoch>-<born>-<rows>-<checksum>.usearch

It knows the first so many rows of an epoch; later ones are compared exactly. It only proposes rows: their scores come
from the rows themselves, which is why it may keep them with eight bits for each number. Nothing depends on it: without
usearch, or with a file that is missing, damaged or of another replica, all rows are compared.

Building costs some 0.4 ms a row, too long for a commit: a thread of the process that wrote does it, at low priority.
Committed rows never change within an epoch, so that neither the writer nor a reader has to wait; a lock of its own
keeps a second process from doing the same work.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.search.io import replica_state
from core.search.io.replica_state import ReplicaBroken, ReplicaState
from core.value_class import value_class

Matrix = NDArray[np.float32]
HNSW_ABOVE = 100_000
"""Rows. Up to here all are compared exactly: 8 ms on a free machine, 15 ms of CPU on a busy one."""
CONNECTIVITY = 16
EXPANSION_ADD = 64
"""How well a row is placed. 128 took nearly twice the time. Made-up clusters of 50, 100,000 rows: recall@10 1.0 with
both, recall@200, where all but 50 are equally far, .61 against .64."""
LEAST_ROWS = 10_000
LEAST_SHARE = 0.1
"""A graph is extended, and saved, when so many rows, and this share of all, are not in it."""
ROWS_AT_ONCE = 500
"""How much is done between two checks whether to stop: about 0.2 s."""
NICENESS = 10
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


@value_class
class _GraphFile:
    """A graph on disk, and what the name of its file says."""

    path: Path
    rows: int
    crc: int

    def load(self, dimension: int, *, is_view: bool) -> Any | None:
        """Return the index of usearch, mapped or in memory; None: it is of no use. Any: usearch is optional."""
        library = _usearch()
        try:
            # usearch trusts what it reads: a changed byte could lead it anywhere in memory.
            if library is None or _checksum(self.path) != self.crc:
                return None
            index = library.Index.restore(str(self.path), view=is_view)
        except (OSError, ValueError, RuntimeError):
            return None
        return index if index is not None and index.ndim == dimension and len(index) <= self.rows else None


def file_prefix(state: ReplicaState) -> str:
    """Return how the names of all graphs begin that fit this replica and its epoch."""
    return f"{state.epoch}-{state.born[:_BORN_LETTERS]}"


def _graph_files(folder: Path, state: ReplicaState) -> list[_GraphFile]:
    """Return the graphs on disk for the rows of this state, the one that covers most first."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in (folder / "vectors").glob("*.usearch")]
    files = [
        _GraphFile(path, int(match[2]), int(match[3], 16))
        for path, match in matches
        if match and match[1] == file_prefix(state)
    ]
    return sorted((file for file in files if file.rows <= state.rows), key=lambda file: -file.rows)


def open_graph(folder: Path, state: ReplicaState, current: VectorGraph | None = None) -> VectorGraph | None:
    """Return the graph to use, `current` if it is still the best; None: compare all rows."""
    if state.dimension is None or state.rows <= HNSW_ABOVE:
        return None
    for file in _graph_files(folder, state):
        if current and current.path == file.path:
            return current
        index = file.load(state.dimension, is_view=True)
        if index is not None:
            return VectorGraph(file.path, file.rows, index)
    return None


class _Job(NamedTuple):
    """Committed rows that a graph shall cover."""

    state: ReplicaState
    matrix: Matrix
    is_comparable: NDArray[np.bool_]


class GraphBuilder:
    """Extends the graph of one replica in a thread until it covers the committed rows."""

    def __init__(self, folder: Path, on_saved: Callable[[], None]) -> None:
        self._folder = folder
        self._on_saved = on_saved
        self._job_lock = threading.Lock()
        self._job: _Job | None = None
        self._is_working = False
        self._thread: threading.Thread | None = None
        self._is_stopped = threading.Event()

    def start(self, state: ReplicaState, matrix: Matrix, is_comparable: NDArray[np.bool_], covered: int) -> None:
        """Cover these committed rows, after those that it is working on, if so many are outside the graph."""
        if state.rows <= HNSW_ABOVE or state.rows - covered <= _step(covered):
            return
        with self._job_lock:
            self._job = _Job(state, matrix, is_comparable)
            if self._is_working:
                return
            self._is_working = True
        self._is_stopped.clear()
        self._thread = threading.Thread(target=self._run, name="graph")
        self._thread.start()

    def stop(self) -> None:
        """Stop at the next chance; what was saved stays."""
        self._is_stopped.set()
        self.join()

    def join(self) -> None:
        """Wait until it is done."""
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)  # on Linux of the thread alone
        while job := self._next_job():
            # The replica was erased meanwhile, or the disk is full, as Python or as usearch reports it: then no graph.
            with (
                contextlib.suppress(OSError, RuntimeError, ReplicaBroken),
                replica_state.locked(self._folder / "graph.lock") as is_locked,
            ):
                if is_locked and not self._should_stop():
                    self._build(job)

    def _next_job(self) -> _Job | None:
        with self._job_lock:
            job, self._job = self._job, None
            self._is_working = job is not None
            return job

    def _build(self, job: _Job) -> None:
        index, covered = self._load(job)
        while index is not None and covered < job.state.rows:
            end = min(covered + _step(covered), job.state.rows)
            for start in range(covered, end, ROWS_AT_ONCE):
                if self._should_stop():
                    return
                # What is dead now stays dead, and a row of zeros is near nothing.
                rows = start + np.flatnonzero(job.is_comparable[start : min(start + ROWS_AT_ONCE, end)])
                if len(rows):
                    index.add(rows, job.matrix[rows], threads=1)
            covered = end
            self._save(index, job.state, covered)

    def _should_stop(self) -> bool:
        """Also when the program ends without `stop`: a daemon thread that dies in usearch ends the process."""
        return self._is_stopped.is_set() or not threading.main_thread().is_alive()

    def _load(self, job: _Job) -> tuple[Any | None, int]:
        """Return the graph to extend with how many rows it covers, or an empty one."""
        dimension = job.matrix.shape[1]
        for file in _graph_files(self._folder, job.state):
            index = file.load(dimension, is_view=False)
            if index is not None:
                index.expansion_add = EXPANSION_ADD
                return index, file.rows
        return _new_index(dimension), 0

    def _save(self, index: Any, state: ReplicaState, covered: int) -> None:
        """Give it its final name when it is complete, and remove older ones."""
        older = _graph_files(self._folder, state)
        start = f"{file_prefix(state)}-{covered}"
        temporary = self._folder / "vectors" / f"{start}.new"
        index.save(str(temporary))
        saved = temporary.replace(temporary.with_name(f"{start}-{_checksum(temporary):08x}.usearch"))
        for file in older:
            if file.path != saved:
                file.path.unlink(missing_ok=True)
        self._on_saved()


def _step(covered: int) -> int:
    return max(LEAST_ROWS, int(LEAST_SHARE * covered))


def _new_index(dimension: int) -> Any | None:
    """Return an empty index of usearch; None: it is not installed."""
    library = _usearch()
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


def _checksum(path: Path) -> int:
    """Return the CRC of a whole file, read in parts."""
    crc = 0
    with path.open("rb") as file:
        while raw := file.read(_READ_BYTES):
            crc = zlib.crc32(raw, crc)
    return crc


@cache
def _usearch() -> Any | None:
    """Import the library when a replica is first large enough; None: it is not installed."""
    try:
        import usearch.index
    except ImportError:
        return None
    return usearch.index
