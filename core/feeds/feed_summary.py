"""What lists of feeds are filtered by, in one short text per feed: `ok 1763337600 The title`.

Ten thousand of them are looked through for one page, so nothing is made of them that is not needed.
"""

from __future__ import annotations

from core.feeds.feed_health import FeedHealth, health_of
from core.feeds.feed_state import FeedState, FeedStatus

MOST_TITLE_CHARS = 120
_STATUSES = {str(status): status for status in FeedStatus}


def summary_of(state: FeedState) -> str:
    """Return the summary of a feed: its status, when it had its last new entry, its title."""
    return f"{state.status} {state.last_new_ts:.0f} {' '.join(state.title.split())[:MOST_TITLE_CHARS]}"


def health_in(summary: str, now: float) -> FeedHealth:
    """Return how the feed is; what cannot be read is as with a new feed."""
    status, _, rest = summary.partition(" ")
    last_new = rest.partition(" ")[0]
    return health_of(_STATUSES.get(status, FeedStatus.NEW), int(last_new) if last_new.isdecimal() else 0, now)


def title_in(summary: str) -> str:
    """Return its title."""
    return summary.partition(" ")[2].partition(" ")[2]
