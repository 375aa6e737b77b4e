"""One feed: its health, its schedule, its entries and what became of them."""

from __future__ import annotations

import time
from typing import Any

from core.feeds.daily_counts import DAYS_KEPT
from workers.web.dashboard.feed_texts import BADGES, days_of
from workers.web.dashboard.formats import host
from workers.web.dashboard.pages import PageTable
from workers.web.feed_models import FeedRequest
from workers.web.feed_preview_models import FeedEntriesRequest
from workers.web.routes import feed_preview, feeds
from workers.web.routing import Call

ROUTES = PageTable()
MOST_ENTRIES = 30


@ROUTES.page("/feeds/{id}", "Feed", "feed.html")
async def show_feed(call: Call, asked: FeedRequest) -> dict[str, Any]:
    """Show a feed."""
    feed = await feeds.show_feed(call, asked)
    listed = await feed_preview.list_entries(call, FeedEntriesRequest(id=asked.id, limit=MOST_ENTRIES))
    days = days_of(feed, time.time())
    return {
        "title": feed.title or host(feed.url) or feed.url,
        "feed": feed,
        "entries": listed.entries,
        "failed": listed.failed,
        "days": days,
        "new_lately": sum(count for _, count in days),
        "days_kept": DAYS_KEPT,
        "badges": BADGES,
    }
