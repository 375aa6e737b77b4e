"""Feeds: list, health, add, remove, poll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from core import ids
from core.errors import NotFound
from core.feeds.feed_json import feed_json
from core.feeds.io.feed_adder import NoFeedThere, add_feed
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.manual_poll import poll_now
from core.feeds.io.subscription_sync import is_in_feed_file
from core.registry.io.forget_by_name import forget_subscription
from core.registry.io.item_forgetter import removal_counts
from core.urls.secrets import redact
from workers.web.errors import ApiError
from workers.web.feed_models import (
    AddFeedAnswer,
    AddFeedRequest,
    FeedAnswer,
    FeedRequest,
    FeedsAnswer,
    FeedsRequest,
    OtherFeedAnswer,
    PollAnswer,
    PollFeedRequest,
    RemoveFeedAnswer,
    RemoveFeedRequest,
    SetFeedRequest,
)
from workers.web.routing import Call, Route, StoreCall

TAG = "feeds"
POLL_SECONDS = 300.0
"""A poll waits for its turn at the host, and for a slow server."""


async def list_feeds(call: StoreCall, asked: FeedsRequest) -> FeedsAnswer:
    """List feeds with their health, by URL."""
    context = call.services.context
    by_feed = await context.subscriptions.by_feed()
    if asked.category:
        category = await context.subscriptions.require_category(asked.category)
        by_feed = {url: names for url, names in by_feed.items() if category in names}
    urls = sorted(by_feed)[asked.offset : asked.offset + asked.limit]
    return FeedsAnswer(total=len(by_feed), feeds=await _answers(call, {url: by_feed[url] for url in urls}))


async def show_feed(call: Call, asked: FeedRequest) -> FeedAnswer:
    """Return how one feed is."""
    url, categories = await _require(call, asked.id)
    return (await _answers(call, {url: categories}))[0]


async def _require(call: Call, feed_id: str) -> tuple[str, list[str]]:
    by_feed = await call.services.context.subscriptions.by_feed()
    found = next(((url, names) for url, names in by_feed.items() if ids.feed_id(url) == feed_id), None)
    if found is None:
        raise NotFound(f"There is no feed {feed_id}. GET /api/feeds lists them.")
    return found


async def _answers(call: StoreCall, by_feed: Mapping[str, list[str]]) -> list[FeedAnswer]:
    states = await call.services.context.feeds.states(list(by_feed))
    paces = await _options(call).of_feeds(list(by_feed))
    told = [(state.url, feed_json(state, by_feed[state.url], paces[state.url])) for state in states]
    return [FeedAnswer.model_validate({"id": ids.feed_id(url), **values}) for url, values in told]


def _options(call: StoreCall) -> FeedOptions:
    return FeedOptions(call.services.client, call.services.keys, call.services.settings)


async def set_options(call: Call, asked: SetFeedRequest) -> FeedAnswer:
    """Set how often a feed is polled."""
    url, categories = await _require(call, asked.id)
    changes = {name: getattr(asked, name) for name in asked.model_fields_set - {"id"}}
    await _options(call).set_for_feed(url, changes)
    return (await _answers(call, {url: categories}))[0]


async def subscribe(call: Call, asked: AddFeedRequest) -> AddFeedAnswer:
    """Subscribe to a feed, or to the feed of a site."""
    try:
        added = await add_feed(call.services.context, asked.category, asked.url)
    except NoFeedThere as none:
        others = ", ".join(redact(feed.url) for feed in none.others)
        raise ApiError(422, "no_feed", str(none), f"The site has others: {others}." if others else "") from none
    return AddFeedAnswer(
        id=ids.feed_id(added.feed.url),
        category=added.category,
        url=redact(added.feed.url),
        title=added.feed.title,
        found_by="" if added.feed.url == added.asked_url else redact(added.asked_url),
        others=[OtherFeedAnswer(url=redact(feed.url), title=feed.title) for feed in added.others],
    )


async def unsubscribe(call: Call, asked: RemoveFeedRequest) -> RemoveFeedAnswer:
    """Unsubscribe from a feed; with `forget`, its own links and articles go too."""
    services = call.services
    url, categories = await _require(call, asked.id)
    removed: dict[str, int] = {}
    if asked.forget:
        counts, _ = await forget_subscription(services.client, services.keys, url, dry_run=asked.dry_run)
        removed = removal_counts(counts)
    elif not asked.dry_run:
        await services.context.subscriptions.remove(url)
    note = ""
    if is_in_feed_file(services.settings.feeds_file, url):
        note = "FEEDS_FILE still lists it and adds it again; delete its line there too."
    return RemoveFeedAnswer(url=redact(url), categories=categories, removed=removed, dry_run=asked.dry_run, note=note)


async def poll(call: Call, asked: PollFeedRequest) -> PollAnswer:
    """Poll a feed now, in this process, and say what came of it."""
    url, _ = await _require(call, asked.id)
    reports = await poll_now(call.services.context, [url], force=asked.force)
    if not reports:
        raise ApiError(409, "conflict", "The feed was removed meanwhile.", "GET /api/feeds lists what is there.")
    report = asdict(reports[0])
    return PollAnswer.model_validate(
        {name: report[name] for name in PollAnswer.model_fields}
        | {"url": redact(url), "end": str(report["end"]), "reason": redact(report["reason"])}
    )


ROUTES = (
    Route(
        method="GET",
        path="/api/feeds",
        summary="All feeds, or those of a category, with their health.",
        tag=TAG,
        request=FeedsRequest,
        handler=list_feeds,
        answer=FeedsAnswer,
    ),
    Route(
        method="POST",
        path="/api/feeds",
        summary="Subscribe to a feed, or to the feed of a site.",
        tag=TAG,
        request=AddFeedRequest,
        handler=subscribe,
        answer=AddFeedAnswer,
        fields_in="body",
    ),
    Route(
        method="GET",
        path="/api/feeds/{id}",
        summary="How one feed is, and why nothing comes from it.",
        tag=TAG,
        request=FeedRequest,
        handler=show_feed,
        answer=FeedAnswer,
    ),
    Route(
        method="PUT",
        path="/api/feeds/{id}",
        summary="Set how often a feed is polled, and the gap between requests to its host.",
        tag=TAG,
        request=SetFeedRequest,
        handler=set_options,
        answer=FeedAnswer,
        fields_in="body",
    ),
    Route(
        method="DELETE",
        path="/api/feeds/{id}",
        summary="Unsubscribe from a feed; what it has brought stays, unless it is to be forgotten too.",
        tag=TAG,
        request=RemoveFeedRequest,
        handler=unsubscribe,
        answer=RemoveFeedAnswer,
        is_destructive=True,
        seconds=None,
    ),
    Route(
        method="POST",
        path="/api/feeds/{id}/poll",
        summary="Poll a feed now, beside a running ingestor.",
        tag=TAG,
        request=PollFeedRequest,
        handler=poll,
        answer=PollAnswer,
        fields_in="body",
        seconds=POLL_SECONDS,
    ),
)
