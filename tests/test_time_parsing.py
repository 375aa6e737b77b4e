"""Points in time as people type them."""

from __future__ import annotations

import pytest

from core.registry.time_parsing import InvalidMoment, parse_moment

NOW = 1_800_000_000.0
DAY = 1_769_817_600.0
"""2026-01-31T00:00:00Z"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", NOW - 45),
        ("30m", NOW - 1_800),
        ("2h", NOW - 7_200),
        (" 2 H ", NOW - 7_200),
        ("1.5h", NOW - 5_400),
        ("3d", NOW - 259_200),
        ("1w", NOW - 604_800),
        ("0d", NOW),
        ("2026-01-31", DAY),
        ("20260131", DAY),
        ("2026-01-31T12:00", DAY + 43_200),
        ("2026-01-31T12:00:00Z", DAY + 43_200),
        ("2026-01-31 12:00:00+02:00", DAY + 36_000),
    ],
)
def test_moments(text: str, expected: float) -> None:
    """A length of time counts back from now; a date without a zone is UTC."""
    assert parse_moment(text, NOW) == expected


def test_end_of_a_day() -> None:
    """Until a date is until its end; until a time is until that time, also where it is a length of time."""
    assert parse_moment("2026-01-31", NOW, is_end=True) == pytest.approx(DAY + 86_400, abs=1e-3)
    assert parse_moment("2026-01-31T12:00", NOW, is_end=True) == DAY + 43_200
    assert parse_moment("2h", NOW, is_end=True) == NOW - 7_200


@pytest.mark.parametrize("text", ["", "yesterday", "2x", "h", "-2h", "2026-02-30", "9" * 12 + "d", "2026-01-31T25:00"])
def test_no_moments(text: str) -> None:
    """Whatever else is a sentence that says what to write."""
    with pytest.raises(InvalidMoment, match=r"is not a date; write 2026-01-31 .* 30m, 2h, 3d\."):
        parse_moment(text, NOW)
