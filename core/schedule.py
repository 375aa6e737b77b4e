"""When to check again: intervals, backoff, publishers' hints, jitter.

Times and random numbers come in as arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime

from core.models import PublisherHints
from core.value_class import value_class

HOUR_SECONDS = 3_600.0
DAY_SECONDS = 86_400.0

FIRST_INTERVAL_SECONDS = HOUR_SECONDS
NO_VALIDATOR_FLOOR_SECONDS = HOUR_SECONDS
"""A feed without validators costs a full body each time, so it is polled less often."""
LONGEST_HINT_SECONDS = DAY_SECONDS
"""A publisher may slow polling down to once a day, not further."""

SIGHTING_RENEW_SECONDS = 6 * HOUR_SECONDS
"""Sightings renew the TTLs of links and articles at most this often, which is well within the TTL of a link."""

QUIET_DUPLICATE_RATIO = 0.95
BUSY_DUPLICATE_RATIO = 0.70
JITTER = 0.10

LONG_TROUBLE_WEIGHT = 30.0
"""After about 30 hard failures the wait grows from a day to 30 days; a feed is never disabled."""
LONGEST_BACKOFF_SECONDS = 30 * DAY_SECONDS

MAX_CRASHES = 3
"""An item that killed this many workers is parked: not due until a reindex asks for it. A feed counts as broken."""

WEBHOOK_RETRY_SECONDS = (5.0, 300.0, 1_800.0, *(hours * HOUR_SECONDS for hours in (2, 5, 10, 14, 20, 24)))
"""The waits that https://www.standardwebhooks.com recommends: ten attempts over 75 hours and 35 minutes."""


@value_class
class Bounds:
    """The range in which a feed's interval may move."""

    shortest_seconds: float = 300.0
    longest_seconds: float = 6 * HOUR_SECONDS


def adapted_interval(interval: float, duplicate_ratio: float, has_validators: bool, bounds: Bounds) -> float:
    """Halve the interval of a feed with much news, lengthen that of a quiet one by half."""
    if duplicate_ratio >= QUIET_DUPLICATE_RATIO:
        interval *= 1.5
    elif duplicate_ratio < BUSY_DUPLICATE_RATIO:
        interval /= 2
    shortest = bounds.shortest_seconds if has_validators else max(bounds.shortest_seconds, NO_VALIDATOR_FLOOR_SECONDS)
    return min(max(interval, shortest), max(bounds.longest_seconds, shortest))


def hinted_seconds(hints: PublisherHints, lifetime_seconds: float | None) -> tuple[float, str]:
    """Return the longest wait that the publisher asks for, and by which element or header; 0 if for none."""
    hinted = [
        (hints.ttl_seconds or 0.0, "ttl"),
        (hints.update_period_seconds or 0.0, "sy:updatePeriod"),
        (lifetime_seconds or 0.0, "Cache-Control"),
    ]
    seconds, word = max(hinted)
    return min(seconds, LONGEST_HINT_SECONDS), word if seconds > 0 else ""


def after_skips(at: float, hints: PublisherHints) -> float:
    """Return the first time from `at` on that is in no skipHours and skipDays; `at` itself if everything is skipped."""
    for hours_ahead in range(8 * 24):
        candidate = at if hours_ahead == 0 else (at // HOUR_SECONDS + hours_ahead) * HOUR_SECONDS
        moment = datetime.fromtimestamp(candidate, UTC)
        if moment.hour not in hints.skip_hours and moment.weekday() not in hints.skip_days:
            return candidate
    return at


# ── after a failure ─────────────────────────────────────────────────────────────────────────────

LINK_RETRY_SECONDS = (600.0, 3_600.0, 21_600.0)
"""Waits before each retry of a new link; after the last it counts as attempted."""


def link_retry_seconds(earlier_tries: int) -> float | None:
    """Return the wait before the next retry of a new link; None: there is none."""
    return LINK_RETRY_SECONDS[earlier_tries] if earlier_tries < len(LINK_RETRY_SECONDS) else None


def item_backoff_seconds(failures: int, base_seconds: float) -> float:
    """Return the wait after so many failures in a row: doubled each time, up to a day."""
    return min(base_seconds * float(2 ** min(failures - 1, 20)), DAY_SECONDS)


def retry_at(now: float, wait_seconds: float, retry_after_seconds: float | None) -> float:
    """Return when to retry: after our own wait, and never earlier than Retry-After."""
    return now + max(wait_seconds, retry_after_seconds or 0.0)


def feed_backoff_seconds(error_weight: float) -> float:
    """Return the wait after failures: an hour per unit of weight up to a day, then a day per unit up to 30 days."""
    if error_weight < LONG_TROUBLE_WEIGHT:
        return min(max(error_weight, 0.25) * HOUR_SECONDS, DAY_SECONDS)
    return min((error_weight - LONG_TROUBLE_WEIGHT + 1) * DAY_SECONDS, LONGEST_BACKOFF_SECONDS)


# ── without a change ────────────────────────────────────────────────────────────────────────────

LADDER = (1, 3, 7, 14)
"""Multiples of the base interval, for items that do not change."""
UNCHANGED_PER_STEP = 2
"""Unchanged checks before the next, longer interval: one may be chance."""


def ladder_seconds(unchanged_streak: int, base_seconds: float, max_seconds: float) -> float:
    """Return the interval after so many checks in a row without a change."""
    step = min(unchanged_streak // UNCHANGED_PER_STEP, len(LADDER) - 1)
    return min(base_seconds * LADDER[step], max_seconds)


def jittered_both(seconds: float, chance: float) -> float:
    """Spread a wait by up to 10 % earlier or later, where no publisher asked for it. `chance` is in [0, 1)."""
    return seconds * (1 - JITTER + 2 * JITTER * chance)


def jittered(seconds: float, chance: float) -> float:
    """Spread a wait by up to 10 % later, never earlier than a publisher asked for. `chance` is in [0, 1)."""
    return seconds * (1 + JITTER * chance)
