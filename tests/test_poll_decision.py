"""What a poll means, as tables: state and result in, state and links out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.errors import FailCode, FailDetail
from core.feeds import poll_decision
from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.poll_result import FeedChanged, FeedResponse, FeedUnchanged, PollResult
from core.models import Deferred, Failed, FeedKind, FeedLinks, FeedText, PublisherHints, RejectedUrl
from core.registry.outcomes import Broken, Missing

NOW = 1_800_000_000.0
HOUR = 3600.0
URL = "https://news.example/feed"
POLICY = poll_decision.PollingPolicy()
RESPONSE = FeedResponse(etag='"b"', validators_url=URL)
OLD = FeedState(URL, status=FeedStatus.OK, polls=5, etag='"a"', validators_url=URL, body_hash="h", renewed_ts=NOW - 60)


def decide(state: FeedState, result: PollResult, now: float = NOW) -> poll_decision.PollDecision:
    return poll_decision.decide(state, result, now, 0.0, POLICY)


def changed(links: int = 10, new: int = 1, response: FeedResponse = RESPONSE) -> FeedChanged:
    urls = tuple(f"https://news.example/{i}" for i in range(links))
    feed = FeedLinks(FeedKind.RSS, "News", urls, tuple(FeedText(title=url) for url in urls))
    return FeedChanged(response, feed, "h2", frozenset(urls[new:]))


def unchanged(status: int = 304, **more: Any) -> FeedUnchanged:
    return FeedUnchanged(FeedResponse(status, **more))


def refused(status: int, retry_after: float | None = None) -> Broken:
    return Broken(Failed(FailCode.HTTP, FailDetail.STATUS, f"HTTP {status}", status, retry_after))


def test_new_body_brings_links_and_new_validators() -> None:
    """Links, title, hash and validators are committed together."""
    decision = decide(OLD, changed())

    assert len(decision.links or ()) == 10
    assert decision.new_entries == (("https://news.example/0", FeedText(title="https://news.example/0")),)
    assert (decision.state.body_hash, decision.state.etag, decision.state.title) == ("h2", '"b"', "News")
    assert (decision.state.status, decision.state.last_new_ts) == (FeedStatus.OK, NOW)


def test_dropped_validators_are_forgotten() -> None:
    """A new body without an ETag does not keep the old one: it belonged to other bytes."""
    state = decide(OLD, changed(response=FeedResponse())).state

    assert poll_decision.conditional_headers(state, 0.5) == {}


@pytest.mark.parametrize(
    ("name", "links", "new", "factor"),
    [("all news", 10, 10, 0.5), ("nothing new", 10, 0, 1.5), ("some", 10, 2, 1.0), ("empty body", 0, 0, 1.5)],
)
def test_interval_adapts_to_the_share_of_known_links(name: str, links: int, new: int, factor: float) -> None:
    """The controller halves, keeps or lengthens by half."""
    assert decide(OLD, changed(links, new)).state.interval_seconds == HOUR * factor


def test_first_body_says_nothing_about_the_pace() -> None:
    """Every link of a first body is new; that is no reason to hurry."""
    assert decide(FeedState(URL), changed(10, 10)).state.interval_seconds == HOUR


def test_304_keeps_body_and_clears_errors() -> None:
    """Unchanged counts as success: error forgotten, validators kept, new ones taken."""
    troubled = replace(OLD, error_class="soft", error_text="x", error_weight=3.0, status=FeedStatus.ERROR)
    state = decide(troubled, unchanged(304, last_modified="Mon")).state

    assert (state.error_class, state.error_weight, state.status) == ("", 0.0, FeedStatus.OK)
    assert (state.etag, state.last_modified, state.body_hash) == ('"a"', "Mon", "h")
    assert (state.polls_304, state.percent_304) == (1, 17)


@pytest.mark.parametrize(("age", "renews"), [(6 * HOUR, True), (6 * HOUR - 1, False)])
def test_unchanged_renews_stamps_at_most_every_six_hours(age: float, renews: bool) -> None:
    """A 304 renews what the feed still lists, but not on every poll."""
    decision = decide(replace(OLD, renewed_ts=NOW - age), unchanged(304))

    assert (decision.renew, decision.links) == (renews, None)


@pytest.mark.parametrize(
    ("name", "hints", "lifetime", "wait", "reason"),
    [
        ("none", PublisherHints(), None, 1.5 * HOUR, "interval 5400 s"),
        ("ttl", PublisherHints(ttl_seconds=3 * HOUR), None, 3 * HOUR, "ttl"),
        ("sy", PublisherHints(update_period_seconds=12 * HOUR), None, 12 * HOUR, "sy:updatePeriod"),
        ("max-age", PublisherHints(), 2 * HOUR, 2 * HOUR, "Cache-Control"),
        ("short hints do not hurry us", PublisherHints(ttl_seconds=60), 60, 1.5 * HOUR, "interval 5400 s"),
    ],
)
def test_publisher_hints_bound_the_interval(
    name: str, hints: PublisherHints, lifetime: float | None, wait: float, reason: str
) -> None:
    """The next poll is as late as the publisher asks, and says why; a 304 remembers the hints of the last body."""
    state = decide(replace(OLD, hints=hints), unchanged(304, lifetime_seconds=lifetime)).state

    assert (state.next_poll_ts - NOW, state.next_poll_reason) == (wait, reason)


def test_410_retires() -> None:
    """A gone feed is never due again, and says what to do."""
    state = decide(OLD, Missing(410)).state

    assert (state.status, state.next_poll_ts) == (FeedStatus.GONE, float("inf"))
    assert "Remove it" in state.error_text


def test_a_broken_feed_knows_since_when() -> None:
    """The first failure counts, not the last; a success forgets it; an older version's hash has its last poll."""
    first = decide(OLD, refused(500)).state
    second = decide(first, refused(400), NOW + HOUR).state
    gone = decide(second, Missing(410), NOW + 2 * HOUR).state
    fine = decide(second, unchanged(), NOW + 2 * HOUR).state
    older = replace(second, error_since_ts=0.0)

    assert [state.broken_since_ts for state in (OLD, first, second, gone, fine)] == [0.0, NOW, NOW, NOW, 0.0]
    assert older.broken_since_ts == decide(older, refused(500), NOW + 3 * HOUR).state.broken_since_ts == NOW + HOUR


