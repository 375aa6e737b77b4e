"""The state of a feed, its form in Redis, and the possible results of a poll.

`polling.decide` says what a result means for the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from core import schedule
from core.models import Deferred, FeedLinks, PublisherHints
from core.registry import field_parsing
from core.registry.outcomes import Broken, Missing
from core.urls.secrets import redact, without_credentials
from core.value_class import value_class

DAYS_KEPT = 14
DailyCounts = tuple[tuple[str, int], ...]
"""A day (`2026-11-18`) and its number, oldest first."""


def counted(counts: DailyCounts, now: float, number: int) -> DailyCounts:
    """Return the counts with so many more for today; days that are too old are dropped."""
    today, first = _day(now), _day(now, DAYS_KEPT - 1)
    known = {day: count for day, count in counts if day >= first}
    if number > 0:
        known[today] = known.get(today, 0) + number
    return tuple(sorted(known.items()))[-DAYS_KEPT:]


def series(counts: Sequence[tuple[str, int]], now: float, days: int = DAYS_KEPT) -> tuple[tuple[str, int], ...]:
    """Return every one of the last days with its number, today last."""
    known = dict(counts)
    return tuple((day, known.get(day, 0)) for day in (_day(now, back) for back in range(days - 1, -1, -1)))


def to_text(counts: DailyCounts) -> str:
    """Return the counts as they are stored: `2026-11-17=3 2026-11-18=12`."""
    return " ".join(f"{day}={count}" for day, count in counts)


def from_text(text: str) -> DailyCounts:
    """Return what was stored; what cannot be read is left out."""
    pairs = (word.partition("=") for word in text.split()[-DAYS_KEPT:])
    return tuple((day, int(count)) for day, _, count in pairs if _is_day(day) and count.isdecimal() and len(count) < 10)


def _day(now: float, back: int = 0) -> str:
    return (datetime.fromtimestamp(now, UTC) - timedelta(days=back)).date().isoformat()


def _is_day(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


class FeedStatus(StrEnum):
    """The status that people see."""

    NEW = "new"
    OK = "ok"
    ERROR = "error"
    WAITING = "waiting"
    GONE = "gone"


BROKEN = (FeedStatus.ERROR, FeedStatus.GONE)
"""Nothing comes from such a feed until it answers again."""


@value_class
class FeedState:
    """Everything that is known of one feed; stored field by field in its hash."""

    url: str
    status: FeedStatus = FeedStatus.NEW
    title: str = ""
    kind: str = ""
    parser: str = ""
    fetch_url: str = ""
    """Its address after a confirmed permanent redirect; empty: `url`."""
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
    error_since_ts: float = 0.0
    """When the first of the failed polls in a row was; 0: the last poll did not fail."""
    polls: int = 0
    polls_304: int = 0
    polls_unchanged: int = 0
    links_found: int = 0
    links_duplicate: int = 0
    entries: int = 0
    entries_left_out: int = 0
    """How many entries of its last body were beyond the limit."""
    rejected: int = 0
    rejected_example: str = ""
    empty_polls: int = 0
    last_new_ts: float = 0.0
    new_per_day: DailyCounts = ()
    renewed_ts: float = 0.0
    hints: PublisherHints = field(default_factory=PublisherHints)
    events: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The URL to fetch."""
        return self.fetch_url or self.url

    @property
    def broken_since_ts(self) -> float:
        """When it broke; 0: it did not. Hashes of older versions only have the time of the last poll."""
        return (self.error_since_ts or self.last_poll_ts) if self.status in BROKEN else 0.0

    @property
    def has_validators(self) -> bool:
        """Whether this feed can answer 304."""
        return bool(self.etag or self.last_modified)

    @property
    def percent_304(self) -> int:
        """Share of polls answered by 304."""
        return round(100 * self.polls_304 / self.polls) if self.polls else 0

    @property
    def percent_duplicate(self) -> int:
        """Share of links that were already known."""
        return round(100 * self.links_duplicate / self.links_found) if self.links_found else 0


# ── the hash, field by field ──

_SEPARATE = {"url", "status", "next_poll_ts", "hints", "events", "new_per_day"}
_PLAIN = {f.name: str(f.type) for f in fields(FeedState) if f.name not in _SEPARATE}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": field_parsing.integer,
    "float": field_parsing.number,
    "str": field_parsing.text,
}


def to_hash(state: FeedState, categories: Sequence[str]) -> dict[str, str]:
    """Return every field as readable text; none is left out, so that no stale value survives in the stored hash."""
    hints = state.hints
    return {name: _text(getattr(state, name)) for name in _PLAIN} | {
        "url": without_credentials(state.url),
        "next_poll_ts": _text(state.next_poll_ts),
        "error_text": redact(state.error_text),
        "rejected_example": redact(state.rejected_example),
        "categories": ",".join(categories),
        "status": str(state.status),
        "percent_304": str(state.percent_304),
        "percent_duplicate": str(state.percent_duplicate),
        "hint_ttl_seconds": _text(hints.ttl_seconds),
        "hint_update_period_seconds": _text(hints.update_period_seconds),
        "hint_skip_hours": ",".join(map(str, hints.skip_hours)),
        "hint_skip_days": ",".join(map(str, hints.skip_days)),
        "events": redact("\n".join(state.events)),
        "new_per_day": to_text(state.new_per_day),
    }


def from_hash(url: str, stored: Mapping[str, str]) -> FeedState:
    """Return the state in a hash; what is missing or unreadable takes its default."""
    plain: dict[str, Any] = {name: _PARSERS[kind](stored[name]) for name, kind in _PLAIN.items() if stored.get(name)}
    status = stored.get("status", "")
    return FeedState(
        url=url,
        status=FeedStatus(status) if status in set(FeedStatus) else FeedStatus.NEW,
        next_poll_ts=field_parsing.timestamp_or_never(stored.get("next_poll_ts")),
        hints=PublisherHints(
            ttl_seconds=field_parsing.number(stored.get("hint_ttl_seconds")) or None,
            update_period_seconds=field_parsing.number(stored.get("hint_update_period_seconds")) or None,
            skip_hours=_small_numbers(stored.get("hint_skip_hours", "")),
            skip_days=_small_numbers(stored.get("hint_skip_days", "")),
        ),
        events=tuple(stored.get("events", "").splitlines()),
        new_per_day=from_text(stored.get("new_per_day", "")),
        **plain,
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return "" if value is None else str(value)


def _small_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word.isdecimal() and len(word) < 3)


# ── the result of a poll ──


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
        """How many links are new to us."""
        return len(self.feed.links) - len(self.known)


@value_class
class FeedUnchanged:
    """A 304, or the same bytes again."""

    response: FeedResponse


PollResult = FeedChanged | FeedUnchanged | Missing | Broken | Deferred
