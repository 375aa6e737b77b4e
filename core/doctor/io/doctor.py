"""Check all invariants of a store, check each finding a second time, and repair it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from core.doctor.invariants import Finding, Problem, findings_of
from core.doctor.io.field_checks import FieldChecks
from core.doctor.io.index_checks import IndexChecks
from core.doctor.io.index_repair import IndexRepair
from core.doctor.io.key_types import KeyTypes
from core.doctor.io.lua_check_runner import MISPLACED, WITH_TTL, LuaChecks, counters
from core.doctor.io.queue_checks import QueueChecks
from core.doctor.io.record_recovery import RecordRecovery
from core.keys import Keys
from core.registry import item_keys
from core.settings import Settings
from core.sources.io.source_store import SourceStore
from core.store import connect, redis_health, scanning
from core.store.connect import Client
from core.store.key_families import key_families

MOST_SKEW_SECONDS = 5.0
CONFIRM_SECONDS = 0.5
"""By then a worker in the middle of a commit has finished it; what is still wrong really is."""
MOST_UNKNOWN = 5
CURSOR_FIELD = "audit"
SLICE_KEYS = 1_000
"""Keys that the timer checks at a time."""


class CheckGroup(Protocol):
    """Checks of one kind."""

    problems: frozenset[Problem]

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return those of the findings that are still there."""

    async def repair(self, findings: Sequence[Finding], now: float) -> object:
        """Repair what is still there; what cannot be derived again is quarantined."""


class Doctor:
    """Checks everything, or a sample."""

    def __init__(
        self, client: Client, keys: Keys, settings: Settings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._keys = keys
        self._sleep = sleep
        self._families = key_families(keys)
        self._types = KeyTypes(client, keys)
        self._sources = SourceStore(client, keys)
        self._lua = LuaChecks(client, keys, settings)
        self._records = RecordRecovery(client, keys, settings.registry_partition_strategy)
        self._fields = FieldChecks(client, keys)
        self._queues = QueueChecks(settings)
        self._index = IndexChecks(client, keys, self._lua, wants_vectors=settings.embedder != "none")
        # In the order of repair: what belongs to a record that is missing would seem to belong to nothing.
        index_repair = IndexRepair(client, keys, self._index, self._lua)
        self._groups: tuple[CheckGroup, ...] = (self._records, index_repair, self._lua, self._fields, self._queues)
        self._checked = 0
        self.unknown: list[str] = []
        """Some keys that are not of ours; the server may be shared."""

    @property
    def checked(self) -> int:
        return self._checked + self._index.checked

    async def warnings(self) -> list[str]:
        """Return sentences about the server's configuration and about clocks, which only a person can change."""
        apart = abs(time.time() - await connect.now(self._client))
        skewed = [f"The clock here and that of Redis are {apart:.0f} s apart."] if apart > MOST_SKEW_SECONDS else []
        return [*await redis_health.dangers(self._client), *skewed]

    # ── checking ──

    async def check_all(self) -> AsyncIterator[list[Finding]]:
        """Check everything, in batches, each confirmed; one has to be repaired before the next."""
        article = self._families["article"]
        async for names in scanning.keys(self._client, self._keys.pattern(self._keys.article)):
            yield await self._confirmed(await self._records.check([article.id_in(name) for name in names]))
        mistyped: set[str] = set()
        async for findings in self._check_keys_and_members():
            mistyped.update(one.name for one in findings if one.problem is Problem.WRONG_TYPE)
            yield await self._confirmed(findings)
        async for findings in self._index.check_all():
            new = [one for one in findings if one.problem is not Problem.WRONG_TYPE or one.name not in mistyped]
            yield await self._confirmed(new)

    async def check_sample(self, count: int) -> list[Finding]:
        """Check a few items of each status and the next few keys, for a timer."""
        pattern, cursors = self._keys.all_pattern, self._keys.prune_cursors
        names = await scanning.next_keys(self._client, pattern, cursors, CURSOR_FIELD, SLICE_KEYS)
        findings = [*await self._index.check_sample(count), *await self._check_keys(names)]
        return await self._confirmed(list(dict.fromkeys(findings)))

    async def _confirmed(self, findings: Sequence[Finding]) -> list[Finding]:
        if not findings:
            return []
        await self._sleep(CONFIRM_SECONDS)
        return await self.recheck(findings)

    async def _check_keys_and_members(self) -> AsyncIterator[list[Finding]]:
        async for names in scanning.keys(self._client, self._keys.all_pattern):
            yield await self._check_keys(names)
        async for where, some in self._members():
            self._checked += len(some)
            yield await self._lua.check({where: list(dict.fromkeys(some))})
        yield await self._queues.check()

    async def _check_keys(self, names: Sequence[str]) -> list[Finding]:
        """Check these keys; types first, because no command can read a key of another type."""
        self._checked += len(names)
        by_family: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            family = self._families.of(name)
            if family is None:
                is_new = name not in self.unknown and not name.startswith("rq:")
                if is_new and len(self.unknown) < MOST_UNKNOWN:
                    self.unknown.append(name)
                continue
            by_family.setdefault(family.name, []).append(family.id_in(name))
            if family.name in WITH_TTL:
                by_family.setdefault("keys_with_ttl", []).append(f"{family.name}\n{name}")
        return [
            *findings_of(Problem.WRONG_TYPE, await self._types.mistyped(names)),
            *await self._fields.check(names),
            *await self._lua.check(by_family),
        ]

    async def _members(self) -> AsyncIterator[tuple[str, list[str]]]:
        """Members of lists, by the `where` of the checks that look at them."""
        keys, client = self._keys, self._client
        async for sets in scanning.keys(client, keys.pattern(keys.articles_by_category)):
            for key in sets:
                async for some in scanning.set_members(client, key):
                    yield "category_members", [f"{key}\n{uid}" for uid in some]
        async for some in scanning.set_members(client, keys.attempted):
            yield "attempted_members", some
        ranks = {
            keys.article_index: "index_members",
            keys.attempted_at: "attempted_members",
            keys.failures: "failure_members",
            keys.feeds_broken: "broken_members",
        }
        for key, where in ranks.items():
            async for some in scanning.zset_members(client, key):
                yield where, some
        for sid in item_keys.every_source(await self._sources.ids()):
            async for some in scanning.zset_members(client, keys.due(sid)):
                yield "due_members", [f"{sid}\n{item_id}" for item_id in some]
        for name in counters(keys):
            yield "counters", [name]

    # ── confirming and repairing ──

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        still: set[Finding] = set()
        for group in self._groups:
            own = [one for one in findings if one.problem in group.problems]
            if own:
                still.update(await group.recheck(own))
        return [one for one in findings if one in still]

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        """Repair what is still wrong; what cannot be derived again is quarantined."""
        for group in self._groups:
            own = [one for one in findings if one.problem in group.problems]
            if own:
                await group.repair(own, now)
        # A record that lost a field may lack what other invariants ask for: these are made true at once.
        item = self._families["item"]
        damaged = [one.name for one in findings if one.problem is Problem.DAMAGED_FIELDS]
        item_ids = [item.id_in(name) for name in damaged if self._families.of(name) == item]
        await self._lua.repair_items(item_ids, now)
        await self._lua.run(MISPLACED, item_ids, fix=True)
