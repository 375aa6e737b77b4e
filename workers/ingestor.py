"""The ingestor: poll the feeds that are due, put clean links into category sets, prune, sum up.

python -m workers.ingestor          every INGEST_CYCLE_SECONDS, each time followed by the canonical fetcher
python -m workers.ingestor --once   only the feeds, until nothing that is due is left
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Callable, Coroutine

from redis.exceptions import RedisError

from core import ids
from core.errors import FreshetError, ParserUnavailable
from core.feeds.io import ingest_stats, sample
from core.feeds.io.poller import MAX_WAIT_SECONDS, PollCycle, give_back, poll, settle_unreached
from core.runtime import per_domain, progress, signals
from core.runtime.context import Context, domain_of, open_context
from core.settings import Settings, load
from core.store import cancellation, connect, redis_health
from core.store.clock import ServerClock
from workers import canonical_fetcher

log = logging.getLogger("ingest")

ONCE_SECONDS = 600.0
"""How long `--once` waits for feeds that politeness put off or a dead worker still holds."""
HELD_PAUSE_SECONDS = 2.0
MOST_LATE_CYCLES = 3
"""So often `--once` polls a feed again whose poll came too late; then it says so and fails."""
REFUSED_PAUSE_SECONDS = 10.0
COUNTED = ("polled", "changed", "unchanged", "errors", "gone", "deferred", "held", "left")
LINKS = ("links_found", "links_new", "links_known", "links_rejected", "links_expired")


class FeedsLeft(FreshetError):
    """Polls came too late and were thrown away."""


async def run_cycle(context: Context) -> PollCycle:
    """Poll every due feed once."""
    started = time.monotonic()
    await context.subscription_sync.refresh()
    cycle = PollCycle(await ServerClock.ask(context.client), await context.subscriptions.by_feed())
    due = await _due(context, cycle)
    with progress.bar(len(due), "feeds") as bar:

        async def work(url: str) -> None:
            await poll(context, cycle, url)
            bar.update()

        by_domain = per_domain.group(due, domain_of)
        try:
            width, at_once = context.settings.parallel_per_domain, context.settings.polls_at_once
            await per_domain.run(by_domain, work, width, lambda: cycle.network.should_stop, at_once, _gaps(context))
            await settle_unreached(context, cycle)
        except BaseException:
            await give_back(context, cycle)
            raise
    await _prune(context, cycle)
    await _sum_up(context, cycle, time.monotonic() - started)
    return cycle


def _gaps(context: Context) -> Callable[[str], float]:
    """How long the feeds of a domain wait for each other: before they are leased, not while.

    A gap so long that the gate would put them off is left to the gate.
    """
    gap, ours = context.settings.fetch_host_gap_seconds, sample.hosts(context.settings)
    return lambda domain: gap if domain not in ours and gap < MAX_WAIT_SECONDS else 0.0


async def _due(context: Context, cycle: PollCycle) -> list[str]:
    """URLs of due feeds, longest waiting first; ids without a subscriber are struck off."""
    await context.feeds.enrol(cycle.feeds)
    url_of = {ids.feed_id(url): url for url in cycle.feeds}
    await context.feeds.strike_off([fid for fid in await context.feeds.all_ids() if fid not in url_of])
    return [url_of[fid] for fid in await context.feeds.due(cycle.clock.now()) if fid in url_of]


async def _prune(context: Context, cycle: PollCycle) -> None:
    now = cycle.clock.now()
    for category in await context.subscriptions.categories():
        cycle.counts["links_expired"] += await context.links.prune(category, now)
    await context.links.prune_attempted(now)


async def _sum_up(context: Context, cycle: PollCycle, seconds: float) -> None:
    counts = {name: cycle.counts[name] for name in (*COUNTED, *LINKS)}
    if not any(counts.values()):
        return
    await ingest_stats.record(context.client, context.keys, counts, cycle.clock.now(), seconds)
    log.info(
        "🏁 %(polled)d feeds polled: %(changed)d changed, %(unchanged)d unchanged, %(errors)d failed, "
        "%(gone)d retired, %(deferred)d put off, %(held)d held elsewhere, %(left)d left. "
        "%(links_found)d links: %(links_new)d new, %(links_known)d known, %(links_rejected)d rejected",
        counts,
    )


# ── the process ─────────────────────────────────────────────────────────────────────────────────


async def run_once(context: Context) -> None:
    """Cycles until nothing that is due is left: politeness, or the lease of a dead worker, may put a feed off."""
    end, late_cycles = time.monotonic() + ONCE_SECONDS, 0
    while True:
        cycle = await run_cycle(context)
        late = cycle.counts["left"]
        left = cycle.counts["deferred"] + cycle.counts["held"] + late
        if cycle.network.is_down or not left:
            return
        late_cycles += bool(late)
        if late_cycles >= MOST_LATE_CYCLES:
            raise FeedsLeft(
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
    """A cycle, then the canonical fetcher beside the next ones; a server that goes away is waited for."""
    fetching: asyncio.Task[bool] | None = None
    try:
        while True:
            is_done = await _unless_away(context, run_cycle(context))
            if is_done and (fetching is None or fetching.done()):
                # Sidecar us, not in line: articles of a slow host must not keep the feeds of all others waiting.
                articles = canonical_fetcher.run_once(context, context.settings.canonical_budget_seconds)
                fetching = asyncio.create_task(_unless_away(context, articles))
            await asyncio.sleep(context.settings.ingest_cycle_seconds)
            if fetching and fetching.done():
                fetching.result()
    finally:
        if fetching:
            await cancellation.cancel_and_wait(fetching)


async def _unless_away(context: Context, work: Coroutine[object, object, object]) -> bool:
    """Do the work; if the server or the parse children go away meanwhile, say so, wait, and answer False."""
    is_done = False
    try:
        await work
        is_done = True
    except* ParserUnavailable as trouble:
        log.error("⚠️ Broken off: %s", signals.first_error(trouble))
    except* (RedisError, OSError) as trouble:
        log.error(
            "⚠️ Broken off: %s", redis_health.explain(signals.first_error(trouble), connect.url_of(context.settings))
        )
        await redis_health.wait_for_server(context.client, context.settings)
    return is_done


async def _main(settings: Settings, once: bool) -> None:
    if once:
        async with open_context(settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS) as context:
            await run_once(context)
    while not once:
        try:
            async with open_context(settings) as context:
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
