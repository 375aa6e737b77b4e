"""How a feed is in a word and a sentence, and what it brought per day: tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.feeds import daily_counts
from core.feeds.feed_health import FeedHealth, health_in, health_of, summary_of, title_in, why_silent, why_then
from core.feeds.feed_state import FeedState, FeedStatus

NOW = 1_800_000_000.0
DAY = 86_400.0
WELL = FeedState("https://a.example/feed", status=FeedStatus.OK, entries=10, last_new_ts=NOW - DAY, title="A  title\n")


@pytest.mark.parametrize(
    ("changes", "health", "sentence"),
    [
        ({}, "working", ""),
        ({"status": FeedStatus.NEW}, "new", "It was not polled yet."),
        (
            {"status": FeedStatus.WAITING, "next_poll_reason": "Retry-After (429)"},
            "new",
            "It was not polled yet. It waits: Retry-After (429).",
        ),
        ({"status": FeedStatus.ERROR, "error_text": "No route."}, "broken", "Its last poll failed: No route."),
        ({"status": FeedStatus.GONE, "error_text": "410 Gone."}, "gone", "410 Gone."),
        ({"last_new_ts": 0.0, "entries": 0}, "silent", "It answers, and has no entries."),
        (
            {"last_new_ts": 0.0, "rejected": 10, "rejected_example": "no_link: "},
            "silent",
            "All 10 entries are refused, such as no_link: .",
        ),
        ({"last_new_ts": 0.0}, "silent", "All its entries were known already: another feed lists the same links."),
        (
            {"last_new_ts": NOW - 8 * DAY, "last_status": 304},
            "silent",
            "Nothing new for 8d: the server says that it has not changed (304).",
        ),
        ({"last_new_ts": NOW - 8 * DAY}, "silent", "Nothing new for 8d: it lists the same entries."),
    ],
)
def test_health_and_why(changes: dict[str, object], health: str, sentence: str) -> None:
    """One word, and one sentence on why nothing comes; the summary of a feed tells the same."""
    state = replace(WELL, **changes)

    assert health_of(state.status, state.last_new_ts, NOW) == health
    assert why_silent(state, NOW) == sentence
    assert health_in(summary_of(state), NOW) == health
    assert title_in(summary_of(state)) == "A title"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("interval 900 s", "every 15m, by how often it has news"),
        ("interval 7200 s, as set", "every 2h, as set"),
        ("Retry-After (503)", "the server asked for it (Retry-After (503))"),
        ("backoff, weight 1.5", "it failed; each failure lengthens the wait"),
        ("retired by 410", "its publisher has retired it"),
        ("ttl", "the feed asks for it (ttl)"),
        ("gap", "its host has its turn then"),
        ("our own network looked down", "our own network looked down"),
        ("", "it is new"),
    ],
)
def test_why_the_next_poll_is_then(reason: str, words: str) -> None:
    """Every reason that a poll leaves has words for people; one that is not known stands for itself."""
    assert why_then(replace(WELL, next_poll_reason=reason)) == words


@pytest.mark.parametrize("text", ["", "ok", "ok x", "nonsense 12 title", " ", "\udc80"])
def test_a_damaged_summary_is_read_as_something(text: str) -> None:
    """Whatever is there, a health comes out."""
    assert health_in(text, NOW) in set(FeedHealth)


def test_days_are_counted_and_dropped() -> None:
    """Two polls of a day add up, a day without news takes no place, and only fourteen days are kept."""
    counts: daily_counts.DailyCounts = ()
    for day in range(40):
        counts = daily_counts.counted(counts, NOW + day * DAY, 0 if day == 35 else day)
    now = NOW + 39 * DAY
    counts = daily_counts.counted(counts, now, 2)
    series = daily_counts.series(counts, now)

    assert len(counts) == 13
    assert [count for _, count in series] == [*range(26, 35), 0, 36, 37, 38, 41]
    assert series[-1][0] == counts[-1][0]
    assert daily_counts.from_text(daily_counts.to_text(counts)) == counts


@pytest.mark.parametrize("text", ["", "x", "2026-11-18", "2026-13-01=4", "2026-11-18=-4", "2026-11-18=9999999999", "="])
def test_damaged_days_are_left_out(text: str) -> None:
    """What cannot be read counts as nothing."""
    assert daily_counts.from_text(text) == ()
