"""Compare what the registry, the texts and the chunks say of each other; changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.doctor.io.chunk_check import ChunkInspector, ChunkState
from core.doctor.io.dangling_ids import DanglingIds
from core.doctor.io.index_keys import IndexKeys, ids_in
from core.doctor.io.orphan_chunks import OrphanChunks
from core.doctor.io.registry_sets import RegistrySets
from core.doctor.problems import FIELDS, Finding, Problem, Record, every, is_known, judge
from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import MAY_HAVE_TEXT, Status
from core.search.io.live_pages import LivePageReader
from core.search.io.vector_space import VectorSpaceStore
from core.store.connect import Client, texts

MOST_REMEMBERED = 100_000
"""Findings; a place behind may name the same again."""


class IndexChecks:
    """Looks at items, and at what belongs to none."""

    def __init__(self, client: Client, keys: Keys, *, wants_vectors: bool = False) -> None:
        """`wants_vectors`: the settings name a model, so that chunks of a store that never had one lack something."""
        self._client = client
        self._keys = keys
        self._pages = LivePageReader(client, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self._orphans = OrphanChunks(client, keys)
        self._sets = RegistrySets(client, keys)
        self._dangling = DanglingIds(client, keys)
        self._index = IndexKeys(client, keys)
        self._inspector = ChunkInspector(client, keys, wants_vectors=wants_vectors)
        self.looked_at = 0
        """Names, so far."""

    # ── where ──

    async def sample(self, count: int) -> list[Finding]:
        """What is wrong with a few items of each kind, taken by chance, and with the next few keys of search."""
        found: list[Finding] = []
        for status in MAY_HAVE_TEXT:
            some = texts(await self._client.srandmember(self._keys.status(str(status)), count) or [])
            found += [*await self._placed(some), *await self.look(some)]
        return list(dict.fromkeys([*found, *await self._keys_of_search(await self._index.next())]))

    async def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, in pieces, each thing once."""
        told: set[Finding] = set()
        async for found in self._everything():
            # What is named by two partitions is to be struck off in both.
            new = [one for one in dict.fromkeys(found) if one.place or one not in told]
            if len(told) < MOST_REMEMBERED:
                told.update(new)
            yield new

    async def _everything(self) -> AsyncIterator[list[Finding]]:
        # First: they know every item, also one that is in no set of a status, where it is looked for below.
        async for place, some in self._sets.partitions():
            yield await self._placed(some, place)
        for status in Status:
            async for some in self._sets.of_status(status):
                yield [*await self._placed(some), *await self.look(some)]
        async for some in self._sets.of_sources():
            yield await self._placed(some)
        async for some in self._sets.waiting():
            yield await self._idle(some)
        async for names in self._index.all():
            yield await self._keys_of_search(names)

    async def still(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those of the findings that a second look finds again."""
        found: set[Finding] = set()
        for wrong, place in {(finding.problem, finding.place) for finding in findings}:
            ids = [one.name for one in findings if (one.problem, one.place) == (wrong, place)]
            found.update(await self._again(wrong, ids, place))
        return [finding for finding in findings if finding in found]

    async def _again(self, wrong: Problem, ids: Sequence[str], place: str) -> list[Finding]:
        match wrong:
            case Problem.WRONG_TYPE:
                return every(wrong, await self._index.mistyped(ids))
            case Problem.DANGLING_ID:
                return every(wrong, await self._dangling.look(ids, place))
            case Problem.MISPLACED:
                return every(wrong, await self._sets.look(ids))
            case Problem.QUEUED_WITHOUT_TEXT:
                return await self._idle(ids)
            case Problem.ORPHAN_CHUNK:
                return every(wrong, await self._orphans.look(ids))
        return await self.look(ids)

    # ── what ──

    async def _placed(self, item_ids: Sequence[str], place: str = "") -> list[Finding]:
        self.looked_at += len(item_ids)
        records = [self._keys.item(item_id) for item_id in item_ids] if place else []
        mistyped = [Finding(Problem.WRONG_TYPE, name, place) for name in await self._index.mistyped(records)]
        lost = [Finding(Problem.DANGLING_ID, name, place) for name in await self._dangling.look(item_ids, place)]
        return [*mistyped, *lost, *every(Problem.MISPLACED, await self._sets.look(item_ids))]

    async def _keys_of_search(self, names: Sequence[str]) -> list[Finding]:
        self.looked_at += len(names)
        mistyped = await self._index.mistyped(names)
        pages = dict.fromkeys(filter(None, map(self._index.page_of, names)))
        vectors = await self._orphans.lone(ids_in(names, self._keys.vector))
        astray = await self._orphans.look(list(dict.fromkeys([*ids_in(names, self._keys.chunk), *vectors])))
        return [
            *every(Problem.WRONG_TYPE, mistyped),
            *every(Problem.DANGLING_ID, await self._dangling.look(list(pages))),
            *every(Problem.ORPHAN_CHUNK, astray),
        ]

    async def look(self, item_ids: Sequence[str]) -> list[Finding]:
        """What is wrong with these."""
        mistyped = await self._index.of_pages(item_ids)
        unreadable = set(map(self._index.page_of, mistyped))
        found = every(Problem.WRONG_TYPE, mistyped)
        space = await self._spaces.live()
        readable = [item_id for item_id in item_ids if item_id not in unreadable]
        pages = await self._pages.read(readable)
        for item_id, (record, live, chunks, waiting) in (await self._rows(readable)).items():
            if record["aliasOf"] or record["status"] is None:
                continue
            wrong = judge(item_id in pages, record, live, chunks, waiting)
            if wrong is None and item_id in pages and live:
                count = field_parsing.integer(record["chunkCount"])
                state = await self._inspector.state(item_id, chunks, count, space)
                least = ChunkState.WHOLE if is_known(record) else ChunkState.BY_WORDS
                wrong = None if state >= least else Problem.NOT_EMBEDDED
            if wrong:
                found.append(Finding(wrong, item_id))
            if wrong is Problem.NOT_EMBEDDED:  # a worker would fail over them
                own = [build(name) for name in chunks for build in (self._keys.chunk, self._keys.vector)]
                found += every(Problem.WRONG_TYPE, await self._index.mistyped(own))
        return found

    async def is_usable(self, item_id: str) -> bool:
        """Are the texts of its chunks there, as it has them?"""
        record, _, chunks, _ = (await self._rows([item_id]))[item_id]
        state = await self._inspector.state(item_id, chunks, field_parsing.integer(record["chunkCount"]), None)
        return state is not ChunkState.UNUSABLE

    async def _rows(self, item_ids: Sequence[str]) -> dict[str, tuple[Record, str, list[str], float | None]]:
        """Of each the record, the version of its chunks, their names, and since when it waits."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), FIELDS)
            pipe.hget(self._keys.document(item_id), "live")
            pipe.zrange(self._keys.chunks(item_id), 0, -1)
            pipe.zscore(self._keys.embed_due, item_id)
        answers = await pipe.execute() if item_ids else []
        rows = zip(item_ids, answers[::4], answers[1::4], answers[2::4], answers[3::4], strict=True)
        return {
            item_id: (dict(zip(FIELDS, values, strict=True)), str(live or ""), chunks, waiting)
            for item_id, values, live, chunks, waiting in rows
        }

    async def _idle(self, item_ids: Sequence[str]) -> list[Finding]:
        self.looked_at += len(item_ids)
        unreadable = set(map(self._index.page_of, await self._index.of_pages(item_ids)))
        readable = [item_id for item_id in item_ids if item_id not in unreadable]
        pages = await self._pages.read(readable)
        idle = [item_id for item_id in readable if item_id not in pages]
        waiting = await self._client.zmscore(self._keys.embed_due, idle) if idle else []
        rows = zip(idle, waiting, strict=True)
        return [Finding(Problem.QUEUED_WITHOUT_TEXT, item_id) for item_id, score in rows if score is not None]
