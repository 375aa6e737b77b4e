"""The table of invariants and the one engine that looks at all of them: every key once, then the members of lists.

To add an invariant: a `LuaCheck` in the file of what it looks at, and a member of `Problem`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from core.doctor.io.article_checks import ARTICLE_CHECKS
from core.doctor.io.field_checks import FieldChecks
from core.doctor.io.index_keys import IndexKeys
from core.doctor.io.item_checks import ITEM_CHECKS, SOURCE_CHECKS
from core.doctor.io.key_checks import KEY_CHECKS, WITH_TTL, counters
from core.doctor.io.lua_check import LuaCheck, LuaCheckRunner
from core.doctor.io.queue_checks import QueueChecks
from core.doctor.io.registry_sets import RegistrySets
from core.doctor.problems import Finding, Problem
from core.keys import Keys
from core.settings import Settings
from core.store import connect, scanning
from core.store.connect import Client
from core.store.key_families import KeyFamilies

CHECKS = (*ARTICLE_CHECKS, *ITEM_CHECKS, *SOURCE_CHECKS, *KEY_CHECKS)
BY_FIELDS = (Problem.DAMAGED_FIELDS, Problem.CREDENTIALS, Problem.SOURCE_DAMAGED)
OF_QUEUES = (Problem.JOB_MISPLACED, Problem.JOB_STUCK, Problem.QUEUE_TYPE)
MOST_UNKNOWN = 5
CURSOR_FIELD = "audit"
SLICE = 1_000
"""Keys in a slice of the timer."""


class KeyWalk:
    """Looks at everything, or at some keys."""

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._client = client
        self._keys = keys
        self._families = KeyFamilies(keys)
        self._checks = LuaCheckRunner(client, keys, settings)
        self._fields = FieldChecks(client, keys)
        self._queues = QueueChecks(settings)
        self._sets = RegistrySets(client, keys)
        self._index = IndexKeys(client, keys)
        self.looked_at = 0
        self.unknown: dict[str, None] = {}
        """Some keys that are not of ours; the server may be shared."""

    # ── looking ──

    async def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, in pieces; types first, because no command can read what is of another."""
        async for names in scanning.keys(self._client, self._keys.all_pattern):
            yield await self.look_at(names)
        async for where, some in self._members():
            self.looked_at += len(some)
            yield await self._checked({where: list(dict.fromkeys(some))})
        yield await asyncio.to_thread(self._queues.look)

    async def next_slice(self) -> list[Finding]:
        """The same of the next few keys; where we are is kept in the store."""
        pattern, cursors = self._keys.all_pattern, self._keys.prune_cursors
        return await self.look_at(await scanning.next_keys(self._client, pattern, cursors, CURSOR_FIELD, SLICE))

    async def look_at(self, names: Sequence[str]) -> list[Finding]:
        """What is wrong with these keys and with what they name."""
        self.looked_at += len(names)
        by_family: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            family = self._families.of(name)
            if family is None:
                self._note(name)
                continue
            by_family.setdefault(family.name, []).append(family.id_in(name))
            if family.name in WITH_TTL:
                by_family.setdefault("keys_with_ttl", []).append(f"{family.name}\n{name}")
        found = [Finding(Problem.WRONG_TYPE, name) for name in await self._index.mistyped(names)]
        return [*found, *await self._fields.look(names), *await self._checked(by_family)]

    def _note(self, name: str) -> None:
        if len(self.unknown) < MOST_UNKNOWN and not name.startswith("rq:"):
            self.unknown[name] = None

    async def _checked(self, names: Mapping[str, Sequence[str]]) -> list[Finding]:
        now = await connect.now(self._client)
        found: list[Finding] = []
        for check in CHECKS:
            if names.get(check.where):
                wrong = await self._checks.look(check, names[check.where], now)
                found += [Finding(check.problem, name, check.where) for name in wrong]
        return found

    async def _members(self) -> AsyncIterator[tuple[str, list[str]]]:
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
        }
        for key, where in ranks.items():
            async for some in scanning.zset_members(client, key):
                yield where, some
        for sid in await self._sets.sources():
            async for some in scanning.zset_members(client, keys.due(sid)):
                yield "due_members", [f"{sid}\n{item_id}" for item_id in some]
        for name in counters(keys):
            yield "counters", [name]

    # ── again, and healing ──

    async def still(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those of the findings that a second look finds again."""
        found = [one for one in await self._fields.look(_named(findings, BY_FIELDS)) if one in findings]
        if any(one.problem in OF_QUEUES for one in findings):
            queues = await asyncio.to_thread(self._queues.look)
            found += [one for one in queues if one in findings]
        now = await connect.now(self._client)
        for check in CHECKS:
            names = _of(findings, check)
            found += [Finding(check.problem, name, check.where) for name in await self._checks.look(check, names, now)]
        return found

    async def heal(self, findings: Sequence[Finding], now: float) -> None:
        """Set right what is still wrong."""
        for check in CHECKS:
            names = _of(findings, check)
            if names:
                await self._checks.look(check, names, now, fix=True)
        for finding in findings:
            if finding.problem in BY_FIELDS:
                await self._fields.heal(finding)
        await self._look_after(_named(findings, (Problem.DAMAGED_FIELDS,)), now)
        queues = [one for one in findings if one.problem in OF_QUEUES]
        if queues:
            await asyncio.to_thread(self._queues.heal, queues)

    async def _look_after(self, names: Sequence[str], now: float) -> None:
        """A record that lost a field may lack what other invariants ask for: these are made true at once."""
        item = self._families["item"]
        ids = [item.id_in(name) for name in names if self._families.of(name) == item]
        for check in CHECKS if ids else ():
            if check.where == item.name:
                await self._checks.look(check, ids, now, fix=True)
        await self._sets.set_right(ids)


def _of(findings: Sequence[Finding], check: LuaCheck) -> list[str]:
    return [one.name for one in findings if one.problem is check.problem and one.place == check.where]


def _named(findings: Sequence[Finding], kinds: Sequence[Problem]) -> list[str]:
    return [one.name for one in findings if one.problem in kinds]
