"""How much a sitemap's dates are worth."""

from __future__ import annotations

import pytest

from core.feeds.dates import parse_date
from core.sources.io.sitemap_walk import lastmod_versions
from core.sources.lastmod_trust import LastmodTrust

NOW = 1_763_000_000.0


@pytest.mark.parametrize(
    ("right", "wrong", "is_trusted"),
    [
        (0, 0, True),
        (0, 4, True),
        (0, 5, False),
        (4, 5, False),
        (5, 5, True),
        (20, 10, True),
        (10, 20, False),
    ],
)
def test_trust_is_lost_and_won_back(right: int, wrong: int, is_trusted: bool) -> None:
    """A few mistakes are forgiven; five dates that moved for nothing are enough, being right as often mends it."""
    assert LastmodTrust(right, wrong).is_trusted is is_trusted


@pytest.mark.parametrize(
    ("lastmod", "version"),
    [
        (None, ""),
        ("", ""),
        ("soon", ""),
        ("2025-01-06", "2025-01-06T00:00:00Z"),
        ("2025-01-06T00:00:00Z", "2025-01-06T00:00:00Z"),
        ("2025-01-06T01:00:00+01:00", "2025-01-06T00:00:00Z"),
        ("2025-01-06T00:00:00.123Z", "2025-01-06T00:00:00Z"),
        ("1970-01-01", "1970-01-01T00:00:00Z"),
    ],
)
def test_one_moment_is_one_version(lastmod: str | None, version: str) -> None:
    """However a date is spelt, its version is the same."""
    assert lastmod_versions([parse_date(lastmod or "")], NOW) == (version,)


@pytest.mark.parametrize(
    ("name", "lastmods", "expected"),
    [
        ("nothing", [], ()),
        ("undated", [None, None], ("", "")),
        ("now stamps", [NOW, NOW - 30, NOW + 59], ("", "", "")),
        ("now stamps and undated", [NOW, None], ("", "")),
        ("one page has just changed", [NOW, NOW - 86_400], ("2025-11-13T02:13:20Z", "2025-11-12T02:13:20Z")),
        ("the future", [NOW + 86_400, NOW - 86_400], ("", "2025-11-12T02:13:20Z")),
        ("today, east of us", [NOW + 13 * 3_600], ("2025-11-13T15:13:20Z",)),
        ("the year 9999", [253_402_300_799.0], ("",)),
    ],
)
def test_worthless_dates(name: str, lastmods: list[float | None], expected: tuple[str, ...]) -> None:
    """A date to come says nothing, and neither do dates that are all the moment of the answer."""
    assert lastmod_versions(lastmods, NOW) == expected, name
