"""Format webhooks as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.tables import ago, ahead, counted

HEAD = ("ID", "STATUS", "WAITING", "DEAD", "DELIVERED", "LAST", "URL", "TROUBLE")


def webhook_row(told: Mapping[str, Any], now: float) -> tuple[object, ...]:
    last = ago(told["delivered_ts"], now) if told["delivered_ts"] else "–"
    trouble = told["status_reason"] or told["last_error"]
    if not trouble and told["gaps"]:
        trouble = f"{counted(told['lost_events'], 'event')} lost in {counted(told['gaps'], 'gap')}"
    counts = (told["waiting"], told["dead"], told["delivered"])
    return (told["id"], told["status"], *counts, last, told["url"], trouble)


def webhook_page(told: Mapping[str, Any], now: float) -> str:
    filters = {
        "type": told["types"],
        "category": told["categories"],
        "domain": told["domains"],
        "search": [told["search"]] if told["search"] else [],
    }
    wanted = "; ".join(f"{name} {', '.join(values)}" for name, values in filters.items() if values)
    last = f", the last {ago(told['delivered_ts'], now)} ({told['delivered_id']})" if told["delivered_ts"] else ""
    lines = [
        f"{told['id']} is {told['status']} → {told['url']}",
        f"  wants      {wanted or 'every event'}",
        f"  delivered  {counted(told['delivered'], 'event')}{last}",
        f"  waiting    {counted(told['waiting'], 'event')}{', a replay is under way' if told['is_replaying'] else ''}",
    ]
    if told["status_reason"]:
        lines.append(f"  why        {told['status_reason']} `freshet webhooks resume {told['id']}` sends again.")
    if told["last_error"]:
        lines.append(f"  failed     {told['last_error']}{_next(told, now)}")
    if told["dead"]:
        lines.append(f"  dead       {counted(told['dead'], 'event')}; `freshet webhooks dead {told['id']}` lists them")
    if told["gaps"]:
        lost = counted(told["lost_events"], "event")
        lines.append(
            f"  gaps       {told['gaps']}, the last {ago(told['gap_ts'], now)} after {told['gap_after']}; {lost}"
        )
    if told["old_secret_until_ts"]:
        lines.append(f"  secret     the old one signs too, until {ahead(told['old_secret_until_ts'], now)}")
    return "\n".join(lines)


def _next(told: Mapping[str, Any], now: float) -> str:
    if not told["next_attempt_ts"]:
        return ""
    return f" Attempt {told['attempts']} of 10; the next {ahead(told['next_attempt_ts'], now)}."
