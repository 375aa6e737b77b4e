"""The files of a replica: where they are, how they are made and removed, and the log read as a table."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from core.search.io import replica_state
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_state import SCHEMA, ReplicaBroken, ReplicaState
from core.search.io.replica_table import ChunkTable, decode


def log_path(folder: Path, epoch: int) -> Path:
    """Where the log is."""
    return folder / "vectors" / f"{epoch}.log"


def rows_path(folder: Path, epoch: int) -> Path:
    """Where the vectors are."""
    return folder / "vectors" / f"{epoch}.f32"


def read_log(folder: Path, state: ReplicaState, start: int = 0) -> bytes:
    """A committed piece of the log."""
    try:
        with log_path(folder, state.epoch).open("rb") as file:
            file.seek(start)
            lines = file.read(state.log_bytes - start)
    except OSError as error:
        raise ReplicaBroken(f"The search replica's log cannot be read: {error}.") from error
    if len(lines) != state.log_bytes - start:
        raise ReplicaBroken("The search replica's log is shorter than it should be.")
    return lines


def read_table(folder: Path, state: ReplicaState) -> ChunkTable:
    """The table as it was committed."""
    table = ChunkTable()
    for record in decode(read_log(folder, state)):
        table.apply(record)
    if len(table) != state.rows:
        raise ReplicaBroken("The search replica's log and state do not fit together.")
    return table


def create(folder: Path, dimension: int | None) -> None:
    """Make an empty replica where there is none, unless another process is about to."""
    lock = replica_state.try_lock(folder / "writer.lock")
    if lock is None:
        return
    try:
        if replica_state.signature(folder) is None:
            _remove(folder)
            LexicalIndex.create(folder / "lexical")
            (folder / "vectors").mkdir()
            log_path(folder, 0).touch()
            rows_path(folder, 0).touch()
            replica_state.sync_folder(folder / "vectors")
            replica_state.write(folder, ReplicaState(schema=SCHEMA, born=uuid.uuid4().hex, dimension=dimension))
    finally:
        os.close(lock)


def erase(folder: Path) -> bool:
    """Remove a replica and nothing else; False: somebody writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = replica_state.try_lock(folder / "writer.lock")
    if lock is None:
        return False
    try:
        _remove(folder)
    finally:
        os.close(lock)
    return True


def _remove(folder: Path) -> None:
    """The state first: without it the rest is nothing."""
    with replica_state.publishing(folder):
        (folder / "state.json").unlink(missing_ok=True)
        for name in ("lexical", "vectors"):
            shutil.rmtree(folder / name, ignore_errors=True)
