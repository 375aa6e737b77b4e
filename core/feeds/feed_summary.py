"""One short text per feed, by which lists of feeds are filtered: `ok 1763337600 The title`.

Ten thousand of them are looked through for one page, so nothing is made of them that is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.feeds.feed_health import SILENT_SECONDS, FeedHealth, health_of
from core.feeds.feed_state import FeedState, FeedStatus

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
