"""All feeds: how each is, what it brought, when it is polled; categories and OPML."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import Field

from workers.web.dashboard.feed_texts import BADGES, days_of
from workers.web.dashboard.page_table import PageTable, list_path
from workers.web.feed_token import feed_query
from workers.web.models import Name, RequestModel
from workers.web.routes import feeds
from workers.web.routes.feeds import FeedsRequest
from workers.web.routing import Call

ROUTES = PageTable()
PAGE_FEEDS = 30
HEALTH = ("working", "silent", "broken", "gone", "new")


class FeedsPageRequest(RequestModel):
    """Which feeds."""

    category: Name = ""
    status: Literal["", "new", "working", "silent", "broken", "gone"] = ""
    text: Name = ""
    page: int = Field(default=1, ge=1, le=20_000)


@ROUTES.page("/feeds", "Feeds", "feeds.html")
async def show_feeds(call: Call, asked: FeedsPageRequest) -> dict[str, Any]:
    offset, now = (asked.page - 1) * PAGE_FEEDS, time.time()
    wanted = FeedsRequest(
        category=asked.category, health=asked.status, text=asked.text, limit=PAGE_FEEDS, offset=offset
    )
    found = await feeds.list_feeds(call, wanted)
    everything = sum(found.by_health.values())
    tabs = [("", "All", everything), *((name, name.capitalize(), found.by_health.get(name, 0)) for name in HEALTH)]
    return {
        "asked": asked,
        "found": found,
        "rows": [(feed, days_of(feed, now)) for feed in found.feeds],
        "tabs": [
            (label, count, list_path("/feeds", asked, status=name, page=1), name == asked.status)
            for name, label, count in tabs
            if count or name in ("", asked.status)
        ],
        "badges": BADGES,
        "feed_query": feed_query(call.settings),
        "before": list_path("/feeds", asked, page=asked.page - 1) if asked.page > 1 else "",
        "after": list_path("/feeds", asked, page=asked.page + 1) if offset + PAGE_FEEDS < found.total else "",
        "first": offset + 1,
        "is_filtered": bool(asked.category or asked.status or asked.text),
    }
