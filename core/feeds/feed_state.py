"""What is remembered about a feed, and what a poll of it can give.

Nouns only; `polling.decide` says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from core import schedule
from core.models import Deferred, FeedLinks, PublisherHints
from core.registry.classify import ErrorClass
from core.registry.outcomes import Broken, Missing


class FeedStatus(StrEnum):
    """What a person sees first."""

    NEW = "new"
    OK = "ok"
    ERROR = "error"
    WAITING = "waiting"
    GONE = "gone"


WEIGHTS = {ErrorClass.HARD: 1.0, ErrorClass.SOFT: 0.5, ErrorClass.TEMPORARY: 0.25}


@dataclass(frozen=True, slots=True)
class FeedState:
    """Everything remembered about one feed; stored field by field in its hash."""

    url: str
    status: FeedStatus = FeedStatus.NEW
    title: str = ""
    kind: str = ""
    parser: str = ""
    fetch_url: str = ""
    """Where it lives now, after a permanent redirect was confirmed; empty: at `url`."""
    moved_to: str = ""
    moved_count: int = 0
    last_poll_ts: float = 0.0
    next_poll_ts: float = 0.0
    next_poll_reason: str = ""
    interval_seconds: float = schedule.FIRST_INTERVAL_SECONDS
    last_status: int = 0
    etag: str = ""
    last_modified: str = ""
    validators_url: str = ""
    body_hash: str = ""
    error_class: str = ""
    error_text: str = ""
    error_weight: float = 0.0
    polls: int = 0
    polls_304: int = 0
    polls_unchanged: int = 0
    links_found: int = 0
    links_duplicate: int = 0
    entries: int = 0
    entries_left_out: int = 0
    """How many more its last body had than are read of a feed."""
    rejected: int = 0
    rejected_example: str = ""
    empty_polls: int = 0
    last_new_ts: float = 0.0
    renewed_ts: float = 0.0
    hints: PublisherHints = field(default_factory=PublisherHints)
    events: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The URL to ask."""
        return self.fetch_url or self.url

    @property
    def has_validators(self) -> bool:
        """Can this feed answer 304?"""
        return bool(self.etag or self.last_modified)

    @property
    def percent_304(self) -> int:
        """Share of polls answered by 304."""
        return round(100 * self.polls_304 / self.polls) if self.polls else 0

    @property
    def percent_duplicate(self) -> int:
        """Share of links that were known already."""
        return round(100 * self.links_duplicate / self.links_found) if self.links_found else 0


# ── what a poll can give ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FeedResponse:
    """What a good answer says beside its body."""

    http_status: int = 200
    etag: str = ""
    last_modified: str = ""
    validators_url: str = ""
    """The URL these validators belong to; they go back to it alone."""
    lifetime_seconds: float | None = None
    moved_to: str = ""
    """Where a permanent redirect led; empty without one."""


@dataclass(frozen=True, slots=True)
class FeedChanged:
    """A body we had not seen, read."""

    answer: FeedResponse
    harvest: FeedLinks
    body_hash: str
    known: frozenset[str] = frozenset()
    """Links that stood in the store before; a source does not know, the ingestor adds it."""
    trouble: str = ""
    """Why this is only a part of what the feed lists; empty when it is all."""
    remark: str = ""
    """What a person should know besides."""

    @property
    def new_links(self) -> int:
        """How many links are news to us."""
        return len(self.harvest.links) - len(self.known)


@dataclass(frozen=True, slots=True)
class FeedUnchanged:
    """A 304, or the same bytes again."""

    answer: FeedResponse


PollResult = FeedChanged | FeedUnchanged | Missing | Broken | Deferred
"""What is missing or broken is told as for every other visit."""
