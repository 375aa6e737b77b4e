"""Ten thousand due feeds: leases only for what is in flight, and what came too late is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from core import ids
from core.errors import FailCode, FailDetail
from core.feeds.feed_state import FeedState
from core.feeds.io import poller
from core.feeds.poll_result import FeedResponse, FeedUnchanged, PollResult
from core.models import Failed
from core.registry.outcomes import Broken
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.store.connect import Client
from workers import ingestor

FEEDS = 400


@pytest.fixture
async def context(settings: Settings, redis: Client) -> AsyncIterator[Context]:
    """A desk with gates, so that nobody limits what is under way but the ingestor itself."""
    update = {"fetch_host_gap_seconds": 5.0, "fetch_concurrency": 1}
    async with open_context(settings.model_copy(update=update)) as opened:
        yield opened


class Source:
    """Feeds that answer as a function says; remembers how many leases were held at most."""

    def __init__(self, context: Context, answer: Callable[[FeedState], Awaitable[PollResult]]) -> None:
        self._context = context
        self._answer = answer
        self.polled: list[str] = []
        self.most_held = 0

    async def fetch(self, state: FeedState, *_: object) -> PollResult:
        self.polled.append(state.url)
        for _turn in range(20):
            await asyncio.sleep(0)
        self.most_held = max(self.most_held, self._context.leases.held)
        return await self._answer(state)


def at(context: Context, answer: Callable[[FeedState], Awaitable[PollResult]]) -> tuple[Context, Source]:
    source = Source(context, answer)
    return replace(context, feed_fetcher=source), source  # type: ignore[arg-type]


async def subscribe(context: Context, count: int) -> list[str]:
    urls = [f"https://site{n}.example/feed" for n in range(count)]
    await context.client.sadd(context.keys.feeds("world"), *urls)
    return urls


async def unchanged(_: FeedState) -> PollResult:
    return FeedUnchanged(FeedResponse(http_status=304))


async def test_no_more_leases_than_polls_in_flight(context: Context) -> None:
    """Four hundred hosts are due at once: a feed is leased when its poll begins, not when the cycle does."""
    await subscribe(context, FEEDS)
    busy, source = at(context, unchanged)
    cycle = await ingestor.run_cycle(busy)

    assert cycle.counts["unchanged"] == FEEDS
    assert source.most_held <= context.settings.polls_at_once < FEEDS


async def test_hosts_that_do_not_answer_hold_no_leases_either(context: Context) -> None:
    """Every second host is dead: they are judged now and then, not all at the end under four hundred leases."""

    async def every_second(state: FeedState) -> PollResult:
        if int(state.url.removeprefix("https://site").partition(".")[0]) % 2:
            return Broken(Failed(FailCode.HTTP, FailDetail.REFUSED, "refused"))
        return await unchanged(state)

    await subscribe(context, FEEDS)
    busy, source = at(context, every_second)
    cycle = await ingestor.run_cycle(busy)

    assert (cycle.counts["unchanged"], cycle.counts["errors"]) == (FEEDS // 2, FEEDS // 2)
    assert source.most_held <= context.settings.polls_at_once + poller.MAX_UNREACHED
    assert context.leases.held == 0


async def test_feeds_of_one_host_wait_for_their_turn_without_a_lease(
    settings: Settings, redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap between requests makes the lane wait, not a leased feed."""
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real(min(seconds, 0.05))

    async with open_context(settings.model_copy(update={"fetch_host_gap_seconds": 2.0})) as context:
        await context.client.sadd(context.keys.feeds("world"), *(f"https://a.example/{n}" for n in range(3)))
        busy, source = at(context, unchanged)
        monkeypatch.setattr("core.runtime.domain_concurrency.asyncio.sleep", sleep)
        await ingestor.run_cycle(busy)

    assert len(source.polled) == 3
    assert sum(pauses) > 2.0


async def lose(context: Context, state: FeedState) -> PollResult:
    """As on a machine so busy that the lease ended before the commit."""
    await context.client.delete(context.keys.lease(f"feed_{ids.feed_id(state.url)}"))
    return await unchanged(state)


async def test_what_came_too_late_counts_as_left(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    """A poll that was thrown away is in the counters and in the sentence of the cycle; nothing is counted as polled."""
    await subscribe(context, 3)
    busy, _ = at(context, lambda state: lose(context, state))
    with caplog.at_level(logging.INFO, logger="ingest"):
        cycle = await ingestor.run_cycle(busy)

    assert (cycle.counts["left"], cycle.counts["polled"]) == (3, 0)
    assert await context.client.hget(context.keys.ingest_last_run, "left") == "3"
    assert await context.client.hget(context.keys.ingest_stats, "left") == "3"
    assert any("3 left" in record.getMessage() for record in caplog.records)


async def test_once_polls_again_what_came_too_late(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bad moment costs a second poll, and all is well."""
    monkeypatch.setattr(ingestor, "HELD_PAUSE_SECONDS", 0.0)
    await subscribe(context, 3)
    lost: set[str] = set()

    async def late_once(state: FeedState) -> PollResult:
        if state.url not in lost:
            lost.add(state.url)
            return await lose(context, state)
        return await unchanged(state)

    busy, source = at(context, late_once)
    await ingestor.run_once(busy)

    assert len(source.polled) == 6


async def test_once_fails_when_polls_are_thrown_away_again_and_again(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--once` does not say 0 to cron when its polls came to nothing, and does not ask the feeds for ever."""
    monkeypatch.setattr(ingestor, "HELD_PAUSE_SECONDS", 0.0)
    await subscribe(context, 3)
    busy, source = at(context, lambda state: lose(context, state))
    with pytest.raises(ingestor.PollsDiscarded, match="3 feeds"):
        await ingestor.run_once(busy)

    assert len(source.polled) == 3 * ingestor.MAX_LATE_CYCLES
