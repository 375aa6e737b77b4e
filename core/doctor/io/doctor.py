"""All invariants of a store together: what registry and search say of each other, and everything else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from core.doctor.io.index_repair import IndexRepair
from core.doctor.io.key_walk import BY_FIELDS, CHECKS, OF_QUEUES, KeyWalk
from core.doctor.io.record_recovery import RecordRecovery
from core.doctor.problems import Finding, Problem
from core.keys import Keys
from core.settings import Settings
from core.store import connect, redis_health, scanning
from core.store.connect import Client
from core.store.key_families import KeyFamilies

MOST_SKEW_SECONDS = 5.0
CONFIRM_SECONDS = 0.5
"""A worker that is in the middle of something has ended it then; what is still wrong is."""
_OURS = frozenset({*(check.problem for check in CHECKS), *BY_FIELDS, *OF_QUEUES})


class Doctor:
    """Looks at everything, confirms what it found, and heals it."""

    def __init__(
        self, client: Client, keys: Keys, settings: Settings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._keys = keys
        self._sleep = sleep
        self._index_repair = IndexRepair(client, keys, wants_vectors=settings.embedder != "none")
        self._key_walk = KeyWalk(client, keys, settings)
        self._records = RecordRecovery(client, keys, settings.registry_partition_strategy)
        self._article = KeyFamilies(keys)["article"]

    @property
    def looked_at(self) -> int:
        """How many names were looked at so far."""
        return self._index_repair.looked_at + self._key_walk.looked_at

    @property
    def unknown(self) -> list[str]:
        """Some keys that are not of ours."""
        return list(self._key_walk.unknown)

    async def warnings(self) -> list[str]:
        """Sentences about the server's configuration and about clocks, which only a person can change."""
        apart = abs(time.time() - await connect.now(self._client))
        skewed = [f"The clock here and that of Redis are {apart:.0f} s apart."] if apart > MOST_SKEW_SECONDS else []
        return [*await redis_health.dangers(self._client), *skewed]

    async def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, confirmed by a second look, in pieces; one has to be healed before the next."""
        # A lost record first: without it, what belongs to it would look as if it belonged to nothing.
        async for some in scanning.keys(self._client, self._keys.pattern(self._keys.article)):
            uids = [self._article.id_in(name) for name in some]
            yield await self._confirmed(
                [Finding(Problem.RECORD_MISSING, uid) for uid in await self._records.look(uids)]
            )
        types: set[str] = set()
        async for found in self._key_walk.everything():
            types.update(one.name for one in found if one.problem is Problem.WRONG_TYPE)
            yield await self._confirmed(found)
        async for found in self._index_repair.everything():
            new = [one for one in found if one.problem is not Problem.WRONG_TYPE or one.name not in types]
            yield await self._confirmed(new)

    async def _confirmed(self, findings: Sequence[Finding]) -> list[Finding]:
        if not findings:
            return []
        await self._sleep(CONFIRM_SECONDS)
        return await self.left(findings)

    async def left(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those that are still wrong."""
        uids = [one.name for one in findings if one.problem is Problem.RECORD_MISSING]
        lost = set(await self._records.look(uids))
        ours = [one for one in findings if one.problem in _OURS]
        others = [one for one in findings if one.problem not in _OURS and one.problem is not Problem.RECORD_MISSING]
        still = {*await self._key_walk.still(ours), *await self._index_repair.left(others)}
        return [one for one in findings if one in still or one.name in lost]

    async def heal(self, findings: Sequence[Finding], now: float) -> None:
        """Set right what is still wrong; what cannot be derived again is put aside."""
        await self._records.restore([one.name for one in findings if one.problem is Problem.RECORD_MISSING], now)
        ours = [one for one in findings if one.problem in _OURS]
        others = [one for one in findings if one.problem not in _OURS and one.problem is not Problem.RECORD_MISSING]
        await self._index_repair.heal(others, now)
        await self._key_walk.heal(ours, now)

    async def sample(self, count: int) -> list[Finding]:
        """What is wrong with a few items of each kind and with the next few keys, for a timer."""
        some = [*await self._index_repair.sample(count), *await self._key_walk.next_slice()]
        return await self._confirmed(list(dict.fromkeys(some)))
