"""Create, write and erase a replica.

Order of a commit: log and vectors to disk, then tantivy, then `state.json`. Whoever writes after a crash looks at
tantivy's opstamp: if tantivy committed and the state does not know, the log has all of that commit and it is finished;
if not, what log and vectors hold beyond the state is cut off, and the events after its checkpoint bring it back.
"""

from __future__ import annotations

import os
import shutil
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from core.models import Chunk
from core.search.io import replica_graph, replica_log, replica_state, replica_vectors
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_log import CommitMarker, DropPage, LogRecord, PutPage, encode, log_path
from core.search.io.replica_state import SCHEMA, Checkpoint, ReplicaBroken, ReplicaState
from core.search.io.replica_table import ChunkTable
from core.search.io.replica_vectors import other_path, rows_path
from core.search.models import IndexedPage
from core.search.protocols import Vector

WRITER_LOCK = "writer.lock"


def create(folder: Path, dimension: int | None, other_dimension: int | None = None) -> None:
    """Make an empty replica where there is none, unless another process is about to."""
    with replica_state.locked(folder / WRITER_LOCK) as is_locked:
        if is_locked and replica_state.signature(folder) is None:
            _remove(folder)
            LexicalIndex.create(folder / "lexical")
            (folder / "vectors").mkdir()
            log_path(folder, 0).touch()
            rows_path(folder, 0).touch()
            other_path(folder, 0).touch()
            replica_state.sync_folder(folder / "vectors")
            born = uuid.uuid4().hex
            state = ReplicaState(schema=SCHEMA, born=born, dimension=dimension, other_dimension=other_dimension)
            replica_state.write(folder, state)


def erase(folder: Path) -> bool:
    """Remove a replica and no other file; False: another process writes it. Readers keep what they have open."""
    folder.mkdir(parents=True, exist_ok=True)
    with replica_state.locked(folder / WRITER_LOCK) as is_locked:
        if is_locked:
            _remove(folder)
    return is_locked


