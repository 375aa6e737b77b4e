"""Format the status as text; `core.runtime.store_status` collects the values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from core.registry import field_parsing
from scripts.run_page import RUN_HEAD, how_it_ended, paused_lines, run_row
from scripts.tables import ago, ahead, table

MAX_FEEDS = 20


def status_page(status: dict[str, Any]) -> str:
    now = status["now_ts"]
    sections = [
        _server_and_feeds(status["redis"], status["feeds"], now),
        table(("CATEGORY", "FEEDS", "LINKS", "ARTICLES"), [(n, *c.values()) for n, c in status["categories"].items()]),
        _articles(status["articles"], status["failures"]),
        _registry(status["registry"]),
        "\n".join(paused_lines(status["paused"])),
        _webhooks(status["webhooks"]),
        _sources(status["registry"]["sources"], now),
        _table(RUN_HEAD, [run_row(run, now) for run in status["registry"]["runs"]]),
        "\n".join(filter(None, (_last_cycle(status["last_cycle"], now), _last_run(status["last_run"], now)))),
        _troubled_feeds(status["troubled_feeds"][:MAX_FEEDS]),
    ]
    return "\n\n".join(filter(None, sections))


def _server_and_feeds(redis: dict[str, Any], feeds: dict[str, Any], now: float) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(feeds["by_status"].items())) or "none yet"
    next_due = "" if feeds["next_due_ts"] is None else f", next {ahead(feeds['next_due_ts'], now)}"
    lines = [
        f"Redis   {redis['url']}  {redis['used_memory_human']}  {redis['keys']} keys",
        *(f"        🚨 {warning}" for warning in redis["warnings"]),
        f"Feeds   {feeds['total']} ({counts}); {feeds['due']} due now{next_due}",
    ]
    return "\n".join(lines)


def _articles(articles: dict[str, Any], failures: dict[str, Any]) -> str:
    line = (
        f"Articles  {articles['stored']}, {articles['bytes_per_article']} bytes each; "
        f"{articles['due_for_check']} wait for a check, "
        f"{articles['waiting_for_retry']} links for another try"
    )
    if not failures["total"]:
        return line
    by_code, by_host = _listed(failures["by_code"]), _listed(failures["by_host"])
    return f"{line}\nFailures  {failures['total']}: {by_code}; hosts: {by_host}"


def _registry(registry: dict[str, Any]) -> str:
    items = ", ".join(f"{count} {status}" for status, count in registry["items"].items() if count) or "none yet"
    queues, search = registry["queues"], registry["search"]
    if not isinstance(queues, str):
        queues = ", ".join(f"{count} jobs wait in {name}" for name, count in queues.items())
    away = f"; {search['away']}" if search["away"] else ""
    lines = [
        f"Registry  {items}",
        f"Due now   {_listed(registry['due']) or 'nothing'}",
        f"Queues    {queues}",
        f"Search    {search['waiting']} texts wait for their vectors ({search['space'] or 'none yet'}){away}",
    ]
    if registry["refreshed"]:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(registry["refreshed"].items()))
        lines.append(f"Refreshed {counts}")
    return "\n".join(lines)


def _webhooks(webhooks: dict[str, Any]) -> str:
    if not webhooks["total"]:
        return ""
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(webhooks["by_status"].items()))
    counts = {name: webhooks[name] for name in ("waiting", "failing", "dead", "lost_events")}
    return f"Webhooks  {webhooks['total']} ({statuses}); {_listed(counts).replace('_', ' ')}"


def _sources(sources: dict[str, Any], now: float) -> str:
    rows = [
        (sid, source["kind"], source["items"], ago(source["last_listed_ts"], now), how_it_ended(source))
        for sid, source in sources.items()
    ]
    return _table(("SOURCE", "KIND", "ITEMS", "LAST LISTED", "HOW IT ENDED"), rows)


def _last_cycle(stored: dict[str, str], now: float) -> str:
    if not stored:
        return ""
    last = defaultdict(lambda: "–", stored)
    return (
        f"Last cycle {ago(field_parsing.timestamp(last['ts']), now)}, {last['seconds']} s: "
        f"{last['polled']} feeds polled, {last['changed']} changed, {last['unchanged']} unchanged, "
        f"{last['errors']} failed, {last['deferred']} put off\n"
        f"  links: {last['links_found']} found = {last['links_new']} new + {last['links_known']} known "
        f"+ {last['links_rejected']} rejected; {last['links_expired']} expired"
    )


def _last_run(stored: dict[str, str], now: float) -> str:
    if not stored:
        return ""
    last = defaultdict(lambda: "–", stored)
    return (
        f"Last run   {ago(field_parsing.timestamp(last['ts']), now)}, {last['seconds']} s: "
        f"{last['found']} links found = {last['new']} new + {last['known']} known + {last['rejected']} rejected\n"
        f"  new: {last['stored']} stored, {last['failed']} failed, {last['retry']} to retry, {last['alias']} aliases, "
        f"{last['duplicate']} duplicates, {last['deferred']} deferred"
    )


def _troubled_feeds(feeds: list[dict[str, str]]) -> str:
    if not feeds:
        return ""
    lines = [f"  {feed['error_class']}: {feed['error_text']} → {feed['url']}" for feed in feeds]
    return "\n".join(["Feeds in trouble (python -m scripts.feeds health URL tells more)", *lines])


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return table(head, rows) if rows else ""


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
