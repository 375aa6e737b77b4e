"""A cache of all subscribed feeds in one process, so that an idle cycle need not read a million of them.

Fewer than 20,000 are read at every cycle. More are read again when a category has more or fewer feeds than before, when
a feed is due that is not among them (every command that subscribes makes its feed due), and hourly: a feed that someone
exchanged for another by hand, with SREM and SADD, waits that long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from core import ids
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.store import scanning
from core.store.connect import Client
from core.store.pipeline import read_many


class SubscribedFeeds:
    """Reads the subscriptions when they may have changed, and keeps the schedule of polls in step with them."""

    def __init__(self, client: Client, keys: Keys, subscriptions: Subscriptions, store: FeedStore) -> None:
        self._client = client
        self._keys = keys
        self._subscriptions = subscriptions
        self._store = store
        self.categories: Mapping[str, list[str]] = {}
        """By feed URL, as they were read last."""
        self._url_by_id: Mapping[str, str] = {}
        self._counts: list[tuple[str, int]] = []
        self._read_at = -math.inf
        self._is_scheduled = False

    async def read(self, *, anew: bool = False) -> Mapping[str, list[str]]:
        """Return every feed URL with its categories, read again if that may have changed, or `anew` in any case."""
        names = await self._subscriptions.categories()
        sizes = await read_many(self._client, [("SCARD", self._keys.feeds(name)) for name in names])
        counts = [(name, int(size)) for name, size in zip(names, sizes, strict=True)]
        is_old = time.monotonic() - self._read_at > scanning.FULL_EVERY_SECONDS
        is_small = sum(size for _, size in counts) < scanning.SMALL_STORE_KEYS
        if anew or is_old or is_small or counts != self._counts:
            self.categories = await self._subscriptions.by_feed()
            self._url_by_id = {ids.feed_id(url): url for url in self.categories}
            self._counts, self._read_at, self._is_scheduled = counts, time.monotonic(), False
        return self.categories

    async def due(self, now: float) -> list[str]:
        """Return the URLs of the feeds that are due, longest waiting first; feeds without a subscriber are removed."""
        await self._schedule()
        fids = await self._store.due(now)
        if any(fid not in self._url_by_id for fid in fids):
            await self.read(anew=True)
            await self._schedule()
        return [self._url_by_id[fid] for fid in fids if fid in self._url_by_id]

    async def _schedule(self) -> None:
        """Add subscribed feeds to the schedule and remove the others; once for what was read."""
        if self._is_scheduled:
            return
        await self._store.add_to_schedule(self.categories)
        await self._store.remove([fid for fid in await self._store.all_ids() if fid not in self._url_by_id])
        self._is_scheduled = True
