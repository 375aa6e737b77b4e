"""The capacity model is arithmetic over measured costs, and docs/scale.md shows its tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from bench import capacity
from bench.capacity import Need, Traffic, Unit
from bench.day import Day
from bench.growth_steps import OutOfTime, Place
from bench.harness import ROOT

UNITS = {name: Unit(cpu=0.001, server=0.0001, bytes=1_000.0, start=2.0) for name in capacity.UNITS}


def test_page_shows_what_was_measured() -> None:
    """Every table of docs/scale.md is what `python -m bench.capacity` writes."""
    page, stored = (ROOT / "docs" / "scale.md").read_text(), capacity.read()

    assert capacity.unit_table(stored) in page
    assert capacity.need_table(stored) in page
    assert capacity.day_line(stored) in page


def test_day_predicts_what_was_measured() -> None:
    """Within a quarter."""
    day = capacity.read()["day"]

    assert abs(day["predicted"] / day["measured"] - 1) <= 0.25


def test_traffic_of_a_day() -> None:
    """Every poll is either a 304 or a change that brings its links."""
    day = Traffic.of(feeds=100, links=5)

    assert (day.polls + day.changed_feeds, day.changed_feeds, day.articles) == (2_400, 40, 200)
    assert day.refreshes == 140


def test_prediction_counts_work_and_starts() -> None:
    """Each kind of work costs its unit, and each start of its processes once."""
    done = dict.fromkeys(capacity.UNITS, 1_000)

    assert round(capacity.predicted_seconds(UNITS, done, 4), 6) == 5 * (1.1 + 8.0)


def test_need_grows_with_feeds_and_items() -> None:
    """Ten times as much of both needs ten times as much of everything."""
    small, large = (capacity.need(UNITS, 5.0, 5, 1_000 * by, 10_000 * by) for by in (1, 10))

    assert round(large.cores / small.cores, 6) == round(large.redis_gb / small.redis_gb, 6) == 10


def test_what_breaks_first() -> None:
    """What is fullest, if anything is full; shards follow memory or CPU."""
    assert Need(1, 0.1, 1, 1).breaks_first[0] == "nothing"
    assert Need(100, 0.1, 1, 1).breaks_first[0] == "worker CPU"
    assert Need(1, 0.1, 1, 1_000).breaks_first == ("memory of the search replica", "QDRANT_URL")
    assert (Need(1, 2.0, 40, 1).shards, Need(1, 0.1, 100, 1).shards) == (4, 4)


class ShortDay(Day):
    """A day whose time is over after two parts."""

    def _part(self, traffic: Traffic, part: int) -> tuple[dict[str, int], float]:
        if part == 2:
            raise OutOfTime
        return dict.fromkeys(capacity.UNITS, 10), 1.5


def place(**more: Any) -> Place:
    return Place("redis://127.0.0.1:1/0", Path(), fakeredis.FakeRedis(), {}, 1, **more)


def test_day_is_compared_as_far_as_it_went() -> None:
    """What was done in whole parts counts, and how many there were."""
    done, seconds, parts = ShortDay(place()).live(Traffic.of(10, 5))

    assert (done, seconds, parts) == (dict.fromkeys(capacity.UNITS, 20), 3.0, 2)


@pytest.mark.parametrize("seconds", [-1.0, 0.3])
def test_no_process_outlives_the_time_that_is_left(seconds: float) -> None:
    """One that would is not started, or is killed."""
    with pytest.raises(OutOfTime):
        place(ends_at=time.monotonic() + seconds).start("http.server", "0")
