"""How Freshet is: the server, categories and links, feeds and their health, the last cycle.

python -m scripts.status [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

from core.keys import Keys
from core.settings import Settings
from core.stores import connect
from core.stores.feeds import FeedStore
from core.stores.links import LinkStore, Lives
from core.stores.subscriptions import Subscriptions
from scripts import session
from scripts.tables import ago, ahead, table


async def collect(settings: Settings, keys: Keys, client: connect.Client) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    now = await connect.now(client)
    subscriptions = Subscriptions(client, keys)
    feeds = FeedStore(client, keys, LinkStore(client, keys, Lives.of(settings)))
    by_category = await subscriptions.by_category()
    states = await feeds.states(sorted({url for urls in by_category.values() for url in urls}))
    info = await client.info("memory")
    next_due = await feeds.next_due()
    return {
        "now_ts": now,
        "redis": {
            "url": connect.masked(connect.url_of(settings)),
            "used_memory_human": info["used_memory_human"],
            "keys": await client.dbsize(),
            "warnings": await connect.dangers(client),
        },
        "categories": {
            category: {
                "feeds": len(by_category.get(category, [])),
                "links": await client.scard(keys.category_links(category)),
            }
            for category in await subscriptions.categories()
        },
        "feeds": {
            "total": len(states),
            "by_status": dict(Counter(str(state.status) for state in states)),
            "due": len(await feeds.due(now)),
            "next_due_ts": next_due if next_due != float("inf") else None,
        },
        "troubled_feeds": [
            {"url": state.url, "error_class": state.error_class, "error_text": state.error_text}
            for state in states
            if state.error_class
        ],
        "last_cycle": await client.hgetall(keys.ingest_last_run),
        "all_cycles": await client.hgetall(keys.ingest_stats),
    }


def page(seen: dict[str, Any]) -> str:
    """The same for people."""
    now, redis, feeds = seen["now_ts"], seen["redis"], seen["feeds"]
    next_due = feeds["next_due_ts"]
    counts = ", ".join(f"{count} {status}" for status, count in sorted(feeds["by_status"].items())) or "none yet"
    lines = [
        f"Redis   {redis['url']}  {redis['used_memory_human']}  {redis['keys']} keys",
        *(f"        🚨 {warning}" for warning in redis["warnings"]),
        f"Feeds   {feeds['total']} ({counts}); {feeds['due']} due now"
        + (f", next {ahead(next_due, now)}" if next_due is not None else ""),
        "",
        table(
            ("CATEGORY", "FEEDS", "LINKS"),
            [(name, counted["feeds"], counted["links"]) for name, counted in seen["categories"].items()],
        ),
    ]
    if seen["last_cycle"]:
        lines += ["", _last_cycle(seen["last_cycle"], now)]
    if seen["troubled_feeds"]:
        lines += ["", "Feeds in trouble (python -m scripts.feeds health URL tells more)"]
        lines += [
            f"  {feed['error_class']}: {feed['error_text']} → {feed['url']}" for feed in seen["troubled_feeds"][:20]
        ]
    return "\n".join(lines)


def _last_cycle(last: dict[str, str], now: float) -> str:
    return (
        f"Last cycle {ago(float(last['ts']), now)}, {last['seconds']} s: {last['polled']} feeds polled, "
        f"{last['changed']} changed, {last['unchanged']} unchanged, {last['errors']} failed, "
        f"{last['deferred']} put off\n"
        f"  links: {last['links_found']} found = {last['links_new']} new + {last['links_known']} known "
        f"+ {last['links_rejected']} rejected; {last['links_expired']} expired"
    )


async def status(as_json: bool) -> int:
    """Print it."""
    async with session.open_session() as (settings, keys, client):
        seen = await collect(settings, keys, client)
    print(json.dumps(seen, indent=2, ensure_ascii=False) if as_json else page(seen))
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m scripts.status", description="How Freshet is.")
    parser.add_argument("--json", action="store_true", help="for programs")
    return session.run(status(parser.parse_args().json))


if __name__ == "__main__":
    sys.exit(main())
