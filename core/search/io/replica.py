"""The search replica: what Redis holds, on this host's disk in the shape that search wants. It can always be rebuilt.

    <folder>/lexical/      tantivy: words, BM25, texts
    <folder>/vectors/      <epoch>.f32 rows of float32, <epoch>.log which chunks they belong to; a graph of many rows
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
    replica_files,
    replica_graph,
    replica_graph_builder,
    replica_lexical,
    replica_state,
    replica_vectors,
)
from core.search.io.replica_files import read_log, read_table, rows_path
from core.search.io.replica_graph_builder import GraphBuilder
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_snapshot import ReplicaSnapshot
from core.search.io.replica_state import Checkpoint, InvalidVector, ReplicaBroken, ReplicaBusy, ReplicaState, Signature
from core.search.io.replica_table import ChunkTable, decode
from core.search.io.replica_writer import ReplicaWriter
from core.search.models import ChunkText, Filters, Hit, Hits, IndexedPage
from core.search.protocols import Vector


class Replica:
    """An Index on disk, shared by the processes of a host."""

    def __init__(self, folder: Path, dimension: int | None = None) -> None:
        """Open it, or make it where there is none; `dimension` None takes what is there, or makes one without vectors.

        Raises ReplicaBroken for what cannot be used.
        """
        self._folder = folder
        self._dimension = dimension
        self._view: ReplicaSnapshot | None = None
        self._table = ChunkTable()
        self._seen: Signature | None = None
        self._sound = ("", 0, 0)  # born, epoch, rows: as far as these we know that the vectors are whole
        self._lock: int | None = None
        self._writer: ReplicaWriter | None = None
        self._refreshing = threading.Lock()
        self._writing = threading.Lock()
        self._turn = asyncio.Lock()
        self._builder = GraphBuilder(folder, self._use_graph)
        folder.mkdir(parents=True, exist_ok=True)
        if replica_state.signature(folder) is None:
            replica_files.create(folder, dimension)
        self._refresh(is_waiting=True)

    @staticmethod
    def erase(folder: Path) -> bool:
        """Remove a replica, if nobody writes it. Only its own files; readers keep what they have until there is a new
        one."""
        return replica_files.erase(folder)

    # ── who writes ──

    def try_write_lock(self) -> bool:
        """Become the one who writes, if nobody else is. Raises ReplicaBroken for damage that only a full look shows.

        The full look is taken the first time; after `stop_writing` only at what others have written since.
        """
        if self._writer:
            return True
        lock = replica_state.try_lock(self._folder / "writer.lock")
        if lock is None:
            return False
        try:
            self._refresh(is_waiting=True)
            with self._refreshing:  # else a search might follow the log into the table that the writer now fills
                ahead = self._start_writing()
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        if ahead:
            self._publish(ahead)
        return True

    def stop_writing(self) -> None:
        """Give the lock back and go on searching; what was not committed is lost. Waits for tantivy to tidy up."""
        with self._writing:
            self._stop_writing(is_sound=True)

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    @property
    def is_writer(self) -> bool:
        """Do we hold the lock?"""
        return self._writer is not None

    @property
    def checkpoint(self) -> Checkpoint:
        """How far the last commit came."""
        self._refresh()
        return self._view.state.checkpoint if self._view else Checkpoint()

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Make all writes so far durable and visible, and say how far they came."""
        async with self._turn:
            await asyncio.to_thread(self._commit, checkpoint)

    def close(self) -> None:
        """Let go of lock and files; what was not committed is lost."""
        with self._writing:
            self._stop_writing(is_sound=False)
        self._builder.stop()
        self._view = None

    # ── Index ──

    async def upsert(self, page: IndexedPage, chunks: Sequence[Chunk], vectors: Mapping[str, Vector]) -> None:
        """Make this version of a page findable from the next commit on, beside an older one."""
        async with self._turn:
            self._write(lambda writer: writer.upsert(page, chunks, vectors))

    async def keep_only(self, item_id: str, version: str) -> None:
        """From the next commit on only this version of the page."""
        async with self._turn:
            self._write(lambda writer: writer.keep_only(item_id, version))

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Forget these pages with the next commit."""
        async with self._turn:
            self._write(lambda writer: writer.delete(item_ids))

    def item_ids(self) -> set[str]:
        """All committed pages that have chunks."""
        self._refresh()
        return self._table.item_ids()

    def held(self, item_id: str) -> list[tuple[IndexedPage, frozenset[str]]]:
        """What there is of a page: each version with its chunks."""
        return self._table.held(item_id)

    async def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Every committed chunk: its id, item and version."""
        self._refresh()
        for found in self._view.ids() if self._view else ():
            yield found

    async def search(
        self,
        text: str,
        vector: Vector | None,
        filters: Filters,
        limit: int,
        lexical_weight: float = 0.5,
        spoken: frozenset[str] | None = None,
    ) -> Hits:
        """The best committed chunks, best first. No text is refused; a vector of another space raises InvalidVector."""
        return await asyncio.to_thread(self.search_now, text, vector, filters, limit, lexical_weight, spoken)

    def search_now(
        self,
        text: str,
        vector: Vector | None,
        filters: Filters,
        limit: int,
        lexical_weight: float = 0.5,
        spoken: frozenset[str] | None = None,
    ) -> Hits:
        """The same in this thread."""
        self._refresh()
        view = self._view
        with replica_lexical.reading():
            return view.search(text, vector, filters, limit, lexical_weight, spoken) if view else Hits()

    async def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """What the chunks of these hits say, by chunk id; what is gone since the search is left out."""
        return await asyncio.to_thread(self.texts_now, hits)

    def texts_now(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """The same in this thread. It does not look for a newer commit, which could only lack what was found."""
        view = self._view
        with replica_lexical.reading():
            return view.texts(hits) if view else {}

    async def count(self) -> int:
        """How many committed chunks there are."""
        self._refresh()
        return self._view.count() if self._view else 0

    # ── inside ──

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

    def _commit(self, checkpoint: Checkpoint) -> None:
        self._write(lambda writer: self._commit_writer(writer, checkpoint))

    def _commit_writer(self, writer: ReplicaWriter, checkpoint: Checkpoint) -> None:
        if self._lock is None or not replica_state.is_still(self._folder / "writer.lock", self._lock):
            raise ReplicaBroken(f"The search replica in {self._folder} was removed while we wrote it.")
        writer.commit(checkpoint)
        self._publish(writer)
        self._carry_on_graph()

    def _publish(self, writer: ReplicaWriter) -> None:
        assert self._view  # there is no writer without a view
        lexical = self._view.lexical
        lexical.reload()
        with self._refreshing:
            self._table = writer.table
            self._show(writer.state, lexical)

    def _start_writing(self) -> ReplicaWriter | None:
        """Make the writer; gives it back if it is ahead of the view, because it finished what a crash had left."""
        view = self._view
        if view is None or replica_state.signature(self._folder) is None:
            raise ReplicaBroken(f"The search replica in {self._folder} was removed; open it anew.")
        born, epoch, rows = self._sound
        sound_rows = rows if (born, epoch) == (view.state.born, view.state.epoch) else 0
        try:
            self._writer = ReplicaWriter(self._folder, view.state, self._table, view.lexical, sound_rows)
        except BaseException:
            view.lexical.stop_writing()
            self._table, self._seen = ChunkTable(), None
            raise
        self._sound = self._writer.sound
        return self._writer if self._writer.state is not view.state else None

    def _stop_writing(self, is_sound: bool) -> None:
        """`is_sound`: all went well, and what we wrote need not be compared with its checksums again."""
        writer = self._writer
        if writer is None:
            return
        try:
            writer.close(is_waiting=is_sound)
        finally:
            with self._refreshing:
                self._writer = None
                if is_sound and writer.is_clean:
                    self._sound = writer.sound
                    self._seen = replica_state.signature(self._folder)
                else:
                    self._table, self._seen = ChunkTable(), None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _refresh(self, is_waiting: bool = False) -> None:
        """Look whether the writer committed; while it does, or another thread looks, stay with what we have."""
        if self._writer or not self._refreshing.acquire(blocking=is_waiting or self._view is None):
            return
        try:
            if replica_state.signature(self._folder) != self._seen:
                self._reread(is_waiting)
        finally:
            self._refreshing.release()

    def _reread(self, is_waiting: bool) -> None:
        with replica_state.looking(self._folder, is_waiting) as is_still:
            seen = replica_state.signature(self._folder)
            state = replica_state.read(self._folder) if is_still else None
            if state is None:
                return
            try:
                self._follow(state)
            except BaseException:
                self._table, self._seen = ChunkTable(), None  # the table may be ahead of the view
                raise
            self._seen = seen

    def _follow(self, state: ReplicaState) -> None:
        if self._dimension not in (None, state.dimension):
            raise ReplicaBroken(
                f"The search replica in {self._folder} is for vectors of {state.dimension} dimensions, "
                f"not {self._dimension}."
            )
        before = self._view.state if self._view else None
        is_same = before is not None and before.born == state.born
        lexical = self._view.lexical if self._view and is_same else LexicalIndex(self._folder / "lexical")
        if before and is_same and self._seen and before.epoch == state.epoch:
            for record in decode(read_log(self._folder, state, before.log_bytes)):
                self._table.apply(record)
        else:
            self._table = read_table(self._folder, state)
        if is_same:
            _reload(lexical)
        self._show(state, lexical)

    def _show(self, state: ReplicaState, lexical: LexicalIndex) -> None:
        matrix = replica_vectors.map_rows(rows_path(self._folder, state.epoch), state.rows, state.dimension)
        columns, languages = self._table.columns(), self._table.languages()
        graph = replica_graph.opened(self._folder, state, self._view.graph if self._view else None)
        self._view = ReplicaSnapshot(state, columns, languages, matrix, lexical, lexical.searcher(), graph)

    # ── the graph ──

    def _carry_on_graph(self) -> None:
        view = self._view
        if view and view.matrix is not None:
            covered = view.graph.rows if view.graph else 0
            if replica_graph_builder.is_wanted(view.state, covered):
                self._builder.start(view.state, view.matrix, view.columns.is_comparable)

    def finish_graph(self) -> None:
        """Wait for the graph, if one is being built. Nobody has to: without it searches only take longer."""
        self._builder.join()

    def _use_graph(self) -> None:
        """Called by the builder; other processes find it with the next commit."""
        with self._refreshing:
            if self._view:
                graph = replica_graph.opened(self._folder, self._view.state, self._view.graph)
                self._view = replace(self._view, graph=graph)


def _reload(lexical: LexicalIndex) -> None:
    try:
        lexical.reload()
    except (ValueError, OSError) as error:
        raise ReplicaBroken(f"The search replica's words cannot be read: {error}") from error
