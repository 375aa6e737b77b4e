"""One feed: its health, schedule and entries with what became of them; actions on feeds and categories."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from aiohttp import web
from pydantic import Field

from core.feeds.daily_counts import DAYS_KEPT
from workers.web.dashboard.feed_texts import BADGES, days_of, poll_sentence
from workers.web.dashboard.formats import host
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.models import RequestModel
from workers.web.routes import categories, feed_preview, feeds
from workers.web.routes.categories import DropCategoryRequest, OpmlRequest, PollCategoryRequest, RenameCategoryRequest
from workers.web.routes.feed_preview import FeedEntriesRequest
from workers.web.routes.feeds import (
    OneFeedRequest,
    PollFeedRequest,
    RemoveFeedRequest,
    SetFeedRequest,
)
from workers.web.routing import Call

ROUTES = PageTable()
MOST_ENTRIES = 30
NAMED_REFUSALS = 5


@ROUTES.page("/feeds/{id}", "Feed", "feed.html")
async def show_feed(call: Call, asked: OneFeedRequest) -> dict[str, Any]:
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


# ── actions on feeds and categories ──


class OptionsForm(OneFeedRequest):
    """How often a feed is polled; what is left empty is not set."""

    interval_minutes: float | None = Field(default=None, gt=0, le=43_200)
    gap_seconds: float | None = Field(default=None, ge=0, le=86_400)


class ImportForm(RequestModel):
    """An OPML file."""

    opml: str


@ROUTES.action("/feeds/import")
async def import_file(call: Call, _: ImportForm) -> Done:
    uploaded = (await call.http.post())["opml"]
    body = str(uploaded).encode()
    if isinstance(uploaded, web.FileField):
        uploaded.file.seek(0)
        body = uploaded.file.read()  # in the encoding that its first line names
    done = await categories.read_opml(replace(call, body=body), OpmlRequest())
    named = ", ".join(done.refused[:NAMED_REFUSALS])
    refused = f" Not a URL that can be fetched, and left out ({len(done.refused):,}): {named}." if named else ""
    return Done(f"{done.added:,} feeds added. The ingestor polls them now.{refused}", "/feeds")


@ROUTES.action("/feeds/categories/poll")
async def poll_category(call: Call, asked: PollCategoryRequest) -> Done:
    done = await categories.poll_category(call, asked)
    waiting = f" {len(done.waiting):,} wait, as their servers asked." if done.waiting else ""
    return Done(f"The ingestor polls {done.due:,} feeds of {asked.name} now.{waiting}")


@ROUTES.action("/feeds/categories/rename", seconds=None)
async def rename(call: Call, asked: RenameCategoryRequest) -> Done:
    done = await categories.rename(call, asked)
    text = f"{asked.name} is {asked.to} now: {done.feeds:,} feeds, {done.articles:,} articles. {' '.join(done.notes)}"
    return Done(text.strip(), "/feeds")


@ROUTES.action("/feeds/categories/drop", seconds=None)
async def drop(call: Call, asked: DropCategoryRequest) -> Done:
    done = await categories.drop(call, asked)
    text = f"{asked.name} is dropped: {done.feeds:,} feeds, {done.removed.get('articles', 0):,} articles. "
    return Done((text + " ".join(done.notes)).strip(), "/feeds")


@ROUTES.action("/feeds/{id}/poll")
async def poll(call: Call, asked: PollFeedRequest) -> Done:
    return Done(poll_sentence(await feeds.poll(call, asked)))


@ROUTES.action("/feeds/{id}/remove", seconds=None)
async def remove(call: Call, asked: RemoveFeedRequest) -> Done:
    gone = await feeds.unsubscribe(call, asked)
    articles = f" {gone.removed.get('articles', 0):,} articles went with it." if asked.forget else ""
    return Done(f"Removed from {', '.join(gone.categories)}: {gone.url}.{articles} {gone.note}".strip(), "/feeds")


@ROUTES.action("/feeds/{id}/options")
async def set_options(call: Call, asked: OptionsForm) -> Done:
    interval = None if asked.interval_minutes is None else asked.interval_minutes * 60
    request = SetFeedRequest(id=asked.id, interval_seconds=interval, gap_seconds=asked.gap_seconds)
    await feeds.set_options(call, request)
    return Done("Set. Polls keep to it from now on.")
