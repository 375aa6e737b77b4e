"""The possible results of a poll, and what each comes to for counters, logs and people.

`poll_decision.decide` says what each means for the state of the feed.
"""

from __future__ import annotations

from enum import StrEnum

from core.models import Deferred, FeedLinks
from core.registry import outcomes
from core.registry.outcomes import Broken, Missing
from core.value_class import value_class


@value_class
class FeedResponse:
    """What a successful response says beside its body."""

    http_status: int = 200
    etag: str = ""
    last_modified: str = ""
    validators_url: str = ""
    """The URL these validators belong to; they are sent to no other."""
    lifetime_seconds: float | None = None
    moved_to: str = ""
    """The target of a permanent redirect; empty without one."""


@value_class
class FeedChanged:
    """A new body, parsed."""

    response: FeedResponse
    feed: FeedLinks
    body_hash: str
    known: frozenset[str] = frozenset()
    """Links that were in the store before; the poller adds them."""
    trouble: str = ""
    """Why this is only a part of what the feed lists; empty when it is all."""
    remark: str = ""
    """What a person should know besides."""

    @property
    def new_links(self) -> int:
        return len(self.feed.links) - len(self.known)


@value_class
class FeedUnchanged:
    """A 304, or the same bytes again."""

    response: FeedResponse


PollResult = FeedChanged | FeedUnchanged | Missing | Broken | Deferred


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
