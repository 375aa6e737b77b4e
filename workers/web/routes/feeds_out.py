"""Republished feeds: a category, the feeds that broke, a saved search; each as RSS, Atom or JSON Feed."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import Field

from core.feeds.io.broken_feeds import BrokenFeeds
from core.outputs.feed_documents import MEDIA_TYPES, write_feed
from core.outputs.io.published_articles import PublishedArticles
from core.outputs.published_feed import FeedFormat, PublishedEntry, PublishedFeed, broken_feed_entry, tag_uri
from core.search.io.unknown_names import unknown_names
from core.search.query_arguments import MOST_FRESHNESS, build_query
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


class CategoryFeedRequest(RequestModel):
    """A category as a feed."""

    category: CategoryName
    format: Format
    limit: Entries = 100
    token: Token = ""


class FailuresFeedRequest(RequestModel):
    """The feeds that broke, as a feed."""

    format: Format
    limit: Entries = 100
    token: Token = ""


class SearchFeedRequest(SearchFilters):
    """A saved search as a feed."""

    format: Format
    limit: Entries = 100
    token: Token = ""
    freshness: float = Field(
        default=1.0, ge=0.0, le=MOST_FRESHNESS, description="0: age does not matter; 1: a page of today counts double."
    )


class FeedTokenAnswer(AnswerModel):
    """What feed readers need."""

    token: str = Field(description="For `?token=` of the addresses below /feeds/; empty: no API_TOKEN is set.")


@ROUTES.add("GET", "/api/feeds_token", "The token that feed readers put into the addresses of republished feeds.")
async def show_feed_token(call: Call, _: NoParameters) -> FeedTokenAnswer:
    """Return the token of feeds to who has that of the API."""
    return FeedTokenAnswer(token=feed_token(call.settings))


@_feed(
    "/feeds/failures.{format}",
    "The feeds that broke, each with why and since when, as RSS, Atom or JSON Feed.",
    description=f"An entry for each break; a feed that works again leaves. {VALIDATORS}",
)
async def show_failures(call: Call, asked: FailuresFeedRequest) -> web.Response:
    """Return the feeds that broke, those that broke last first."""
    newest = await BrokenFeeds(call.client, call.keys).newest(asked.limit)
    entries = tuple(
        broken_feed_entry(one.state, one.categories, f"{base_url(call.http)}/feeds/{one.fid}")
        for one in newest
        if one.state.broken_since_ts
    )
    description = "Feeds that are broken now: why, and since when."
    return await _answer(call, asked.format, "failures", "Broken feeds", description, entries)


@_feed(
    "/feeds/search.{format}",
    "A saved search as RSS, Atom or JSON Feed: its best answers, newest first.",
    description=f"The filters are those of /api/Search. {VALIDATORS}",
)
async def show_search(call: Call, asked: SearchFeedRequest) -> web.Response:
    """Return what a search finds."""
    query = build_query(await query_arguments(call, asked), example=EXAMPLE)
    entries = await _articles(call).best(call.services.searcher, query, asked.limit)
    notes = [] if entries else await unknown_names(call.client, call.keys, query.filters)
    description = " ".join((f"The best answers to “{asked.q}”, newest first.", *notes))
    name = f"search?{call.http.rel_url.without_query_params('token').query_string}"
    return await _answer(call, asked.format, name, f"Search: {asked.q}", description, entries)


@_feed(
    "/feeds/{category}.{format}",
    "The newest articles of a category with their texts, as RSS, Atom or JSON Feed.",
    description=f"Copies of an article that the category has already are left out. {VALIDATORS}",
)
async def show_category(call: Call, asked: CategoryFeedRequest) -> web.Response:
    """Return the newest articles of a category."""
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


CACHE_CONTROL = "private, max-age=60"
ETAG_CHARS = 32


def base_url(request: web.Request) -> str:
    """Return how the client reaches us: by the name that the access check has let through, and nothing else of it."""
    parts = urlsplit(f"//{request.headers.get('Host', '')}")
    name = parts.hostname or "localhost"
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{request.scheme}://{f'[{name}]' if ':' in name else name}{port}"


def self_url(request: web.Request) -> str:
    """Return the address of this feed, without the token: a feed is passed on, its token should not be."""
    return f"{base_url(request)}{request.rel_url.without_query_params('token')}"


async def feed_response(request: web.Request, feed: PublishedFeed, feed_format: FeedFormat) -> web.Response:
    """Return the feed, or 304."""
    body = await asyncio.to_thread(write_feed, feed, feed_format)
    etag = hashlib.sha256(body).hexdigest()[:ETAG_CHARS]
    updated = datetime.fromtimestamp(int(feed.updated_ts), UTC) if feed.updated_ts > 0 else None
    if _has_it(request, etag, updated):
        response = web.Response(status=304)
    else:
        response = web.Response(body=body, content_type=MEDIA_TYPES[feed_format], charset="utf-8")
    response.etag = etag
    response.last_modified = updated
    response.headers["Cache-Control"] = CACHE_CONTROL
    response.headers["Link"] = _links(feed)
    return response


def _has_it(request: web.Request, etag: str, updated: datetime | None) -> bool:
    """Return whether the client has this very feed.

    Where it names an ETag, its date does not count (RFC 9110, section 13.2.2).
    """
    known = request.if_none_match
    if known is not None:
        return any(one.value in (etag, "*") for one in known)
    since = request.if_modified_since
    return since is not None and updated is not None and updated <= since


def _links(feed: PublishedFeed) -> str:
    """Return the header by which WebSub subscribers find the topic, and the hub if there is one."""
    links = [(feed.self_url, "self"), *([(feed.hub_url, "hub")] if feed.hub_url else [])]
    return ", ".join(f'<{url}>; rel="{rel}"' for url, rel in links)
