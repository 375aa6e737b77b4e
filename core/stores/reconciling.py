"""Compare what the registry, the texts and the chunks say of each other, and set right what differs.

Nothing is deleted that cannot be made again from its text. A sample is looked at all the time, all of it by the doctor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.indexes.pages import PageReader
from core.keys import Keys
from core.registry import Status
from core.stores.chunk_removal import ChunkRemoval
from core.stores.commit import Answer, Command, Lease, Leases, Work
from core.stores.connect import Client, texts
from core.stores.events import event
from core.stores.spaces import Spaces

SCAN = 500
_FIELDS = ("status", "contentHash", "indexedHash", "aliasOf", "chunkCount")


class Wrong(StrEnum):
    """What can be wrong between registry and search."""

    NOT_EMBEDDED = "indexed, and chunks or vectors are missing"
    NOT_WAITING = "waits for its chunks, and nobody knows"
    NO_TEXT = "chunks of something that has no text any more"
    NO_RECORD = "chunks of something that is not in the registry"
    WAITS_FOR_NOTHING = "waits for chunks, and has no text"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    wrong: Wrong
    item_id: str


class Reconciling:
    """Looks at items, and heals them."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._pages = PageReader(client, keys)
        self._removal = ChunkRemoval(client, keys)
        self._spaces = Spaces(client, keys)

    # ── looking ──

    async def sample(self, count: int) -> list[Finding]:
        """What is wrong with a few items of each kind, taken by chance."""
        found: list[Finding] = []
        for status in (Status.INDEXED, Status.CRAWLED):
            some = texts(await self._client.srandmember(self._keys.status(str(status)), count) or [])
            found += await self.look(some)
        return found

    async def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, in pieces."""
        for status in Status:
            async for some in self._batches(self._client.sscan_iter(self._keys.status(str(status)), count=SCAN)):
                yield await self.look(some)
        async for keys in self._batches(self._client.scan_iter(match=self._keys.chunks_pattern, count=SCAN)):
            yield await self._strays([key.removeprefix(self._keys.chunks("")) for key in keys])
        waiting = [member async for member, _ in self._client.zscan_iter(self._keys.embed_due)]
        yield await self._idle(list(map(str, waiting)))

    async def look(self, item_ids: Sequence[str]) -> list[Finding]:
        """What is wrong with these."""
        live = await self._pages.read(item_ids)
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), _FIELDS)
            pipe.zrange(self._keys.chunks(item_id), 0, -1)
            pipe.zscore(self._keys.embed_due, item_id)
        answers = await pipe.execute() if item_ids else []
        found: list[Finding] = []
        space = await self._spaces.current()
        rows = zip(item_ids, answers[::3], answers[1::3], answers[2::3], strict=True)
        for item_id, record, chunks, waiting in rows:
            known = dict(zip(_FIELDS, record, strict=True))
            if known["aliasOf"]:
                continue
            wrong = await self._judge(live[item_id] is not None, known, chunks, waiting, space)
            if wrong:
                found.append(Finding(wrong, item_id))
        return found

    async def _judge(
        self, has_text: bool, record: Mapping[str, str | None], chunks: list[str], waiting: object, space: str
    ) -> Wrong | None:
        if not has_text:
            return Wrong.NO_TEXT if chunks else None
        if record["status"] == Status.CRAWLED:
            return Wrong.NOT_WAITING if waiting is None else None
        is_known = bool(record["indexedHash"]) and record["indexedHash"] == record["contentHash"]
        is_all = len(chunks) == int(record["chunkCount"] or 0)
        if record["status"] == Status.INDEXED and not (is_known and is_all and await self._are_whole(chunks, space)):
            return Wrong.NOT_EMBEDDED
        return None

    async def _are_whole(self, chunks: Sequence[str], live: str) -> bool:
        """Has every chunk its text, and its vector, of the live space, if it is in a space?"""
        pipe = self._client.pipeline(transaction=False)
        for name in chunks:
            pipe.hmget(self._keys.chunk(name), ["text", "space"])
            pipe.exists(self._keys.vector(name))
        answers = await pipe.execute() if chunks else []
        return all(
            text is not None and (not space or (there and space == live))
            for (text, space), there in zip(answers[::2], answers[1::2], strict=True)
        )

    async def _strays(self, item_ids: Sequence[str]) -> list[Finding]:
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.exists(self._keys.item(item_id))
        there = await pipe.execute() if item_ids else []
        return [
            Finding(Wrong.NO_RECORD, item_id) for item_id, is_there in zip(item_ids, there, strict=True) if not is_there
        ]

    async def _idle(self, item_ids: Sequence[str]) -> list[Finding]:
        live = await self._pages.read(item_ids)
        return [Finding(Wrong.WAITS_FOR_NOTHING, item_id) for item_id, page in live.items() if page is None]

    async def _batches(self, members: AsyncIterator[object]) -> AsyncIterator[list[str]]:
        batch: list[str] = []
        async for member in members:
            batch.append(str(member))
            if len(batch) >= SCAN:
                yield batch
                batch = []
        if batch:
            yield batch

    # ── healing ──

    async def heal(self, findings: Sequence[Finding], now: float) -> int:
        """Set right what is still wrong at a second look; how many. A worker that is just at it is not disturbed."""
        leases, healed = Leases(self._client, self._keys), 0
        for finding in findings:
            taken = await leases.acquire(f"embed_{finding.item_id}")
            if taken is not None:
                healed += await self._heal(finding, leases, taken[0], now)
        return healed

    async def _heal(self, finding: Finding, leases: Leases, lease: Lease, now: float) -> bool:
        answer = Answer.MOVED_ON
        try:
            expected = await self._expected(finding.item_id)
            if finding in await self._again(finding):
                commands = [*await self._commands(finding, now), self._told(finding)]
                answer = (await leases.commit_many([Work(lease, commands, expected)]))[0]
        finally:
            if answer is Answer.MOVED_ON:
                await leases.release(lease)
        return answer is Answer.WRITTEN

    async def _again(self, finding: Finding) -> list[Finding]:
        match finding.wrong:
            case Wrong.NO_RECORD:
                return await self._strays([finding.item_id])
            case Wrong.WAITS_FOR_NOTHING:
                return await self._idle([finding.item_id])
        return await self.look([finding.item_id])

    async def _expected(self, item_id: str) -> tuple[str, ...]:
        """What the record says now, for a commit that is only right as long as it does."""
        key, names = self._keys.item(item_id), ["status", "contentHash", "indexedHash"]
        values = await self._client.hmget(key, names)
        pairs = zip(names, values, strict=True)
        return tuple(word for name, value in pairs for word in (key, name, "0" if value is None else str(value)))

    async def _commands(self, finding: Finding, now: float) -> list[Command]:
        item_id = finding.item_id
        match finding.wrong:
            case Wrong.NO_TEXT | Wrong.NO_RECORD:
                return await self._removal.of(item_id)
            case Wrong.WAITS_FOR_NOTHING:
                return [("ZREM", self._keys.embed_due, item_id)]
            case Wrong.NOT_WAITING:
                return [("ZADD", self._keys.embed_due, f"{now:.3f}", item_id)]
        return [
            ("HSET", self._keys.item(item_id), "status", str(Status.CRAWLED), "indexedHash", ""),
            ("SREM", self._keys.status(str(Status.INDEXED)), item_id),
            ("SADD", self._keys.status(str(Status.CRAWLED)), item_id),
            ("ZADD", self._keys.embed_due, f"{now:.3f}", item_id),
        ]

    def _told(self, finding: Finding) -> Command:
        return event(self._keys, "healed", id=finding.item_id, wrong=str(finding.wrong))
