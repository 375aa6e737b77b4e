"""Links of feeds that gave no article, and how to try them once more. Their failure records are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core import ids
from core.keys import Keys
from core.store import scanning
from core.store.commit import Command, Leases, batched
from core.store.connect import Client


class FailedLinks:
    """Finds attempted links without an article, and makes them new again."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def in_category(self, category: str) -> AsyncIterator[list[str]]:
        """Yield the uids of a category's attempted links without an article, in batches; some may come twice."""
        async for urls in scanning.set_members(self._client, self._keys.category_links(category)):
            yield await self.without_article([ids.article_uid(url) for url in urls])
        async for members in scanning.zset_members(self._client, self._keys.failures):
            uids = [member.partition(":")[0] for member in members]
            yield await self.without_article(await self._failed_in(category, uids))

    async def _failed_in(self, category: str, uids: Sequence[str]) -> list[str]:
        """Return those whose failure record names the category; their link may have left its set."""
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hget(self._keys.failure(uid), "category")
        categories = await pipe.execute()
        return [uid for uid, names in zip(uids, categories, strict=True) if category in (names or "").split(",")]

    async def without_article(self, uids: Sequence[str]) -> list[str]:
        """Return those that were attempted, or wait for another try, and lead to no article."""
        if not uids:
            return []
        pipe = self._client.pipeline(transaction=False)
        pipe.smismember(self._keys.attempted, list(uids))
        pipe.zmscore(self._keys.retry, list(uids))
        for uid in uids:
            pipe.get(self._keys.alias(uid))
        attempted, waiting, *targets = await pipe.execute()
        for uid, target in zip(uids, targets, strict=True):
            pipe.exists(self._keys.article(target or uid))
        stored = await pipe.execute()
        rows = zip(uids, attempted, waiting, stored, strict=True)
        return [uid for uid, tried, at, has_article in rows if (tried or at is not None) and not has_article]

    async def retry(self, uids: Sequence[str], now: float) -> None:
        """Make them new to the next run of the canonical fetcher, also those that no link set holds any more."""
        if not uids:
            return
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.exists(self._keys.failure(uid))
        recorded = [uid for uid, has_record in zip(uids, await pipe.execute(), strict=True) if has_record]
        due = [word for uid in recorded for word in (now, uid)]
        commands: list[Command] = [
            *batched(("SREM", self._keys.attempted), list(uids)),
            *batched(("ZREM", self._keys.attempted_at), list(uids)),
            *batched(("ZADD", self._keys.retry), due, words_per_member=2),
        ]
        await Leases(self._client, self._keys).run(commands)
