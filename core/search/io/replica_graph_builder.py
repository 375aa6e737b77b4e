"""Build the graph of a large replica in a thread of the process that wrote, at low priority.

Building costs some 0.4 ms a row, too long for a commit. Committed rows never change within an epoch, so that neither
the writer nor a reader has to wait; a lock of its own keeps a second process from doing the same work.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.search.io import replica_graph, replica_state
from core.search.io.replica_state import ReplicaBroken, ReplicaState
from core.search.io.replica_vectors import Matrix

LEAST_ROWS = 10_000
LEAST_SHARE = 0.1
"""A graph is extended, and saved, when so many rows, and this share of all, are not in it."""
ROWS_AT_ONCE = 500
"""How much is done between two checks whether to stop: about 0.2 s."""
NICENESS = 10


def should_extend(state: ReplicaState, covered: int) -> bool:
    """Whether so much of a large replica is outside its graph that it should be extended."""
    return state.rows > replica_graph.HNSW_ABOVE and state.rows - covered > _step(covered)


def _step(covered: int) -> int:
    return max(LEAST_ROWS, int(LEAST_SHARE * covered))


Job = tuple[ReplicaState, Matrix, NDArray[np.bool_]]


class GraphBuilder:
    """Extends the graph of one replica until it covers the committed rows."""

    def __init__(self, folder: Path, on_saved: Callable[[], None]) -> None:
        self._folder = folder
        self._on_saved = on_saved
        self._job_lock = threading.Lock()
        self._job: Job | None = None
        self._is_working = False
        self._thread: threading.Thread | None = None
        self._is_stopped = threading.Event()

    def start(self, state: ReplicaState, matrix: Matrix, is_comparable: NDArray[np.bool_]) -> None:
        """Cover these committed rows, after those that it is working on."""
        with self._job_lock:
            self._job = state, matrix, is_comparable
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
        while job := self._next():
            # The replica was erased meanwhile, or the disk is full, as Python or as usearch reports it: then no graph.
            with contextlib.suppress(OSError, RuntimeError, ReplicaBroken):
                self._build_alone(*job)

    def _next(self) -> Job | None:
        with self._job_lock:
            job, self._job = self._job, None
            self._is_working = job is not None
            return job

    def _build_alone(self, state: ReplicaState, matrix: Matrix, is_comparable: NDArray[np.bool_]) -> None:
        lock = None if self._should_stop() else replica_state.try_lock(self._folder / "graph.lock")
        if lock is None:
            return
        try:
            self._build(state, matrix, is_comparable)
        finally:
            os.close(lock)

    def _build(self, state: ReplicaState, matrix: Matrix, is_comparable: NDArray[np.bool_]) -> None:
        index, covered = self._load(state, matrix.shape[1])
        while index is not None and covered < state.rows:
            end = min(covered + _step(covered), state.rows)
            for start in range(covered, end, ROWS_AT_ONCE):
                if self._should_stop():
                    return
                _add(index, matrix, is_comparable, start, min(start + ROWS_AT_ONCE, end))
            covered = end
            self._save(index, state, covered)

    def _should_stop(self) -> bool:
        """Also when the program ends without `stop`: a daemon thread that dies in usearch ends the process."""
        return self._is_stopped.is_set() or not threading.main_thread().is_alive()

    def _load(self, state: ReplicaState, dimension: int) -> tuple[Any | None, int]:
        """Return the graph to extend with how many rows it covers, or an empty one."""
        for file in replica_graph.graph_files(self._folder, state):
            index = file.load(dimension, is_view=False)
            if index is not None:
                index.expansion_add = replica_graph.EXPANSION_ADD
                return index, file.rows
        return replica_graph.new_index(dimension), 0

    def _save(self, index: Any, state: ReplicaState, covered: int) -> None:
        """Give it its final name when it is complete, and remove older ones."""
        older = replica_graph.graph_files(self._folder, state)
        start = f"{replica_graph.file_prefix(state)}-{covered}"
        temporary = self._folder / "vectors" / f"{start}.new"
        index.save(str(temporary))
        saved = temporary.replace(temporary.with_name(f"{start}-{replica_graph.checksum(temporary):08x}.usearch"))
        for file in older:
            if file.path != saved:
                file.path.unlink(missing_ok=True)
        self._on_saved()


def _add(index: Any, matrix: Matrix, is_comparable: NDArray[np.bool_], start: int, end: int) -> None:
    """Add the comparable rows: what is dead now stays dead, and a row of zeros is near nothing."""
    rows = start + np.flatnonzero(is_comparable[start:end])
    if len(rows):
        index.add(rows, matrix[rows], threads=1)
