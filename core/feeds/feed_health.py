"""Derive the health of a feed: one word, why nothing new comes from it, and why it is polled when it is.

`feed_json` is all of it as plain values, for `freshet feeds health --json` and the API.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.poll_decision import RETRY_AFTER
from core.registry.time_formatting import span
from core.urls.pace import HostPace, PaceOption
from core.urls.secrets import redact
from core.value_class import value_class

SILENT_SECONDS = 7 * 86_400.0
"""A feed that answers but has had nothing new for this long is silent."""
_INTERVAL = re.compile(r"interval (\d+) s(, as set)?")
_REASONS = {
    "ttl": "the feed asks for it (ttl)",
    "sy:updatePeriod": "the feed asks for it (sy:updatePeriod)",
    "Cache-Control": "the server asks for it (Cache-Control)",
    "skipHours/skipDays": "the feed does not want to be asked before (skipHours, skipDays)",
    "gap": "its host has its turn then",
    "busy": "its host has its turn then",
}


class FeedHealth(StrEnum):
    NEW = "new"
    """Not polled yet."""
    WORKING = "working"
    SILENT = "silent"
    """It answers, and brings nothing new."""
    BROKEN = "broken"
    GONE = "gone"


_HEALTH = {
    FeedStatus.NEW: FeedHealth.NEW,
    FeedStatus.WAITING: FeedHealth.NEW,
    FeedStatus.ERROR: FeedHealth.BROKEN,
    FeedStatus.GONE: FeedHealth.GONE,
}


@value_class
class FeedPace:
    option: PaceOption
    host: HostPace | None

    def to_json(self) -> dict[str, object]:
        """Return it as plain values; an option of None was not set, `gap_set_for` None is the gap of the settings."""
        host = self.host
        return {
            "set_interval_seconds": self.option.interval_seconds,
            "set_gap_seconds": self.option.gap_seconds,
            "gap_seconds": host.gap_seconds if host else None,
            "gap_set_for": str(host.set_for) if host and host.set_for else None,
            "parallel": host.parallel if host else None,
        }


def health_of(status: FeedStatus, last_new_ts: float, now: float) -> FeedHealth:
    if status is FeedStatus.OK:
        return FeedHealth.WORKING if now - last_new_ts < SILENT_SECONDS else FeedHealth.SILENT
    return _HEALTH[status]


def why_silent(state: FeedState, now: float) -> str:
    """Return a sentence on why nothing new comes from a feed; empty if something does."""
    match health_of(state.status, state.last_new_ts, now):
        case FeedHealth.WORKING:
            return ""
        case FeedHealth.NEW:
            reason = f" It waits: {state.next_poll_reason}." if state.next_poll_reason else ""
            return f"It was not polled yet.{reason}"
        case FeedHealth.BROKEN:
            return f"Its last poll failed: {state.error_text.rstrip('.')}."
        case FeedHealth.GONE:
            return state.error_text
    if not state.entries:
        return "It answers, and has no entries."
    if state.rejected >= state.entries:
        return f"All {state.entries:,} entries are refused, such as {state.rejected_example}."
    if not state.last_new_ts:
        return "All its entries were known already: another feed lists the same links."
    said = "the server says that it has not changed (304)" if state.last_status == 304 else "it lists the same entries"
    return f"Nothing new for {span(now - state.last_new_ts)}: {said}."


def why_then(state: FeedState) -> str:
    reason = state.next_poll_reason
    interval = _INTERVAL.fullmatch(reason)
    if interval:
        return f"every {span(float(interval[1]))}, " + ("as set" if interval[2] else "by how often it has news")
    if reason.startswith(RETRY_AFTER):
        return f"the server asked for it ({reason})"
    if reason.startswith("backoff"):
        return "it failed; each failure lengthens the wait"
    if reason.startswith("retired"):
        return "its publisher has retired it"
    return _REASONS.get(reason, reason or "it is new")


def feed_json(
    state: FeedState, categories: Sequence[str], now: float, pace: FeedPace | None = None
) -> dict[str, object]:
    """Return what people may know of a feed: no credentials; times that are not known are None."""
    return {
        "url": redact(state.url),
        "categories": sorted(categories),
        "status": str(state.status),
        "health": str(health_of(state.status, state.last_new_ts, now)),
        "why_silent": redact(why_silent(state, now)),
        "title": state.title,
        "kind": state.kind,
        "moved_to": redact(state.fetch_url),
        "last_poll_ts": state.last_poll_ts or None,
        "last_http_status": state.last_status or None,
        "next_poll_ts": None if math.isinf(state.next_poll_ts) else state.next_poll_ts,
        "next_poll_reason": state.next_poll_reason,
        "why_then": why_then(state),
        "interval_seconds": state.interval_seconds,
        "error_class": state.error_class,
        "error_text": redact(state.error_text),
        "broken_since_ts": state.broken_since_ts or None,
        "polls": state.polls,
        "percent_304": state.percent_304,
        "links_found": state.links_found,
        "percent_duplicate": state.percent_duplicate,
        "last_new_ts": state.last_new_ts or None,
        "new_per_day": dict(state.new_per_day),
        "entries": state.entries,
        "entries_left_out": state.entries_left_out,
        "rejected": state.rejected,
        "rejected_example": redact(state.rejected_example),
        "events": [redact(event) for event in state.events],
        **(pace.to_json() if pace else {}),
    }


# ── summaries ──
# One short text per feed, by which lists of feeds are filtered: `ok 1763337600 The title`. Ten thousand of them are
# looked through for one page, so nothing is made of them that is not needed.

MOST_TITLE_CHARS = 120
_STATUSES = {str(status): status for status in FeedStatus}


def summary_of(state: FeedState) -> str:
    """Return the summary of a feed: its status, when it had its last new entry, its title."""
    return f"{state.status} {state.last_new_ts:.0f} {' '.join(state.title.split())[:MOST_TITLE_CHARS]}"


def health_in(summary: str, now: float) -> FeedHealth:
    """Return how the feed is; what cannot be read is as with a new feed."""
    status, _, rest = summary.partition(" ")
    if status != FeedStatus.OK:
        return health_of(_STATUSES.get(status, FeedStatus.NEW), 0.0, now)
    last_new = rest.partition(" ")[0]
    return health_of(FeedStatus.OK, int(last_new) if last_new.isdecimal() else 0, now)


def healths(summaries: Mapping[str, str], now: float) -> dict[str, FeedHealth]:
    """Return the health of many feeds, by whatever they are named.

    Most of them work. Times are compared as texts: they have ten digits until the year 2286.
    """
    last_silent = f"ok {now - SILENT_SECONDS:.0f}"
    return {
        name: FeedHealth.WORKING if text > last_silent and text.startswith("ok ") else health_in(text, now)
        for name, text in summaries.items()
    }


def title_in(summary: str) -> str:
    return summary.partition(" ")[2].partition(" ")[2]
