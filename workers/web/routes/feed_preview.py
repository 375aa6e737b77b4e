"""Look into a feed: what a subscription would bring, and what became of its entries."""

from __future__ import annotations

from core import ids
from core.feeds.io.failed_entries import FailedEntries
from core.feeds.io.feed_adder import NoFeedThere
from core.feeds.io.feed_entries import FeedEntries
from core.feeds.io.feed_preview import preview_feed
from core.urls.secrets import redact
from workers.web.feed_models import OtherFeedAnswer
from workers.web.feed_preview_models import (
    FailedEntryAnswer,
    FeedEntriesAnswer,
    FeedEntriesRequest,
    FeedEntryAnswer,
    PreviewEntryAnswer,
    PreviewFeedAnswer,
    PreviewFeedRequest,
    RefusedEntryAnswer,
)
from workers.web.routes.feed_control import POLL_SECONDS
from workers.web.routes.feeds import no_feed, require_feed
from workers.web.routing import RouteTable, StoreCall

ROUTES = RouteTable("feeds")


@ROUTES.add(
    "POST",
    "/api/feed_preview",
    "What a subscription would bring: its feed, the first entries, what is new, what would be refused.",
    fields_in="body",
    description="Nothing is stored but when the host was asked, and its robots.txt.",
    seconds=POLL_SECONDS,
)
async def preview(call: StoreCall, asked: PreviewFeedRequest) -> PreviewFeedAnswer:
    """Return what a subscription would bring."""
    try:
        found = await preview_feed(call.services.context, asked.url, asked.category)
    except NoFeedThere as none:
        raise no_feed(none) from none
    return PreviewFeedAnswer(
        id=ids.feed_id(found.feed.url),
        url=redact(found.feed.url),
        title=found.feed.title,
        kind=found.kind,
        found_by="" if found.feed.url == found.asked_url else redact(found.asked_url),
        category=found.category,
        subscribed=list(found.subscribed),
        others=[OtherFeedAnswer(url=redact(feed.url), title=feed.title) for feed in found.others],
        links=found.links,
        new_links=found.new_links,
        known_links=found.known_links,
        rejected_links=found.rejected_links,
        left_out=found.left_out,
        entries=[
            PreviewEntryAnswer(url=redact(one.url), title=one.title, published_ts=one.published_ts, is_new=one.is_new)
            for one in found.entries
        ],
        rejected=[RefusedEntryAnswer(url=redact(one.url), reason=one.reason) for one in found.rejected],
    )


@ROUTES.add(
    "GET",
    "/api/feeds/{id}/entries",
    "The entries of a feed's last body with their articles, and those that gave none, with the reason.",
)
async def list_entries(call: StoreCall, asked: FeedEntriesRequest) -> FeedEntriesAnswer:
    """Return the entries of a feed's last body, and those that gave no article."""
    client, keys = call.services.client, call.services.keys
    url, categories = await require_feed(call, asked.id)
    entries = await FeedEntries(client, keys).of_feed(url, categories[0], asked.limit)
    failed = await FailedEntries(client, keys).of_feed(url, asked.limit)
    return FeedEntriesAnswer(
        entries=[
            FeedEntryAnswer(url=redact(one.url), title=one.title, uid=one.uid, ts=one.ts or None) for one in entries
        ],
        failed=[FailedEntryAnswer.model_validate(one.to_json()) for one in failed],
    )
