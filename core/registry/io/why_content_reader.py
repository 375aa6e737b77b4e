"""For `freshet why`: read the record, article, aliases, failures, chunks of a URL, and the runs that visited it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import floor
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import ARTICLES_SOURCE, FIELDS, Item, parse_record
from core.registry.why_content import AliasFacts, ContentFacts
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind
from core.search.io.chunk_remover import ChunkRemover
from core.search.io.embed_queue import EmbedQueue
from core.search.io.live_pages import LivePageReader
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.vector_spaces import parse_spaces
from core.settings import Settings
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_ALIASES = 20
MOST_CHUNKS = 2_000
MOST_RUNS = 50
LONGEST_CHAIN = 30
_ARTICLE = (
    *("status", "url", "item_id", "title", "categories", "language", "text_len", "fetched_ts", "duplicate_of"),
    *("final_url", "canonical_url", "text_source", "content_hash"),
)


@value_class
class LinkFacts:
    uid: str
    article: Mapping[str, str] = field(default_factory=dict)
    article_seconds_left: float = 0.0
    alias_of: str = ""
    failure: Mapping[str, str] = field(default_factory=dict)
    entry: Mapping[str, str] = field(default_factory=dict)
    is_attempted: bool = False
    attempted_ts: float = 0.0
    retry_ts: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether anything is kept."""
        return bool(self.article or self.alias_of or self.failure or self.entry or self.is_attempted or self.retry_ts)


@value_class
class RecordFacts:
    record: Mapping[str, str] = field(default_factory=dict)
    item: Item | None = None
    has_document: bool = False
    due: Mapping[str, float] = field(default_factory=dict)


