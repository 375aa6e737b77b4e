"""The one who writes a replica: pages in and out, and the commit.

Order of a commit: log and vectors to disk, then tantivy, then `state.json`. Whoever writes after a crash looks at
tantivy's opstamp: if tantivy committed and the state does not know, the log has all of that commit and it is finished;
if not, what log and vectors hold beyond the state is cut off, and the events after its position bring it back.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from core.models import Chunk
from core.search.io import replica_graph, replica_state, replica_vectors
from core.search.io.replica_files import log_path, read_log, rows_path
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_state import Checkpoint, ReplicaBroken, ReplicaState
from core.search.io.replica_table import (
    ChunkTable,
    CommitMarker,
    DropPage,
    LogRecord,
    PutPage,
    decode,
    encode,
    first_commit,
)
from core.search.models import IndexedPage
from core.search.protocols import Vector


def finished(folder: Path, state: ReplicaState, opstamp: int) -> ReplicaState:
    """The state, after a commit that a crash kept from writing it."""
    if opstamp == state.opstamp:
        return state
    tail = log_path(folder, state.epoch).read_bytes()[state.log_bytes :]
    found = first_commit(tail)
    if found is None:
        raise ReplicaBroken("The search replica's words and log do not fit together.")
    commit, piece = found
    added = sum(len(record.chunks) for record in decode(piece) if isinstance(record, PutPage))
    state = msgspec.structs.replace(
        state,
        log_bytes=state.log_bytes + len(piece),
        rows=state.rows + added,
        next_row=commit.next_row,
        opstamp=opstamp,
        checkpoint=commit.checkpoint,
    )
    with replica_state.publishing(folder):
        replica_state.write(folder, state)
    return state


class ReplicaWriter:
    """Holds the files open for appending; its caller holds the lock."""

    def __init__(
        self, folder: Path, state: ReplicaState, table: ChunkTable, lexical: LexicalIndex, sound_rows: int = 0
    ) -> None:
        """`table` is that of `state`, and ours from now on; the first `sound_rows` were compared with their checksums.

        Raises ReplicaBroken; the table is then of no use.
        """
        self._folder = folder
        self._lexical = lexical
        self.table = table
        self.state = finished(folder, state, lexical.opstamp())
        for record in decode(read_log(folder, self.state, state.log_bytes)):
            table.apply(record)
        self._next = self.state.next_row
        self._is_dirty = False
        self._check(sound_rows)
        lexical.start_writing()
        self._log, self._rows = self._open(self.state)
        self._remove_old_epochs()

    def _check(self, sound_rows: int) -> None:
        """Refuse damaged files before anything is added to them."""
        self._lexical.check()
        path = rows_path(self._folder, self.state.epoch)
        matrix = replica_vectors.map_rows(path, self.state.rows, self.state.dimension)
        if matrix is not None and sound_rows < len(matrix):
            for first, put in self.table.live_puts(sound_rows):
                replica_vectors.check(matrix, first, len(put.chunks), put.vectors_crc)

    @property
    def sound(self) -> tuple[str, int, int]:
        """Which replica, which files of it, and how many rows: as far as these all is whole."""
        return self.state.born, self.state.epoch, self.state.rows

    @property
    def is_clean(self) -> bool:
        """Is everything committed?"""
        return not self._is_dirty

    def _open(self, state: ReplicaState) -> tuple[BinaryIO, BinaryIO]:
        """Both files without their torn tails, ready to append."""
        log, rows = log_path(self._folder, state.epoch).open("r+b"), rows_path(self._folder, state.epoch).open("r+b")
        for file, size in ((log, state.log_bytes), (rows, 4 * state.rows * (state.dimension or 0))):
            file.truncate(size)
            file.seek(size)
        return log, rows

    def upsert(self, page: IndexedPage, chunks: Sequence[Chunk], vectors: Mapping[str, Vector]) -> None:
        """Put a version of a page, in place of the same version."""
        rows = [vectors.get(chunk.id) for chunk in chunks]
        raw = replica_vectors.packed(rows, self.state.dimension)
        self._drop(page.item_id, [page.version])
        self._is_dirty = True
        has_vector = tuple(row is not None and self.state.dimension is not None for row in rows)
        put = PutPage(page, self._next, tuple(chunk.id for chunk in chunks), has_vector, zlib.crc32(raw))
        self._rows.write(raw)
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

    def commit(self, checkpoint: Checkpoint) -> None:
        """Everything so far, and the checkpoint, or after a crash what was before."""
        opstamp = self.state.opstamp
        if self._is_dirty:
            self._append(CommitMarker(self._next, checkpoint))
            self._sync(self._log, self._rows)
        with replica_state.publishing(self._folder):
            if self._is_dirty:
                opstamp = self._lexical.commit()
                self._is_dirty = False
            self.state = msgspec.structs.replace(
                self.state,
                log_bytes=self._log.tell(),
                rows=len(self.table),
                next_row=self._next,
                opstamp=opstamp,
                checkpoint=checkpoint,
            )
            replica_state.write(self._folder, self.state)
        if self.table.should_compact():
            self._compact()

    def close(self, is_waiting: bool = False) -> None:
        """Let go of the files; what was not committed will be cut off. `is_waiting`: let tantivy tidy up first."""
        self._lexical.stop_writing(is_waiting and self.is_clean)
        self._log.close()
        self._rows.close()

    def _drop(self, item_id: str, versions: Sequence[str]) -> None:
        for version in versions:
            if version in self.table.versions(item_id):
                self._is_dirty = True
                self._append(DropPage(item_id, version))
                self._lexical.drop(item_id, version)

    def _append(self, record: LogRecord) -> None:
        self._log.write(encode(record))
        self.table.apply(record)

    @staticmethod
    def _sync(*files: BinaryIO) -> None:
        for file in files:
            file.flush()
            os.fsync(file.fileno())

    def _compact(self) -> None:
        """Log and vectors without what is dead, under the next epoch; tantivy compacts itself."""
        epoch = self.state.epoch + 1
        matrix = replica_vectors.map_rows(
            rows_path(self._folder, self.state.epoch), self.state.rows, self.state.dimension
        )
        table = ChunkTable()
        with log_path(self._folder, epoch).open("wb") as log, rows_path(self._folder, epoch).open("wb") as rows:
            for first, put in self.table.live_puts():
                log.write(encode(put))
                if matrix is not None:
                    rows.write(matrix[first : first + len(put.chunks)].data)
                table.apply(put)
            self._sync(log, rows)
            state = msgspec.structs.replace(self.state, epoch=epoch, log_bytes=log.tell(), rows=len(table))
        replica_state.sync_folder(self._folder / "vectors")
        with replica_state.publishing(self._folder):
            replica_state.write(self._folder, state)
        self._log.close()
        self._rows.close()
        self.state, self.table = state, table
        self._log, self._rows = self._open(state)
        self._remove_old_epochs()

    def _remove_old_epochs(self) -> None:
        kept = {log_path(self._folder, self.state.epoch), rows_path(self._folder, self.state.epoch)}
        graphs = f"{replica_graph.prefix(self.state)}-"
        for path in (self._folder / "vectors").iterdir():
            if path not in kept and not path.name.startswith(graphs):
                path.unlink(missing_ok=True)  # missing: somebody built a graph just now
