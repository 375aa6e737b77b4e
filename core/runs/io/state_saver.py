"""Save the state of knowledge bases: in Redis, and as `state.json`.

Called every few seconds of a run, when its phase changes and at its end. A disk that is full or cannot be written is a
warning, once; the run goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

from core.keys import Keys
from core.runs import state_json
from core.runs.io.state_file import StateFiles
from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import KbState
from core.runs.run import Run
from core.settings import Settings
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_kinds import start_of
from core.sources.io.source_store import SourceStore
from core.store.connect import Client

LOG_SECONDS = 60.0
"""Lines at info level are at least so far apart, but for the end of a phase."""
SAVED_STEPS = frozenset({"join", "beat", "leave", "finish", "pause", "resume", "cancel"})
PHASE_ENDS = frozenset({"leave", "finish"})
_logged_at: dict[str, float] = {}
"""Shared by the process: a worker that runs many short jobs logs no more than one long one."""
_last_ends: dict[str, str] = {}
"""The run whose end was logged last: one that ends by two steps is logged once."""


class StateSaver:
    """Saves states and logs that it did."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._states = KbStateStore(client, keys)
        self._files = StateFiles(settings.persistent_storage_path)
        self._domains = DomainStore(client, keys)
        self._sources = SourceStore(client, keys)
        self._starts: dict[str, tuple[str, str]] = {}
        self._has_warned = False

    async def save_crawl(self, kb_id: str, now: float, *, ended: str = "") -> KbState | None:
        """Save during or behind a crawl; `ended`: the run that has ended."""
        state = await self._save(kb_id, now)
        if state:
            line = f"✓ State saved: {state.crawl.pages_crawled} crawled, {state.crawl.pages_queued} queued"
            logging.getLogger("refresh").log(self._level(f"crawl {kb_id}", ended), line)
        return state

    async def save_step(self, run: Run, now: float, what: str) -> None:
        """Save after a step of a run; at the end of one that is not part of another it is logged."""
        if run.domain and what in SAVED_STEPS:
            is_end = what in PHASE_ENDS and not run.parent
            await self.save_crawl(run.domain, now, ended=run.id if is_end else "")

    async def save_index(self, kb_id: str, now: float) -> None:
        was_indexing = await self._states.settle(kb_id, now)
        state = await self._save(kb_id, now)
        if state:
            line = f"✓ State saved: indexed up to doc_id {state.processing.last_indexed_id}"
            has_ended = was_indexing and state.job.phase == "done"
            logging.getLogger("embed").log(self._level(f"index {kb_id}", str(now) if has_ended else ""), line)

    async def log_resumed(self, kb_id: str, now: float) -> None:
        state = await self._save(kb_id, now)
        if state:
            crawl, line = state.crawl, "Resuming from state: ID=%d, crawled=%d, queued=%d"
            logging.getLogger("refresh").info(line, crawl.last_doc_id, crawl.pages_crawled, crawl.pages_queued)

    def _level(self, what: str, ended: str) -> int:
        at = time.monotonic()
        is_news = ended and _last_ends.get(what) != ended
        if not is_news and at - _logged_at.setdefault(what, at) < LOG_SECONDS:
            return logging.DEBUG
        _logged_at[what] = at
        if ended:
            _last_ends[what] = ended
        return logging.INFO

    # ── Redis and the file ──

    async def _save(self, kb_id: str, now: float) -> KbState | None:
        """Save; the lock is taken before Redis is read, so that a file is never replaced by an older state."""
        start = await self._start_of(kb_id)
        descriptor = await asyncio.to_thread(self._lock, kb_id)
        try:
            state = await self._states.save(kb_id, now, start)
            if state and descriptor is not None:
                await asyncio.to_thread(self._write, kb_id, state_json.to_json(state))
            return state
        finally:
            if descriptor is not None:
                os.close(descriptor)

    async def _start_of(self, kb_id: str) -> tuple[str, str]:
        """Return where the first source of a domain begins; read once."""
        if kb_id not in self._starts:
            domain = await self._domains.read(kb_id)
            record = await self._sources.stored_record(domain.sources[0]) if domain and domain.sources else None
            self._starts[kb_id] = start_of(record) if record else ("", "")
        return self._starts[kb_id]

    def _lock(self, kb_id: str) -> int | None:
        try:
            return self._files.acquire(kb_id)
        except (OSError, ValueError) as error:
            self._warn(error)
            return None

    def _write(self, kb_id: str, text: str) -> None:
        try:
            self._files.write(kb_id, text)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            line = "⚠️ state.json cannot be written (%s). Redis has the state, and work goes on."
            logging.getLogger("store").warning(line, error)
