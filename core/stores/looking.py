"""Compare what the registry, the texts and the chunks say of each other; changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.indexes.pages import PageReader
from core.keys import Keys
from core.models import Space
from core.page_text import content_hash
from core.registry import MAY_HAVE_TEXT, Status
from core.stores.astray import Astray
from core.stores.connect import Client, texts
from core.stores.spaces import Spaces

SCAN = 500
_FIELDS = ("status", "contentHash", "indexedHash", "aliasOf", "chunkCount")
_CHUNK = ("item", "text", "text_hash", "space")


class Wrong(StrEnum):
    """What can be wrong between registry and search."""

    NOT_EMBEDDED = "indexed, and chunks or vectors are missing, damaged or of another space"
    NOT_WAITING = "waits for its chunks, and nobody knows"
    NO_TEXT = "chunks of something that has no text any more"
    NO_RECORD = "chunks of something that is not in the registry"
    WAITS_FOR_NOTHING = "waits for chunks, and has no text"
    ASTRAY = "a chunk or a vector that belongs to no page"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    wrong: Wrong
    item_id: str
    """Of an item; of what is astray, the chunk's."""


class Looking:
    """Looks at items, and at what belongs to none."""

    def __init__(self, client: Client, keys: Keys, *, wants_vectors: bool = False) -> None:
        """`wants_vectors`: the settings name a model, so that chunks of a store that never had one lack something."""
        self._client = client
        self._keys = keys
        self._wants_vectors = wants_vectors
        self._pages = PageReader(client, keys)
        self._spaces = Spaces(client, keys)
        self._astray = Astray(client, keys)

    # ── where ──

    async def sample(self, count: int) -> list[Finding]:
        """What is wrong with a few items of each kind, taken by chance."""
        found: list[Finding] = []
        for status in MAY_HAVE_TEXT:
            some = texts(await self._client.srandmember(self._keys.status(str(status)), count) or [])
            found += await self.look(some)
        return found

    async def everything(self) -> AsyncIterator[list[Finding]]:
        """What is wrong anywhere, in pieces."""
        for status in Status:
            async for some in _batches(self._client.sscan_iter(self._keys.status(str(status)), count=SCAN)):
                yield await self.look(some)
        async for some in _batches(self._client.scan_iter(match=self._keys.chunks_pattern, count=SCAN)):
            yield await self._strays([key.removeprefix(self._keys.chunks("")) for key in some])
        async for some in _batches(self._waiting()):
            yield await self._idle(some)
        async for some in self._astray.scan():
            yield [Finding(Wrong.ASTRAY, name) for name in some]

    async def still(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those of the findings that a second look finds again."""
        found: set[Finding] = set()
        for wrong in {finding.wrong for finding in findings}:
            found.update(await self._again(wrong, [one.item_id for one in findings if one.wrong is wrong]))
        return [finding for finding in findings if finding in found]

    async def _again(self, wrong: Wrong, ids: Sequence[str]) -> list[Finding]:
        match wrong:
            case Wrong.NO_RECORD:
                return await self._strays(ids)
            case Wrong.WAITS_FOR_NOTHING:
                return await self._idle(ids)
            case Wrong.ASTRAY:
                return [Finding(Wrong.ASTRAY, name) for name in await self._astray.look(ids)]
        return await self.look(ids)

    async def _waiting(self) -> AsyncIterator[str]:
        async for member, _ in self._client.zscan_iter(self._keys.embed_due, count=SCAN):
            yield str(member)

    # ── what ──

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
        space = await self._spaces.live()
        rows = zip(item_ids, answers[::3], answers[1::3], answers[2::3], strict=True)
        for item_id, values, chunks, waiting in rows:
            record = dict(zip(_FIELDS, values, strict=True))
            if record["aliasOf"]:
                continue
            wrong = _judge(live[item_id] is not None, record, chunks, waiting)
            is_doubtful = wrong is None and live[item_id] is not None and _is_known(record)
            if is_doubtful and not await self._are_whole(item_id, chunks, space):
                wrong = Wrong.NOT_EMBEDDED
            if wrong:
                found.append(Finding(wrong, item_id))
        return found

    async def _are_whole(self, item_id: str, chunks: Sequence[str], space: Space | None) -> bool:
        """Has every chunk the text it was made of, and a vector of the live space, if there is one?"""
        if not chunks:
            return True
        if space is None and self._wants_vectors:
            return False
        pipe = self._client.pipeline(transaction=False)
        for name in chunks:
            pipe.hmget(self._keys.chunk(name), _CHUNK)
            pipe.strlen(self._keys.vector(name))
        answers = await pipe.execute()
        name, size = (space.name, 4 * space.dimension) if space else ("", 0)
        return all(
            (item, of, length) == (item_id, name, size) and text is not None and content_hash(text) == text_hash
            for (item, text, text_hash, of), length in zip(answers[::2], answers[1::2], strict=True)
        )

    async def _strays(self, item_ids: Sequence[str]) -> list[Finding]:
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.exists(self._keys.chunks(item_id))
            pipe.exists(self._keys.item(item_id))
        there = await pipe.execute() if item_ids else []
        rows = zip(item_ids, there[::2], there[1::2], strict=True)
        return [Finding(Wrong.NO_RECORD, item_id) for item_id, chunks, record in rows if chunks and not record]

    async def _idle(self, item_ids: Sequence[str]) -> list[Finding]:
        live = await self._pages.read(item_ids)
        idle = [item_id for item_id, page in live.items() if page is None]
        waiting = await self._client.zmscore(self._keys.embed_due, idle) if idle else []
        rows = zip(idle, waiting, strict=True)
        return [Finding(Wrong.WAITS_FOR_NOTHING, item_id) for item_id, score in rows if score is not None]


def _judge(has_text: bool, record: Mapping[str, str | None], chunks: Sequence[str], waiting: object) -> Wrong | None:
    """What the record and the list of chunks tell; whether these are whole is another question."""
    if not has_text:
        return Wrong.NO_TEXT if chunks else None
    status = record["status"]
    if status not in MAY_HAVE_TEXT:
        return None
    if status == Status.CRAWLED or (status != Status.INDEXED and not _is_known(record)):
        return Wrong.NOT_WAITING if waiting is None else None
    is_all = len(chunks) == int(record["chunkCount"] or 0)
    return None if _is_known(record) and is_all else Wrong.NOT_EMBEDDED


def _is_known(record: Mapping[str, str | None]) -> bool:
    """Does search know this very text, as far as the record tells? What is Crawled is not looked at so closely."""
    is_same = bool(record["indexedHash"]) and record["indexedHash"] == record["contentHash"]
    return is_same and record["status"] in MAY_HAVE_TEXT and record["status"] != Status.CRAWLED


async def _batches(members: AsyncIterator[object]) -> AsyncIterator[list[str]]:
    batch: list[str] = []
    async for member in members:
        batch.append(str(member))
        if len(batch) >= SCAN:
            yield list(dict.fromkeys(batch))
            batch = []
    if batch:
        yield list(dict.fromkeys(batch))
