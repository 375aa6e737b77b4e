"""Links of feeds that gave no article: which they are, and how they are tried once more. Their failures are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core import ids
from core.keys import Keys
from core.store.commit import Command, Leases, batched
from core.store.connect import Client, texts

SCAN = 1_000


class FailedLinks:
    """Takes links out of the memory of what was attempted."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def of_category(self, category: str) -> AsyncIterator[list[str]]:
        """Uids of a category's links that were tried and have no article, in batches; some may come twice."""
        key, cursor = self._keys.category_links(category), 0
        while True:
            cursor, members = await self._client.sscan(key, cursor=cursor, count=SCAN)
            yield await self.fruitless([ids.article_uid(url) for url in texts(members)])
            if not int(cursor):
                break
        async for uids in self._failures(category):
            yield await self.fruitless(uids)

    async def _failures(self, category: str) -> AsyncIterator[list[str]]:
        """Failed links of a category, also those that have left its link set."""
        cursor = 0
        while True:
            cursor, pairs = await self._client.zscan(self._keys.failures, cursor=cursor, count=SCAN)
            uids = [str(member).partition(":")[0] for member, _ in pairs]
            pipe = self._client.pipeline(transaction=False)
            for uid in uids:
                pipe.hget(self._keys.failure(uid), "category")
            listed = await pipe.execute() if uids else []
            yield [uid for uid, names in zip(uids, listed, strict=True) if category in (names or "").split(",")]
            if not int(cursor):
                return

    async def fruitless(self, uids: Sequence[str]) -> list[str]:
        """Those of them that were attempted, or wait for another try, and lead to no article."""
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

    async def try_again(self, uids: Sequence[str], now: float) -> None:
        """They are new to the next run of the canonical fetcher, also those that no link set holds any more."""
        if not uids:
            return
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.exists(self._keys.failure(uid))
        told = [uid for uid, has_story in zip(uids, await pipe.execute(), strict=True) if has_story]
        commands: list[Command] = [
            *batched(("SREM", self._keys.attempted), list(uids)),
            *batched(("ZREM", self._keys.attempted_at), list(uids)),
            *batched(("ZADD", self._keys.retry), [word for uid in told for word in (now, uid)], words_per_member=2),
        ]
        await Leases(self._client, self._keys).run(commands)
