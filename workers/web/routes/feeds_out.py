"""Republished feeds: a category, the feeds that broke, a saved search; each as RSS, Atom or JSON Feed."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field

from core.feeds.io.broken_feeds import BrokenFeeds
from core.outputs.broken_feed_entry import broken_feed_entry
from core.outputs.feed_documents import MEDIA_TYPES
from core.outputs.io.published_articles import PublishedArticles
from core.outputs.published_feed import FeedFormat, PublishedEntry, PublishedFeed, tag_uri
from core.search.io.unknown_names import unknown_names
from core.search.query_arguments import MOST_FRESHNESS, build_query
from workers.web.feed_response import base_url, feed_response, self_url
from workers.web.feed_token import feed_token
from workers.web.models import AnswerModel, NoParameters, RequestModel
from workers.web.routes.feeds import CategoryName
from workers.web.routes.search import EXAMPLE, SearchFilters, query_arguments
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("feeds out")
MOST_ENTRIES = 500
Format = Annotated[Literal["rss", "atom", "json"], Field(description="RSS 2.0, Atom 1.0 or JSON Feed 1.1.")]
Entries = Annotated[int, Field(ge=1, le=MOST_ENTRIES, description="At most so many, the newest.")]
Token = Annotated[str, Field(max_length=200, description="With API_TOKEN: what GET /api/feeds_token returns.")]
_feed = partial(ROUTES.add, "GET", other_types=tuple(MEDIA_TYPES.values()), takes_feed_token=True)
"""A feed, which readers ask for with the token in its address."""
VALIDATORS = "With ETag and Last-Modified: who has it already gets 304."


class PublishedFeedRequest(RequestModel):
    """What every feed may be asked with."""

    format: Format
    limit: Entries = 100
    token: Token = ""


class FailuresFeedRequest(PublishedFeedRequest):
    """The feeds that broke, as a feed."""


class CategoryFeedRequest(PublishedFeedRequest):
    """A category as a feed."""

    category: CategoryName


class SearchFeedRequest(SearchFilters, PublishedFeedRequest):
    """A saved search as a feed."""

    freshness: float = Field(
        default=1.0, ge=0.0, le=MOST_FRESHNESS, description="0: age does not matter; 1: a page of today counts double."
    )


class FeedTokenAnswer(AnswerModel):
    """What feed readers need."""

    token: str = Field(description="For `?token=` of the addresses below /feeds/; empty: no API_TOKEN is set.")


@ROUTES.add("GET", "/api/feeds_token")
async def show_feed_token(call: Call, _: NoParameters) -> FeedTokenAnswer:
    """The token that feed readers put into the addresses of republished feeds."""
    return FeedTokenAnswer(token=feed_token(call.settings))


@_feed("/feeds/failures.{format}", description=f"An entry for each break; a feed that works again leaves. {VALIDATORS}")
async def show_failures(call: Call, asked: FailuresFeedRequest) -> web.Response:
    """The feeds that broke, each with why and since when, as RSS, Atom or JSON Feed."""
    newest = await BrokenFeeds(call.client, call.keys).newest(asked.limit)
    entries = tuple(
        broken_feed_entry(one.state, one.categories, f"{base_url(call.http)}/feeds/{one.fid}")
        for one in newest
        if one.state.broken_since_ts
    )
    description = "Feeds that are broken now: why, and since when."
    return await _answer(call, asked.format, "failures", "Broken feeds", description, entries)


@_feed("/feeds/search.{format}", description=f"The filters are those of /api/Search. {VALIDATORS}")
async def show_search(call: Call, asked: SearchFeedRequest) -> web.Response:
    """A saved search as RSS, Atom or JSON Feed: its best answers, newest first."""
    query = build_query(await query_arguments(call, asked), example=EXAMPLE)
    entries = await _articles(call).best(call.services.searcher, query, asked.limit)
    notes = [] if entries else await unknown_names(call.client, call.keys, query.filters)
    description = " ".join((f"The best answers to “{asked.q}”, newest first.", *notes))
    name = f"search?{call.http.rel_url.without_query_params('token').query_string}"
    return await _answer(call, asked.format, name, f"Search: {asked.q}", description, entries)


@_feed(
    "/feeds/{category}.{format}",
    description=f"Copies of an article that the category has already are left out. {VALIDATORS}",
)
async def show_category(call: Call, asked: CategoryFeedRequest) -> web.Response:
    """The newest articles of a category with their texts, as RSS, Atom or JSON Feed."""
    category = await call.context.subscriptions.require_category(asked.category)
    entries = await _articles(call).newest(category, asked.limit)
    description = f"The newest articles of the category {category}, republished by Freshet."
    return await _answer(call, asked.format, category, category, description, entries)


def _articles(call: Call) -> PublishedArticles:
    return PublishedArticles(call.client, call.keys, base_url(call.http))


async def _answer(
    call: Call, ending: Format, name: str, title: str, description: str, entries: tuple[PublishedEntry, ...]
) -> web.Response:
    feed = PublishedFeed(
        id=tag_uri(f"feeds/{name}"),
        title=f"Freshet: {title}",
        description=description,
        home_url=f"{base_url(call.http)}/",
        self_url=self_url(call.http),
        entries=entries,
        hub_url=call.settings.websub_hub,
    )
    return await feed_response(call.http, feed, FeedFormat(ending))
