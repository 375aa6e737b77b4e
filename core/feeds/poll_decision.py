"""Decide what the result of a poll means for a feed.

Takes the feed's state, the result, the time and a chance in [0, 1); returns the new state and what to write.
Reads no clock, opens no connection, logs nothing. The lengths of waits are in `core/schedule.py`.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import UTC, datetime

from core import schedule
from core.feeds import daily_counts
from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.poll_result import FeedChanged, FeedResponse, FeedUnchanged, PollResult
from core.models import Deferred, Failed, FeedText
from core.registry import http_headers, http_status_meanings, outcomes
from core.registry.http_status_meanings import ErrorClass
from core.registry.outcomes import Broken, Missing
from core.value_class import value_class

EVENTS_KEPT = 30
MOVE_CONFIRMATIONS = 3
UNCONDITIONAL_CHANCE = 0.01
"""Some servers answer 304 for ever; about one poll in a hundred asks without validators."""
NEVER = float("inf")
RETRY_AFTER = "Retry-After"
"""Prefix of the reason of every wait that a server asked for."""
_ERROR_WEIGHTS = {ErrorClass.HARD: 1.0, ErrorClass.SOFT: 0.5, ErrorClass.TEMPORARY: 0.25}


@value_class
class PollDecision:
    state: FeedState
    links: tuple[str, ...] | None = None
    """The links of a new body; None: keep those of the last one."""
    new_entries: tuple[tuple[str, FeedText], ...] = ()
    """New links with what the feed says about them."""
    keeps_old_links: bool = False
    """The body was read only in part: links of the last body are not gone."""
    renew: bool = False
    """Renew the last-seen times of the feed's links now."""


@value_class
class PollingPolicy:
    """Limits of polling, from the settings."""

    bounds: schedule.Bounds = field(default_factory=schedule.Bounds)
    renew_seconds: float = schedule.SIGHTING_RENEW_SECONDS
    set_interval_seconds: float | None = None
    """An interval that a person set for this feed: it replaces the adapted one and the publisher's hints."""


def decide(state: FeedState, result: PollResult, now: float, chance: float, policy: PollingPolicy) -> PollDecision:
    """Return the new state of the feed and what to write about its links."""
    match result:
        case FeedChanged():
            return _changed(state, result, now, chance, policy)
        case FeedUnchanged():
            return _unchanged(state, result.response, now, chance, policy)
        case Missing() if result.is_certain:
            return _gone(state, result.http_status, now)
        case Missing() | Broken():
            return _broken(state, outcomes.to_failure(result), now, chance)
        case Deferred():
            # Waiting is not an error: nothing is counted, only the time of the next poll moves.
            status = FeedStatus.WAITING if state.status is FeedStatus.NEW else state.status
            at, reason = now + result.wait_seconds, result.reason
            return PollDecision(replace(state, status=status, next_poll_ts=at, next_poll_reason=reason))


def renewal(state: FeedState, now: float) -> PollDecision:
    """Renew the links of a feed whose next poll is later than their TTL allows."""
    return PollDecision(replace(state, renewed_ts=now), renew=True)


def conditional_headers(state: FeedState, chance: float) -> dict[str, str]:
    """Return the validators byte for byte, and about once in a hundred polls none."""
    if not state.validators_url or not state.body_hash or chance < UNCONDITIONAL_CHANCE:
        return {}
    return http_headers.validators(state.etag, state.last_modified)


def _changed(state: FeedState, result: FeedChanged, now: float, chance: float, policy: PollingPolicy) -> PollDecision:
    feed, response = result.feed, result.response
    link_count = len(feed.links)
    duplicates = link_count - result.new_links
    state = replace(
        _succeeded(state, response, now),
        title=feed.title or state.title,
        kind=str(feed.kind),
        parser=feed.parser,
        body_hash=result.body_hash,
        etag=response.etag,
        last_modified=response.last_modified,
        validators_url=response.validators_url,
        entries=link_count + feed.rejected_count,
        entries_left_out=feed.left_out,
        rejected=feed.rejected_count,
        rejected_example=f"{feed.rejected[0].reason}: {feed.rejected[0].url}" if feed.rejected else "",
        links_found=state.links_found + link_count,
        links_duplicate=state.links_duplicate + duplicates,
        empty_polls=0 if link_count else state.empty_polls + 1,
        last_new_ts=now if result.new_links else state.last_new_ts,
        new_per_day=daily_counts.counted(state.new_per_day, now, result.new_links),
        renewed_ts=now,
        hints=feed.hints,
    )
    # A first body is all news; that says nothing about the feed's pace.
    ratio = duplicates / link_count if link_count and state.polls > 1 else 0.8 if link_count else 1.0
    state = _scheduled(state, ratio, response.lifetime_seconds, now, chance, policy)
    event = f"{response.http_status} {result.new_links} new, {duplicates} known, {feed.rejected_count} rejected"
    new_entries = tuple(
        (url, text) for url, text in zip(feed.links, feed.texts, strict=True) if url not in result.known
    )
    left_out = f"{feed.left_out} more entries left out" if feed.left_out else ""
    event = "; ".join(filter(None, (event, left_out, result.remark, result.trouble)))
    return PollDecision(
        _with_event(state, now, event), links=feed.links, new_entries=new_entries, keeps_old_links=bool(result.trouble)
    )


