"""The state of knowledge bases in Redis: `kb:<id>:state`, one field per value.

Counters are raised by the commits that do the work (`state_tally`); the job section is a copy of the newest run; a save
adds what follows from other keys. No writer reads a whole state to write it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from core.errors import NotFound
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import HOLD_SECONDS, LOOK, RUN_HOLD_SECONDS
from core.registry.record import iso
from core.runs import state_fields, state_json
from core.runs.io import state_scripts
from core.runs.knowledge_base_state import MOST_PENDING, PENDING, KbState
from core.runs.run import Run, RunKind, RunStatus, domain_scope, status_at
from core.store.commands import Command
from core.store.connect import Client, HashFields
from core.store.packing import packed_json

MOST_WAITING = 1_000
"""How many texts that wait to be embedded are counted, at most."""
_BEGINS = frozenset({RunKind.CRAWL, RunKind.DOMAIN})


class KbStateStore:
    """Writes and reads the states of knowledge bases."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    # ── the job section ──

    def followed(self, run: Run, now: float) -> Command:
        """The command that copies a run, as it is stored then, into the job section of its knowledge base.

        A run that is a part of another, or of no knowledge base, is not to be followed.
        """
        ask = self._ask(run.domain, now) | {
            "run": run.id,
            "created_ts": run.created_ts,
            "created_at": iso(run.created_ts),
            "begins": run.kind in _BEGINS,
        }
        keys = (*self._settled_keys(run.domain), self._keys.run(run.id), self._keys.runs_paused)
        return ("EVAL", state_scripts.FOLLOW, len(keys), *keys, packed_json(ask).decode())

    async def follow(self, run: Run, now: float) -> None:
        """Copy a run into the job section of its knowledge base, if it has one and is not part of another run."""
        if run.domain and not run.parent:
            await self._client.execute_command(*self.followed(run, now))

    async def settle(self, kb_id: str, now: float) -> bool:
        """Go from `indexing` to `done` when no text of the knowledge base waits to be embedded.

        Returns whether its phase was `indexing`.
        """
        keys = self._settled_keys(kb_id)
        ask = packed_json(self._ask(kb_id, now))
        return bool(await self._client.eval(state_scripts.SETTLE, len(keys), *keys, ask))

    def _settled_keys(self, kb_id: str) -> tuple[str, str, str]:
        return self._keys.kb_state(kb_id), self._keys.domain(kb_id), self._keys.embed_due

    def _ask(self, kb_id: str, now: float) -> dict[str, Any]:
        """Return the arguments of every script about a state."""
        refs_head, refs_tail = self._keys.refs("\n").split("\n")
        return {
            "kb": kb_id,
            "scope": domain_scope(kb_id),
            "version": KbState(kb_id).version,
            "updated_at": state_fields.iso_milliseconds(now),
            "now": now,
            "refs_head": refs_head,
            "refs_tail": refs_tail,
            "most_waiting": MOST_WAITING,
        }

    # ── save ──

    async def save(self, kb_id: str, now: float, start: tuple[str, str] = ("", "")) -> KbState | None:
        """Write what is queued, the metrics and the time; return the whole state, None if there is none.

        `start`: where its crawl begins and what its addresses have in common; empty: as stored.
        """
        due_head, due_tail = self._keys.due("\n").split("\n")
        ask = self._ask(kb_id, now) | {
            "until_ts": now + RUN_HOLD_SECONDS,  # a run holds back what it has picked for so long
            "held_ts": now + HOLD_SECONDS,
            "now_iso": iso(now),
            "held_iso": iso(now + HOLD_SECONDS),
            "most_looked": LOOK,
            "most_urls": MOST_PENDING,
            "due_head": due_head,
            "due_tail": due_tail,
            "item_head": self._keys.item(""),
        }
        keys = (self._keys.kb_state(kb_id), self._keys.domain(kb_id), self._keys.runs_paused)
        reply = await self._client.eval(state_scripts.SAVE, len(keys), *keys, packed_json(ask))
        words, urls = cast(tuple[list[str], list[str]], reply)
        if not words:
            return None
        fields = dict(zip(words[::2], words[1::2], strict=True))
        has_domain = fields.get("crawl.pages_queued") is not None
        if has_domain:
            fields[PENDING] = state_fields.stored(urls)
        if start[0]:
            fields |= {"crawl.start_url": start[0], "crawl.url_prefix": start[1]}
        state = state_json.fitted(state_fields.from_fields(kb_id, fields))
        late = {name: value for name, value in state_fields.to_fields(state).items() if name in _LATE}
        await self._client.hset(self._keys.kb_state(kb_id), mapping=HashFields(late))
        return state

    # ── read ──

    async def read(self, kb_id: str, now: float) -> KbState | None:
        """Return the state of a knowledge base, None if there is none; a run without heartbeat is interrupted.

        Of a job that comes from files the last heartbeat is when they were written.
        """
        return await self._read(kb_id, now, is_restored_kept=False)

    async def read_for_files(self, kb_id: str, now: float) -> KbState | None:
        """Return the same, with a job that comes from files as it was in them."""
        return await self._read(kb_id, now, is_restored_kept=True)

    async def _read(self, kb_id: str, now: float, *, is_restored_kept: bool) -> KbState | None:
        fields = cast(dict[str, str], await self._client.hgetall(self._keys.kb_state(kb_id)))
        if not fields:
            return None
        state = state_json.fitted(state_fields.from_fields(kb_id, fields))
        is_restored = "heartbeat_ts" not in fields
        if state.job.status not in set(RunStatus) or (is_restored and is_restored_kept):
            return state
        written_ts = field_parsing.iso_timestamp(state.updated_at) or 0.0
        beat = written_ts if is_restored else field_parsing.timestamp(fields["heartbeat_ts"])
        status = str(status_at(RunStatus(state.job.status), beat, now))
        return replace(state, job=replace(state.job, status=status))

    async def require(self, kb_id: str, now: float) -> KbState:
        """Return the state of a knowledge base; raise NotFound, a sentence, if there is none of that id."""
        state = await self.read(kb_id, now)
        if state is None and await self._client.exists(self._keys.domain(kb_id)):
            return KbState(kb_id=kb_id)
        if state is None:
            raise NotFound(f"There is no knowledge base {kb_id}. `python -m scripts.domain list` shows what there is.")
        return state

    # ── restore ──

    async def restore(self, state: KbState, origin: str) -> bool:
        """Write a whole state that comes from files, unless work was done here since; return whether it was written.

        `origin`: a digest of those files, see `origin_of`.
        """
        fields = {**state_fields.to_fields(state), "restored_from": origin}
        words = [word for pair in fields.items() for word in pair]
        return bool(await self._client.eval(state_scripts.RESTORE, 1, self._keys.kb_state(state.kb_id), *words))

    async def may_restore(self, kb_id: str) -> bool:
        """Return whether `restore` would write: no run was followed here, and nothing counted."""
        return bool(await self._client.eval(state_scripts.RESTORE, 1, self._keys.kb_state(kb_id)))

    async def origin_of(self, kb_id: str) -> str:
        """Return the digest that `restore` was given; empty if this state does not come from files."""
        return str(await self._client.hget(self._keys.kb_state(kb_id), "restored_from") or "")


_LATE = frozenset({PENDING, "crawl.start_url", "crawl.url_prefix"})
