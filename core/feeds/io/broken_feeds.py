"""The list of broken feeds by when they broke: written in the commit of each poll, so that no list reads all feeds."""

from __future__ import annotations

from typing import cast

from core.feeds.feed_state import FeedState, from_hash
from core.keys import Keys
from core.store.commands import Command
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

AT_ONCE = 2_000
_FIELDS = ("status", "error_since_ts", "last_poll_ts")


def listed(keys: Keys, fid: str, state: FeedState) -> Command:
    """Return the command that puts a feed onto the list, or takes it off."""
    since = state.broken_since_ts
    return ("ZADD", keys.feeds_broken, f"{since:.3f}", fid) if since else ("ZREM", keys.feeds_broken, fid)


@value_class
class BrokenFeed:
    fid: str
    since_ts: float
    state: FeedState
    """Its URL is without credentials, as it is stored."""
    categories: tuple[str, ...]


class BrokenFeeds:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def since(self, count: int | None = None) -> dict[str, float]:
        """Return ids with the time since when they are broken, latest first: at most `count`, or all."""
        last = -1 if count is None else count - 1
        rows = await self._client.zrange(self._keys.feeds_broken, 0, last, desc=True, withscores=True)
        return {fid: float(at) for fid, at in cast(list[tuple[str, float]], rows)} if count != 0 else {}

    async def newest(self, count: int) -> list[BrokenFeed]:
        """Return those that broke last, with their state."""
        since = await self.since(count)
        hashes = await read_many(self._client, [("HGETALL", self._keys.feed(fid)) for fid in since])
        return [
            BrokenFeed(
                fid=fid,
                since_ts=since[fid],
                state=from_hash(stored.get("url", ""), stored),
                categories=tuple(filter(None, stored.get("categories", "").split(","))),
            )
            for fid, stored in zip(since, hashes, strict=True)
            if stored
        ]

    async def rebuild(self) -> int:
        """Make the list agree with the feeds, for a store of before there was one; return how many were changed.

        A feed that is polled at this very moment may be listed wrongly until its next poll.
        """
        fids = texts(await self._client.zrange(self._keys.feeds_due, 0, -1))
        on_list = set(texts(await self._client.zrange(self._keys.feeds_broken, 0, -1)))
        broken: dict[str, float] = {}
        for start in range(0, len(fids), AT_ONCE):
            part = fids[start : start + AT_ONCE]
            rows = await read_many(self._client, [("HMGET", self._keys.feed(fid), *_FIELDS) for fid in part])
            states = (from_hash("", dict(zip(_FIELDS, row, strict=True))) for row in rows)
            broken |= {fid: state.broken_since_ts for fid, state in zip(part, states, strict=True)}
        broken = {fid: since for fid, since in broken.items() if since}
        missing = {fid: since for fid, since in broken.items() if fid not in on_list}
        stale = sorted(on_list - broken.keys())
        if missing:
            await self._client.zadd(self._keys.feeds_broken, missing, nx=True)
        if stale:
            await self._client.zrem(self._keys.feeds_broken, *stale)
        return len(missing) + len(stale)
