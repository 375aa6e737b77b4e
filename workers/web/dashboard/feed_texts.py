"""Texts about feeds on pages: the badge of a health, the sentence after a poll."""

from __future__ import annotations

from core.feeds import daily_counts
from workers.web.dashboard.formats import duration
from workers.web.errors import ApiError
from workers.web.routes.feeds import FeedAnswer, PollAnswer

BADGES = {"working": "good", "silent": "warn", "broken": "bad", "gone": "bad", "new": "busy"}
ENDS = {
    "unchanged": "Polled: the feed has not changed.",
    "held": "Another process polls it at this moment.",
    "skipped": "Another process has just polled it.",
    "discarded": "The poll took too long and is repeated by the ingestor.",
}


def poll_sentence(report: PollAnswer) -> str:
    """Return how a poll ended; raise ApiError, which the page shows as a failure, if it failed."""
    match report.end:
        case "changed":
            numbers = (
                f"{report.new_links:,} new entries, {report.known_links:,} known, {report.rejected_links:,} refused"
            )
            return f"Polled: {numbers}. {report.reason}".strip()
        case "failed" | "retired":
            raise ApiError(409, "poll_failed", f"The poll failed: {report.reason}", "")
        case "waits":
            return f"It was not asked now and waits {duration(report.wait_seconds)}: {report.reason}."
    return ENDS[report.end]


def days_of(feed: FeedAnswer, now: float) -> tuple[tuple[str, int], ...]:
    """Return the new entries of the last days, today last."""
    return daily_counts.series(tuple(feed.new_per_day.items()), now)
