"""Format runs as table rows, and how the last listing of a source ended: for `status` and the reports of domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.registry import field_parsing
from core.runs.run import COUNTERS
from scripts.tables import ago

HOW_CHARS = 60
COUNTER_HEAD = ("KNOWN", "VISITED", "CHANGED", "UNCHANGED", "GONE", "FAILED", "NOT FOR US")
RUN_HEAD = ("STARTED", "KIND", "WHAT", "MODE", "STATUS", *COUNTER_HEAD)


def how_it_ended(details: Mapping[str, str]) -> str:
    """Return how the last listing of a source ended, or what a person should do about it."""
    if details.get("held"):
        return f"🛑 {details['held']}"
    if details.get("full"):
        return f"🚧 {details['full']}"
    return details.get("last_listing", "")[:HOW_CHARS] or "–"


def run_row(run: Mapping[str, Any], now: float) -> tuple[object, ...]:
    """Return a run (`run_json`) as a row of a table."""
    started = ago(field_parsing.iso_timestamp(run["started_at"]) or 0.0, now)
    counts = (run["counts"].get(name, "–") for name in COUNTERS)
    return (started, run["kind"], run["source"] or run["domain"] or "–", run["mode"] or "–", end_of(run), *counts)


def end_of(run: Mapping[str, Any]) -> str:
    """Return the status of a run, with the reason where it is only partial."""
    return f"{run['status']} ({run['problem']})" if run.get("problem") else str(run["status"])
