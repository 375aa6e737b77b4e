"""The vectors of a replica: float32 rows in one file, mapped into memory, compared exactly.

A chunk without a vector has a row of zeros. Rows are only appended; what lies beyond the committed rows is cut off.
Of a large replica (7.6 ms at 100,000 x 384, one thread) a graph may propose the rows to compare.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.search.io.replica_graph import Matrix, VectorGraph
from core.search.io.replica_state import InvalidVector, ReplicaBroken, ReplicaState
from core.search.protocols import Vector

FEW_ROWS_SHARE = 0.25
"""Below this share of the rows it is quicker to pick them than to compare all."""
GRAPH_OVERSAMPLING = 1.2
"""So many more rows than should be enough are asked of a graph: what is allowed is not evenly spread."""
GRAPH_MOST_SHARE = 0.01
"""Above this share of the rows a graph saves little: at 100,000 rows 240 take 3 ms, 960 take 8, and all take 15."""


def rows_path(folder: Path, epoch: int) -> Path:
    """Return the path of the vectors."""
    return folder / "vectors" / f"{epoch}.f32"


def other_path(folder: Path, epoch: int) -> Path:
    """Return the path of the vectors of other languages; only chunks that have one have a row."""
    return folder / "vectors" / f"{epoch}.other.f32"


def parse(vector: Vector, dimension: int | None) -> NDArray[np.float32]:
    """Return the numbers of a vector. Raises InvalidVector."""
    if dimension is None:
        raise InvalidVector("This search replica was made without vectors; erase it and build it for this model.")
    return np.frombuffer(pack([vector], dimension), dtype="<f4")


def pack(vectors: Sequence[Vector | None], dimension: int | None) -> bytes:
    """Return rows as they stand in the file, zeros where there is no vector. Raises InvalidVector."""
    if dimension is None:
        return b""
    rows = [bytes(4 * dimension) if vector is None else vector for vector in vectors]
    for row in rows:
        if len(row) != 4 * dimension:
            raise InvalidVector(
                f"The vector has {len(row) / 4:g} dimensions, this search replica {dimension}: they are of two models."
            )
    raw = b"".join(rows)
    if not np.isfinite(np.frombuffer(raw, dtype="<f4")).all():
        raise InvalidVector("The vector holds numbers that are not finite; the embedder must not give such.")
    return raw


def map_rows(folder: Path, state: ReplicaState) -> Matrix | None:
    """Map the committed rows into memory; None: a replica without vectors. Raises ReplicaBroken."""
    return _map(rows_path(folder, state.epoch), state.rows, state.dimension)


def map_others(folder: Path, state: ReplicaState) -> Matrix | None:
    """Map the committed vectors of other languages into memory; None: a replica without. Raises ReplicaBroken."""
    return _map(other_path(folder, state.epoch), state.other_rows, state.other_dimension)


def _map(path: Path, rows: int, dimension: int | None) -> Matrix | None:
    if dimension is None:
        return None
    shape = (rows, dimension)
    if not path.exists() or path.stat().st_size < 4 * math.prod(shape):
        raise ReplicaBroken(f"The search replica's vectors are shorter than they should be: {path}.")
    if not rows:
        return np.empty(shape, dtype=np.float32)
    return np.memmap(path, dtype="<f4", mode="r", shape=shape).view(np.ndarray)


def verify(matrix: Matrix, first: int, count: int, crc: int) -> None:
    """Compare rows with the checksum of when they were written. Raises ReplicaBroken."""
    if zlib.crc32(matrix[first : first + count].data) != crc:
        raise ReplicaBroken("The search replica's vectors are damaged: rows have the wrong checksum.")


def nearest(
    matrix: Matrix,
    query: NDArray[np.float32],
    eligible: NDArray[np.bool_],
    depth: int,
    graph: VectorGraph | None = None,
) -> list[tuple[int, float]]:
    """Return the eligible rows most similar to the query with their scores, best first; none with a score of 0.

    With a graph these are very probably, and otherwise certainly, the best; their scores are exact in any case.
    """
    count = int(np.count_nonzero(eligible))
    if not count:
        return []
    if count < FEW_ROWS_SHARE * len(matrix):
        return _best_of(np.flatnonzero(eligible), matrix, query, depth)
    near = _proposed(graph, query, eligible, math.ceil(GRAPH_OVERSAMPLING * depth * len(matrix) / count))
    if graph and near is not None and len(near) >= depth:
        late = _best_of_all(matrix[graph.rows :], query, eligible[graph.rows :], depth)
        rows = sorted(graph.rows + row for row, _ in late)
        return _best_of(np.array([*near, *rows], dtype=np.intp), matrix, query, depth)
    return _best_of_all(matrix, query, eligible, depth)


def mean_by_page(
    matrix: Matrix, query: NDArray[np.float32], rows: NDArray[np.intp], page_of: NDArray[np.int32]
) -> dict[int, float]:
    """Return by page the mean similarity of these rows; `page_of` says for each of them which page it is of."""
    if len(rows) < FEW_ROWS_SHARE * len(matrix):
        scores = _dot_products(matrix[rows], query)
    else:
        scores = _dot_products(matrix, query)[rows]
    pages, places, counts = np.unique(page_of, return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=scores) / counts
    return dict(zip(pages.tolist(), means.tolist(), strict=True))


def _proposed(
    graph: VectorGraph | None, query: NDArray[np.float32], eligible: NDArray[np.bool_], count: int
) -> NDArray[np.intp] | None:
    """Return eligible rows from a graph; None: it covers too little, or is asked for too much, to save anything."""
    if graph is None or graph.rows < len(eligible) / 2 or count > GRAPH_MOST_SHARE * len(eligible):
        return None
    near = graph.near(query, count)
    return near[eligible[near]]


def _best_of(rows: NDArray[np.intp], matrix: Matrix, query: NDArray[np.float32], depth: int) -> list[tuple[int, float]]:
    """Return the best of these rows, whose numbers rise."""
    scores = _dot_products(matrix[rows], query)
    return [(int(rows[at]), float(scores[at])) for at in _top(scores, depth) if scores[at] > 0]


def _best_of_all(
    matrix: Matrix, query: NDArray[np.float32], eligible: NDArray[np.bool_], depth: int
) -> list[tuple[int, float]]:
    """Return the best of the eligible rows, all compared."""
    scores = _dot_products(matrix, query)
    if not eligible.all():
        scores[~eligible] = -1.0
    return [(int(row), float(scores[row])) for row in _top(scores, depth) if scores[row] > 0]


def _dot_products(matrix: Matrix, query: NDArray[np.float32]) -> NDArray[np.float32]:
    # Not by `@`: after it BLAS threads spin for 50 ms, and alone it takes 14 ms of CPU for 100,000 rows; this takes 8.
    products: NDArray[np.float32] = np.einsum("ij,j->i", matrix, query)
    return products


def _top(scores: NDArray[np.float32], depth: int) -> NDArray[np.intp]:
    best = np.argpartition(scores, -depth)[-depth:] if depth < len(scores) else np.arange(len(scores))
    return best[np.lexsort((best, -scores[best]))]  # equals in the order of their rows, so that results repeat
