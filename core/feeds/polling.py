"""Decide what polling a feed means.

Takes a feed's state, the result of a poll, the time and a chance in [0, 1); returns the new state and what to write.
Reads no clock, opens no connection, logs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from core import schedule
from core.feeds.feed_state import WEIGHTS, FeedChanged, FeedResponse, FeedState, FeedStatus, FeedUnchanged, PollResult
from core.models import Deferred, Failed, FeedText
from core.registry import classify, outcomes
from core.registry.classify import ErrorClass
from core.registry.outcomes import Broken, Missing

EVENTS_KEPT = 30
MOVE_CONFIRMATIONS = 3
UNCONDITIONAL_CHANCE = 0.01
"""Some servers answer 304 for ever; about one poll in a hundred asks without validators (trap T56)."""
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class PollDecision:
    """The new state, and whether the links of the body are new or merely seen again."""

    state: FeedState
    links: tuple[str, ...] | None = None
    """The links of a new body; None: keep those of the last one."""
    fresh: tuple[tuple[str, FeedText], ...] = ()
    """New links with what the feed says about them."""
    keeps_old_links: bool = False
    """The body was read in part: what it listed before is not gone."""
    renew: bool = False
    """Renew the stamps of the known links now."""


@dataclass(frozen=True, slots=True)
class PollingPolicy:
    """What the settings say about polling."""

    bounds: schedule.Bounds = field(default_factory=schedule.Bounds)
    renew_seconds: float = 6 * schedule.HOUR_SECONDS
    """Sightings renew stamps at most this often (design §6.2); well within a link's life."""


def decide(state: FeedState, result: PollResult, now: float, chance: float, policy: PollingPolicy) -> PollDecision:
    """What to write after a poll."""
    match result:
        case FeedChanged():
            return _changed(state, result, now, chance, policy)
        case FeedUnchanged():
            return _unchanged(state, result.answer, now, chance, policy)
        case Missing() if result.is_certain:
            return _gone(state, result.http_status, now)
        case Missing() | Broken():
            return _broken(state, outcomes.to_failure(result), now, chance)
        case Deferred():
            return _deferred(state, result, now)


def renewal(state: FeedState, now: float) -> PollDecision:
    """Not due for a poll, but its links are due for a new stamp."""
    return PollDecision(replace(state, renewed_ts=now), renew=True)


def conditional_headers(state: FeedState, chance: float) -> dict[str, str]:
    """Validators byte for byte, and about once in a hundred polls none."""
    if not state.validators_url or not state.body_hash or chance < UNCONDITIONAL_CHANCE:
        return {}
    named = {"If-None-Match": state.etag, "If-Modified-Since": state.last_modified}
    return {name: value for name, value in named.items() if value}


def _changed(state: FeedState, result: FeedChanged, now: float, chance: float, policy: PollingPolicy) -> PollDecision:
    harvest, answer = result.harvest, result.answer
    found = len(harvest.links)
    duplicates = found - result.new_links
    state = replace(
        _succeeded(state, answer, now),
        title=harvest.title or state.title,
        kind=str(harvest.kind),
        parser=harvest.parser,
        body_hash=result.body_hash,
        etag=answer.etag,
        last_modified=answer.last_modified,
        validators_url=answer.validators_url,
        entries=found + harvest.rejected_count,
        entries_left_out=harvest.left_out,
        rejected=harvest.rejected_count,
        rejected_example=f"{harvest.rejected[0].reason}: {harvest.rejected[0].link}" if harvest.rejected else "",
        links_found=state.links_found + found,
        links_duplicate=state.links_duplicate + duplicates,
        empty_polls=0 if found else state.empty_polls + 1,
        last_new_ts=now if result.new_links else state.last_new_ts,
        renewed_ts=now,
        hints=harvest.hints,
    )
    # A first body is all news; that says nothing about the feed's pace.
    ratio = duplicates / found if found and state.polls > 1 else 0.8 if found else 1.0
    state = _scheduled(state, ratio, answer.lifetime_seconds, now, chance, policy)
    event = f"{answer.http_status} {result.new_links} new, {duplicates} known, {harvest.rejected_count} rejected"
    fresh = tuple(
        (url, text) for url, text in zip(harvest.links, harvest.texts, strict=True) if url not in result.known
    )
    if harvest.left_out:
        event += f"; {harvest.left_out} more entries left out"
    if result.remark:
        event += f"; {result.remark}"
    if result.trouble:
        event += f"; {result.trouble}"
    return PollDecision(
        _noted(state, now, event), links=harvest.links, fresh=fresh, keeps_old_links=bool(result.trouble)
    )


