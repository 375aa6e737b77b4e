"""Answer a republished feed over HTTP: with validators, 304 for who has it, and the links that WebSub needs."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from urllib.parse import urlsplit

from aiohttp import web

from core.outputs.feed_documents import MEDIA_TYPES, write_feed
from core.outputs.published_feed import FeedFormat, PublishedFeed

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
