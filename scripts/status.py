"""How Freshet is: the server, categories, feeds and their health, articles, failures, the registry, the last runs.

python -m scripts.status [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from typing import Any

from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.overview import Overview
from core.runtime.terminal import echo
from core.settings import Settings
from core.store import connect, redis_health
from core.urls import redis_url
from core.urls.normalise import host_of
from core.urls.secrets import redact
from scripts import session, status_registry
from scripts.tables import ago, ahead, table

MOST_HOSTS = 10


async def collect(settings: Settings, keys: Keys, client: connect.Client) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    now = await connect.now(client)
    subscriptions = Subscriptions(client, keys)
    feeds = FeedStore(client, keys, Ttls.of(settings))
    by_category = await subscriptions.by_category()
    states = await feeds.states(sorted({url for urls in by_category.values() for url in urls}))
    overview = Overview(client, keys)
    memory, key_count = await overview.size()
    next_due = await feeds.next_due()
    return {
        "now_ts": now,
        "redis": {
            "url": redis_url.masked(connect.url_of(settings)),
            "used_memory_human": memory,
            "keys": key_count,
            "warnings": await redis_health.dangers(client),
        },
        "categories": {
            category: await _category(overview, category, len(by_category.get(category, [])))
            for category in await subscriptions.categories()
        },
        "feeds": {
            "total": len(states),
            "by_status": dict(Counter(str(state.status) for state in states)),
            "due": len(await feeds.due(now)),
            "next_due_ts": next_due if next_due != float("inf") else None,
        },
        "troubled_feeds": [
            {"url": redact(state.url), "error_class": state.error_class, "error_text": state.error_text}
            for state in states
            if state.error_class
        ],
        "articles": await overview.articles(now),
        "failures": await _failures(overview),
        "registry": await status_registry.collect(settings, keys, client, now),
        "last_cycle": await overview.last_cycle(),
        "all_cycles": await overview.all_cycles(),
        "last_run": await overview.last_run(),
        "all_runs": await overview.all_runs(),
    }


async def _category(overview: Overview, category: str, feeds: int) -> dict[str, int]:
    links, articles = await overview.category(category)
    return {"feeds": feeds, "links": links, "articles": articles}


async def _failures(overview: Overview) -> dict[str, Any]:
    """By code and by host, over the newest few hundred."""
    total, newest = await overview.failures()
    codes = Counter("/".join(filter(None, (failure.code, failure.detail))) for failure in newest)
    hosts = Counter(host_of(failure.url) for failure in newest)
    return {"total": total, "by_code": dict(codes.most_common()), "by_host": dict(hosts.most_common(MOST_HOSTS))}


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
            ("CATEGORY", "FEEDS", "LINKS", "ARTICLES"),
            [(name, *counted.values()) for name, counted in seen["categories"].items()],
        ),
    ]
    lines += ["", *_article_lines(seen["articles"], seen["failures"])]
    lines += ["", *status_registry.lines(seen["registry"], now)]
    if seen["last_cycle"]:
        lines += ["", _last_cycle(seen["last_cycle"], now)]
    if seen["last_run"]:
        lines += [_last_run(seen["last_run"], now)]
    if seen["troubled_feeds"]:
        lines += ["", "Feeds in trouble (python -m scripts.feeds health URL tells more)"]
        lines += [
            f"  {feed['error_class']}: {feed['error_text']} → {feed['url']}" for feed in seen["troubled_feeds"][:20]
        ]
    return "\n".join(lines)


def _article_lines(articles: dict[str, Any], failures: dict[str, Any]) -> list[str]:
    lines = [
        f"Articles  {articles['stored']}, {articles['bytes_per_article']} bytes each; "
        f"{articles['due_for_check']} wait for a check, "
        f"{articles['waiting_for_retry']} links for another try"
    ]
    if failures["total"]:
        lines.append(
            f"Failures  {failures['total']}: {_listed(failures['by_code'])}; hosts: {_listed(failures['by_host'])}"
        )
    return lines


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _last_run(stored: dict[str, str], now: float) -> str:
    last = defaultdict(lambda: "–", stored)
    return (
        f"Last run   {ago(field_parsing.timestamp(last['ts']), now)}, {last['seconds']} s: "
        f"{last['found']} links found = {last['new']} new + {last['known']} known + {last['rejected']} rejected\n"
        f"  new: {last['stored']} stored, {last['failed']} failed, {last['retry']} to retry, {last['alias']} aliases, "
        f"{last['duplicate']} duplicates, {last['deferred']} deferred"
    )


def _last_cycle(stored: dict[str, str], now: float) -> str:
    last = defaultdict(lambda: "–", stored)
    return (
        f"Last cycle {ago(field_parsing.timestamp(last['ts']), now)}, {last['seconds']} s: "
        f"{last['polled']} feeds polled, {last['changed']} changed, {last['unchanged']} unchanged, "
        f"{last['errors']} failed, {last['deferred']} put off\n"
        f"  links: {last['links_found']} found = {last['links_new']} new + {last['links_known']} known "
        f"+ {last['links_rejected']} rejected; {last['links_expired']} expired"
    )


async def status(as_json: bool) -> int:
    """Print it."""
    async with session.open_session() as (settings, keys, client):
        seen = await collect(settings, keys, client)
    echo(json.dumps(seen, indent=2, ensure_ascii=False) if as_json else page(seen))
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m scripts.status", description="How Freshet is.")
    parser.add_argument("--json", action="store_true", help="for programs")
    return session.run(status(parser.parse_args().json))


if __name__ == "__main__":
    sys.exit(main())
