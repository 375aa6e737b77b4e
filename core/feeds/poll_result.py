"""The possible results of a poll; `poll_decision.decide` says what each means for the state of the feed."""

from __future__ import annotations

from core.models import Deferred, FeedLinks
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
