"""The feeds that broke last, as entries of a feed."""

from __future__ import annotations

from core.feeds.io.broken_feeds import BrokenFeeds
from core.outputs.broken_feeds import broken_feed_entry
from core.outputs.published_feed import PublishedEntry
from core.runtime.context import Context


async def broken_feed_entries(context: Context, limit: int, base_url: str) -> tuple[PublishedEntry, ...]:
    """Return an entry for each broken feed, those that broke last first."""
    newest = await BrokenFeeds(context.client, context.keys).newest(limit)
    return tuple(
        broken_feed_entry(one.state, one.categories, f"{base_url}/feeds/{one.fid}")
        for one in newest
        if one.state.broken_since_ts
    )
