"""A store with webhooks in every state, for pictures and for what needs a browser."""

from __future__ import annotations

from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook_filter import EventFilter
from core.store import connect
from tests.api import ApiServer

BODY = '{"type":"item.changed","timestamp":"2026-11-17T00:00:00.000Z","data":{"title":"Flood wall holds"}}'


async def put_every_state(api: ApiServer) -> dict[str, str]:
    """Store a webhook of every state; return their ids by state."""
    services = api.opener.require()
    client, keys, now = services.client, services.keys, await connect.now(services.client)
    await client.sadd(keys.categories, "world", "sport", "harbour_news")
    delivered = {"delivered": "1842", "delivered_ts": f"{now - 90:.3f}", "delivered_id": "1763337600000-0"}
    tried = {"last_attempt_ts": f"{now - 90:.3f}", "last_http_status": "204"}
    refused = {
        "last_attempt_ts": f"{now - 20:.3f}",
        "last_http_status": "503",
        "last_error": "The receiver answered 503.",
    }
    again = {"attempts": "3", "next_attempt_ts": f"{now + 1_700:.3f}"}
    gone = {"status": "disabled", "status_reason": "The receiver answered 410: it wants no more events."}
    gone |= tried | {"last_http_status": "410", "last_error": gone["status_reason"]}
    lost = {"gaps": "1", "lost_events": "212", "gap_ts": f"{now - 9_000:.3f}", "gap_after": "1763330000000-3"}
    made: dict[str, tuple[str, EventFilter, dict[str, str]]] = {
        "active": ("https://newsroom.example.org/hooks/articles", EventFilter(("article.stored",)), delivered | tried),
        "failing": (
            "https://hooks.example.com/services/T0A1B2C3/B4D5E6F7/x7KqL9mN2pQ4",
            EventFilter(("item.*", "article.stored"), ("world", "harbour_news"), (), 'flood "wall holds"'),
            delivered | refused | again | lost | {"dead": "3"},
        ),
        "paused": ("https://archive.example.net/in", EventFilter(), {"status": "paused"}),
        "disabled": ("https://old.example.net/hook", EventFilter(("run.finished",), (), ("docs",)), gone),
    }
    found = {}
    for state, (url, wanted, fields) in made.items():
        webhook = await WebhookStore(client, keys).add(url, wanted, now - 86_400)
        await client.hset(keys.webhook(webhook.id), mapping=fields)
        found[state] = webhook.id
    for number in range(3):
        waiting = {"event": f"176333760000{number}-0", "type": "item.changed", "body": BODY}
        await client.xadd(keys.webhook_pending(found["failing"]), waiting)
        why = {"reason": "The receiver answered 500.", "http_status": "500", "attempts": "10", "given_up_ts": str(now)}
        await client.xadd(keys.webhook_dead(found["failing"]), waiting | why)
    return found
