"""Feeds: list, health, add, remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core import ids
from core.errors import NotFound
from core.feeds.feed_health_json import feed_json
from core.feeds.feed_state import FeedState
from core.feeds.io.feed_adder import NoFeedThere, add_feed
from core.feeds.io.feed_directory import FeedDirectory, FeedFilter
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.subscription_sync import is_in_feed_file
from core.registry.io.forget_by_name import forget_subscription
from core.registry.io.item_forgetter import removal_counts
from core.store import connect
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
    RemoveFeedAnswer,
    RemoveFeedRequest,
)
from workers.web.routing import Call, RouteTable, StoreCall

ROUTES = RouteTable("feeds")


@ROUTES.add("GET", "/api/feeds", "All feeds with their health, or those of a category, of a health, with some words.")
async def list_feeds(call: StoreCall, asked: FeedsRequest) -> FeedsAnswer:
    """List feeds with their health, by address."""
    services, context = call.services, call.services.context
    now = await connect.now(services.client)
    directory = FeedDirectory(services.client, services.keys, context.subscriptions, context.feeds)
    wanted = FeedFilter(asked.category, asked.health, asked.text)
    page = await directory.page(wanted, asked.offset, asked.limit, now)
    answers = await _answers(call, page.states, page.by_feed, now)
    by_category = dict(sorted(page.by_category.items()))
    return FeedsAnswer(total=page.total, by_health=dict(page.by_health), by_category=by_category, feeds=answers)


@ROUTES.add("GET", "/api/feeds/{id}", "How one feed is, and why nothing comes from it.")
async def show_feed(call: Call, asked: FeedRequest) -> FeedAnswer:
    """Return how one feed is."""
    return await feed_answer(call, *await require_feed(call, asked.id))


async def require_feed(call: StoreCall, feed_id: str) -> tuple[str, list[str]]:
    """Return the address of a feed and its categories; raise NotFound if there is none with this id."""
    found = await call.services.context.subscriptions.by_id(feed_id)
    if found is None:
        raise NotFound(f"There is no feed {feed_id}. GET /api/feeds lists them.")
    return found


async def feed_answer(call: StoreCall, url: str, categories: list[str]) -> FeedAnswer:
    """Return how a feed is."""
    states = await call.services.context.feeds.states([url])
    return (await _answers(call, states, {url: categories}, await connect.now(call.services.client)))[0]


async def _answers(
    call: StoreCall, states: Sequence[FeedState], by_feed: Mapping[str, list[str]], now: float
) -> list[FeedAnswer]:
    paces = await feed_options(call).of_feeds([state.url for state in states])
    told = [(state.url, feed_json(state, by_feed[state.url], now, paces[state.url])) for state in states]
    return [FeedAnswer.model_validate({"id": ids.feed_id(url), **values}) for url, values in told]


def feed_options(call: StoreCall) -> FeedOptions:
    """Return the store of what was set for feeds and hosts."""
    return FeedOptions(call.services.client, call.services.keys, call.services.settings)


@ROUTES.add("POST", "/api/feeds", "Subscribe to a feed, or to the feed of a site.", fields_in="body")
async def subscribe(call: Call, asked: AddFeedRequest) -> AddFeedAnswer:
    """Subscribe to a feed, or to the feed of a site."""
    try:
        added = await add_feed(call.services.context, asked.category, asked.url)
    except NoFeedThere as none:
        raise no_feed(none) from none
    return AddFeedAnswer(
        id=ids.feed_id(added.feed.url),
        category=added.category,
        url=redact(added.feed.url),
        title=added.feed.title,
        found_by="" if added.feed.url == added.asked_url else redact(added.asked_url),
        others=[OtherFeedAnswer(url=redact(feed.url), title=feed.title) for feed in added.others],
    )


def no_feed(none: NoFeedThere) -> ApiError:
    """Return the answer to a URL where there is no feed; it names the others of the site."""
    others = ", ".join(redact(feed.url) for feed in none.others)
    return ApiError(422, "no_feed", str(none), f"The site has others: {others}." if others else "")


@ROUTES.add(
    "DELETE",
    "/api/feeds/{id}",
    "Unsubscribe from a feed; what it has brought stays, unless it is to be forgotten too.",
    is_destructive=True,
    seconds=None,
)
async def unsubscribe(call: Call, asked: RemoveFeedRequest) -> RemoveFeedAnswer:
    """Unsubscribe from a feed; with `forget`, its own links and articles go too."""
    services = call.services
    url, categories = await require_feed(call, asked.id)
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