def _unchanged(
    state: FeedState, answer: FeedResponse, now: float, chance: float, policy: PollingPolicy
) -> PollDecision:
    is_304 = answer.http_status == 304
    renew = now - state.renewed_ts >= policy.renew_seconds
    state = replace(
        _succeeded(state, answer, now),
        # A 304 may bring new validators; without any, the old ones stay good.
        etag=answer.etag or state.etag,
        last_modified=answer.last_modified or state.last_modified,
        validators_url=answer.validators_url or state.validators_url,
        polls_304=state.polls_304 + is_304,
        polls_unchanged=state.polls_unchanged + 1,
        renewed_ts=now if renew else state.renewed_ts,
    )
    state = _scheduled(state, 1.0, answer.lifetime_seconds, now, chance, policy)
    return PollDecision(_noted(state, now, "304" if is_304 else f"{answer.http_status} same body"), renew=renew)


def _gone(state: FeedState, status: int, now: float) -> PollDecision:
    state = replace(
        state,
        status=FeedStatus.GONE,
        polls=state.polls + 1,
        last_poll_ts=now,
        last_status=status,
        error_class=str(ErrorClass.HARD),
        error_text=f"{status} Gone: the publisher retired this feed. Remove it, or add it again to try once more.",
        next_poll_ts=NEVER,
        next_poll_reason=f"retired by {status}",
    )
    return PollDecision(_noted(state, now, f"{status} retired"))


def _broken(state: FeedState, failed: Failed, now: float, chance: float) -> PollDecision:
    error_class = classify.failure(failed).error_class
    weight = state.error_weight + WEIGHTS[error_class]
    backoff, asked = schedule.feed_backoff_seconds(weight), failed.retry_after_seconds or 0.0
    next_poll_ts, _ = _after_skips(state, now, max(backoff, asked), chance)
    state = replace(
        state,
        status=FeedStatus.ERROR,
        polls=state.polls + 1,
        last_poll_ts=now,
        last_status=failed.http_status,
        error_class=str(error_class),
        error_text=failed.text,
        error_weight=weight,
        next_poll_ts=next_poll_ts,
        next_poll_reason="Retry-After" if asked > backoff else f"backoff, weight {weight:g}",
        # The new address fails hard: the old one may know better (a redirect target is no promise).
        fetch_url="" if error_class is ErrorClass.HARD else state.fetch_url,
        moved_to="",
        moved_count=0,
    )
    return PollDecision(_noted(state, now, f"{error_class} error: {failed.text}"))


def _deferred(state: FeedState, result: Deferred, now: float) -> PollDecision:
    """Waiting in line is no error: nothing is counted, only the time moves."""
    state = replace(
        state,
        status=FeedStatus.WAITING if state.status is FeedStatus.NEW else state.status,
        next_poll_ts=now + result.wait_seconds,
        next_poll_reason=result.reason,
    )
    return PollDecision(state)


def _succeeded(state: FeedState, answer: FeedResponse, now: float) -> FeedState:
    """A good answer: errors are forgotten, a permanent move is counted and believed the third time."""
    moved_count = state.moved_count + 1 if answer.moved_to and answer.moved_to == state.moved_to else 1
    confirmed = bool(answer.moved_to) and moved_count >= MOVE_CONFIRMATIONS
    if confirmed:
        state = _noted(state, now, f"moved for good to {answer.moved_to}")
    return replace(
        state,
        status=FeedStatus.OK,
        polls=state.polls + 1,
        last_poll_ts=now,
        last_status=answer.http_status,
        error_class="",
        error_text="",
        error_weight=0.0,
        fetch_url=answer.moved_to if confirmed else state.fetch_url,
        moved_to="" if confirmed else answer.moved_to,
        moved_count=0 if confirmed or not answer.moved_to else moved_count,
    )


def _scheduled(
    state: FeedState, duplicate_ratio: float, lifetime: float | None, now: float, chance: float, policy: PollingPolicy
) -> FeedState:
    interval = schedule.adapted_interval(state.interval_seconds, duplicate_ratio, state.has_validators, policy.bounds)
    hinted, word = schedule.hinted_seconds(state.hints, lifetime)
    reason = word if hinted > interval else f"interval {interval:.0f} s"
    wait = max(interval, hinted)
    next_poll_ts, is_skipped = _after_skips(state, now, wait, chance)
    reason = "skipHours/skipDays" if is_skipped else reason
    return replace(state, interval_seconds=interval, next_poll_ts=next_poll_ts, next_poll_reason=reason)


def _after_skips(state: FeedState, now: float, wait: float, chance: float) -> tuple[float, bool]:
    """The next poll with its jitter, which also spreads the feeds that wait for the same hour to pass."""
    at = now + schedule.jittered(wait, chance)
    open_at = schedule.after_skips(at, state.hints)
    if open_at == at:
        return at, False
    return schedule.after_skips(open_at + schedule.jittered(wait, chance) - wait, state.hints), True


def _noted(state: FeedState, now: float, event: str) -> FeedState:
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(state, events=(*state.events, f"{stamp} {event}"[:200])[-EVENTS_KEPT:])
