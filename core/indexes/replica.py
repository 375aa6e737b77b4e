"""The search replica: what Redis holds, on this host's disk in the shape that search wants. It can always be rebuilt.

    <folder>/lexical/      tantivy: words, BM25, texts
    <folder>/vectors/      <epoch>.f32 rows of float32, <epoch>.log which chunks they belong to
    <folder>/state.json    how far it has come; the last file of every commit
    <folder>/*.lock        writer.lock: who writes; commit.lock: held for the moment in which files change together

One process writes (`try_write_lock`), any number read beside it. Searches see what was committed, in every process.
After an exception from a write the lock is given back: take it again to continue from the last commit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from core.indexes import replica_state, replica_vectors
from core.indexes.protocols import Filters, Hit, Page, Vector
from core.indexes.replica_lexical import Lexical
from core.indexes.replica_search import View
from core.indexes.replica_state import SCHEMA, Mark, ReplicaBroken, ReplicaBusy, Signature, State, WrongVector
from core.indexes.replica_table import Table, decode
from core.indexes.replica_writer import Writer, log_path, read_log, read_table, rows_path
from core.models import Chunk

__all__ = ["Mark", "Replica", "ReplicaBroken", "ReplicaBusy", "WrongVector"]


class Replica:
    """An Index on disk, shared by the processes of a host."""

    def __init__(self, folder: Path, dimension: int | None = None) -> None:
        """Open it, or make it where there is none; `dimension` None takes what is there, or makes one without vectors.

        Raises ReplicaBroken for what cannot be used.
        """
        self._folder = folder
        self._dimension = dimension
        self._view: View | None = None
        self._table = Table()
        self._seen: Signature | None = None
        self._lock: int | None = None
        self._writer: Writer | None = None
        self._refreshing = threading.Lock()
        self._writing = threading.Lock()
        self._turn = asyncio.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        if replica_state.signature(folder) is None:
            self._create()
        self._refresh(is_waiting=True)

    @staticmethod
    def erase(folder: Path) -> bool:
        """Remove a replica, if nobody writes it. Only its own files; readers keep what they have until there is a new
        one."""
        folder.mkdir(parents=True, exist_ok=True)
        lock = replica_state.try_lock(folder / "writer.lock")
        if lock is None:
            return False
        try:
            _remove_files(folder)
        finally:
            os.close(lock)
        return True

    # ── who writes ──

    def try_write_lock(self) -> bool:
        """Become the one who writes, if nobody else is. Raises ReplicaBroken for damage that only a full look shows."""
        if self._writer:
            return True
        lock = replica_state.try_lock(self._folder / "writer.lock")
        if lock is None:
            return False
        try:
            self._refresh(is_waiting=True)
            if self._view is None:
                raise ReplicaBroken(f"The search replica in {self._folder} was removed; open it anew.")
            self._writer = Writer(self._folder, self._view.state, self._view.lexical)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        self._publish(self._writer)
        return True

    @property
    def is_writer(self) -> bool:
        """Do we hold the lock?"""
        return self._writer is not None

    @property
    def mark(self) -> Mark:
        """How far the last commit came."""
        self._refresh()
        return self._view.state.mark if self._view else Mark()

    async def commit(self, mark: Mark) -> None:
        """Make all writes so far durable and visible, and say how far they came."""
        async with self._turn:
            await asyncio.to_thread(self._commit, mark)

    def close(self) -> None:
        """Let go of lock and files; what was not committed is lost. Give up writing: close, and open anew."""
        self._stop_writing()
        self._view = None

    # ── Index ──

    async def upsert(self, page: Page, chunks: Sequence[Chunk], vectors: Mapping[str, Vector]) -> None:
        """Make this version of a page findable from the next commit on, beside an older one."""
        async with self._turn:
            self._write(lambda writer: writer.upsert(page, chunks, vectors))

    async def flip(self, item_id: str, version: str) -> None:
        """From the next commit on only this version of the page."""
        async with self._turn:
            self._write(lambda writer: writer.flip(item_id, version))

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Forget these pages with the next commit."""
        async with self._turn:
            self._write(lambda writer: writer.delete(item_ids))

    async def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Every committed chunk: its id, item and version."""
        self._refresh()
        for found in self._view.ids() if self._view else ():
            yield found

    async def search(
        self, text: str, vector: Vector | None, filters: Filters, limit: int, lexical_weight: float = 0.5
    ) -> list[Hit]:
        """The best committed chunks, best first. No text is refused; a vector of another space raises WrongVector."""
        return await asyncio.to_thread(self.search_now, text, vector, filters, limit, lexical_weight)

    def search_now(
        self, text: str, vector: Vector | None, filters: Filters, limit: int, lexical_weight: float = 0.5
    ) -> list[Hit]:
        """The same in this thread."""
        self._refresh()
        view = self._view
        return view.search(text, vector, filters, limit, lexical_weight) if view else []

    async def count(self) -> int:
        """How many committed chunks there are."""
        self._refresh()
        return self._view.count() if self._view else 0

    # ── inside ──

    def _create(self) -> None:
        """Make an empty replica, unless another process is about to."""
        lock = replica_state.try_lock(self._folder / "writer.lock")
        if lock is None:
            return
        try:
            if replica_state.signature(self._folder) is None:
                _remove_files(self._folder)
                state = State(schema=SCHEMA, born=uuid.uuid4().hex, dimension=self._dimension)
                Lexical.create(self._folder / "lexical")
                (self._folder / "vectors").mkdir()
                log_path(self._folder, 0).touch()
                rows_path(self._folder, 0).touch()
                replica_state.sync_folder(self._folder / "vectors")
                replica_state.write(self._folder, state)
        finally:
            os.close(lock)

    def _write(self, action: Callable[[Writer], None]) -> None:
        with self._writing:
            if self._writer is None:
                raise ReplicaBusy("This process does not write the search replica: call try_write_lock first.")
            try:
                action(self._writer)
            except WrongVector:
                raise  # refused before anything was written
            except BaseException:
                self._stop_writing()
                raise

    def _commit(self, mark: Mark) -> None:
        self._write(lambda writer: self._commit_writer(writer, mark))

    def _commit_writer(self, writer: Writer, mark: Mark) -> None:
        if self._lock is None or not replica_state.is_still(self._folder / "writer.lock", self._lock):
            raise ReplicaBroken(f"The search replica in {self._folder} was removed while we wrote it.")
        writer.commit(mark)
        self._publish(writer)

    def _publish(self, writer: Writer) -> None:
        assert self._view  # there is no writer without a view
        lexical = self._view.lexical
        lexical.reload()
        with self._refreshing:
            self._table = writer.table
            self._show(writer.state, lexical)

    def _stop_writing(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self._table, self._seen = Table(), None

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
            self._follow(state)
            self._seen = seen

    def _follow(self, state: State) -> None:
        if self._dimension not in (None, state.dimension):
            raise ReplicaBroken(
                f"The search replica in {self._folder} is for vectors of {state.dimension} dimensions, "
                f"not {self._dimension}."
            )
        before = self._view.state if self._view else None
        is_same = before is not None and before.born == state.born
        lexical = self._view.lexical if self._view and is_same else Lexical(self._folder / "lexical")
        if before and is_same and before.epoch == state.epoch and len(self._table) == before.rows:
            for record in decode(read_log(self._folder, state, before.log_bytes)):
                self._table.apply(record)
        else:
            self._table = read_table(self._folder, state)
        if is_same:
            _reload(lexical)
        self._show(state, lexical)

    def _show(self, state: State, lexical: Lexical) -> None:
        matrix = replica_vectors.map_rows(rows_path(self._folder, state.epoch), state.rows, state.dimension)
        columns, languages = self._table.columns(), self._table.languages()
        self._view = View(state, columns, languages, matrix, lexical, lexical.searcher())


def _reload(lexical: Lexical) -> None:
    try:
        lexical.reload()
    except (ValueError, OSError) as error:
        raise ReplicaBroken(f"The search replica's words cannot be read: {error}") from error


def _remove_files(folder: Path) -> None:
    """The state first: without it the rest is nothing."""
    with replica_state.publishing(folder):
        (folder / "state.json").unlink(missing_ok=True)
        for name in ("lexical", "vectors"):
            shutil.rmtree(folder / name, ignore_errors=True)
