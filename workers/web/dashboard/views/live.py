"""Tell open pages that something has changed; they then ask for their live part again."""

from __future__ import annotations

import asyncio

from aiohttp import web

from workers.web.dashboard.page_table import PageTable
from workers.web.events import EventFeed
from workers.web.models import NoParameters
from workers.web.routing import EVENT_STREAM, Call
from workers.web.sse import abort, empty_stream, event_response

ROUTES = PageTable()
SHORTEST_SECONDS = 1.0
"""However much happens, a page is drawn at most this often."""
LONGEST_SECONDS = 5.0
"""Progress, ages and queues change without an event."""
NO_EVENTS = frozenset({"none"})
"""Only whether something happened counts, not what: nothing is queued for this client."""
CHANGED = b"event: changed\ndata: 1\n\n"


@ROUTES.add("GET", "/live", other_types=(EVENT_STREAM,), seconds=None)
async def stream_changes(call: Call, _: NoParameters) -> web.StreamResponse:
    """Send an event whenever a page should be drawn again, until the client leaves."""
    if call.is_head:
        return empty_stream()
    feed = call.services.events
    async with (
        feed.subscribed(NO_EVENTS, lambda: abort(call.http)),
        event_response(call.http) as (response, writer),
    ):
        while not feed.is_closed:
            await writer.write(CHANGED)
            await _wait_for_change(feed)
    return response


async def _wait_for_change(feed: EventFeed) -> None:
    """Wait until something has happened, or for the longest time."""
    position, waited = feed.position, 0.0
    while waited < LONGEST_SECONDS and not feed.is_closed:
        await asyncio.sleep(SHORTEST_SECONDS)
        waited += SHORTEST_SECONDS
        if feed.position != position:
            return
