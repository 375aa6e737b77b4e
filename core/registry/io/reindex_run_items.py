"""Open the run of a reindex, and track the items that are left of it.

`run:<id>:items` holds what is left, by when it was asked for. The commit of a visit takes an item out; one that another
run has visited since counts as `elsewhere`. So `discovered = visited + elsewhere + what is left`, also after a kill.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

from core.keys import Keys
from core.registry.io.due import DueItems
from core.registry.io.item_store import ItemStore
from core.runs.io.run_store import TTL_SECONDS, RunStore
from core.runs.run import COUNTERS, Run, RunKind
from core.store import scanning
from core.store.commands import Command, batched
from core.store.connect import Client
from core.store.leases import Leases

SPREAD = (0.9, 1.1)
"""Spreads the waits, so that items asked for together do not come back all at once."""
REINDEX_COUNTERS = (*COUNTERS, "elsewhere")


class ReindexRunItems:
    """What is left of a reindex."""

    def __init__(self, client: Client, keys: Keys, leases: Leases) -> None:
        self._client = client
        self._keys = keys
        self._leases = leases

    async def add(self, run: Run, item_ids: Sequence[str], now: float, *, are_known: bool = False) -> None:
        """Add items that were made due. `are_known`: they were discovered before, and are visited once more."""
        if not item_ids:
            return
        key = self._keys.run_items(run.id)
        scores = await self._client.zmscore(key, list(item_ids))
        words = [word for item_id in item_ids for word in (f"{now:.3f}", item_id)]
        new = 0 if are_known else sum(score is None for score in scores)
        counted: Command = ("HINCRBY", self._keys.run(run.id), "discovered", new)
        added = batched(("ZADD", key), words, words_per_member=2)
        await self._leases.run([*added, ("EXPIRE", key, TTL_SECONDS), counted])

    async def count(self, run_id: str) -> int:
        """Return how many are left."""
        return int(await self._client.zcard(self._keys.run_items(run_id)))

    async def some(self, run_id: str, most: int) -> list[str]:
        """Return some that are left, whichever: what cannot be visited now must not stand in the way of the others."""
        key = self._keys.run_items(run_id)
        return cast(list[str], await self._client.execute_command("ZRANDMEMBER", key, most))

    async def drop_visited(self, run_id: str, item_ids: Sequence[str]) -> dict[str, float]:
        """Take out what was visited elsewhere since it was asked for, is parked, or has no record any more.

        Returns those that are left, with when they were asked for.
        """
        key = self._keys.run_items(run_id)
        scores = await self._client.zmscore(key, list(item_ids)) if item_ids else []
        left = {item_id: float(score) for item_id, score in zip(item_ids, scores, strict=True) if score is not None}
        items = await ItemStore(self._client, self._keys).read(list(left))
        done = {
            item_id
            for item_id, item in zip(left, items, strict=True)
            if item is None or item.checked_ts >= left[item_id] or item.next_ts is None
        }
        if done:
            counted: Command = ("HINCRBY", self._keys.run(run_id), "elsewhere", len(done))
            await self._leases.run([*batched(("ZREM", key), sorted(done)), counted])
        return {item_id: score for item_id, score in left.items() if item_id not in done}

    # ── cancelled, and opened again ──

    async def reschedule(self, run_id: str, now: float, interval_seconds: float) -> None:
        """After a cancel: what is left is not due any more before about an interval, and stays left."""
        store = ItemStore(self._client, self._keys)
        async for item_ids in scanning.zset_members(self._client, self._keys.run_items(run_id)):
            due = [one for one in await store.read(item_ids) if one and one.next_ts is not None and one.next_ts <= now]
            commands: list[Command] = []
            for item in due:
                commands += store.postpone(item, now + interval_seconds * random.uniform(*SPREAD))
            if commands:
                await self._leases.run(commands)

    async def make_due_again(self, run_id: str, now: float) -> None:
        """Make everything due that is left."""
        due = DueItems(self._client, self._keys)
        async for item_ids in scanning.zset_members(self._client, self._keys.run_items(run_id)):
            await due.make_due(item_ids, now)


async def open_reindex(
    runs: RunStore, now: float, parameters: Mapping[str, str], started_by: str, domain: str = ""
) -> Run:
    """Return the open reindex of a domain, or without one that of any items, or a new one."""
    run, _ = await runs.open(
        RunKind.REINDEX, now, domain=domain, counters=REINDEX_COUNTERS, parameters=parameters, started_by=started_by
    )
    return run
