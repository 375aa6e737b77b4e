"""Repair disagreements between registry, texts and chunks.

Nothing is deleted that cannot be made again from its text.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.doctor.invariants import Finding, Problem
from core.doctor.io.dangling_ids import DanglingIds
from core.doctor.io.index_checks import IndexChecks
from core.doctor.io.lua_check_runner import MISPLACED, ORPHAN_CHUNK, LuaChecks
from core.keys import Keys
from core.registry.record import Status
from core.search.io.chunk_remover import ChunkRemover
from core.store.commands import Command
from core.store.connect import Client
from core.store.event_command import event
from core.store.leases import Commit, CommitResult, Lease, Leases
from core.store.quarantine import Quarantine

_RECORD = ("status", "contentHash", "indexedHash")
_WITHOUT_LEASE = frozenset({Problem.WRONG_TYPE, Problem.ORPHAN_CHUNK, Problem.MISPLACED})
"""Found and repaired in one step, or of no use to any worker."""
_WITH_LEASE = frozenset(
    {
        Problem.NO_TEXT,
        Problem.DANGLING_ID,
        Problem.QUEUED_WITHOUT_TEXT,
        Problem.NOT_QUEUED,
        Problem.NOT_EMBEDDED,
    }
)


class IndexRepair:
    """Repairs what `IndexChecks` found."""

    problems = _WITHOUT_LEASE | _WITH_LEASE

    def __init__(self, client: Client, keys: Keys, checks: IndexChecks, lua: LuaChecks) -> None:
        self._client = client
        self._keys = keys
        self._checks = checks
        self._lua = lua
        self._remover = ChunkRemover(client, keys)
        self._quarantine = Quarantine(client, keys)
        self._dangling = DanglingIds(client, keys)

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return those that are still there: a worker had them, or they came back."""
        return await self._checks.recheck(findings)

    async def repair(self, findings: Sequence[Finding], now: float) -> int:
        """Repair what is still there at a second look, and leave alone what a worker holds; return how many."""
        leases = Leases(self._client, self._keys)
        repaired = await self._put_mistyped_aside(findings, now)
        repaired += len(await self._lua.run(ORPHAN_CHUNK, _names(findings, Problem.ORPHAN_CHUNK), fix=True))
        repaired += await self._move_to_sets(findings, leases)
        for finding in findings:
            if finding.problem in _WITH_LEASE:
                taken = await leases.acquire(f"embed_{finding.name}")
                if taken is not None:
                    repaired += await self._repair(finding, leases, taken[0], now)
        return repaired

    async def _put_mistyped_aside(self, findings: Sequence[Finding], now: float) -> int:
        """What no command can read goes first: it would stop the rest. Then what is left of its page is repaired."""
        names = await self._quarantine.mistyped(_names(findings, Problem.WRONG_TYPE))
        if not names:
            return 0
        pages = {page: one.place for one in findings if (page := self._checks.page_of(one.name))}
        dangling = [Finding(Problem.DANGLING_ID, page, place) for page, place in pages.items()]
        await self.repair([*await self._checks.recheck(dangling), *await self._checks.check(list(pages))], now)
        return len(names)

    async def _move_to_sets(self, findings: Sequence[Finding], leases: Leases) -> int:
        moved = set(await self._lua.run(MISPLACED, _names(findings, Problem.MISPLACED), fix=True))
        events = [self._event(one) for one in findings if one.problem is Problem.MISPLACED and one.name in moved]
        if events:
            await leases.run(events)
        return len(moved)

    async def _repair(self, finding: Finding, leases: Leases, lease: Lease, now: float) -> bool:
        answer = CommitResult.OUTDATED
        try:
            values = await self._client.hmget(self._keys.item(finding.name), list(_RECORD))
            # A commit takes a field that is missing for `0`.
            record = ["0" if value is None else str(value) for value in values]
            if await self._checks.recheck([finding]):
                commands = [*await self._commands(finding, record[0], now), self._event(finding)]
                commit = Commit(lease, commands, self._expected(finding.name, record))
                answer = (await leases.commit_many([commit]))[0]
        finally:
            if answer is CommitResult.OUTDATED:
                await leases.release(lease)
        return answer is CommitResult.WRITTEN

    def _expected(self, item_id: str, record: Sequence[str]) -> tuple[str, ...]:
        """What the record said before the second look; the commit is refused if it has changed since."""
        key = self._keys.item(item_id)
        return tuple(word for name, value in zip(_RECORD, record, strict=True) for word in (key, name, value))

    async def _commands(self, finding: Finding, status: str, now: float) -> list[Command]:
        item_id = finding.name
        waits: Command = ("ZADD", self._keys.embed_due, f"{now:.3f}", item_id)
        match finding.problem:
            case Problem.NO_TEXT:
                # Its next listing takes it for changed, and its text is read again.
                forgotten = ("HSET", self._keys.item(item_id), "visitedVersion", "", "indexedHash", "")
                return [*await self._remover.remove_page(item_id), forgotten]
            case Problem.DANGLING_ID:
                return await self._dangling.commands(item_id, finding.place)
            case Problem.QUEUED_WITHOUT_TEXT:
                return [("ZREM", self._keys.embed_due, item_id)]
            case Problem.NOT_QUEUED:
                return [waits]
        unknown: Command = ("HSET", self._keys.item(item_id), "indexedHash", "")
        # Without chunks that can be used, search is to take the text itself meanwhile.
        is_usable = await self._checks.is_usable(item_id)
        by_words: list[Command] = [] if is_usable else [("HDEL", self._keys.document(item_id), "live")]
        crawled: list[Command] = [
            ("HSET", self._keys.item(item_id), "status", str(Status.CRAWLED)),
            ("SREM", self._keys.status(str(Status.INDEXED)), item_id),
            ("SADD", self._keys.status(str(Status.CRAWLED)), item_id),
        ]
        return [unknown, waits, *by_words, *(crawled if status == Status.INDEXED else ())]

    def _event(self, finding: Finding) -> Command:
        return event(self._keys, "healed", id=finding.name, wrong=str(finding.problem))


def _names(findings: Sequence[Finding], problem: Problem) -> list[str]:
    return [one.name for one in findings if one.problem is problem]