def _remove(folder: Path) -> None:
    """The state first: without it the rest is nothing."""
    with replica_state.commit_lock(folder):
        (folder / "state.json").unlink(missing_ok=True)
        for name in ("lexical", "vectors"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _finish_commit(folder: Path, state: ReplicaState, opstamp: int) -> ReplicaState:
    """Return the state after a commit that a crash kept from writing it."""
    if opstamp == state.opstamp:
        return state
    records, size = replica_log.next_commit(folder, state)
    *_, marker = records
    assert isinstance(marker, CommitMarker)
    state = msgspec.structs.replace(
        state,
        log_bytes=state.log_bytes + size,
        rows=state.rows + sum(len(record.chunks) for record in records if isinstance(record, PutPage)),
        other_rows=state.other_rows + sum(sum(record.has_other) for record in records if isinstance(record, PutPage)),
        next_row=marker.next_row,
        opstamp=opstamp,
        checkpoint=marker.checkpoint,
    )
    with replica_state.commit_lock(folder):
        replica_state.write(folder, state)
    return state


class ReplicaWriter:
    """Holds the files open for appending; its caller took the lock, and closes it."""

    def __init__(
        self,
        folder: Path,
        lock: int,
        state: ReplicaState,
        table: ChunkTable,
        lexical: LexicalIndex,
        verified: ReplicaState | None = None,
    ) -> None:
        """`table` is that of `state`, and ours from now on; up to the state `verified` checksums were compared before.

        Raises ReplicaBroken; the table is then of no use.
        """
        self._folder = folder
        self.lock = lock
        self._lexical = lexical
        self.table = table
        self.state = _finish_commit(folder, state, lexical.opstamp())
        table.apply(replica_log.read(folder, self.state, state.log_bytes))
        self._next = self.state.next_row
        self.is_dirty = False
        # Refuse damaged files before anything is added to them.
        lexical.verify()
        matrix, others = replica_vectors.map_rows(folder, self.state), replica_vectors.map_others(folder, self.state)
        is_same = verified is not None and (verified.born, verified.epoch) == (state.born, state.epoch)
        verified_rows = verified.rows if verified and is_same else 0
        if verified_rows < len(table):
            for row, other_row, put in table.live_puts(verified_rows):
                if matrix is not None:
                    replica_vectors.verify(matrix, row, len(put.chunks), put.vectors_crc)
                if others is not None:
                    replica_vectors.verify(others, other_row, sum(put.has_other), put.other_crc)
        lexical.start_writing()
        self._log, self._rows, self._others = self._open_files()

    def _open_files(self) -> tuple[BinaryIO, BinaryIO, BinaryIO]:
        """Open log and vectors without their torn tails, ready to append; remove files of older epochs."""
        state = self.state
        paths = [build(self._folder, state.epoch) for build in (log_path, rows_path, other_path)]
        log, rows, others = (path.open("r+b") for path in paths)
        row_bytes, other_bytes = 4 * (state.dimension or 0), 4 * (state.other_dimension or 0)
        sizes = (state.log_bytes, state.rows * row_bytes, state.other_rows * other_bytes)
        for file, size in zip((log, rows, others), sizes, strict=True):
            file.truncate(size)
            file.seek(size)
        for path in (self._folder / "vectors").iterdir():
            if path not in paths and not path.name.startswith(f"{replica_graph.file_prefix(state)}-"):
                path.unlink(missing_ok=True)  # missing: another process built a graph just now
        return log, rows, others

    def upsert(
        self,
        page: IndexedPage,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        others: Mapping[str, Vector],
    ) -> None:
        """Put a version of a page, in place of the same version."""
        rows = [vectors.get(chunk.id) for chunk in chunks]
        raw = replica_vectors.pack(rows, self.state.dimension)
        other_raw = replica_vectors.pack(
            [others[chunk.id] for chunk in chunks if chunk.id in others], self.state.other_dimension
        )
        self._drop(page.item_id, [page.version])
        self.is_dirty = True
        has_vector = tuple(row is not None and self.state.dimension is not None for row in rows)
        has_other = tuple(chunk.id in others and self.state.other_dimension is not None for chunk in chunks)
        put = PutPage(
            page,
            self._next,
            tuple(chunk.id for chunk in chunks),
            has_vector,
            zlib.crc32(raw),
            has_other if any(has_other) else (),
            zlib.crc32(other_raw),
        )
        self._rows.write(raw)
        self._others.write(other_raw)
        self._append(put)
        self._lexical.add(page, chunks, put.first)
        self._next += len(chunks)

    def keep_only(self, item_id: str, version: str) -> None:
        """Drop all other versions of a page."""
        self._drop(item_id, [other for other in self.table.versions(item_id) if other != version])

    def delete(self, item_ids: Sequence[str]) -> None:
        """Drop all versions of these pages."""
        for item_id in item_ids:
            self._drop(item_id, self.table.versions(item_id))

    def _drop(self, item_id: str, versions: Sequence[str]) -> None:
        for version in versions:
            if version in self.table.versions(item_id):
                self.is_dirty = True
                self._append(DropPage(item_id, version))
                self._lexical.drop(item_id, version)

    def _append(self, record: LogRecord) -> None:
        self._log.write(encode(record))
        self.table.apply([record])

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make everything so far durable together with the checkpoint; after a crash all of it is there or nothing."""
        if not replica_state.is_same_file(self._folder / WRITER_LOCK, self.lock):
            raise ReplicaBroken(f"The search replica in {self._folder} was removed while we wrote it.")
        opstamp = self.state.opstamp
        if self.is_dirty:
            self._append(CommitMarker(self._next, checkpoint))
            _sync(self._log, self._rows, self._others)
        with replica_state.commit_lock(self._folder):
            if self.is_dirty:
                opstamp = self._lexical.commit()
                self.is_dirty = False
            self.state = msgspec.structs.replace(
                self.state,
                log_bytes=self._log.tell(),
                rows=len(self.table),
                other_rows=self.table.other_count,
                next_row=self._next,
                opstamp=opstamp,
                checkpoint=checkpoint,
            )
            replica_state.write(self._folder, self.state)
        if self.table.should_compact():
            self._compact()

    def close(self, *, wait: bool) -> None:
        """Close the files; what was not committed will be cut off. `wait`: let tantivy finish merging first."""
        self._lexical.stop_writing(wait=wait and not self.is_dirty)
        self._log.close()
        self._rows.close()
        self._others.close()

    def _compact(self) -> None:
        """Write log and vectors without dead rows under the next epoch; tantivy compacts itself."""
        epoch = self.state.epoch + 1
        matrix = replica_vectors.map_rows(self._folder, self.state)
        others = replica_vectors.map_others(self._folder, self.state)
        table = ChunkTable()
        with (
            log_path(self._folder, epoch).open("wb") as log,
            rows_path(self._folder, epoch).open("wb") as rows,
            other_path(self._folder, epoch).open("wb") as other_rows,
        ):
            for row, other_row, put in self.table.live_puts():
                log.write(encode(put))
                if matrix is not None:
                    rows.write(matrix[row : row + len(put.chunks)].data)
                if others is not None:
                    other_rows.write(others[other_row : other_row + sum(put.has_other)].data)
                table.apply([put])
            _sync(log, rows, other_rows)
            state = msgspec.structs.replace(
                self.state, epoch=epoch, log_bytes=log.tell(), rows=len(table), other_rows=table.other_count
            )
        replica_state.sync_folder(self._folder / "vectors")
        with replica_state.commit_lock(self._folder):
            replica_state.write(self._folder, state)
        for file in (self._log, self._rows, self._others):
            file.close()
        self.state, self.table = state, table
        self._log, self._rows, self._others = self._open_files()


def _sync(*files: BinaryIO) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
