"""Take over the state of knowledge bases from the three old files, or write these from the state.

What was done here since is never replaced. May be repeated: a second time changes nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum

from core.errors import FreshetError
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import RUN_HOLD_SECONDS, DueItems
from core.runs import old_state, state_fields, state_json
from core.runs.io import old_state_files
from core.runs.io.old_state_files import OldStateFiles
from core.runs.io.state_file import StateFiles, is_file_name
from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import KbState
from core.settings import Settings
from core.sources.io.domain_store import DomainStore
from core.store import connect
from core.store.connect import Client


class MigrationEnd(StrEnum):
    MIGRATED = "migrated"
    UNCHANGED = "as it was"
    KEPT = "newer state kept"
    """Work was done here since the old files were written."""
    WRITTEN = "old files written"
    NOTHING = "nothing there"


@dataclass(slots=True)
class MigratedState:
    kb_id: str
    end: MigrationEnd
    old_bytes: int = 0
    old_seconds: float = 0.0
    new_bytes: int = 0
    new_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """Sentences about what was empty, damaged or left out."""
    is_damaged: bool = False


class StateMigration:
    """Migrates knowledge bases, forth and back."""

    def __init__(self, settings: Settings, client: Client, keys: Keys, *, dry_run: bool = False) -> None:
        self._client = client
        self._storage = settings.persistent_storage_path
        self._dry_run = dry_run
        self._files = StateFiles(self._storage)
        self._states = KbStateStore(client, keys)
        self._domains = DomainStore(client, keys)
        self._due = DueItems(client, keys)

    async def kb_ids(self, *, back: bool = False) -> list[str]:
        """Return all knowledge bases that there is something to migrate of."""
        with_file = [kb_id for kb_id in self._files.kb_ids() if self._files.path(kb_id).exists()]
        others = await self._domains.ids() if back else old_state_files.kb_ids(self._storage)
        return sorted({*with_file, *others})

    # ── forth ──

    async def migrate(self, kb_id: str) -> MigratedState:
        """Make the state of a knowledge base what its files say, unless work was done here since."""
        _require_name(kb_id)
        old = old_state_files.read(self._storage, kb_id)
        result = MigratedState(kb_id, MigrationEnd.UNCHANGED, old.total_bytes, old.load_seconds, notes=list(old.notes))
        result.is_damaged = bool(old.damaged)
        from_file = self._read_file(kb_id, old, result)
        self._keep_damaged(old)
        if not old.values and from_file is None and (result.is_damaged or not old.newest_ts):
            result.end = MigrationEnd.NOTHING
            return result
        origin = await self._states.origin_of(kb_id)
        # Where Redis has what an earlier migration made, the file is a copy of that.
        state = self._newest(kb_id, old, None if origin and old.values else from_file)
        if origin != old.digest:
            is_free = await self._states.may_restore(kb_id)
            if is_free and not self._dry_run:
                is_free = await self._states.restore(state, old.digest)
            result.end = MigrationEnd.MIGRATED if is_free else MigrationEnd.KEPT
        await self._write_file(kb_id, state, result)
        return result

    def _newest(self, kb_id: str, old: OldStateFiles, from_file: KbState | None) -> KbState:
        """Return what `state.json` says, unless the old files were written after it."""
        file_ts = field_parsing.iso_timestamp(from_file.updated_at) or 0.0 if from_file else -1.0
        # Times in states are whole milliseconds.
        if from_file and (not old.values or file_ts + 0.001 >= old.newest_ts):
            return from_file
        updated_at = state_fields.iso_milliseconds(old.newest_ts)
        return state_json.fitted(old_state.unified(kb_id, old.values, updated_at, old_state_files.local_to_utc))

    def _read_file(self, kb_id: str, old: OldStateFiles, result: MigratedState) -> KbState | None:
        """Return the state in `state.json`; one that cannot be read is noted and kept aside."""
        path = self._files.path(kb_id)
        try:
            text = self._files.read(kb_id)
            return None if text is None else state_json.from_json(kb_id, text)
        except (ValueError, RecursionError, OSError) as error:
            why = " ".join(str(error).split())[:200]
            result.notes.append(f"{path} is damaged ({why}); a migration keeps a copy beside it.")
            result.is_damaged = True
            old.damaged[path] = path.read_bytes() if path.is_file() else b""
            return None

    def _keep_damaged(self, old: OldStateFiles) -> None:
        for path, data in old.damaged.items():
            if data and not self._dry_run:
                old_state_files.keep_aside(path, data)

    async def _write_file(self, kb_id: str, state: KbState, result: MigratedState) -> None:
        """Make `state.json` what Redis has; then measure how long it takes to read."""
        state = (
            state
            if self._dry_run
            else await self._states.read_for_files(kb_id, await connect.now(self._client)) or state
        )
        text = state_json.to_json(state)
        result.new_bytes = len(text.encode())
        if not self._dry_run and self._text_of(kb_id) != f"{text}\n":
            with self._files.lock(kb_id):
                self._files.write(kb_id, text)
        began = time.perf_counter()
        state_json.from_json(kb_id, text if self._dry_run else self._files.read(kb_id) or text)
        result.new_seconds = time.perf_counter() - began

    def _text_of(self, kb_id: str) -> str | None:
        try:
            return self._files.read(kb_id)
        except ValueError:
            return None

    # ── back ──

    async def back(self, kb_id: str) -> MigratedState:
        """Write the three old files of a knowledge base from its state."""
        _require_name(kb_id)
        now = await connect.now(self._client)
        old = old_state_files.read(self._storage, kb_id)
        result = MigratedState(kb_id, MigrationEnd.UNCHANGED, notes=list(old.notes), is_damaged=bool(old.damaged))
        state = await self._states.read_for_files(kb_id, now) or self._read_file(kb_id, old, result)
        if state is None:
            result.end = MigrationEnd.NOTHING
            return result
        self._keep_damaged(old)
        files = old_state.back(state, old.values, await self._queue(kb_id, now), old_state_files.local_to_utc)
        for name, path in old_state_files.paths(self._storage, kb_id).items():
            is_new = old.values.get(name) != files[name]
            if is_new:
                result.end = MigrationEnd.WRITTEN
            if is_new and not self._dry_run:
                old_state_files.write(path, files[name])
        after = old_state_files.read(self._storage, kb_id)
        result.old_bytes, result.old_seconds = after.total_bytes, after.load_seconds
        result.new_bytes = len(state_json.to_json(state).encode())
        return result

    async def _queue(self, kb_id: str, now: float) -> list[str]:
        """Return the addresses of all that is queued; a knowledge base that is not a domain here has none."""
        domain = await self._domains.read(kb_id)
        sources = domain.sources if domain else ()
        return [url for sid in sources for url in await self._due.addresses(sid, now + RUN_HOLD_SECONDS)]


def _require_name(kb_id: str) -> None:
    if not is_file_name(kb_id):
        raise FreshetError(f"{kb_id!r} cannot be the id of a knowledge base: it is not the name of a file.")
