"""The vectors of a replica: float32 rows in one file, mapped into memory, compared exactly.

A chunk without a vector has a row of zeros. Rows are only appended; what lies beyond the committed rows is cut off.
Of a large replica (7.6 ms at 100,000 x 384, one thread) a graph may propose the rows to compare.
"""

from __future__ import annotations

import math
import mmap
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.search.io.replica_graph import VectorGraph
from core.search.io.replica_state import InvalidVector, ReplicaBroken
from core.search.protocols import Vector

Matrix = NDArray[np.float32]
FEW = 0.25
"""Below this share of the rows it is quicker to pick them than to compare all."""
MORE = 1.2
"""So many more rows than should be enough are asked of a graph: what is allowed is not evenly spread."""
MANY = 0.01
"""Above this share of the rows a graph saves little: at 100,000 rows 240 take 3 ms, 960 take 8, and all take 15."""


def read(vector: Vector, dimension: int | None) -> NDArray[np.float32]:
    """A vector's numbers; refuses what does not fit."""
    if dimension is None:
        raise InvalidVector("This search replica was made without vectors; erase it and build it for this model.")
    _check_size(vector, dimension)
    return _finite(vector)


def packed(vectors: Sequence[Vector | None], dimension: int | None) -> bytes:
    """Rows as they stand in the file, zeros where there is no vector; refuses what does not fit."""
    if dimension is None:
        return b""
    zeros = bytes(4 * dimension)
    for vector in vectors:
        _check_size(zeros if vector is None else vector, dimension)
    rows = b"".join(zeros if vector is None else vector for vector in vectors)
    _finite(rows)
    return rows


def _check_size(vector: Vector, dimension: int) -> None:
    if len(vector) != 4 * dimension:
        raise InvalidVector(
            f"The vector has {len(vector) / 4:g} dimensions, this search replica {dimension}: they are of two models."
        )


def _finite(raw: bytes) -> NDArray[np.float32]:
    numbers = np.frombuffer(raw, dtype="<f4")
    if not np.isfinite(numbers).all():
        raise InvalidVector("The vector holds numbers that are not finite; the embedder must not give such.")
    return numbers


def map_rows(path: Path, rows: int, dimension: int | None) -> Matrix | None:
    """The committed rows, read when they are looked at; None: a replica without vectors."""
    if dimension is None:
        return None
    size = 4 * rows * dimension
    if not path.exists() or path.stat().st_size < size:
        raise ReplicaBroken(f"The search replica's vectors are shorter than they should be: {path}.")
    if not size:
        return np.empty((0, dimension), dtype=np.float32)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, dtype="<f4").reshape(rows, dimension)


def check(matrix: Matrix, first: int, count: int, crc: int) -> None:
    """Refuse rows that are not as they were written."""
    if zlib.crc32(matrix[first : first + count].data) != crc:
        raise ReplicaBroken("The search replica's vectors are damaged: rows have the wrong checksum.")


def nearest(
    matrix: Matrix,
    query: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    depth: int,
    graph: VectorGraph | None = None,
) -> list[tuple[int, float]]:
    """The rows most like the query among the eligible ones, best first; only what is like it at all.

    With a graph these are very probably, and otherwise certainly, the best; their scores are exact in any case.
    """
    count = int(np.count_nonzero(eligible))
    if not count:
        return []
    if count < FEW * len(matrix):
        return _best(np.flatnonzero(eligible), matrix, query, depth)
    near = _proposed(graph, query, eligible, math.ceil(MORE * depth * len(matrix) / count)) if graph else None
    if graph and near is not None and len(near) >= depth:
        late = _all(matrix[graph.rows :], query, eligible[graph.rows :], depth)
        rows = sorted(graph.rows + row for row, _ in late)
        return _best(np.array([*near, *rows], dtype=np.intp), matrix, query, depth)
    return _all(matrix, query, eligible, depth)


def _proposed(
    graph: VectorGraph, query: NDArray[np.float32], eligible: NDArray[np.bool_], count: int
) -> NDArray[np.intp] | None:
    """Eligible rows from a graph; None: it covers too little, or is asked for too much, to save anything."""
    if graph.rows < len(eligible) / 2 or count > MANY * len(eligible):
        return None
    near = graph.near(query, count)
    return near[eligible[near]]


def _best(rows: NDArray[np.intp], matrix: Matrix, query: NDArray[np.float32], depth: int) -> list[tuple[int, float]]:
    """The best of these rows, whose numbers rise."""
    scores = _likeness(matrix[rows], query)
    return [(int(rows[at]), float(scores[at])) for at in _top(scores, depth) if scores[at] > 0]


def _all(
    matrix: Matrix, query: NDArray[np.float32], eligible: NDArray[np.bool_], depth: int
) -> list[tuple[int, float]]:
    """The best of the eligible rows, all compared."""
    scores = _likeness(matrix, query)
    if not eligible.all():
        scores[~eligible] = -1.0
    return [(int(row), float(scores[row])) for row in _top(scores, depth) if scores[row] > 0]


def _likeness(matrix: Matrix, query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Dot products. Not by `@`: after it BLAS threads spin for 50 ms, and alone it takes 14 ms of CPU for 100,000 rows
    where this takes 8."""
    found: NDArray[np.float32] = np.einsum("ij,j->i", matrix, query)
    return found


def _top(scores: NDArray[np.float32], depth: int) -> NDArray[np.intp]:
    best = np.argpartition(scores, -depth)[-depth:] if depth < len(scores) else np.arange(len(scores))
    return best[np.lexsort((best, -scores[best]))]  # equals in the order of their rows, so that answers repeat