def _unchanged(
    state: FeedState, response: FeedResponse, now: float, chance: float, policy: PollingPolicy
) -> PollDecision:
    is_304 = response.http_status == 304
    renew = now - state.renewed_ts >= policy.renew_seconds
    state = replace(
        _succeeded(state, response, now),
        # A 304 may bring new validators; without any, the old ones stay good.
        etag=response.etag or state.etag,
        last_modified=response.last_modified or state.last_modified,
        validators_url=response.validators_url or state.validators_url,
        polls_304=state.polls_304 + is_304,
        polls_unchanged=state.polls_unchanged + 1,
        renewed_ts=now if renew else state.renewed_ts,
    )
    state = _scheduled(state, 1.0, response.lifetime_seconds, now, chance, policy)
    return PollDecision(_with_event(state, now, "304" if is_304 else f"{response.http_status} same body"), renew=renew)


def _gone(state: FeedState, status: int, now: float) -> PollDecision:
    state = replace(
        _polled(state, FeedStatus.GONE, status, now),
        error_class=str(ErrorClass.HARD),
        error_text=f"{status} Gone: the publisher retired this feed. Remove it, or add it again to try once more.",
        error_since_ts=state.broken_since_ts or now,
        next_poll_ts=NEVER,
        next_poll_reason=f"retired by {status}",
    )
    return PollDecision(_with_event(state, now, f"{status} retired"))


def _broken(state: FeedState, failed: Failed, now: float, chance: float) -> PollDecision:
    error_class = http_status_meanings.failure(failed).error_class
    weight = state.error_weight + _ERROR_WEIGHTS[error_class]
    backoff, retry_after = schedule.feed_backoff_seconds(weight), failed.retry_after_seconds or 0.0
    next_poll_ts, _ = _after_skips(state, now, max(backoff, retry_after), chance)
    state = replace(
        _polled(state, FeedStatus.ERROR, failed.http_status, now),
        error_class=str(error_class),
        error_text=failed.text,
        error_weight=weight,
        error_since_ts=state.broken_since_ts or now,
        next_poll_ts=next_poll_ts,
        next_poll_reason=RETRY_AFTER if retry_after > backoff else f"backoff, weight {weight:g}",
        # The new address fails hard: the old one may know better (a redirect target is no promise).
        fetch_url="" if error_class is ErrorClass.HARD else state.fetch_url,
        moved_to="",
        moved_count=0,
    )
    return PollDecision(_with_event(state, now, f"{error_class} error: {failed.text}"))


def _succeeded(state: FeedState, response: FeedResponse, now: float) -> FeedState:
    """Forget earlier errors; count a permanent redirect, and follow it for good the third time."""
    moved_count = state.moved_count + 1 if response.moved_to and response.moved_to == state.moved_to else 1
    confirmed = bool(response.moved_to) and moved_count >= MOVE_CONFIRMATIONS
    if confirmed:
        state = _with_event(state, now, f"moved for good to {response.moved_to}")
    return replace(
        _polled(state, FeedStatus.OK, response.http_status, now),
        error_class="",
        error_text="",
        error_weight=0.0,
        error_since_ts=0.0,
        fetch_url=response.moved_to if confirmed else state.fetch_url,
        moved_to="" if confirmed else response.moved_to,
        moved_count=0 if confirmed or not response.moved_to else moved_count,
    )


def _polled(state: FeedState, status: FeedStatus, http_status: int, now: float) -> FeedState:
    return replace(state, status=status, polls=state.polls + 1, last_poll_ts=now, last_status=http_status)


def _scheduled(
    state: FeedState, duplicate_ratio: float, lifetime: float | None, now: float, chance: float, policy: PollingPolicy
) -> FeedState:
    interval = schedule.adapted_interval(state.interval_seconds, duplicate_ratio, state.has_validators, policy.bounds)
    if policy.set_interval_seconds is not None:
        at = now + schedule.jittered(policy.set_interval_seconds, chance)
        reason = interval_reason(policy.set_interval_seconds, is_set=True)
        return replace(state, interval_seconds=interval, next_poll_ts=at, next_poll_reason=reason)
    hinted, hint = schedule.hinted_seconds(state.hints, lifetime)
    next_poll_ts, is_skipped = _after_skips(state, now, max(interval, hinted), chance)
    reason = hint if hinted > interval else interval_reason(interval)
    reason = "skipHours/skipDays" if is_skipped else reason
    return replace(state, interval_seconds=interval, next_poll_ts=next_poll_ts, next_poll_reason=reason)


def interval_reason(seconds: float, *, is_set: bool = False) -> str:
    return f"interval {seconds:.0f} s{', as set' if is_set else ''}"


def _after_skips(state: FeedState, now: float, wait: float, chance: float) -> tuple[float, bool]:
    """Return the jittered time of the next poll and whether skipHours or skipDays moved it.

    The jitter also spreads the feeds that wait for the same hour to pass.
    """
    at = now + schedule.jittered(wait, chance)
    open_at = schedule.after_skips(at, state.hints)
    if open_at == at:
        return at, False
    return schedule.after_skips(open_at + schedule.jittered(wait, chance) - wait, state.hints), True


def _with_event(state: FeedState, now: float, event: str) -> FeedState:
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(state, events=(*state.events, f"{stamp} {event}"[:200])[-EVENTS_KEPT:])
