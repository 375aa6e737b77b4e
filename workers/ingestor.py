"""The ingestor: poll the feeds that are due, put clean links into category sets, prune, sum up.

python -m workers.ingestor          every INGEST_CYCLE_SECONDS, until stopped
python -m workers.ingestor --once   until nothing that is due is left, then a summary
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from redis.exceptions import RedisError

from core import ids, polling, urls
from core.console import progress
from core.errors import FreshetError, ParserUnavailable
from core.feed_state import Broken, Changed, ErrorClass, Gone, PollResult, Unchanged
from core.models import Deferred
from core.network import NetworkHealth
from core.settings import load
from core.stores import connect, ingest_stats
from core.stores.clock import ServerClock
from core.stores.feeds import Leased
from workers import lanes, stopping
from workers.desk import Desk, open_desk

log = logging.getLogger("ingest")

MAX_WAIT_SECONDS = 60.0
"""Longest place in line at a domain's gate; beyond it the feed is put off and the cycle goes on."""
LEASE_SECONDS = MAX_WAIT_SECONDS + 120.0
ONCE_SECONDS = 600.0
"""How long `--once` waits for feeds that politeness put off."""
OFFLINE_PAUSE_SECONDS = 60.0
MOST_DEATHS = 3


@dataclass(slots=True)
class Cycle:
    """One pass over what is due: what it saw and what it holds back."""

    clock: ServerClock
    feeds: Mapping[str, list[str]]
    network: NetworkHealth = field(default_factory=NetworkHealth)
    counts: Counter[str] = field(default_factory=Counter)
    unreached: list[tuple[Leased, Broken]] = field(default_factory=list)


async def run_cycle(desk: Desk) -> Cycle:
    """Poll every due feed once."""
    started = time.monotonic()
    await desk.roster.refresh()
    cycle = Cycle(await ServerClock.ask(desk.client), await desk.subscriptions.by_feed())
    due = await _due(desk, cycle)
    with progress.bar(len(due), "feeds") as bar:

        async def poll(url: str) -> None:
            await _poll(desk, cycle, url)
            bar.update()

        by_domain = lanes.by_lane(due, lambda url: urls.registrable_domain(urls.host_of(url)))
        await lanes.drive(by_domain, poll, desk.settings.host_parallel, lambda: cycle.network.is_down)
    await _settle_unreached(desk, cycle)
    await _prune(desk, cycle)
    await _sum_up(desk, cycle, time.monotonic() - started)
    return cycle


async def _due(desk: Desk, cycle: Cycle) -> list[str]:
    """URLs of due feeds, longest waiting first; ids without a subscriber are struck off."""
    await desk.feeds.enrol(cycle.feeds)
    url_of = {ids.feed_id(url): url for url in cycle.feeds}
    fids = await desk.feeds.due(cycle.clock.now())
    await desk.feeds.strike_off([fid for fid in fids if fid not in url_of])
    return [url_of[fid] for fid in fids if fid in url_of]


async def _poll(desk: Desk, cycle: Cycle, url: str) -> None:
    """Lease, ask, decide, commit. Whatever stops us in between gives the feed back."""
    leased = await desk.feeds.lease(url, cycle.feeds[url], cycle.clock.now(), LEASE_SECONDS)
    if leased is None:
        return
    try:
        result = await _ask(desk, cycle, leased)
    except BaseException:
        with contextlib.suppress(RedisError, OSError):  # the lease also ends by itself
            await asyncio.shield(desk.feeds.release(leased))
        raise
    if not isinstance(result, Deferred):
        reached = not (isinstance(result, Broken) and result.is_connect_failure)
        cycle.network.record(urls.host_of(leased.state.address), reached)
    if isinstance(result, Broken) and result.is_connect_failure:
        cycle.unreached.append((leased, result))  # perhaps it is our own network: judged at the end
    else:
        await _settle(desk, cycle, leased, result)


async def _ask(desk: Desk, cycle: Cycle, leased: Leased) -> PollResult:
    if leased.taken > MOST_DEATHS:
        return Broken(ErrorClass.HARD, f"Polling this feed killed Freshet {MOST_DEATHS} times; it is put aside.")
    try:
        result = await desk.source.poll(leased.state, cycle.clock.now(), random.random(), MAX_WAIT_SECONDS)
        return await _count_new(desk, cycle, leased, result) if isinstance(result, Changed) else result
    except (RedisError, OSError, ParserUnavailable):
        raise
    except Exception as error:  # a bug met by one feed must not stop ten thousand others
        log.exception("🐞 This is a bug in Freshet → %s", leased.state.url)
        return Broken(ErrorClass.SOFT, f"Freshet's own error, see the log: {type(error).__name__}")


