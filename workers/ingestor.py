"""The ingestor: poll the feeds that are due, put their links into category sets, prune, log a summary.

python -m workers.ingestor          every INGEST_CYCLE_SECONDS, each time followed by the canonical fetcher
python -m workers.ingestor --once   only the feeds, until nothing that is due is left
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Coroutine

from redis.exceptions import RedisError

from core.errors import FreshetError, ParserUnavailable
from core.feeds.io.broken_feeds import BrokenFeeds
from core.feeds.io.ingest_cycle import run_cycle
from core.runtime import signals
from core.runtime.context import Context, open_context
from core.runtime.process_beats import INGESTOR, ProcessBeats
from core.settings import Settings, load
from core.store import cancellation, connect, redis_health
from workers import canonical_fetcher

__all__ = ["main", "run_cycle", "run_forever", "run_once"]

log = logging.getLogger("ingest")

ONCE_SECONDS = 600.0
"""How long `--once` waits for feeds that politeness deferred or a dead worker still holds."""
HELD_PAUSE_SECONDS = 2.0
MAX_LATE_CYCLES = 3
"""After this many cycles with polls that outlived their lease, `--once` fails."""
REFUSED_PAUSE_SECONDS = 10.0
REQUEST_CHECK_SECONDS = 1.0
"""How often the pause between two cycles looks for feeds that someone wants polled now."""


class PollsDiscarded(FreshetError):
    """Polls outlived their leases again and again."""


async def run_once(context: Context) -> None:
    """Run cycles until no due feed is left: politeness, or the lease of a dead worker, may defer a feed."""
    end, late_cycles = time.monotonic() + ONCE_SECONDS, 0
    while True:
        cycle = await run_cycle(context, stays=False)
        late = cycle.counts["left"]
        left = cycle.counts["deferred"] + cycle.counts["held"] + late
        if cycle.network.is_down or not left:
            return
        late_cycles += bool(late)
        if late_cycles >= MAX_LATE_CYCLES:
            raise PollsDiscarded(
                f"{late} feeds are left: their polls took so long that their leases ended, and were thrown away. "
                "The machine may be too busy; a lower FETCH_CONCURRENCY helps."
            )
        until_due = (await context.feeds.next_due() or 0) - cycle.clock.now()
        pause = max(until_due, HELD_PAUSE_SECONDS if cycle.counts["held"] or late else 0.1)
        if time.monotonic() + pause > end:
            log.warning("⏳ %d feeds are put off; the next run takes them", left)
            return
        await asyncio.sleep(pause)


async def run_forever(context: Context) -> None:
    """Run cycles, and the canonical fetcher beside them; wait for a Redis server that goes away."""
    fetching: asyncio.Task[bool] | None = None
    try:
        while True:
            is_done = await _until_unavailable(context, run_cycle(context))
            if is_done and (fetching is None or fetching.done()):
                # Concurrently: articles of a slow host must not keep the feeds of all others waiting.
                articles = canonical_fetcher.run_once(context, context.settings.canonical_budget_seconds)
                fetching = asyncio.create_task(_until_unavailable(context, articles))
            await _sleep(context)
            if fetching and fetching.done():
                fetching.result()
    finally:
        if fetching:
            await cancellation.cancel_and_wait(fetching)


async def _sleep(context: Context) -> None:
    """Wait for the next cycle, or until someone asks for a poll."""
    end = time.monotonic() + context.settings.ingest_cycle_seconds
    known = await _requested(context)
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, REQUEST_CHECK_SECONDS))
        requested = await _requested(context)
        if requested > known:
            return
        known = requested


async def _requested(context: Context) -> int:
    try:
        return await context.feeds.count_requested()
    except (RedisError, OSError):  # the next cycle meets the same error and reports it
        return 0


async def _until_unavailable(context: Context, work: Coroutine[object, object, object]) -> bool:
    """Return whether the work came to its end; if Redis or the parse children failed meanwhile, log it and wait."""
    is_done = False
    try:
        await work
        is_done = True
    except* ParserUnavailable as group:
        log.error("⚠️ Broken off: %s", signals.first_error(group))
    except* (RedisError, OSError) as group:
        error, url = signals.first_error(group), connect.url_of(context.settings)
        log.error("⚠️ Broken off: %s", redis_health.explain(error, url))
        await redis_health.wait_for_server(context.client, context.settings)
    return is_done


async def _main(settings: Settings, once: bool) -> None:
    if once:
        async with open_context(settings, once=True) as context:
            await BrokenFeeds(context.client, context.keys).rebuild()
            await run_once(context)
    while not once:
        try:
            async with (
                open_context(settings) as context,
                ProcessBeats(context.client, context.keys).running(INGESTOR),
            ):
                await BrokenFeeds(context.client, context.keys).rebuild()
                await run_forever(context)
        except RedisError as error:  # it answers, and refuses what we need to begin: a replica, or full
            log.error("⚠️ %s Trying again.", redis_health.explain(error, connect.url_of(settings)))
            await asyncio.sleep(REFUSED_PAUSE_SECONDS)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m workers.ingestor", description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="poll what is due, then end")
    once = parser.parse_args().once
    return signals.run_until_stopped(lambda: _main(load(), once))


if __name__ == "__main__":
    sys.exit(main())
