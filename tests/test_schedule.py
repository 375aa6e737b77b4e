"""Intervals, hints, skips, backoff and jitter, as tables."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import schedule
from core.models import PublisherHints

HOUR = 3600.0
DAY = 86400.0
BOUNDS = schedule.Bounds(300, 6 * HOUR)
MONDAY_NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("name", "interval", "ratio", "has_validators", "expected"),
    [
        ("quiet feed slows down", HOUR, 1.0, True, 1.5 * HOUR),
        ("busy feed speeds up", HOUR, 0.1, True, HOUR / 2),
        ("in between nothing moves", HOUR, 0.8, True, HOUR),
        ("never below the floor", 400, 0.0, True, 300),
        ("without validators the floor is an hour", HOUR, 0.0, False, HOUR),
        ("never above the ceiling", 5 * HOUR, 1.0, True, 6 * HOUR),
    ],
)
def test_interval_follows_the_duplicate_ratio(
    name: str, interval: float, ratio: float, has_validators: bool, expected: float
) -> None:
    """Much news halves the interval, none lengthens it by half, within bounds."""
    assert schedule.adapted_interval(interval, ratio, has_validators, BOUNDS) == expected


@pytest.mark.parametrize(
    ("hints", "lifetime", "expected"),
    [
        (PublisherHints(), None, (0, "")),
        (PublisherHints(ttl_seconds=HOUR), None, (HOUR, "ttl")),
        (PublisherHints(ttl_seconds=60, update_period_seconds=HOUR), 30, (HOUR, "sy:updatePeriod")),
        (PublisherHints(ttl_seconds=60), 600, (600, "Cache-Control")),
        (PublisherHints(ttl_seconds=90 * DAY), None, (DAY, "ttl")),
    ],
)
def test_longest_hint_wins_up_to_a_day(hints: PublisherHints, lifetime: float | None, expected: object) -> None:
    """A publisher may slow us down to once a day, not for ever."""
    assert schedule.hinted_seconds(hints, lifetime) == expected


@pytest.mark.parametrize(
    ("name", "hints", "hours_later"),
    [
        ("no skips", PublisherHints(), 0),
        ("this hour is skipped", PublisherHints(skip_hours=(12, 13)), 2),
        ("today is skipped", PublisherHints(skip_days=(0,)), 12),
        ("today, and the first hours of tomorrow", PublisherHints(skip_days=(0,), skip_hours=(0, 1)), 14),
        ("everything is skipped", PublisherHints(skip_hours=tuple(range(24))), 0),
    ],
)
def test_skips_are_stepped_over(name: str, hints: PublisherHints, hours_later: int) -> None:
    """The next poll is outside skipHours and skipDays; a feed that skips everything is polled all the same."""
    assert schedule.after_skips(MONDAY_NOON, hints) == MONDAY_NOON + hours_later * HOUR


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(0.25, HOUR / 4), (1, HOUR), (10, 10 * HOUR), (24, DAY), (29.75, DAY), (30, DAY), (35, 6 * DAY), (500, 30 * DAY)],
)
def test_backoff_is_linear_and_never_stops(weight: float, expected: float) -> None:
    """An hour per unit up to a day, then a day per unit up to 30 days; never disabled."""
    assert schedule.feed_backoff_seconds(weight) == expected


@given(st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_jitter_never_comes_early(seconds: float, chance: float) -> None:
    """Jitter spreads polls by up to a tenth and never breaks a publisher's wish."""
    assert seconds <= schedule.jittered(seconds, chance) <= seconds * 1.1 + 1e-6
