"""Poll feeds: lease, ask, decide, commit.

What one cycle sees is kept in `PollCycle`. Whatever stops a poll in the middle gives the feed back as it was.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from redis.exceptions import RedisError

from core.errors import FailCode, FailDetail, ParserUnavailable
from core.feeds import polling
from core.feeds.feed_state import FeedChanged, FeedUnchanged, PollResult
from core.feeds.io.feed_store import LeasedElsewhere, LeasedFeed
from core.models import Deferred, Failed
from core.net.health import NetworkHealth
from core.registry import classify, outcomes
from core.registry.outcomes import Broken, Missing
from core.runtime.context import Context
from core.store.clock import ServerClock
from core.urls.normalise import host_of

log = logging.getLogger("ingest")

MAX_WAIT_SECONDS = 60.0
"""Longest place in line at a domain's gate; beyond it the feed is put off and the cycle goes on."""
OFFLINE_PAUSE_SECONDS = 60.0
MOST_DEATHS = 3
MOST_UNREACHED = 100
"""So many feeds wait, leased, to be judged: is it their host, or our own network?"""


@dataclass(slots=True)
class PollCycle:
    """One pass over what is due: what it saw and what it holds back."""

    clock: ServerClock
    feeds: Mapping[str, list[str]]
    network: NetworkHealth = field(default_factory=NetworkHealth)
    counts: Counter[str] = field(default_factory=Counter)
    unreached: list[tuple[LeasedFeed, Broken]] = field(default_factory=list)
    found: set[str] = field(default_factory=set)
    """Links this cycle has brought already: news in one feed is known in the next."""


async def poll(context: Context, cycle: PollCycle, url: str) -> None:
    """Poll one feed, unless somebody else has it."""
    leased = await context.feeds.lease(url, cycle.feeds[url], cycle.clock.now())
    if not isinstance(leased, LeasedFeed):
        cycle.counts["held"] += isinstance(leased, LeasedElsewhere)
        return
    try:
        await _poll(context, cycle, leased)
    except BaseException:
        await context.feeds.release(leased)
        raise


async def _poll(context: Context, cycle: PollCycle, leased: LeasedFeed) -> None:
    if not leased.is_poll_due:
        now = cycle.clock.now()
        await context.feeds.save(leased, polling.renewal(leased.state, now), cycle.feeds[leased.state.url], now)
        return
    result = await _ask(context, cycle, leased)
    is_unreached = isinstance(result, Broken) and classify.is_unreached(result.failed)
    if not isinstance(result, Deferred):
        cycle.network.record(host_of(leased.state.address), not is_unreached)
    if isinstance(result, Broken) and is_unreached:
        cycle.unreached.append((leased, result))  # perhaps it is our own network: judged with others
        if len(cycle.unreached) >= MOST_UNREACHED:
            await _judge_unreached(context, cycle)
    else:
        await _settle(context, cycle, leased, result)


async def _ask(context: Context, cycle: PollCycle, leased: LeasedFeed) -> PollResult:
    if leased.taken > MOST_DEATHS:
        text = f"Polling this feed killed Freshet {MOST_DEATHS} times; it is put aside."
        return Broken(Failed(FailCode.PARSE, FailDetail.TYPE, text))
    try:
        result = await context.feed_fetcher.fetch(leased.state, cycle.clock.now(), random.random(), MAX_WAIT_SECONDS)
        return await _with_known(context, cycle, leased, result) if isinstance(result, FeedChanged) else result
    except (RedisError, OSError, ParserUnavailable):
        raise
    except Exception as error:  # a bug met by one feed must not stop ten thousand others
        log.exception("🐞 This is a bug in Freshet → %s", leased.state.url)
        return Broken(Failed(FailCode.PARSE, text=f"Freshet's own error, see the log: {type(error).__name__}"))


async def _with_known(context: Context, cycle: PollCycle, leased: LeasedFeed, result: FeedChanged) -> FeedChanged:
    links, categories = result.harvest.links, cycle.feeds[leased.state.url]
    known = await context.links.known(categories, context.keys.feed_links(leased.fid), links)
    known |= cycle.found.intersection(links)
    cycle.found.update(links)
    return replace(result, known=frozenset(known))


async def _settle(context: Context, cycle: PollCycle, leased: LeasedFeed, result: PollResult) -> None:
    now = cycle.clock.now()
    decision = polling.decide(leased.state, result, now, random.random(), context.polling_policy)
    counts = _counted(result)
    if not await context.feeds.save(leased, decision, cycle.feeds[leased.state.url], now, counts):
        log.warning("⚠️ Lease lost; it is left for another poll → %s", leased.state.url)
        cycle.counts["left"] += 1
        return
    cycle.counts.update(counts)
    _tell(leased.state.url, result)
    if isinstance(result, FeedChanged) and result.harvest.left_out:
        read, left_out = decision.state.entries, result.harvest.left_out
        log.warning("✂️ Only %d of %d entries are read → %s", read, read + left_out, leased.state.url)


async def settle_unreached(context: Context, cycle: PollCycle) -> None:
    """Hosts that did not answer: an error each, unless nearly none answered. Then it is us, and nobody is blamed."""
    if cycle.network.is_down:
        log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against the feeds.")
    await _judge_unreached(context, cycle)


async def _judge_unreached(context: Context, cycle: PollCycle) -> None:
    while cycle.unreached:
        leased, broken = cycle.unreached.pop()
        offline = Deferred(OFFLINE_PAUSE_SECONDS, "our own network looked down")
        try:
            await _settle(context, cycle, leased, offline if cycle.network.is_down else broken)
        except BaseException:
            await context.feeds.release(leased)
            raise


async def give_back(context: Context, cycle: PollCycle) -> None:
    """The cycle is broken off: what was held back to be judged at its end is given back unjudged."""
    while cycle.unreached:
        leased, _ = cycle.unreached.pop()
        await context.feeds.release(leased)


def _counted(result: PollResult) -> dict[str, int]:
    counts = {_name(result): 1, "polled": int(not isinstance(result, Deferred))}
    if isinstance(result, FeedChanged):
        found, rejected = len(result.harvest.links), result.harvest.rejected_count
        counts["links_found"] = found + rejected
        counts["links_new"] = result.new_links
        counts["links_known"] = found - result.new_links
        counts["links_rejected"] = rejected
    return counts


def _name(result: PollResult) -> str:
    """How a poll is counted."""
    match result:
        case FeedChanged():
            return "changed"
        case FeedUnchanged():
            return "unchanged"
        case Missing() if result.is_certain:
            return "gone"
        case Deferred():
            return "deferred"
    return "errors"


def _tell(url: str, result: PollResult) -> None:
    match result:
        case FeedChanged() if result.new_links:
            log.info("✅ %d new links, %d rejected → %s", result.new_links, result.harvest.rejected_count, url)
        case FeedChanged() | FeedUnchanged():
            log.debug("💤 Nothing new → %s", url)
        case Missing() if result.is_certain:
            log.warning("🪦 Retired by %d → %s", result.http_status, url)
        case Missing() | Broken():
            log.warning("⚠️ %s → %s", outcomes.to_failure(result).text, url)
        case Deferred():
            log.debug("⏳ %s, %.0f s → %s", result.reason, result.wait_seconds, url)