class ContentReader:
    """Reads what is stored under uids and item ids."""

    def __init__(self, client: Client, keys: Keys, settings: Settings, now: float) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._now = now

    # ── by uid ──

    async def link(self, uid: str) -> LinkFacts:
        """Return what is kept under a uid."""
        keys = self._keys
        values, left, alias, failure, entry, attempted, attempted_at, retry = await read_many(
            self._client,
            [
                ("HMGET", keys.article(uid), *_ARTICLE),
                ("PTTL", keys.article(uid)),
                ("GET", keys.alias(uid)),
                ("HGETALL", keys.failure(uid)),
                ("HMGET", keys.entry(uid), "feed", "title"),
                ("SISMEMBER", keys.attempted, uid),
                ("ZSCORE", keys.attempted_at, uid),
                ("ZSCORE", keys.retry, uid),
            ],
        )
        feed, title = entry
        return LinkFacts(
            uid,
            {name: value or "" for name, value in zip(_ARTICLE, values, strict=True)} if values[0] is not None else {},
            max(left, 0) / 1000,
            alias or "",
            _mapping(failure),
            {"feed": feed or "", "title": title or ""} if feed or title else {},
            bool(attempted),
            field_parsing.timestamp(attempted_at),
            field_parsing.timestamp(retry),
        )

    # ── by item id ──

    async def record(self, item_id: str) -> RecordFacts:
        """Return a registry record with its due times; an empty one if there is none."""
        if not item_id:
            return RecordFacts()
        stored, text_hash = await read_many(
            self._client,
            [("HGETALL", self._keys.item(item_id)), ("HGET", self._keys.document(item_id), "content_hash")],
        )
        record = _mapping(stored)
        item = parse_record(item_id, [record.get(name) for name in FIELDS], text_hash) if record else None
        if item is None:
            return RecordFacts(record)
        scores = await read_many(self._client, [("ZSCORE", self._keys.due(sid), item_id) for sid in item.sources])
        pairs = zip(item.sources, scores, strict=True)
        due = {sid: field_parsing.timestamp(score) for sid, score in pairs if score is not None}
        return RecordFacts(record, item, text_hash is not None, due)

    async def url_of_item(self, item_id: str) -> str:
        """Return the address of an item; empty if there is none."""
        return str(await self._client.hget(self._keys.item(item_id), "fetchUrl") or "") if item_id else ""

    # ── aliases ──

    async def alias(self, link: LinkFacts, item: Item | None) -> AliasFacts | None:
        """Return the page that this is another name of; None if it is a page of its own."""
        if link.alias_of and not link.article:
            url, status = await self._client.hmget(self._keys.article(link.alias_of), ["url", "status"])
            return AliasFacts(
                link.alias_of, str(url or ""), status == "success", "a redirect, its canonical link or an equal text"
            )
        if item is None or not item.alias_of:
            return None
        target_id = item.alias_of
        for _ in range(LONGEST_CHAIN):
            target = (await self.record(target_id)).item
            if target is None or target.has_text or not target.alias_of or target.alias_of == item.id:
                break
            target_id = target.alias_of
        why = "a redirect" if field_parsing.sequence(item.redirect_chain) else "its canonical link"
        return AliasFacts(target_id, target.fetch_url if target else "", bool(target and target.has_text), why)

    async def other_urls(self, uid: str, item_id: str) -> list[str]:
        """Return other URLs of the same page, a few of them."""
        found: dict[str, None] = {}
        for name in filter(None, (uid, item_id)):
            for url in texts(await self._client.srandmember(self._keys.aliases(name), MOST_ALIASES) or []):
                found[url] = None
        return sorted(found)[:MOST_ALIASES]

    async def article_url(self, uid: str) -> str:
        """Return the URL of an article; empty if there is none."""
        return str(await self._client.hget(self._keys.article(uid), "url") or "") if uid else ""

    # ── search ──

    async def content(self, name: str, link: LinkFacts, facts: RecordFacts, alias: AliasFacts | None) -> ContentFacts:
        """Return everything about its text, its chunks and search."""
        item_id = facts.item.id if facts.item else ""
        queue = EmbedQueue(self._client, self._keys)
        live = (await LivePageReader(self._client, self._keys).read([item_id])).get(item_id) if item_id else None
        space = await VectorSpaceStore(self._client, self._keys).current()
        chunks, vectors, is_unspoken = await self._chunks(item_id, space)
        waiting = await self._client.zscore(self._keys.embed_due, item_id) if item_id else None
        return ContentFacts(
            name=name,
            record=facts.record,
            item=facts.item,
            article=link.article,
            article_seconds_left=link.article_seconds_left,
            has_document=facts.has_document,
            alias=alias,
            aliases=await self.other_urls(link.uid, item_id),
            duplicate_url=await self.article_url(link.article.get("duplicate_of", "")),
            parent_url=await self.url_of_item(facts.record.get("parentPageId", "")),
            is_live=live is not None,
            has_live_chunks=live is not None and live.has_chunks,
            chunks=chunks,
            vectors=vectors,
            is_unspoken=is_unspoken,
            space=space,
            waiting_since=field_parsing.timestamp(waiting),
            embedder_away=await queue.pause_reason(),
            embedder=self._settings.embedder,
            queue_length=await queue.count(),
        )

    async def _chunks(self, item_id: str, space: str) -> tuple[int, int, bool]:
        """Return how many chunks the page has, how many of them have a vector of the live spaces, and whether none is
        meant to have one."""
        if not item_id:
            return 0, 0, False
        count = int(await self._client.zcard(self._keys.chunks(item_id)))
        if not count or not space or count > MOST_CHUNKS:
            return count, count if space else 0, False
        stored = (await ChunkRemover(self._client, self._keys).stored([item_id]))[item_id]
        live = parse_spaces(space)
        ours = [name for name, ref in stored.items() if ref.space and live.has_all(parse_spaces(ref.space))]
        there = await read_many(self._client, [("EXISTS", self._keys.vector(name)) for name in ours])
        return count, sum(map(bool, there)), not any(ref.space for ref in stored.values())

    # ── runs ──

    async def runs(self, item: Item | None, link: LinkFacts) -> tuple[Mapping[str, object], ...]:
        """Return the remembered runs that worked on a source of the item when it was last checked, newest first.

        A link that gave no article has no item: its failure tells, in whole seconds, when it was visited.
        """
        if item is not None and item.checked_ts:
            name, sources, checked_ts = item.id, item.sources, item.checked_ts
        else:
            name, sources = link.uid, (ARTICLES_SOURCE,)
            checked_ts = field_parsing.timestamp(link.failure.get("last_ts"))
        if not checked_ts:
            return ()
        newest = await RunStore(self._client, self._keys).newest(MOST_RUNS, self._now)
        at_work = [
            run
            for run in newest
            if (run.source in sources or (run.kind is RunKind.CANONICAL and ARTICLES_SOURCE in sources))
            and floor(run.started_ts) <= checked_ts <= max(run.ended_ts, run.heartbeat_ts) + 1.0
        ]
        failed = await read_many(self._client, [("HEXISTS", self._keys.run_failed(run.id), name) for run in at_work])
        runs: list[Mapping[str, object]] = [
            {
                "id": run.id,
                "kind": str(run.kind),
                "source": run.source,
                "status": str(run.status),
                "failed_in_it": bool(has),
            }
            for run, has in zip(at_work, failed, strict=True)
        ]
        # Of two runs in one second, the one that names it as failed has visited it.
        return tuple(sorted(runs, key=lambda run: not run["failed_in_it"]))

    async def canonical_run_ts(self) -> float:
        return field_parsing.timestamp(await self._client.hget(self._keys.canonical_last_run, "ts"))


def _mapping(reply: object) -> Mapping[str, str]:
    """Return the fields of HGETALL; a pipeline of plain commands may give them in one row."""
    if isinstance(reply, dict):
        return cast(dict[str, str], reply)
    row: Sequence[str] = cast(Sequence[str], reply or ())
    return dict(zip(row[::2], row[1::2], strict=True))