@pytest.mark.parametrize(
    ("status", "error_class", "weight"), [(400, "hard", 1.0), (500, "soft", 0.5), (503, "temporary", 0.25)]
)
def test_errors_weigh_by_class(status: int, error_class: str, weight: float) -> None:
    """Hard 1, soft ½, temporary ¼; the wait is that many hours."""
    state = decide(OLD, refused(status)).state

    assert (state.error_class, state.error_weight, state.next_poll_ts - NOW) == (error_class, weight, weight * HOUR)
    assert (state.body_hash, state.etag) == ("h", '"a"')


def test_retry_after_is_never_undercut() -> None:
    """429 with Retry-After waits at least that long, and says so."""
    state = decide(OLD, refused(429, 7200)).state

    assert (state.next_poll_ts - NOW, state.next_poll_reason) == (7200, "Retry-After")


def test_thousand_errors_never_disable() -> None:
    """After a thousand hard errors a feed is still polled, every 30 days."""
    state = OLD
    for _ in range(1000):
        state = decide(state, Missing(404)).state

    assert state.next_poll_ts - NOW == 30 * 86400
    assert len(state.events) == 30


def test_permanent_move_is_believed_the_third_time() -> None:
    """301 twice changes nothing; the third time we ask the new address directly."""
    state, asked = OLD, []
    for _ in range(3):
        asked.append(state.address)
        state = decide(state, unchanged(304, moved_to="https://new.example/feed")).state

    assert asked == [URL] * 3
    assert state.address == "https://new.example/feed"


def test_flapping_move_is_not_believed() -> None:
    """Two targets in turn never add up to a confirmation."""
    state = OLD
    for target in ("https://a.example/", "https://b.example/", "https://a.example/", "", "https://a.example/"):
        state = decide(state, unchanged(200, moved_to=target)).state

    assert state.address == URL


def test_dead_new_address_returns_to_the_old_one() -> None:
    """When the confirmed target answers 404, the address the person gave is asked again."""
    state = decide(replace(OLD, fetch_url="https://new.example/feed"), Missing(404)).state

    assert state.address == URL


def test_waiting_in_line_is_no_error() -> None:
    """A deferred poll moves only the time."""
    state = decide(OLD, Deferred(42, "waiting for its host")).state

    assert state == replace(OLD, next_poll_ts=NOW + 42, next_poll_reason="waiting for its host")


@pytest.mark.parametrize(
    ("name", "state", "chance", "expected"),
    [
        ("validators byte for byte", replace(OLD, etag='W/"x--gzip"'), 0.5, {"If-None-Match": 'W/"x--gzip"'}),
        ("both", replace(OLD, last_modified="Tue"), 0.5, {"If-None-Match": '"a"', "If-Modified-Since": "Tue"}),
        ("one poll in a hundred asks without", OLD, 0.009, {}),
        ("no body yet, nothing to keep", replace(OLD, body_hash=""), 0.5, {}),
    ],
)
def test_conditional_headers(name: str, state: FeedState, chance: float, expected: dict[str, str]) -> None:
    """Validators go back exactly as they came, except on ≈ 1 % of polls."""
    assert poll_decision.conditional_headers(state, chance) == expected


def test_jitter_spreads_polls_also_after_skipped_hours() -> None:
    """Two feeds with other luck are polled at other times, later and never earlier, skipped hours included."""
    hours = tuple(range(24))
    skipping = replace(OLD, hints=PublisherHints(skip_hours=tuple(h for h in hours if h != 3)))
    for state in (OLD, skipping):
        early, late = (poll_decision.decide(state, unchanged(), NOW, chance, POLICY).state for chance in (0.0, 0.9))

        assert early.next_poll_ts < late.next_poll_ts


def test_confirmed_move_leaves_an_event() -> None:
    """Why is it polled elsewhere? The events say."""
    state = OLD
    for _ in range(3):
        state = decide(state, unchanged(moved_to="https://new.example/feed")).state

    assert any("moved for good to https://new.example/feed" in event for event in state.events)


def test_rejections_are_told_with_an_example() -> None:
    """Why do I see no articles? Because all entries were turned away, and here is one."""
    feed = FeedLinks(FeedKind.RSS, links=(), rejected=(RejectedUrl("x:y", "scheme"),), rejected_count=7)
    state = decide(OLD, FeedChanged(FeedResponse(), feed, "h2")).state

    assert (state.entries, state.rejected, state.rejected_example, state.empty_polls) == (7, 7, "scheme: x:y", 1)
    assert state.events[-1].endswith("200 0 new, 0 known, 7 rejected")
