"""The graph over the vectors of a large replica: it finds what exact comparison finds, and nothing depends on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tantivy")
pytest.importorskip("usearch")

from core.models import Chunk
from core.search.io import replica_graph, replica_table, replica_vectors
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import Filters, IndexedPage, IndexQuery

DIMENSION = 48
ROWS = 5_000
PER_PAGE = 50
Rows = np.ndarray[Any, np.dtype[np.float32]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs for small replicas."""
    monkeypatch.setattr(replica_graph, "HNSW_ABOVE", 1_000)
    monkeypatch.setattr(replica_graph, "LEAST_ROWS", 500)
    monkeypatch.setattr(replica_vectors, "GRAPH_MOST_SHARE", 0.2)


def clustered(count: int, seed: int = 1) -> Rows:
    """Unit vectors in heaps, as texts on common subjects are."""
    dice = np.random.default_rng(seed)
    rows = dice.normal(size=(count // 50, DIMENSION)).repeat(50, axis=0) + 0.7 * dice.normal(size=(count, DIMENSION))
    dice.shuffle(rows)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")


async def put(replica: Replica, rows: Rows, first: int = 0) -> None:
    """Pages of fifty chunks; every second in a category of its own; every tenth chunk has no vector."""
    for start in range(0, len(rows), PER_PAGE):
        numbers = range(start, min(start + PER_PAGE, len(rows)))
        page = IndexedPage(f"i{first + start}", "v1", categories=("even" if start // PER_PAGE % 2 == 0 else "odd",))
        chunks = [Chunk(f"c{first + number}", "x") for number in numbers]
        vectors = {f"c{first + number}": rows[number].tobytes() for number in numbers if number % 10}
        await replica.upsert(page, chunks, vectors)


async def commit(replica: Replica) -> None:
    """With the graph that it makes worth while."""
    await replica.commit(Checkpoint("1", "space"))
    replica.finish_graph()


@pytest.fixture
async def replica(tmp_path: Path) -> Any:
    opened = Replica(tmp_path, DIMENSION)
    assert opened.try_write_lock()
    await put(opened, clustered(ROWS))
    await commit(opened)
    yield opened
    opened.close()


def graphs(folder: Path) -> list[Path]:
    return sorted((folder / "vectors").glob("*.usearch"))


def covered(replica: Replica) -> int:
    """Rows that the graph in use knows; 0: there is none."""
    return replica._snapshot.graph.rows if replica._snapshot and replica._snapshot.graph else 0


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each exact comparison of all had."""
    rows: list[int] = []
    exact = replica_vectors._best_of_all
    monkeypatch.setattr(replica_vectors, "_best_of_all", lambda *given: (rows.append(len(given[0])), exact(*given))[1])
    return rows


def questions(count: int = 40) -> Rows:
    rows = clustered(ROWS)[:count] + 0.1 * np.random.default_rng(5).normal(size=(count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")


def answers(replica: Replica, question: Rows, filters: Filters, limit: int = 10) -> list[tuple[str, float]]:
    snapshot = replica.snapshot()
    assert snapshot
    hits = snapshot.search(IndexQuery("", question.tobytes(), filters, limit))
    return [(hit.chunk_id, round(hit.score, 4)) for hit in hits]


def recall(replica: Replica, filters: Filters = Filters()) -> float:  # noqa: B008 - it is frozen
    """How much of the ten best by exact comparison is found."""
    view = replica._snapshot
    assert view
    assert view.graph
    found = [set(answers(replica, question, filters)) for question in questions()]
    replica._snapshot = replace(view, graph=None)
    right = [set(answers(replica, question, filters)) for question in questions()]
    replica._snapshot = view
    return float(np.mean([len(some & best) / len(best) for some, best in zip(found, right, strict=True)]))


async def test_it_finds_what_exact_comparison_finds(replica: Replica, tmp_path: Path, looked: list[int]) -> None:
    """At least 95 of 100, with the same scores, and without looking at all rows; so in a second process."""
    other = Replica(tmp_path, DIMENSION)

    assert (covered(replica), covered(other), len(graphs(tmp_path))) == (ROWS, ROWS, 1)
    for one in (replica, other):
        looked.clear()
        answers(one, questions()[0], Filters())
        assert looked == [0]
        assert recall(one) >= 0.95


async def test_filters_and_dead_rows(replica: Replica, looked: list[int]) -> None:
    """A filter for half of all, and pages that went, are obeyed, and the best of the others are found."""
    even = Filters(categories=("even",))
    assert recall(replica, even) >= 0.95
    await replica.delete([f"i{start}" for start in range(0, ROWS, 8 * PER_PAGE)])
    await commit(replica)
    looked.clear()

    hits = await replica.search(IndexQuery("", questions()[0].tobytes(), even, 200))

    assert looked == [0]
    assert len(hits) == 200
    assert {hit.page.categories for hit in hits if hit.page} == {("even",)}
    assert not {hit.item_id for hit in hits} & {f"i{start}" for start in range(0, ROWS, 8 * PER_PAGE)}
    assert recall(replica, even) >= 0.95


async def test_where_it_cannot_help_all_is_compared(replica: Replica, looked: list[int]) -> None:
    """It is asked for much of all, or little is allowed of what it proposes: exact, and complete."""
    question = questions()[0]

    assert len(answers(replica, question, Filters(), 4_000)) >= 2_000  # half of all points away from it
    assert looked == [ROWS]

    assert replica._snapshot
    replica._snapshot.columns.is_comparable[replica._snapshot.graph.near(question, 300)] = False  # type: ignore[union-attr]
    looked.clear()
    assert len(answers(replica, question, Filters())) == 10
    assert looked == [ROWS]


async def test_new_rows_are_found_before_it_knows_them(replica: Replica, tmp_path: Path, looked: list[int]) -> None:
    """A few rows more are compared beside it; many more are added to it, and only one file stays."""
    late = clustered(100, seed=9)
    await put(replica, late, ROWS)
    await commit(replica)
    assert covered(replica) == ROWS
    looked.clear()

    assert answers(replica, late[3], Filters(), 1) == [(f"c{ROWS + 3}", 1.0)]
    assert looked == [100]

    await put(replica, clustered(1_000, seed=10), ROWS + 100)
    await commit(replica)
    assert (covered(replica), len(graphs(tmp_path))) == (ROWS + 1_100, 1)
    assert answers(replica, late[3], Filters(), 1) == [(f"c{ROWS + 3}", 1.0)]
    assert recall(replica) >= 0.95


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1_000])


def changed(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


def foreign(path: Path) -> None:
    path.rename(path.with_name(f"0-{'0' * 8}-{path.name.split('-', 2)[2]}"))


@pytest.mark.parametrize("damage", [Path.unlink, cut, changed, foreign])
async def test_a_bad_file_is_ignored_and_made_anew(replica: Replica, tmp_path: Path, damage: Any) -> None:
    """Missing, cut, changed, of another replica: everything is compared, and the next who commits builds a new one."""
    right = answers(replica, questions()[0], Filters())
    replica.close()
    damage(graphs(tmp_path)[0])

    again = Replica(tmp_path, DIMENSION)
    assert (covered(again), answers(again, questions()[0], Filters())) == (0, right)
    assert again.try_write_lock()
    await again.delete(["i0"])
    await commit(again)

    assert (covered(again), len(graphs(tmp_path))) == (ROWS, 1)
    again.close()


async def test_a_compaction_begins_a_new_one(replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that moved have a graph of their own; the old one leaves the disk."""
    monkeypatch.setattr(replica_table, "COMPACT_ABOVE_ROWS", 10)
    await replica.delete([f"i{start}" for start in range(0, 3_000, PER_PAGE)])
    await commit(replica)

    assert [path.name.split("-")[0] for path in graphs(tmp_path)] == ["1"]
    assert covered(replica) == ROWS - 3_000
    assert recall(replica) >= 0.95


async def test_without_usearch_all_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in an extra: without it searches are slower, and nothing else."""
    monkeypatch.setattr(replica_graph, "_usearch", lambda: None)
    replica = Replica(tmp_path, DIMENSION)
    assert replica.try_write_lock()
    rows = clustered(2_000)
    await put(replica, rows)
    await commit(replica)

    assert (covered(replica), graphs(tmp_path)) == (0, [])
    assert answers(replica, rows[3], Filters(), 1) == [("c3", 1.0)]
    replica.close()


async def test_what_was_saved_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stopped after the first piece leaves it to the next writer."""
    replica = Replica(tmp_path, DIMENSION)
    assert replica.try_write_lock()
    await put(replica, clustered(ROWS))
    use = replica._graph_builder._on_saved
    monkeypatch.setattr(replica._graph_builder, "_on_saved", lambda: (use(), replica._graph_builder._is_stopped.set()))
    await commit(replica)
    replica.close()

    assert [path.name.split("-")[2] for path in graphs(tmp_path)] == ["500"]
    again = Replica(tmp_path, DIMENSION)
    assert again.try_write_lock()
    await again.delete(["i0"])
    await commit(again)
    assert covered(again) == ROWS
    assert recall(again) >= 0.95
    again.close()
