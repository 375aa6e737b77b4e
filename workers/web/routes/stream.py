"""All events as they happen, as server-sent events."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from core.store.event_stream import FIRST_ID, order
from workers.web.errors import ApiError
from workers.web.events import EventFeed, Subscription, encoded, gap_event
from workers.web.models import RequestModel
from workers.web.routing import EVENT_STREAM, Call, RouteTable
from workers.web.sse import EventWriter, abort, empty_stream, event_response

RETRY = b"retry: 2000\n\n"
MOST_CLIENTS = 1_000
ROUTES = RouteTable("events")


class StreamRequest(RequestModel):
    """Which events, and after which."""

    type: str = Field(
        default="",
        max_length=500,
        pattern=r"^[a-z_.,]*$",
        description="Only events of these types, comma-separated.",
        examples=["article.stored,item.gone"],
    )
    after: str = Field(
        default="",
        pattern=r"^([0-9]{1,19}-[0-9]{1,19})?$",
        description="Begin after this event id; the header Last-Event-ID, which browsers send, wins.",
        examples=["0-0"],
    )


@ROUTES.add("GET", "/stream", other_types=(EVENT_STREAM,), seconds=None)
async def stream_events(call: Call, asked: StreamRequest) -> web.StreamResponse:
    """Every event as it happens, as server-sent events.

    The id of an event is its id in the Redis stream freshet:events. A client that reconnects with Last-Event-ID
    gets every event after it exactly once; if some of them are no longer in the stream, an event of type gap says
    so. A client that does not keep up is disconnected.
    """
    after_id = call.http.headers.get("Last-Event-ID", "").strip() or asked.after
    _require_event_id(after_id)
    feed = call.services.events
    if call.is_head:
        return empty_stream()
    if feed.count_clients >= MOST_CLIENTS:
        hint = "Close some, or read the Redis stream freshet:events itself."
        raise ApiError(
            503, "too_many_clients", f"{MOST_CLIENTS:,} clients listen already.", hint, {"Retry-After": "60"}
        )
    types = frozenset(filter(None, asked.type.split(",")))
    async with (
        feed.subscribed(types, lambda: abort(call.http)) as subscription,
        event_response(call.http) as (response, writer),
    ):
        await writer.write(RETRY)
        if after_id:
            await _catch_up(feed, subscription, writer, after_id)
        await writer.write_all(subscription.next_piece)
    return response


def _require_event_id(text: str) -> None:
    try:
        order(text or "0-0")
    except ValueError as error:
        raise ApiError(422, "invalid", f"Last-Event-ID: {error}.", "Send the id of the last event you got.") from None


async def _catch_up(feed: EventFeed, subscription: Subscription, writer: EventWriter, after_id: str) -> None:
    """Send what happened between the client's last event and its subscription; say so if some of it is gone."""
    ends = await feed.stream.ends()
    if order(after_id) > order(ends.last_id):  # of another store, or of this one before it lost its data
        await writer.write(encoded([gap_event(after_id, event_id=subscription.after_id)], subscription.types))
        return
    if after_id != FIRST_ID and order(after_id) < order(ends.first_id) and ends.is_trimmed:
        await writer.write(encoded([gap_event(after_id)], subscription.types))
    async for events in feed.stream.between(after_id, subscription.after_id):
        await writer.write(encoded(events, subscription.types))
