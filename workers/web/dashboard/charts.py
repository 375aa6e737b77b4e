"""Charts of the last day: points for uPlot, and lines for a small picture that needs no JavaScript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from core.registry import metric_history
from core.registry.metric_history import Points, RecentHistory
from core.value_class import value_class
from workers.web.dashboard.formats import DAY, HOUR, MINUTE, duration

FINE_STEP, COARSE_STEP = 60.0, 300.0
FINE_SECONDS = 2 * HOUR
"""A history that is younger is drawn minute by minute."""
WIDTH, HEIGHT = 320, 96
MOST_SVG_POINTS = 72
UNKNOWN = "Nothing is known yet: the timer records a point every minute."


@value_class
class Series:
    """One line."""

    label: str
    values: Points


@dataclass(frozen=True)
class Chart:
    """Lines over the same times."""

    id: str
    title: str
    unit: str
    times: Sequence[float]
    series: Sequence[Series]
    summary: str
    """For those who cannot see it."""

    @cached_property
    def json(self) -> str:
        lines = [{"label": one.label, "values": [_rounded(value) for value in one.values]} for one in self.series]
        step = self.times[1] - self.times[0] if len(self.times) > 1 else 0
        drawn = {"first": int(self.times[0]), "step": int(step), "series": lines, "unit": self.unit}
        return json.dumps({**drawn, "summary": self.summary}, separators=(",", ":"))

    @cached_property
    def paths(self) -> list[str]:
        """The lines as paths of an SVG of WIDTH x HEIGHT, with fewer points; a gap where nothing is known."""
        top = max((value for one in self.series for value in one.values if value is not None), default=0.0) or 1.0
        skip = max(len(self.times) // MOST_SVG_POINTS, 1)
        return [_path(one.values[::-skip][::-1], top) for one in self.series]

    @property
    def has_points(self) -> bool:
        """Whether there is anything to draw a line between."""
        return any(sum(value is not None for value in one.values) > 1 for one in self.series)


@lru_cache(maxsize=4)
def day_charts(recent: RecentHistory) -> tuple[Chart, ...]:
    """Return the charts of the overview: freshness, articles, visits. They change once a minute, and are kept."""
    entries = recent.entries
    first, last = (entries[0].ts, entries[-1].ts) if entries else (0.0, 0.0)
    step = FINE_STEP if last - first < FINE_SECONDS else COARSE_STEP
    at = metric_history.times(first, last, step)
    ages = [metric_history.gauge(entries, at, step, name) for name in ("p50", "p95")]
    unit, seconds = _unit(ages)
    half, most = ([None if age is None else age / seconds for age in one] for one in ages)
    articles = metric_history.rate(entries, at, step, ["stored"], HOUR)
    visits = metric_history.rate(entries, at, step, metric_history.VISITS, MINUTE)
    failed = metric_history.rate(entries, at, step, ["failed"], MINUTE)
    return (
        Chart(
            "freshness",
            "Age since the last proof",
            unit,
            at,
            (Series("half of all texts", tuple(half)), Series("95 %", tuple(most))),
            _age_summary(*ages),
        ),
        Chart("articles", "Articles stored per hour", "", at, (Series("articles", articles),), _summary(articles)),
        Chart(
            "visits",
            "Visits per minute",
            "",
            at,
            (Series("visits", visits), Series("failed", failed)),
            _summary(visits),
        ),
    )


def _unit(lines: Sequence[Points]) -> tuple[str, float]:
    """Return the unit in which the largest age reads best, and its seconds."""
    longest = max((age for line in lines for age in line if age is not None), default=0.0)
    if longest < 2 * HOUR:
        return "min", MINUTE
    return ("h", HOUR) if longest < 3 * DAY else ("d", DAY)


def _age_summary(half: Points, most: Points) -> str:
    if not any(age is not None for age in half):
        return UNKNOWN
    now = [next((age for age in reversed(line) if age is not None), None) for line in (half, most)]
    longest = max((age for age in most if age is not None), default=None)
    return (
        f"Half of all texts were proved to be current within {duration(now[0])}, 95 % within {duration(now[1])}; "
        f"the most for 95 % was {duration(longest)}."
    )


def _summary(values: Points) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return UNKNOWN
    now, most, mean = map(_short, (known[-1], max(known), sum(known) / len(known)))
    return f"Now {now}, at most {most}, on average {mean}."


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _rounded(value: float | None) -> float | None:
    """Return three digits, which is more than a line shows."""
    return None if value is None else float(f"{value:.3g}")


def _path(values: Points, top: float) -> str:
    words, is_down = [], False
    for place, value in enumerate(values):
        if value is None:
            is_down = False
            continue
        x = WIDTH * place / max(len(values) - 1, 1)
        words.append(f"{'L' if is_down else 'M'}{x:.0f} {HEIGHT - 2 - (HEIGHT - 4) * value / top:.0f}")
        is_down = True
    return "".join(words)
