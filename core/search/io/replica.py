"""The search replica: what Redis holds, on this host's disk in the shape that search needs. It can always be rebuilt.

    <folder>/lexical/      tantivy: words, BM25, texts
    <folder>/vectors/      <epoch>.f32 rows of float32, <epoch>.log which chunks they belong to; a graph of many rows;
                           <epoch>.other.f32 rows of the model of other languages
    <folder>/state.json    how far it has come; the last file of every commit
    <folder>/*.lock        writer.lock: who writes; commit.lock: held for the moment in which files change together;
                           graph.lock: who builds the graph

One process writes (`try_write_lock`), any number read beside it. Searches see what was committed, in every process.
After an exception from a write the lock is given back: take it again to continue from the last commit.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.models import Chunk
from core.search.io import (
    replica_graph,
    replica_log,
    replica_state,
    replica_vectors,
    replica_writer,
)
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_snapshot import ReplicaSnapshot
from core.search.io.replica_state import (
    Checkpoint,
    InvalidVector,
    ReplicaBroken,
    ReplicaBusy,
    ReplicaState,
    Signature,
)
from core.search.io.replica_table import ChunkTable
from core.search.io.replica_writer import ReplicaWriter
from core.search.models import ChunkText, Hit, Hits, IndexedPage, IndexQuery
from core.search.protocols import NO_VECTORS, Vector
from core.search.spelling import Correction


class Replica:
    """An Index on disk, shared by the processes of a host."""

    def __init__(self, folder: Path, dimension: int | None = None, other_dimension: int | None = None) -> None:
        """Open it, or make it where there is none; `dimension` None takes what is there, or makes one without vectors.

        Raises ReplicaBroken for what cannot be used.
        """
        self.folder = folder
        self._dimensions = (dimension, other_dimension)
        self._snapshot: ReplicaSnapshot | None = None
        self._table = ChunkTable()
        self._seen: Signature | None = None
        self._verified: ReplicaState | None = None  # up to here checksums were compared
        self._writer: ReplicaWriter | None = None
        self._refreshing = threading.Lock()
        self._writing = threading.Lock()
        self._graph_builder = replica_graph.GraphBuilder(folder, self._use_graph)
        folder.mkdir(parents=True, exist_ok=True)
        if replica_state.signature(folder) is None:
            replica_writer.create(folder, dimension, other_dimension)
        self._refresh(wait=True)

    def close(self) -> None:
        """Release lock and files; what was not committed is lost."""
        with self._writing:
            self._stop_writing(is_sound=False)
        self._graph_builder.stop()
        self._snapshot = None

    # ── reading ──

    def snapshot(self) -> ReplicaSnapshot | None:
        """Return the replica as of the last commit; None: another process is creating it."""
        self._refresh()
        return self._snapshot

    @property
    def checkpoint(self) -> Checkpoint:
        """How far the last commit came."""
        snapshot = self.snapshot()
        return snapshot.state.checkpoint if snapshot else Checkpoint()

    async def search(self, query: IndexQuery) -> Hits:
        """Return the best committed chunks, best first. No text is refused; a vector of another space raises
        InvalidVector."""

        def search() -> Hits:
            snapshot = self.snapshot()
            return Hits() if snapshot is None else snapshot.search(query)

        return await asyncio.to_thread(search)

    async def corrected(self, text: str) -> Correction:
        """Return a question with its unknown words corrected by the words that texts have."""
        snapshot = self.snapshot()
        return await asyncio.to_thread(snapshot.corrected, text) if snapshot else Correction(text)

    async def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """Return the texts of these hits by chunk id, without those that were removed since the search."""
        snapshot = self._snapshot  # a newer commit could only lack what was found
        return await asyncio.to_thread(snapshot.texts, hits) if snapshot else {}

    def item_ids(self) -> set[str]:
        """Return the ids of all committed pages that have chunks."""
        self._refresh()
        return self._table.item_ids()

    def pages(self, item_id: str) -> list[tuple[IndexedPage, frozenset[str]]]:
        """Return each version of a page with the ids of its chunks."""
        return self._table.pages(item_id)

    async def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Yield id, item id and version of every committed chunk."""
        snapshot = self.snapshot()
        for ids in snapshot.ids() if snapshot else ():
            yield ids

    async def count(self) -> int:
        """Return the number of committed chunks."""
        snapshot = self.snapshot()
        return snapshot.count() if snapshot else 0

    # ── writing ──

    def try_write_lock(self) -> bool:
        """Become the one who writes, if nobody else is. Raises ReplicaBroken for damage that only checksums show.

        All checksums are compared the first time; after `stop_writing` only of what others have written since.
        """
        if self._writer:
            return True
        lock = replica_state.try_lock(self.folder / replica_writer.WRITER_LOCK)
        if lock is None:
            return False
        try:
            self._refresh(wait=True)
            with self._refreshing:  # else a search might follow the log into the table that the writer now fills
                self._writer, is_ahead = self._open_writer(lock)
        except BaseException:
            os.close(lock)
            raise
        if is_ahead:
            self._publish(self._writer)
        return True

    async def upsert(
        self,
        page: IndexedPage,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        others: Mapping[str, Vector] = NO_VECTORS,
    ) -> None:
        """Add this version of a page with the next commit, beside older ones."""
        self._write(lambda writer: writer.upsert(page, chunks, vectors, others))

    async def keep_only(self, item_id: str, version: str) -> None:
        """Remove all other versions of the page with the next commit."""
        self._write(lambda writer: writer.keep_only(item_id, version))

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Remove these pages with the next commit."""
        self._write(lambda writer: writer.delete(item_ids))

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Make all writes so far durable and visible, together with how far they came."""

        def commit(writer: ReplicaWriter) -> None:
            writer.commit(checkpoint)
            self._publish(writer)
            snapshot = self._snapshot
            if snapshot and snapshot.matrix is not None:
                covered = snapshot.graph.rows if snapshot.graph else 0
                self._graph_builder.start(snapshot.state, snapshot.matrix, snapshot.columns.is_comparable, covered)

        await asyncio.to_thread(self._write, commit)

    def stop_writing(self) -> None:
        """Give the lock back and go on searching; what was not committed is lost. Waits for tantivy to merge."""
        with self._writing:
            self._stop_writing(is_sound=True)

    def _write(self, action: Callable[[ReplicaWriter], None]) -> None:
        with self._writing:
            if self._writer is None:
                raise ReplicaBusy("This process does not write the search replica: call try_write_lock first.")
            try:
                action(self._writer)
            except InvalidVector:
                raise  # refused before anything was written
            except BaseException:
                self._stop_writing(is_sound=False)
                raise

    def _open_writer(self, lock: int) -> tuple[ReplicaWriter, bool]:
        """Return the writer, and whether it is ahead of the snapshot because it finished what a crash had left."""
        snapshot = self._snapshot
        if snapshot is None or replica_state.signature(self.folder) is None:
            raise ReplicaBroken(f"The search replica in {self.folder} was removed; open it again.")
        try:
            writer = ReplicaWriter(self.folder, lock, snapshot.state, self._table, snapshot.lexical, self._verified)
        except BaseException:
            snapshot.lexical.stop_writing()
            self._table, self._seen = ChunkTable(), None
            raise
        self._verified = writer.state
        return writer, writer.state is not snapshot.state

    def _publish(self, writer: ReplicaWriter) -> None:
        assert self._snapshot  # there is no writer without one
        lexical = self._snapshot.lexical
        lexical.reload()
        with self._refreshing:
            self._table = writer.table
            self._take_snapshot(writer.state, lexical)

    def _stop_writing(self, is_sound: bool) -> None:
        """`is_sound`: no write failed, and what we wrote need not be compared with its checksums again."""
        writer = self._writer
        if writer is None:
            return
        try:
            writer.close(wait=is_sound)
        finally:
            with self._refreshing:
                self._writer = None
                if is_sound and not writer.is_dirty:
                    self._verified = writer.state
                    self._seen = replica_state.signature(self.folder)
                else:
                    self._table, self._seen = ChunkTable(), None
            os.close(writer.lock)

    # ── following the writer ──

    def _refresh(self, *, wait: bool = False) -> None:
        """Read the last commit; while one is going on, or another thread reads it, stay with what we have."""
        if self._writer or not self._refreshing.acquire(blocking=wait or self._snapshot is None):
            return
        try:
            if replica_state.signature(self.folder) != self._seen:
                self._reread(wait)
        finally:
            self._refreshing.release()

    def _reread(self, wait: bool) -> None:
        with replica_state.commit_lock(self.folder, shared=True, wait=wait) as is_locked:
            seen = replica_state.signature(self.folder)
            state = replica_state.read(self.folder) if is_locked else None
            if state is None:
                return
            wanted, found = self._dimensions, (state.dimension, state.other_dimension)
            # Who does not say what it wants takes what is there.
            if wanted[0] is not None and wanted != found:
                sizes = [" and ".join(map(str, filter(None, sizes))) or "no" for sizes in (found, wanted)]
                raise ReplicaBroken(
                    f"The search replica in {self.folder} is for vectors of {sizes[0]} dimensions, not {sizes[1]}."
                )
            try:
                self._follow(state)
            except BaseException:
                self._table, self._seen = ChunkTable(), None  # the table may be ahead of the snapshot
                raise
            self._seen = seen

    def _follow(self, state: ReplicaState) -> None:
        before = self._snapshot if self._snapshot and self._snapshot.state.born == state.born else None
        if before and self._seen and before.state.epoch == state.epoch:
            self._table.apply(replica_log.read(self.folder, state, before.state.log_bytes))
        else:
            self._table = ChunkTable(replica_log.read(self.folder, state))
        if len(self._table) != state.rows:
            raise ReplicaBroken("The search replica's log and state do not fit together.")
        lexical = before.lexical if before else LexicalIndex(self.folder / "lexical")
        lexical.reload()
        self._take_snapshot(state, lexical)

    def _take_snapshot(self, state: ReplicaState, lexical: LexicalIndex) -> None:
        matrix = replica_vectors.map_rows(self.folder, state)
        graph = replica_graph.open_graph(self.folder, state, self._snapshot.graph if self._snapshot else None)
        others = replica_vectors.map_others(self.folder, state)
        self._snapshot = ReplicaSnapshot(
            state, self._table.columns(), matrix, lexical, lexical.searcher(), graph, others
        )

    # ── the graph ──

    def finish_graph(self) -> None:
        """Wait for the graph, if one is being built. Not needed: without it searches only take longer."""
        self._graph_builder.join()

    def _use_graph(self) -> None:
        """Called by the builder; other processes find the graph with the next commit."""
        with self._refreshing:
            if self._snapshot:
                graph = replica_graph.open_graph(self.folder, self._snapshot.state, self._snapshot.graph)
                self._snapshot = replace(self._snapshot, graph=graph)
