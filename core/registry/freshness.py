"""Estimate how fresh the store is, from a sample of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from core.value_class import value_class

DAY_SECONDS = 86_400.0
QUANTILES = (0.5, 0.95, 0.99)


@value_class
class SampledRecord:
    """The times of one record that has a text, or should have one."""

    verified_ts: float
    """0: no text of it was ever proved, since all visits failed."""
    checked_ts: float
    changed_ts: float
    has_failed: bool
    """Its last visit failed."""


@value_class
class Freshness:
    """What a sample of records says of all of them."""

    sampled: int = 0
    """Records whose text was proved at some time."""
    age_seconds: Mapping[float, float] = field(default_factory=dict)
    """Time since texts were last proved to be current, by quantile; empty without a sample."""
    checked_last_day: int = 0
    """How many of the sample were visited within a day, pages that could never be read included."""
    change_rate_last_day: float = 0.0
    """The share of these whose text changed within the day."""
    error_rate_last_day: float = 0.0
    """The share of these whose last visit failed."""


def summarise(records: Sequence[SampledRecord], now: float) -> Freshness:
    """Return the quantiles of the age since the last proof, and the rates of the last day."""
    ages = sorted(max(now - record.verified_ts, 0.0) for record in records if record.verified_ts)
    recent = [record for record in records if now - record.checked_ts <= DAY_SECONDS]
    changed = sum(now - record.changed_ts <= DAY_SECONDS for record in recent)
    failed = sum(record.has_failed for record in recent)
    return Freshness(
        sampled=len(ages),
        age_seconds={quantile: nearest_rank(ages, quantile) for quantile in QUANTILES} if ages else {},
        checked_last_day=len(recent),
        change_rate_last_day=changed / len(recent) if recent else 0.0,
        error_rate_last_day=failed / len(recent) if recent else 0.0,
    )


def nearest_rank(ordered: Sequence[float], quantile: float) -> float:
    """Return the value below which this share of the ordered values lies."""
    return ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]
