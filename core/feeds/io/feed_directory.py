"""List feeds, filtered by category, health and words, a page at a time; reads no feed that is not on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import cast

from core import ids
from core.feeds.feed_health import healths, summary_of, title_in
from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.store.connect import Client
from core.value_class import value_class

_fid = lru_cache(maxsize=50_000)(ids.feed_id)


@value_class
class FeedFilter:
    category: str = ""
    health: str = ""
    """One of `FeedHealth`; empty: any."""
    text: str = ""
    """Words that its title or address has, all of them."""


@value_class
class FeedPage:
    """Some of the feeds that were wanted, by their address without scheme and `www.`."""

    total: int
    """How many there are on all pages."""
    by_health: Mapping[str, int]
    """How many there would be of each health."""
    states: Sequence[FeedState]
    by_feed: Mapping[str, list[str]]
    """Categories by the URL of a feed."""
    by_category: Mapping[str, int]
    """All categories that have feeds, with their number, whatever was wanted."""


class FeedDirectory:
    def __init__(self, client: Client, keys: Keys, subscriptions: Subscriptions, feeds: FeedStore) -> None:
        self._client = client
        self._keys = keys
        self._subscriptions = subscriptions
        self._feeds = feeds

    async def page(self, wanted: FeedFilter, offset: int, limit: int, now: float) -> FeedPage:
        """Return a page of the feeds that are wanted; NotSubscribed names the nearest category if there is none."""
        members = await self._subscriptions.members()
        urls = set().union(*members.values())
        if wanted.category:
            urls = members.get(await self._subscriptions.require_category(wanted.category), set())
        summaries = await self._summaries(urls)
        if words := wanted.text.lower().split():
            summaries = {url: text for url, text in summaries.items() if _has_words(url, text, words)}
        health = healths(summaries, now)
        chosen = [url for url, word in health.items() if wanted.health in ("", word)]
        chosen.sort(key=_place)
        shown = chosen[offset : offset + limit]
        by_feed = {url: [name for name, feeds in members.items() if url in feeds] for url in shown}
        by_category = {name: len(feeds) for name, feeds in members.items()}
        return FeedPage(len(chosen), Counter(health.values()), await self._feeds.states(shown), by_feed, by_category)

    async def _summaries(self, urls: Set[str]) -> dict[str, str]:
        stored = cast(dict[str, str], await self._client.hgetall(self._keys.feed_summaries))
        summaries = {url: stored.get(_fid(url), "") for url in urls}
        missing = [url for url, summary in summaries.items() if not summary]
        return summaries | await self._read_missing(missing) if missing else summaries

    async def _read_missing(self, urls: Sequence[str]) -> dict[str, str]:
        """Read feeds without a summary: new ones, and those that an earlier version polled last. Their next poll, which
        may be never, need not be waited for."""
        states = await self._feeds.states(urls)
        pipe = self._client.pipeline(transaction=False)
        for state in states:
            if state.status is not FeedStatus.NEW:
                pipe.hsetnx(self._keys.feed_summaries, _fid(state.url), summary_of(state))
        if len(pipe):
            await pipe.execute()
        return {state.url: summary_of(state) for state in states}


def _place(url: str) -> str:
    """Return what feeds are sorted by: the address without scheme and `www.`."""
    return url.partition("://")[2].removeprefix("www.")


def _has_words(url: str, summary: str, words: Sequence[str]) -> bool:
    text = f"{url} {title_in(summary)}".lower()
    return all(word in text for word in words)
