"""Find the subscribed feeds that are broken: of each feed its status, of those that broke everything."""

from __future__ import annotations

from core import ids
from core.feeds.feed_state import BROKEN
from core.feeds.io.feed_store import CHUNK
from core.keys import Keys
from core.outputs.broken_feeds import broken_feed_entry
from core.outputs.published_feed import PublishedEntry
from core.runtime.context import Context
from core.store.pipeline import read_many


async def broken_feed_entries(context: Context, limit: int, base_url: str) -> tuple[PublishedEntry, ...]:
    """Return an entry for each broken feed, those that broke last first."""
    by_feed = await context.subscriptions.by_feed()
    broken = await _broken(context, context.keys, list(by_feed))
    states = sorted(await context.feeds.states(broken), key=lambda state: (-state.broken_since_ts, state.url))
    return tuple(
        broken_feed_entry(state, by_feed[state.url], f"{base_url}/api/feeds/{ids.feed_id(state.url)}")
        for state in states[:limit]
        if state.broken_since_ts
    )


async def _broken(context: Context, keys: Keys, urls: list[str]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(urls), CHUNK):
        part = urls[start : start + CHUNK]
        commands = [("HGET", keys.feed(ids.feed_id(url)), "status") for url in part]
        statuses = await read_many(context.client, commands)
        found += [url for url, status in zip(part, statuses, strict=True) if status in BROKEN]
    return found
