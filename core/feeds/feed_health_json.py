"""The health of a feed as plain values, for `freshet feeds health --json` and the API."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.feeds.feed_health import health_of, why_silent, why_then
from core.feeds.feed_state import FeedState
from core.urls.pace import HostPace, PaceOption
from core.urls.secrets import redact
from core.value_class import value_class


@value_class
class FeedPace:
    """What was set for a feed, and the pace of its host."""

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
