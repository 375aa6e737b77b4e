"""The result of one poll of a feed, for counters, logs and people."""

from __future__ import annotations

from enum import StrEnum

from core.feeds.poll_result import FeedChanged, FeedUnchanged, PollResult
from core.models import Deferred
from core.registry import outcomes
from core.registry.outcomes import Broken, Missing
from core.value_class import value_class


class PollEnd(StrEnum):
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    RETIRED = "retired"
    """410: the publisher has given this feed up."""
    FAILED = "failed"
    WAITS = "waits"
    """It is not asked now: politeness, or a server that asked us to stay away."""
    HELD = "held"
    """Another process polls it at this moment."""
    SKIPPED = "skipped"
    """It is no longer due: another process has just polled it, or it has no subscription."""
    DISCARDED = "discarded"
    """The poll took longer than its lease; another poll repeats it."""


@value_class
class PollReport:
    url: str
    end: PollEnd
    new_links: int = 0
    known_links: int = 0
    rejected_links: int = 0
    reason: str = ""
    """Why it failed, or what it waits for."""
    wait_seconds: float = 0.0
    code: str = ""
    """`FAIL_TIMEOUT` and the like, of one that failed."""

    @property
    def is_failure(self) -> bool:
        """Whether a person has to look at it."""
        return self.end in (PollEnd.FAILED, PollEnd.RETIRED)

    @property
    def counts(self) -> dict[str, int]:
        if self.end is PollEnd.WAITS:
            return {"deferred": 1}
        counters = {
            PollEnd.CHANGED: "changed",
            PollEnd.UNCHANGED: "unchanged",
            PollEnd.RETIRED: "gone",
            PollEnd.FAILED: "errors",
        }
        links = {
            "links_found": self.new_links + self.known_links + self.rejected_links,
            "links_new": self.new_links,
            "links_known": self.known_links,
            "links_rejected": self.rejected_links,
        }
        return {"polled": 1, counters[self.end]: 1} | (links if self.end is PollEnd.CHANGED else {})


def report_of(url: str, result: PollResult) -> PollReport:
    match result:
        case FeedChanged(feed=feed, new_links=new):
            known, rejected = len(feed.links) - new, feed.rejected_count
            return PollReport(url, PollEnd.CHANGED, new, known, rejected, result.trouble)
        case FeedUnchanged():
            return PollReport(url, PollEnd.UNCHANGED)
        case Missing() if result.is_certain:
            return PollReport(url, PollEnd.RETIRED, reason=f"HTTP {result.http_status}")
        case Deferred():
            return PollReport(url, PollEnd.WAITS, reason=result.reason, wait_seconds=result.wait_seconds)
        case Missing() | Broken():
            failure = outcomes.to_failure(result)
            return PollReport(url, PollEnd.FAILED, reason=failure.text, code=str(failure.code))
