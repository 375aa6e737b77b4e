"""Set right what the registry, the texts and the chunks say of each other, where it differs.

Nothing is deleted that cannot be made again from its text. A sample is looked at all the time, all of it by the doctor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.doctor.io.dangling_ids import DanglingIds
from core.doctor.io.index_checks import IndexChecks
from core.doctor.io.index_keys import IndexKeys
from core.doctor.io.orphan_chunks import OrphanChunks
from core.doctor.io.registry_sets import RegistrySets
from core.doctor.problems import Finding, Problem
from core.keys import Keys
from core.registry.record import Status
from core.search.io.chunk_remover import ChunkRemover
from core.store.commit import Command, Commit, CommitResult, Lease, Leases
from core.store.connect import Client
from core.store.events import event
from core.store.quarantine import Quarantine

__all__ = ["Finding", "IndexRepair", "Problem"]

_RECORD = ("status", "contentHash", "indexedHash")
_WITHOUT_LEASE = (Problem.WRONG_TYPE, Problem.ORPHAN_CHUNK, Problem.MISPLACED)
"""Looked at and set right in one step, or of no use to any worker."""


class IndexRepair:
    """Looks at items, and heals them."""

    def __init__(self, client: Client, keys: Keys, *, wants_vectors: bool = False) -> None:
        """`wants_vectors`: the settings name a model."""
        self._client = client
        self._keys = keys
        self._checks = IndexChecks(client, keys, wants_vectors=wants_vectors)
        self._removal = ChunkRemover(client, keys)
        self._orphans = OrphanChunks(client, keys)
        self._index = IndexKeys(client, keys)
        self._quarantine = Quarantine(client, keys)
        self._sets = RegistrySets(client, keys)
        self._dangling = DanglingIds(client, keys)

    @property
    def looked_at(self) -> int:
        """How many names were looked at so far."""
        return self._checks.looked_at

    async def sample(self, count: int) -> list[Finding]:
        """What is wrong with a few items of each kind, taken by chance, and with the next few keys of search."""
        return await self._checks.sample(count)

    def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, in pieces."""
        return self._checks.everything()

    async def left(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those that are still wrong: a worker had them, or they came back."""
        return await self._checks.still(findings)

    async def heal(self, findings: Sequence[Finding], now: float) -> int:
        """Set right what is still wrong at a second look; how many. A worker that is just at it is not disturbed."""
        leases = Leases(self._client, self._keys)
        healed = await self._retype(findings, now)
        healed += await self._orphans.take_away(_named(findings, Problem.ORPHAN_CHUNK))
        healed += await self._place(findings, leases)
        for finding in findings:
            if finding.problem in _WITHOUT_LEASE:
                continue
            taken = await leases.acquire(f"embed_{finding.name}")
            if taken is not None:
                healed += await self._heal(finding, leases, taken[0], now)
        return healed

    async def _retype(self, findings: Sequence[Finding], now: float) -> int:
        """What no command can read goes first: else it would stop us. Then its page is what is left of it."""
        names = await self._quarantine.mistyped(_named(findings, Problem.WRONG_TYPE))
        if not names:
            return 0
        pages = {page: one.place for one in findings if (page := self._index.page_of(one.name))}
        lost = [Finding(Problem.DANGLING_ID, page, place) for page, place in pages.items()]
        await self.heal([*await self._checks.still(lost), *await self._checks.look(list(pages))], now)
        return len(names)

    async def _place(self, findings: Sequence[Finding], leases: Leases) -> int:
        placed = set(await self._sets.set_right(_named(findings, Problem.MISPLACED)))
        told = [one for one in findings if one.problem is Problem.MISPLACED and one.name in placed]
        if told:
            await leases.run([self._told(one) for one in told])
        return len(placed)

    async def _heal(self, finding: Finding, leases: Leases, lease: Lease, now: float) -> bool:
        answer = CommitResult.OUTDATED
        try:
            values = await self._client.hmget(self._keys.item(finding.name), list(_RECORD))
            # A commit takes a field that is missing for `0`.
            record = ["0" if value is None else str(value) for value in values]
            if await self._checks.still([finding]):
                commands = [*await self._commands(finding, record[0], now), self._told(finding)]
                work = Commit(lease, commands, self._expected(finding.name, record))
                answer = (await leases.commit_many([work]))[0]
        finally:
            if answer is CommitResult.OUTDATED:
                await leases.release(lease)
        return answer is CommitResult.WRITTEN

    def _expected(self, item_id: str, record: Sequence[str]) -> tuple[str, ...]:
        """What the record said before the second look, for a commit that is only right as long as it does."""
        key = self._keys.item(item_id)
        return tuple(word for name, value in zip(_RECORD, record, strict=True) for word in (key, name, value))

    async def _commands(self, finding: Finding, status: str, now: float) -> list[Command]:
        item_id = finding.name
        waits: Command = ("ZADD", self._keys.embed_due, f"{now:.3f}", item_id)
        match finding.problem:
            case Problem.NO_TEXT:
                # Its next listing takes it for changed, and its text is read anew.
                forgotten = ("HSET", self._keys.item(item_id), "visitedVersion", "", "indexedHash", "")
                return [*await self._removal.of(item_id), forgotten]
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
        return [unknown, waits, *by_words, *(self._crawled(item_id) if status == Status.INDEXED else ())]

    def _crawled(self, item_id: str) -> list[Command]:
        """What is in trouble stays so; what was Indexed is not any more."""
        return [
            ("HSET", self._keys.item(item_id), "status", str(Status.CRAWLED)),
            ("SREM", self._keys.status(str(Status.INDEXED)), item_id),
            ("SADD", self._keys.status(str(Status.CRAWLED)), item_id),
        ]

    def _told(self, finding: Finding) -> Command:
        return event(self._keys, "healed", id=finding.name, wrong=str(finding.problem))


def _named(findings: Sequence[Finding], wrong: Problem) -> list[str]:
    return [one.name for one in findings if one.problem is wrong]
