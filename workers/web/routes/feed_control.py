"""Poll a feed now; set how often it is polled."""

from __future__ import annotations

from dataclasses import asdict

from core.feeds.io.manual_poll import poll_now
from core.urls.secrets import redact
from workers.web.errors import ApiError
from workers.web.routes.feeds import (
    FeedAnswer,
    PollAnswer,
    PollFeedRequest,
    SetFeedRequest,
    feed_answer,
    feed_options,
    require_feed,
)
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("feeds")
POLL_SECONDS = 300.0
"""A poll waits for its turn at the host, and for a slow server."""


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
