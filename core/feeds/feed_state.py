"""The state of a feed and its form in Redis; `poll_decision.decide` says what the result of a poll means for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from enum import StrEnum
from typing import Any

from core import schedule
from core.feeds import daily_counts
from core.feeds.daily_counts import DailyCounts
from core.models import PublisherHints
from core.registry import field_parsing
from core.urls.secrets import redact, without_credentials
from core.value_class import value_class


class FeedStatus(StrEnum):
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
        return round(100 * self.polls_304 / self.polls) if self.polls else 0

    @property
    def percent_duplicate(self) -> int:
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
        "new_per_day": daily_counts.to_text(state.new_per_day),
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
        new_per_day=daily_counts.from_text(stored.get("new_per_day", "")),
        **plain,
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return "" if value is None else str(value)


def _small_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word.isdecimal() and len(word) < 3)
