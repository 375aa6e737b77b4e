"""Find disagreements between registry, texts and chunks; changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from enum import IntEnum
from typing import Any

from redis.exceptions import ResponseError

from core.doctor.invariants import FIELDS, Finding, Problem, Record, findings_of, is_known, page_problem
from core.doctor.io.dangling_ids import DanglingIds
from core.doctor.io.key_types import KeyTypes
from core.doctor.io.lua_check_runner import MISPLACED, ORPHAN_CHUNK, LuaCheck, LuaChecks
from core.keys import Keys
from core.pages.text_cleaning import content_hash
from core.registry import field_parsing
from core.registry.record import MAY_HAVE_TEXT, Status
from core.search.io.live_pages import LivePageReader
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.vector_spaces import NO_SPACES, Spaces, parse_spaces
from core.store import scanning
from core.store.commands import Command
from core.store.connect import Client, texts
from core.store.pipeline import read_many

MOST_REMEMBERED = 100_000
"""Findings that are not reported a second time when another list names the same item."""
SLICE_KEYS = 500
MOST_SCANS = 10
"""In a slice: of a store with few keys of search among many others, a slice may find none."""
CURSOR_FIELD = "index"


_CHUNK_FIELDS = ("item", "text", "text_hash", "space")


class ChunkState(IntEnum):
    """What search can do with the chunks of a page."""

    UNUSABLE = 0
    """Some are missing, or are not what they were made of."""
    BY_WORDS = 1
    """The texts are there; vectors are missing, or of another space."""
    WHOLE = 2


class IndexChecks:
    """Checks items, and what belongs to none."""

    def __init__(self, client: Client, keys: Keys, lua: LuaChecks, *, wants_vectors: bool = False) -> None:
        """`wants_vectors`: the settings name a model, so that chunks of a store that never had one lack something."""
        self._client = client
        self._keys = keys
        self._lua = lua
        self._pages = LivePageReader(client, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self._dangling = DanglingIds(client, keys)
        self._types = KeyTypes(client, keys)
        self._wants_vectors = wants_vectors
        self.checked = 0
        """Names, so far."""

    # ── what to check ──

    async def check_sample(self, count: int) -> list[Finding]:
        """Check a few items of each status, taken at random, and the next few keys of search."""
        findings: list[Finding] = []
        for status in MAY_HAVE_TEXT:
            some = texts(await self._client.srandmember(self._keys.status(str(status)), count) or [])
            findings += [*await self._check_lists(some), *await self.check(some)]
        return list(dict.fromkeys([*findings, *await self._check_index_keys(await self._next_index_keys())]))

    async def check_all(self) -> AsyncIterator[list[Finding]]:
        """Check everything, in batches; each finding is reported once."""
        reported: set[Finding] = set()
        async for findings in self._check_all():
            # An id that two partitions name has to be removed from both.
            new = [one for one in dict.fromkeys(findings) if one.place or one not in reported]
            if len(reported) < MOST_REMEMBERED:
                reported.update(new)
            yield new

    async def _check_all(self) -> AsyncIterator[list[Finding]]:
        client, keys = self._client, self._keys
        # First: partitions know every item, also one that is in no set of a status, where it is looked for below.
        async for partitions in scanning.keys(client, keys.pattern(keys.partition), kind="SET"):
            for partition in partitions:
                async for some in scanning.set_members(client, partition):
                    yield await self._check_lists(some, partition)
        for status in Status:
            async for some in scanning.set_members(client, keys.status(str(status))):
                yield [*await self._check_lists(some), *await self.check(some)]
        async for some in self._listed_by_sources():
            yield await self._check_lists(some)
        async for some in scanning.zset_members(client, keys.embed_due):
            yield await self._check_queued(some)
        async for some in scanning.keys(client, keys.index_pattern):
            yield await self._check_index_keys(some)

    async def _listed_by_sources(self) -> AsyncIterator[list[str]]:
        for sid in await self._dangling.sources():
            for build in (self._keys.refs, self._keys.due, self._keys.seen):
                async for some in scanning.zset_members(self._client, build(sid)):
                    yield some
            async for some in scanning.set_members(self._client, self._keys.listed(sid)):
                yield some

    async def _next_index_keys(self) -> list[str]:
        """Return the next few keys of search; the cursor is kept in the store, so that slice by slice all are seen."""
        pattern, cursors, at_once = self._keys.index_pattern, self._keys.prune_cursors, scanning.AT_ONCE
        names = scanning.next_keys(self._client, pattern, cursors, CURSOR_FIELD, at_once, MOST_SCANS, SLICE_KEYS)
        return list(dict.fromkeys(await names))

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        still: set[Finding] = set()
        for problem, place in {(finding.problem, finding.place) for finding in findings}:
            names = [one.name for one in findings if (one.problem, one.place) == (problem, place)]
            still.update(await self._recheck(problem, names, place))
        return [finding for finding in findings if finding in still]

    async def _recheck(self, problem: Problem, names: Sequence[str], place: str) -> list[Finding]:
        match problem:
            case Problem.WRONG_TYPE:
                return findings_of(problem, await self._types.mistyped(names))
            case Problem.DANGLING_ID:
                return findings_of(problem, await self._dangling.find(names, place))
            case Problem.MISPLACED:
                return await self._run(MISPLACED, names)
            case Problem.QUEUED_WITHOUT_TEXT:
                return await self._check_queued(names)
            case Problem.ORPHAN_CHUNK:
                return await self._run(ORPHAN_CHUNK, names)
        return await self.check(names)

    # ── checks ──

    async def _check_lists(self, item_ids: Sequence[str], partition: str = "") -> list[Finding]:
        """Check items that a list of the registry names."""
        self.checked += len(item_ids)
        records = [self._keys.item(item_id) for item_id in item_ids] if partition else []
        return [
            *findings_of(Problem.WRONG_TYPE, await self._types.mistyped(records), partition),
            *findings_of(Problem.DANGLING_ID, await self._dangling.find(item_ids, partition), partition),
            *await self._run(MISPLACED, item_ids),
        ]

    async def _check_index_keys(self, names: Sequence[str]) -> list[Finding]:
        self.checked += len(names)
        pages = dict.fromkeys(filter(None, map(self.page_of, names)))
        chunks = [*_ids_in(names, self._keys.chunk), *_ids_in(names, self._keys.vector)]
        return [
            *findings_of(Problem.WRONG_TYPE, await self._types.mistyped(names)),
            *findings_of(Problem.DANGLING_ID, await self._dangling.find(list(pages))),
            *await self._run(ORPHAN_CHUNK, list(dict.fromkeys(chunks))),
        ]

    async def _run(self, check: LuaCheck, names: Sequence[str]) -> list[Finding]:
        return findings_of(check.problem, await self._lua.run(check, names))

    async def check(self, item_ids: Sequence[str]) -> list[Finding]:
        mistyped = await self._mistyped_of_pages(item_ids)
        findings = findings_of(Problem.WRONG_TYPE, mistyped)
        unreadable = set(map(self.page_of, mistyped))
        readable = [item_id for item_id in item_ids if item_id not in unreadable]
        live_spaces, pages = await self._spaces.live(), await self._pages.read(readable)
        for item_id, (record, live, chunks, waiting) in (await self._rows(readable)).items():
            if record["aliasOf"] or record["status"] is None:
                continue
            has_text = item_id in pages
            problem = page_problem(has_text, record, live, chunks, waiting)
            if problem is None and has_text and live:
                count = field_parsing.integer(record["chunkCount"])
                state = await self._chunk_state(item_id, chunks, count, live_spaces)
                least = ChunkState.WHOLE if is_known(record) else ChunkState.BY_WORDS
                problem = None if state >= least else Problem.NOT_EMBEDDED
            if problem:
                findings.append(Finding(problem, item_id))
            if problem is Problem.NOT_EMBEDDED:  # a worker would fail over them
                own = [build(name) for name in chunks for build in (self._keys.chunk, self._keys.vector)]
                findings += findings_of(Problem.WRONG_TYPE, await self._types.mistyped(own))
        return findings

    async def is_usable(self, item_id: str) -> bool:
        """Return whether the texts of its chunks are there, as its record says."""
        record, _, chunks, _ = (await self._rows([item_id]))[item_id]
        state = await self._chunk_state(item_id, chunks, field_parsing.integer(record["chunkCount"]), NO_SPACES)
        return state is not ChunkState.UNUSABLE

    async def _chunk_state(self, item_id: str, chunks: Sequence[str], count: int, live_spaces: Spaces) -> ChunkState:
        """Read the chunks of a page, of which there should be `count`, and return the state of the worst."""
        if len(chunks) != count:
            return ChunkState.UNUSABLE
        pipe = self._client.pipeline(transaction=False)
        for name in chunks:
            pipe.hmget(self._keys.chunk(name), _CHUNK_FIELDS)
            pipe.get(self._keys.vector(name))
        # A key of another type answers with an error, and is as good as none.
        replies = await pipe.execute(raise_on_error=False) if chunks else []
        rows = zip(replies[::2], replies[1::2], strict=True)
        return min((self._state_of_one(item_id, live_spaces, *row) for row in rows), default=ChunkState.WHOLE)

    def _state_of_one(self, item_id: str, live_spaces: Spaces, chunk: Any, vector: Any) -> ChunkState:
        if isinstance(chunk, ResponseError):
            return ChunkState.UNUSABLE
        item, text, text_hash, chunk_space = chunk
        if item != item_id or text is None or content_hash(text) != text_hash:
            return ChunkState.UNUSABLE
        spaces = parse_spaces(chunk_space or "")
        if not live_spaces:
            is_complete = not (self._wants_vectors or chunk_space or vector is not None)
        else:
            # A client that reads text keeps bytes that are none as surrogates.
            raw = vector.encode("utf-8", "surrogateescape") if isinstance(vector, str) else b""
            # A page in a language that no model speaks is in no space.
            is_without = _is_local(live_spaces) and not (chunk_space or raw) and _is_foreign(text)
            is_complete = is_without or (live_spaces.has_all(spaces) and bool(spaces.split(raw)))
        return ChunkState.WHOLE if is_complete else ChunkState.BY_WORDS

    async def _rows(self, item_ids: Sequence[str]) -> dict[str, tuple[Record, str, list[str], float | None]]:
        """Read of each the record, the version of its chunks, their ids, and since when it waits."""
        commands: list[Command] = []
        for item_id in item_ids:
            commands.append(("HMGET", self._keys.item(item_id), *FIELDS))
            commands.append(("HGET", self._keys.document(item_id), "live"))
            commands.append(("ZRANGE", self._keys.chunks(item_id), 0, -1))
        answers = await read_many(self._client, commands)
        scores = await self._client.zmscore(self._keys.embed_due, list(item_ids)) if item_ids else []
        rows = zip(item_ids, answers[::3], answers[1::3], answers[2::3], scores, strict=True)
        return {
            item_id: (dict(zip(FIELDS, values, strict=True)), str(live or ""), chunks, waiting)
            for item_id, values, live, chunks, waiting in rows
        }

    async def _check_queued(self, item_ids: Sequence[str]) -> list[Finding]:
        self.checked += len(item_ids)
        unreadable = set(map(self.page_of, await self._mistyped_of_pages(item_ids)))
        readable = [item_id for item_id in item_ids if item_id not in unreadable]
        pages = await self._pages.read(readable)
        without_text = [item_id for item_id in readable if item_id not in pages]
        scores = await self._client.zmscore(self._keys.embed_due, without_text) if without_text else []
        still = [item_id for item_id, score in zip(without_text, scores, strict=True) if score is not None]
        return findings_of(Problem.QUEUED_WITHOUT_TEXT, still)

    # ── keys of a page ──

    async def _mistyped_of_pages(self, item_ids: Sequence[str]) -> list[str]:
        return await self._types.mistyped([build(item_id) for item_id in item_ids for build in self._page_keys])

    def page_of(self, name: str) -> str:
        """Return the id of the page whose record, text or list of chunks this key is; empty: it is another key."""
        return next((name.removeprefix(build("")) for build in self._page_keys if name.startswith(build(""))), "")

    @property
    def _page_keys(self) -> tuple[Callable[[str], str], ...]:
        return (self._keys.item, self._keys.document, self._keys.chunks)


def _ids_in(names: Sequence[str], build: Callable[[str], str]) -> list[str]:
    return [name.removeprefix(build("")) for name in names if name.startswith(build(""))]


def _is_local(spaces: Spaces) -> bool:
    """Return whether the vectors are those of the local models, which do not speak every language."""
    if spaces.main is None:
        return False
    from core.search.io import local_embedder  # here: the timer checks samples, mostly of stores without vectors

    return spaces.main.model == local_embedder.MODEL


def _is_foreign(text: str) -> bool:
    from core.search.languages import language_of  # here, as above: it is asked for pages without vectors only

    return language_of(text) not in ("", "en")
