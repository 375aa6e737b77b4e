"""Feeds: list, health, add, remove, poll, set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import Field

from core import ids
from core.errors import NotFound
from core.feeds.feed_health import feed_json
from core.feeds.feed_state import FeedState
from core.feeds.io.feed_adder import FoundFeed, NoFeedThere, add_feed
from core.feeds.io.feed_directory import FeedDirectory, FeedFilter
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.feed_preview import FeedPreview
from core.feeds.io.manual_poll import poll_now
from core.feeds.io.subscription_sync import is_in_feed_file
from core.registry.io.forget_by_name import forget_subscription
from core.registry.io.item_forgetter import removal_counts
from core.urls.secrets import redact
from workers.web.errors import ApiError
from workers.web.models import AnswerModel, Flag, Limit, Name, Offset, PlainAnswer, RequestModel
from workers.web.routing import Call, RouteTable, StoreCall

FeedId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="`sha1(url)[:16]`", examples=["0123456789abcdef"])]
CategoryName = Annotated[str, Field(min_length=1, max_length=200, examples=["world"])]


class FeedsRequest(RequestModel):
    """Which feeds."""

    category: Name = ""
    health: Literal["", "new", "working", "silent", "broken", "gone"] = ""
    text: Name = Field(default="", description="Words that the title or the address has.")
    limit: Limit = 100
    offset: Offset = 0


class OneFeedRequest(RequestModel):
    """One feed."""

    id: FeedId


class RemoveFeedRequest(OneFeedRequest):
    """A feed that is to go."""

    forget: Flag = Field(default=False, description="With the links and articles that it alone listed.")
    dry_run: Flag = Field(default=False, description="Only say what would go.")


class AddFeedRequest(RequestModel):
    """A feed, or a site whose feed is looked for."""

    category: CategoryName
    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/feed.xml"])


class PollFeedRequest(OneFeedRequest):
    """A feed to poll now."""

    force: bool = Field(default=False, description="Read it again, also if it has not changed.")


class SetFeedRequest(OneFeedRequest):
    """How often a feed is polled, and how long its host is left alone; null takes back what was set."""

    interval_seconds: float | None = None
    gap_seconds: float | None = None


class FeedAnswer(PlainAnswer):
    """How a feed is."""

    id: str
    url: str
    categories: list[str]
    status: str = Field(description="new, ok, waiting, error or gone.")
    health: str = Field(description="new, working, silent (nothing new for a week), broken or gone.")
    why_silent: str = Field(description="Why nothing new comes from it; empty: something does.")
    title: str
    kind: str
    moved_to: str
    last_poll_ts: float | None
    last_http_status: int | None
    next_poll_ts: float | None
    next_poll_reason: str
    why_then: str
    interval_seconds: float
    error_class: str
    error_text: str
    broken_since_ts: float | None = Field(description="The first of the failed polls in a row; null: it works.")
    polls: int
    percent_304: float
    links_found: int
    percent_duplicate: float
    last_new_ts: float | None
    new_per_day: dict[str, int] = Field(description="New entries on each of the last 14 days that had any.")
    entries: int
    entries_left_out: int
    rejected: int
    rejected_example: str
    events: list[str]
    set_interval_seconds: float | None = Field(description="Set for this feed; null: it decides itself.")
    set_gap_seconds: float | None
    gap_seconds: float | None = Field(description="Between two requests to its host.")
    gap_set_for: str | None = Field(description="host, feed or source; null: it is that of the settings.")
    parallel: int | None


class FeedsAnswer(AnswerModel):
    """Some feeds."""

    total: int
    by_health: dict[str, int] = Field(description="How many there are of each health, whichever was asked for.")
    by_category: dict[str, int] = Field(description="All categories that have feeds, with their number.")
    feeds: list[FeedAnswer]


class OtherFeedAnswer(AnswerModel):
    """Another feed of the same site."""

    url: str
    title: str


class AddFeedAnswer(AnswerModel):
    """The feed that was added."""

    id: str
    category: str
    url: str
    title: str
    found_by: str = Field(description="The page that led to it; empty: it was asked for itself.")
    others: list[OtherFeedAnswer] = Field(description="Other feeds of the site, which were not added.")


class RemoveFeedAnswer(AnswerModel):
    """What went with a feed."""

    url: str
    categories: list[str]
    removed: dict[str, int]
    dry_run: bool
    note: str = Field(description="What brings it back, if something does.")


class PollAnswer(AnswerModel):
    """How a poll ended."""

    url: str
    end: str
    new_links: int
    known_links: int
    rejected_links: int
    reason: str
    wait_seconds: float


ROUTES = RouteTable("feeds")
POLL_SECONDS = 300.0
"""A poll waits for its turn at the host, and for a slow server."""


@ROUTES.add("GET", "/api/feeds")
async def list_feeds(call: StoreCall, asked: FeedsRequest) -> FeedsAnswer:
    """All feeds with their health, or those of a category, of a health, with some words."""
    now = await call.now()
    directory = FeedDirectory(call.client, call.keys, call.context.subscriptions, call.context.feeds)
    wanted = FeedFilter(asked.category, asked.health, asked.text)
    page = await directory.page(wanted, asked.offset, asked.limit, now)
    answers = await _answers(call, page.states, page.by_feed, now)
    by_category = dict(sorted(page.by_category.items()))
    return FeedsAnswer(total=page.total, by_health=dict(page.by_health), by_category=by_category, feeds=answers)


@ROUTES.add("GET", "/api/feeds/{id}")
async def show_feed(call: Call, asked: OneFeedRequest) -> FeedAnswer:
    """How one feed is, and why nothing comes from it."""
    return await feed_answer(call, *await require_feed(call, asked.id))


async def require_feed(call: StoreCall, feed_id: str) -> tuple[str, list[str]]:
    """Return the address of a feed and its categories; raise NotFound if there is none with this id."""
    found = await call.context.subscriptions.by_id(feed_id)
    if found is None:
        raise NotFound(f"There is no feed {feed_id}. GET /api/feeds lists them.")
    return found


async def feed_answer(call: StoreCall, url: str, categories: list[str]) -> FeedAnswer:
    states = await call.context.feeds.states([url])
    return (await _answers(call, states, {url: categories}, await call.now()))[0]


async def _answers(
    call: StoreCall, states: Sequence[FeedState], by_feed: Mapping[str, list[str]], now: float
) -> list[FeedAnswer]:
    paces = await feed_options(call).of_feeds([state.url for state in states])
    told = [(state.url, feed_json(state, by_feed[state.url], now, paces[state.url])) for state in states]
    return [FeedAnswer.model_validate({"id": ids.feed_id(url), **values}) for url, values in told]


def feed_options(call: StoreCall) -> FeedOptions:
    return FeedOptions(call.client, call.keys, call.settings)


@ROUTES.add("POST", "/api/feeds", fields_in="body")
async def subscribe(call: Call, asked: AddFeedRequest) -> AddFeedAnswer:
    """Subscribe to a feed, or to the feed of a site."""
    try:
        added = await add_feed(call.context, asked.category, asked.url)
    except NoFeedThere as none:
        raise no_feed(none) from none
    return AddFeedAnswer.copied(added, **found_feed(added))


def found_feed(found: FoundFeed | FeedPreview) -> dict[str, object]:
    """Return the feed that was found at an address, and the others of its site, as answers name them."""
    return {
        "id": ids.feed_id(found.feed.url),
        "url": redact(found.feed.url),
        "title": found.feed.title,
        "found_by": "" if found.feed.url == found.asked_url else redact(found.asked_url),
        "others": [OtherFeedAnswer.copied(one, url=redact(one.url)) for one in found.others],
    }


def no_feed(none: NoFeedThere) -> ApiError:
    """Return the answer to a URL where there is no feed; it names the others of the site."""
    others = ", ".join(redact(feed.url) for feed in none.others)
    return ApiError(422, "no_feed", str(none), f"The site has others: {others}." if others else "")


@ROUTES.add("DELETE", "/api/feeds/{id}", is_destructive=True, seconds=None)
async def unsubscribe(call: Call, asked: RemoveFeedRequest) -> RemoveFeedAnswer:
    """Unsubscribe from a feed; what it has brought stays, unless it is to be forgotten too."""
    url, categories = await require_feed(call, asked.id)
    removed: dict[str, int] = {}
    if asked.forget:
        counts, _ = await forget_subscription(call.client, call.keys, url, dry_run=asked.dry_run)
        removed = removal_counts(counts)
    elif not asked.dry_run:
        await call.context.subscriptions.remove(url)
    note = ""
    if is_in_feed_file(call.settings.feeds_file, url):
        note = "FEEDS_FILE still lists it and adds it again; delete its line there too."
    return RemoveFeedAnswer(url=redact(url), categories=categories, removed=removed, dry_run=asked.dry_run, note=note)


@ROUTES.add("PUT", "/api/feeds/{id}", fields_in="body")
async def set_options(call: Call, asked: SetFeedRequest) -> FeedAnswer:
    """Set how often a feed is polled, and the gap between requests to its host."""
    url, categories = await require_feed(call, asked.id)
    changes = {name: getattr(asked, name) for name in asked.model_fields_set - {"id"}}
    await feed_options(call).set_for_feed(url, changes)
    return await feed_answer(call, url, categories)


@ROUTES.add("POST", "/api/feeds/{id}/poll", fields_in="body", seconds=POLL_SECONDS)
async def poll(call: Call, asked: PollFeedRequest) -> PollAnswer:
    """Poll a feed now, beside a running ingestor."""
    url, _ = await require_feed(call, asked.id)
    reports = await poll_now(call.context, [url], force=asked.force)
    if not reports:
        raise ApiError(409, "conflict", "The feed was removed meanwhile.", "GET /api/feeds lists what is there.")
    report = asdict(reports[0])
    return PollAnswer.model_validate(
        {name: report[name] for name in PollAnswer.model_fields}
        | {"url": redact(url), "end": str(report["end"]), "reason": redact(report["reason"])}
    )
