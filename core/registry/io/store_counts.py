"""Count what the whole store has, for `status` and `up --once`; reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status
from core.search.io.embed_queue import EmbedQueue
from core.store import connect
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

SAMPLED_ARTICLES = 20
FAILURES_READ = 500


@value_class
class Failure:
    """One link that gave no article."""

    code: str
    detail: str
    url: str


class StoreCounts:
    """Reads what the status shows."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def size(self) -> tuple[str, int]:
        """Return the server's memory as it says it itself, and its number of keys."""
        info = await self._client.info("memory")
        return str(info["used_memory_human"]), int(await self._client.dbsize())

    async def category(self, name: str) -> tuple[int, int]:
        """Return how many links and articles a category has."""
        links = await self._client.scard(self._keys.category_links(name))
        return int(links), int(await self._client.scard(self._keys.articles_by_category(name)))

    # ── articles ──

    async def articles(self, now: float) -> dict[str, int]:
        """Return how many there are, how many wait for what, and the mean size of the newest few."""
        newest = texts(await self._client.zrange(self._keys.article_index, 0, SAMPLED_ARTICLES - 1, desc=True))
        articles = [self._keys.article(uid) for uid in newest]
        sizes = [size for key in articles if (size := await self._client.memory_usage(key, samples=0))]
        return {
            "stored": int(await self._client.zcard(self._keys.article_index)),
            "waiting_for_index": int(await self._client.scard(self._keys.status(str(Status.CRAWLED)))),
            "waiting_for_retry": int(await self._client.zcard(self._keys.retry)),
            "due_for_check": (await self.due([ARTICLES_SOURCE], now))[ARTICLES_SOURCE],
            "bytes_per_article": round(sum(sizes) / len(sizes)) if sizes else 0,
        }

    async def failures(self) -> tuple[int, list[Failure]]:
        """Return how many there are, and the newest few hundred."""
        newest = texts(await self._client.zrange(self._keys.failures, 0, FAILURES_READ - 1, desc=True))
        names = [self._keys.failure(member.partition(":")[0]) for member in newest]
        rows = await read_many(self._client, [("HMGET", name, "code", "detail", "url") for name in names])
        failures = [Failure(code or "", detail or "", url) for code, detail, url in rows if url]
        return int(await self._client.zcard(self._keys.failures)), failures

    async def failure(self, uid: str) -> Failure:
        """Return why one link gave no article; empty words if that is not known."""
        words = await self._client.hmget(self._keys.failure(uid), ["code", "detail", "url"])
        return Failure(*(str(word or "") for word in words))

    async def counters(self, key: str) -> dict[str, str]:
        """Return the counters of the last run, or of all runs, by their key."""
        return cast(dict[str, str], await self._client.hgetall(key))

    # ── the registry ──

    async def items(self) -> dict[str, int]:
        """Return how many items have each status."""
        counts = await read_many(self._client, [("SCARD", self._keys.status(str(status))) for status in Status])
        return dict(zip(map(str, Status), counts, strict=True))

    async def items_of(self, source: str) -> int:
        """Return how many items a source lists."""
        return int(await self._client.zcard(self._keys.refs(source)))

    async def due(self, sources: Sequence[str], now: float) -> Mapping[str, int]:
        """Return how many items of each source are due."""
        counts = await read_many(self._client, [("ZCOUNT", self._keys.due(sid), "-inf", now) for sid in sources])
        return dict(zip(sources, counts, strict=True))

    async def count_due(self) -> int:
        """Return how much a pass would find: due items, due listings, and texts that search does not know."""
        now, queue = await connect.now(self._client), EmbedQueue(self._client, self._keys)
        sources = [ARTICLES_SOURCE, URLS_SOURCE, *texts(await self._client.smembers(self._keys.sources))]
        listings = int(await self._client.zcount(self._keys.sources_due, "-inf", now))
        waiting = 0 if await queue.pause_reason() else await queue.count()
        return waiting + listings + sum((await self.due(sources, now)).values())
