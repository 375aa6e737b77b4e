"""The job section of a knowledge base's state: a copy of its newest run, written whenever a run takes a step.

Apart from `state_store`, since every run writes it and none reads a state: its models take pydantic.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from core.keys import Keys
from core.registry.record import iso
from core.runs.io import state_scripts
from core.runs.run import Run, RunKind, domain_scope
from core.store.commit import Command
from core.store.connect import Client
from core.store.packing import packed_json

STATE_VERSION = 1
"""The version of `core.runs.knowledge_base_state.KbState`."""
MOST_WAITING = 1_000
"""How many texts that wait to be embedded are counted, at most."""
_BEGINS = frozenset({RunKind.CRAWL, RunKind.DOMAIN})


class StateFollower:
    """Writes the job sections of knowledge bases."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def followed(self, run: Run, now: float) -> Command:
        """The command that copies a run, as it is stored then, into the job section of its knowledge base.

        A run that is a part of another, or of no knowledge base, is not to be followed (`is_followed`).
        """
        ask = self.ask(run.domain, now) | {
            "run": run.id,
            "created_ts": run.created_ts,
            "created_at": iso(run.created_ts),
            "begins": run.kind in _BEGINS,
        }
        keys = (*self._settled_keys(run.domain), self._keys.run(run.id), self._keys.runs_paused)
        return ("EVAL", state_scripts.FOLLOW, len(keys), *keys, packed_json(ask).decode())

    async def follow(self, run: Run, now: float) -> None:
        """Copy a run into the job section of its knowledge base, if it has one and is not part of another run."""
        if is_followed(run):
            await self._client.execute_command(*self.followed(run, now))

    async def settle(self, kb_id: str, now: float) -> bool:
        """Go from `indexing` to `done` when no text of the knowledge base waits to be embedded.

        Returns whether its phase was `indexing`.
        """
        keys = self._settled_keys(kb_id)
        ask = packed_json(self.ask(kb_id, now))
        return bool(await self._client.eval(state_scripts.SETTLE, len(keys), *keys, ask))

    def _settled_keys(self, kb_id: str) -> tuple[str, str, str]:
        return self._keys.kb_state(kb_id), self._keys.domain(kb_id), self._keys.embed_due

    def ask(self, kb_id: str, now: float) -> dict[str, Any]:
        """Return the arguments of every script about a state."""
        refs_head, refs_tail = self._keys.refs("\n").split("\n")
        return {
            "kb": kb_id,
            "scope": domain_scope(kb_id),
            "version": STATE_VERSION,
            "updated_at": iso_milliseconds(now),
            "now": now,
            "refs_head": refs_head,
            "refs_tail": refs_tail,
            "most_waiting": MOST_WAITING,
        }


def is_followed(run: Run) -> bool:
    """Return whether a run is the job of a knowledge base: it works for one, and is not part of another run."""
    return bool(run.domain) and not run.parent


def iso_milliseconds(ts: float) -> str:
    """Return a time as `2026-01-31T12:00:00.123Z`."""
    return f"{datetime.fromtimestamp(ts, UTC).isoformat(timespec='milliseconds')[:23]}Z"
