"""Ten thousand due feeds: leases only for what is in flight, and what came too late is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from core import ids
from core.errors import FailCode, FailDetail
from core.feeds.io import poller as poll
from core.feeds.state import Answer, FeedState, FeedUnchanged, PollResult
from core.models import Failed
from core.registry.outcomes import Broken
from core.runtime.context import Desk, open_desk
from core.settings import Settings
from core.store.connect import Client
from workers import ingestor

FEEDS = 400


@pytest.fixture
async def desk(settings: Settings, redis: Client) -> AsyncIterator[Desk]:
    """A desk with gates, so that nobody limits what is under way but the ingestor itself."""
    update = {"fetch_host_gap_seconds": 5.0, "fetch_concurrency": 1}
    async with open_desk(settings.model_copy(update=update)) as opened:
        yield opened


class Source:
    """Feeds that answer as a function says; remembers how many leases were held at most."""

    def __init__(self, desk: Desk, answer: Callable[[FeedState], Awaitable[PollResult]]) -> None:
        self._desk = desk
        self._answer = answer
        self.polled: list[str] = []
        self.most_held = 0

    async def poll(self, state: FeedState, *_: object) -> PollResult:
        self.polled.append(state.url)
        for _ in range(20):
            await asyncio.sleep(0)
        self.most_held = max(self.most_held, self._desk.leases.held)
        return await self._answer(state)


def at(desk: Desk, answer: Callable[[FeedState], Awaitable[PollResult]]) -> tuple[Desk, Source]:
    source = Source(desk, answer)
    return replace(desk, source=source), source  # type: ignore[arg-type]


async def subscribe(desk: Desk, count: int) -> list[str]:
    urls = [f"https://site{n}.example/feed" for n in range(count)]
    await desk.client.sadd(desk.keys.feeds("world"), *urls)
    return urls


async def unchanged(_: FeedState) -> PollResult:
    return FeedUnchanged(Answer(http_status=304))


async def test_no_more_leases_than_polls_in_flight(desk: Desk) -> None:
    """Four hundred hosts are due at once: a feed is leased when its poll begins, not when the cycle does."""
    await subscribe(desk, FEEDS)
    busy, source = at(desk, unchanged)
    cycle = await ingestor.run_cycle(busy)

    assert cycle.counts["unchanged"] == FEEDS
    assert source.most_held <= desk.settings.polls_at_once < FEEDS


async def test_hosts_that_do_not_answer_hold_no_leases_either(desk: Desk) -> None:
    """Every second host is dead: they are judged now and then, not all at the end under four hundred leases."""

    async def every_second(state: FeedState) -> PollResult:
        if int(state.url.removeprefix("https://site").partition(".")[0]) % 2:
            return Broken(Failed(FailCode.HTTP, FailDetail.REFUSED, "refused"))
        return await unchanged(state)

    await subscribe(desk, FEEDS)
    busy, source = at(desk, every_second)
    cycle = await ingestor.run_cycle(busy)

    assert (cycle.counts["unchanged"], cycle.counts["errors"]) == (FEEDS // 2, FEEDS // 2)
    assert source.most_held <= desk.settings.polls_at_once + poll.MOST_UNREACHED
    assert desk.leases.held == 0


async def test_feeds_of_one_host_wait_for_their_turn_without_a_lease(
    settings: Settings, redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap between requests makes the lane wait, not a leased feed."""
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)

    async with open_desk(settings.model_copy(update={"fetch_host_gap_seconds": 7.0})) as desk:
        await desk.client.sadd(desk.keys.feeds("world"), *(f"https://a.example/{n}" for n in range(3)))
        busy, source = at(desk, unchanged)
        monkeypatch.setattr("core.runtime.lanes.asyncio.sleep", sleep)
        await ingestor.run_cycle(busy)

    assert len(source.polled) == 3
    assert sum(pauses) > 7.0


async def lose(desk: Desk, state: FeedState) -> PollResult:
    """As on a machine so busy that the lease ended before the commit."""
    await desk.client.delete(desk.keys.lease(f"feed_{ids.feed_id(state.url)}"))
    return await unchanged(state)


async def test_what_came_too_late_counts_as_left(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A poll that was thrown away is in the counters and in the sentence of the cycle; nothing is counted as polled."""
    await subscribe(desk, 3)
    busy, _ = at(desk, lambda state: lose(desk, state))
    with caplog.at_level(logging.INFO, logger="ingest"):
        cycle = await ingestor.run_cycle(busy)

    assert (cycle.counts["left"], cycle.counts["polled"]) == (3, 0)
    assert await desk.client.hget(desk.keys.ingest_last_run, "left") == "3"
    assert await desk.client.hget(desk.keys.ingest_stats, "left") == "3"
    assert any("3 left" in record.getMessage() for record in caplog.records)


async def test_once_polls_again_what_came_too_late(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bad moment costs a second poll, and all is well."""
    monkeypatch.setattr(ingestor, "HELD_PAUSE_SECONDS", 0.0)
    await subscribe(desk, 3)
    lost: set[str] = set()

    async def late_once(state: FeedState) -> PollResult:
        if state.url not in lost:
            lost.add(state.url)
            return await lose(desk, state)
        return await unchanged(state)

    busy, source = at(desk, late_once)
    await ingestor.run_once(busy)

    assert len(source.polled) == 6


async def test_once_fails_when_polls_are_thrown_away_again_and_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--once` does not say 0 to cron when its polls came to nothing, and does not ask the feeds for ever."""
    monkeypatch.setattr(ingestor, "HELD_PAUSE_SECONDS", 0.0)
    await subscribe(desk, 3)
    busy, source = at(desk, lambda state: lose(desk, state))
    with pytest.raises(ingestor.FeedsLeft, match="3 feeds"):
        await ingestor.run_once(busy)

    assert len(source.polled) == 3 * ingestor.MOST_LATE_CYCLES