async def _count_new(desk: Desk, cycle: Cycle, leased: Leased, result: Changed) -> Changed:
    known = await desk.links.known(
        cycle.feeds[leased.state.url], desk.keys.feed_links(leased.fid), result.harvest.links
    )
    return replace(result, new_links=len(result.harvest.links) - len(known))


async def _settle(desk: Desk, cycle: Cycle, leased: Leased, result: PollResult) -> None:
    now = cycle.clock.now()
    decision = polling.decide(leased.state, result, now, random.random(), desk.policy)
    if not await desk.feeds.save(leased, decision, cycle.feeds[leased.state.url], now):
        log.warning("⚠️ Too late, somebody else polled it meanwhile → %s", leased.state.url)
        return
    _count(cycle.counts, result)
    _tell(leased.state.url, result)


async def _settle_unreached(desk: Desk, cycle: Cycle) -> None:
    """Hosts that did not answer: an error each, unless nearly none answered. Then it is us, and nobody is blamed."""
    if cycle.network.is_down:
        log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against the feeds.")
    for leased, broken in cycle.unreached:
        offline = Deferred(OFFLINE_PAUSE_SECONDS, "our own network looked down")
        await _settle(desk, cycle, leased, offline if cycle.network.is_down else broken)


async def _prune(desk: Desk, cycle: Cycle) -> None:
    now = cycle.clock.now()
    for category in await desk.subscriptions.categories():
        cycle.counts["links_expired"] += await desk.links.prune(category, now)
    await desk.links.prune_attempted(now)


COUNTED = ("polled", "changed", "unchanged", "errors", "gone", "deferred")
LINKS = ("links_found", "links_new", "links_known", "links_rejected", "links_expired")


def _count(counts: Counter[str], result: PollResult) -> None:
    kind = {Changed: "changed", Unchanged: "unchanged", Gone: "gone", Broken: "errors", Deferred: "deferred"}
    counts[kind[type(result)]] += 1
    counts["polled"] += not isinstance(result, Deferred)
    if isinstance(result, Changed):
        found, rejected = len(result.harvest.links), result.harvest.rejected_count
        counts["links_found"] += found + rejected
        counts["links_new"] += result.new_links
        counts["links_known"] += found - result.new_links
        counts["links_rejected"] += rejected


def _tell(url: str, result: PollResult) -> None:
    match result:
        case Changed(new_links=0) | Unchanged():
            log.debug("💤 Nothing new → %s", url)
        case Changed():
            log.info("✅ %d new links, %d rejected → %s", result.new_links, result.harvest.rejected_count, url)
        case Gone():
            log.warning("🪦 Retired by 410 → %s", url)
        case Broken():
            log.warning("⚠️ %s → %s", result.text, url)
        case Deferred():
            log.debug("⏳ %s, %.0f s → %s", result.reason, result.wait_seconds, url)


async def _sum_up(desk: Desk, cycle: Cycle, seconds: float) -> None:
    counts = {name: cycle.counts[name] for name in (*COUNTED, *LINKS)}
    if not any(counts.values()):
        return
    await ingest_stats.record(desk.client, desk.keys, counts, cycle.clock.now(), seconds)
    log.info(
        "🏁 %(polled)d feeds polled: %(changed)d changed, %(unchanged)d unchanged, %(errors)d failed, "
        "%(gone)d retired, %(deferred)d put off. %(links_found)d links: %(links_new)d new, %(links_known)d known, "
        "%(links_rejected)d rejected",
        counts,
    )


# ── the process ─────────────────────────────────────────────────────────────────────────────────


async def run_once(desk: Desk) -> None:
    """Cycles until nothing that is due is left: politeness may put a feed off by seconds."""
    end = time.monotonic() + ONCE_SECONDS
    while True:
        cycle = await run_cycle(desk)
        if cycle.network.is_down or not cycle.counts["deferred"]:
            return
        pause = max(0.1, (await desk.feeds.next_due() or 0) - cycle.clock.now())
        if time.monotonic() + pause > end:
            log.warning("⏳ %d feeds are put off; the next run takes them", cycle.counts["deferred"])
            return
        await asyncio.sleep(pause)


async def run_forever(desk: Desk) -> None:
    """A cycle, a pause, and so on; a server that goes away is waited for."""
    while True:
        try:
            await run_cycle(desk)
        except* (RedisError, OSError) as trouble:
            log.error("⚠️ Cycle broken off: %s", connect.explain(_first(trouble), connect.url_of(desk.settings)))
            await connect.wait(desk.client, desk.settings)
        await asyncio.sleep(desk.settings.ingest_cycle_seconds)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _main(once: bool) -> None:
    async with open_desk(load()) as desk:
        await (run_once(desk) if once else run_forever(desk))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m workers.ingestor", description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="poll what is due, then end")
    once = parser.parse_args().once
    try:
        return stopping.run(_main(once))
    except FreshetError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a sentence for a person, before or after logging exists
        return 2


if __name__ == "__main__":
    sys.exit(main())
