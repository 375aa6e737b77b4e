"""Build the commands by which the commit of a visit counts in its run: counters, and the items that failed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from core.keys import Keys
from core.runs.io.run_store import FAILED_KEPT, TTL_SECONDS
from core.runs.io.state_tally import KbTally
from core.store.commands import Command, batched
from core.urls.secrets import redact

TEXT_CHARS = 300


class RunTally:
    """Builds commands for one run."""

    def __init__(
        self, keys: Keys, run_id: str, remembered: int = 0, domain: str = "", *, takes_out: bool = False
    ) -> None:
        """`remembered`: how many failed items of it are stored already. `domain`: the knowledge base it works for.

        `takes_out`: it is a reindex, which knows what is left of it.
        """
        self._items = keys.run_items(run_id) if takes_out else ""
        self._domain = domain
        self._state = KbTally(keys)
        self._run = keys.run(run_id)
        self._failed = keys.run_failed(run_id)
        self._remembered = remembered

    def counted(self, counts: Mapping[str, int]) -> list[Command]:
        """Commands that add to the counters, also to those of the knowledge base."""
        counted: list[Command] = [("HINCRBY", self._run, name, count) for name, count in counts.items() if count]
        return [*counted, *self._state.visited(self._domain, counts)]

    def visited(self, item_id: str) -> list[Command]:
        """Commands that take a visited item out of what is left of a reindex."""
        return [("ZREM", self._items, item_id)] if self._items else []

    def failed(self, item_id: str, url: str, code: str, text: str, now: float) -> list[Command]:
        """Commands that remember why an item failed; none beyond the first ten thousand."""
        if self._remembered >= FAILED_KEPT:
            return []
        self._remembered += 1
        reason = {"url": redact(url), "code": code, "text": redact(text)[:TEXT_CHARS], "ts": round(now, 3)}
        packed = json.dumps(reason, ensure_ascii=False)
        return [("HSET", self._failed, item_id, packed), ("EXPIRE", self._failed, TTL_SECONDS)]

    def succeeded(self, item_ids: Sequence[str]) -> list[Command]:
        """Commands that forget earlier failures of these items."""
        return batched(("HDEL", self._failed), item_ids) if self._remembered else []
