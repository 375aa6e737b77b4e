"""`freshet why`, the station of a URL that is a feed: its health, its next poll and why then."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from core.feeds.feed_state import FeedState, FeedStatus
from core.registry.time_formatting import ago, ahead
from core.registry.why_verdict import Station, StationName, StationState, iso_or_empty


def feed_station(state: FeedState | None, categories: Sequence[str], is_leased: bool, now: float) -> Station:
    """Return the station that says how the feed is; None: the URL is no feed that is subscribed."""
    if state is None:
        return Station(StationName.FEED, StationState.NOT_APPLICABLE, "It is not a subscribed feed.")
    values: dict[str, object] = {
        "status": str(state.status),
        "categories": list(categories),
        "title": state.title,
        "last_poll_at": iso_or_empty(state.last_poll_ts),
        "last_http_status": state.last_status or None,
        "next_poll_at": iso_or_empty(state.next_poll_ts),
        "next_poll_reason": state.next_poll_reason,
        "last_new_at": iso_or_empty(state.last_new_ts),
        "entries": state.entries,
        "entries_left_out": state.entries_left_out,
        "rejected": state.rejected,
        "rejected_example": state.rejected_example,
        "error_class": state.error_class,
        "error": state.error_text,
        "moved_to": state.fetch_url,
        "is_being_polled": is_leased,
    }
    name = f"It is a feed of {', '.join(categories)}"
    reason = f" ({state.next_poll_reason})" if state.next_poll_reason else ""
    then = f"the next poll is {ahead(state.next_poll_ts, now)}{reason}"
    advice = f"python -m scripts.feeds health {quote(state.url)} shows its last polls and its failed entries."
    if not categories:
        sentence = "It was a feed, and no category has it any more; the ingestor removes it in its next cycle."
        return Station(StationName.FEED, StationState.STOPPED, sentence, values)
    match state.status:
        case FeedStatus.GONE:
            sentence = f"{name}, and its publisher has retired it: {state.error_text}"
            return Station(StationName.FEED, StationState.STOPPED, sentence, values)
        case FeedStatus.ERROR:
            sentence = f"{name}, and its last poll, {ago(state.last_poll_ts, now)}, failed: "
            sentence += f"{state.error_text.rstrip('.')}; {then}."
            return Station(StationName.FEED, StationState.WAITING, sentence, values, advice)
        case FeedStatus.NEW | FeedStatus.WAITING:
            return Station(StationName.FEED, StationState.WAITING, f"{name}, not polled yet; {then}.", values, advice)
    news = f"its last new entry came {ago(state.last_new_ts, now)}" if state.last_new_ts else "nothing new came yet"
    sentence = f"{name} and well: polled {ago(state.last_poll_ts, now)}, {news}; {then}."
    return Station(StationName.FEED, StationState.PASSED, sentence, values, advice)
