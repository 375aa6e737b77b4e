"""How much a sitemap's dates are worth."""

from __future__ import annotations

import pytest

from core.sources.lastmod import LastmodTrust, lastmod_version, versions

NOW = 1_763_000_000.0


def taught(grade: LastmodTrust, right: int = 0, wrong: int = 0) -> LastmodTrust:
    for _ in range(right):
        grade = grade.learn(text_changed=True)
    for _ in range(wrong):
        grade = grade.learn(text_changed=False)
    return grade


def test_new_sites_are_trusted() -> None:
    """Nobody is judged before anything was seen, nor by a few mistakes."""
    assert LastmodTrust().is_trusted
    assert taught(LastmodTrust(), wrong=4).is_trusted


def test_trust_is_lost_and_won_back() -> None:
    """Five dates that moved for nothing are enough; being right as often mends it."""
    lost = taught(LastmodTrust(), wrong=5)
    assert not lost.is_trusted
    assert not taught(lost, right=4).is_trusted
    assert taught(lost, right=5).is_trusted


def test_a_site_that_is_mostly_right_stays_trusted() -> None:
    """Mistakes among many right dates change nothing."""
    assert taught(LastmodTrust(), right=20, wrong=10).is_trusted


def test_the_past_fades() -> None:
    """A thousand right dates of old do not cover today's wrong ones, and the reverse."""
    assert not taught(taught(LastmodTrust(), right=1_000), wrong=40).is_trusted
    assert taught(taught(LastmodTrust(), wrong=1_000), right=40).is_trusted
    grade = taught(LastmodTrust(), right=1_000, wrong=1_000)
    assert grade.right + grade.wrong <= 40


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
        (1736121600.0, "2025-01-06T00:00:00Z"),
        (0.0, "1970-01-01T00:00:00Z"),
    ],
)
def test_one_moment_is_one_version(lastmod: float | str | None, version: str) -> None:
    """However a date is spelt, its version is the same."""
    assert lastmod_version(lastmod) == version


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
    assert versions(lastmods, NOW) == expected, name
