"""One polling cycle: lease each feed that is due, fetch it, decide, commit.

Whatever stops a poll in the middle releases its feed as it was.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from redis.exceptions import RedisError

from core import schedule
from core.errors import FailCode, FailDetail, ParserUnavailable
from core.feeds import poll_decision
from core.feeds.io import sample
from core.feeds.io.feed_store import LeasedElsewhere, LeasedFeed
from core.feeds.poll_result import FeedChanged, PollEnd, PollReport, PollResult, report_of
from core.models import STOPPED, Deferred, Failed
from core.net.network_health import NetworkHealth
from core.registry import http_status_meanings
from core.registry.outcomes import Broken
from core.runtime import domain_concurrency, progress
from core.runtime.context import Context
from core.runtime.domain_concurrency import GateLanes
from core.store.clock import ServerClock
from core.urls.normalise import host_of

log = logging.getLogger("ingest")

COUNTERS = (
    *("polled", "changed", "unchanged", "errors", "gone", "deferred", "held", "left"),
    *("links_found", "links_new", "links_known", "links_rejected", "links_expired"),
)
MAX_WAIT_SECONDS = 60.0
"""Longest wait at a domain's gate; beyond it the feed is deferred and the cycle goes on."""
OFFLINE_PAUSE_SECONDS = 60.0
MAX_UNREACHED = 100
"""How many unreachable feeds stay leased until it is known whether their hosts or our own network is down."""


@dataclass(slots=True)
class PollCycle:
    """One pass over the feeds that are due, and what it counted."""

    context: Context
    clock: ServerClock
    feeds: Mapping[str, list[str]]
    """Categories by feed URL."""
    network: NetworkHealth = field(default_factory=NetworkHealth)
    counts: Counter[str] = field(default_factory=Counter)
    watch: Callable[[PollReport], None] = lambda report: None
    """Called with the end of each poll."""
    should_stop: Callable[[], bool] = lambda: False
    """Tells whether no other feed is to be begun."""
    _unreached: list[tuple[LeasedFeed, Broken]] = field(default_factory=list)
    _seen_links: set[str] = field(default_factory=set)
    """Links of this cycle: new in one feed, they are known in the next."""

    @classmethod
    async def start(cls, context: Context) -> PollCycle:
        return cls(context, await ServerClock.ask(context.client), await context.subscribed_feeds.read())

    async def due_feeds(self) -> list[str]:
        """Return the URLs of the feeds that are due; feeds without a subscriber are removed."""
        subscribed = self.context.subscribed_feeds
        due = await subscribed.due(self.clock.now())
        self.feeds = subscribed.categories
        return due

    async def poll_many(self, due: Sequence[str]) -> None:
        """Poll these feeds once, as far as they are due, the domains side by side."""
        store, settings = self.context.feeds, self.context.settings
        lanes, ours = GateLanes(await self.context.paces.current(), settings), sample.hosts(settings)

        def start_gap(gate: str) -> float:
            """The feeds of a gate wait for each other before they are leased; a gap too long to wait is left to it."""
            gap = lanes.gap_of(gate)
            return 0.0 if gate in ours or gap >= MAX_WAIT_SECONDS else gap

        with progress.bar(len(due), "feeds") as bar:

            async def poll(url: str) -> None:
                await self.poll(url)
                bar.update()

            try:
                await domain_concurrency.run(
                    domain_concurrency.group(due, lanes.gate_of),
                    poll,
                    lanes.limit_of,
                    lambda: self.network.should_stop or self.should_stop(),
                    settings.polls_at_once,
                    start_gap,
                )
                if self.network.is_down:
                    log.error(
                        "⚠️ Nearly no host answers: our own network looks down. Nothing is counted against the feeds."
                    )
                await self._commit_unreached()
            except BaseException:
                while self._unreached:
                    await store.release(self._unreached.pop()[0])
                raise

    async def prune_links(self) -> None:
        now = self.clock.now()
        for category in await self.context.subscriptions.categories():
            self.counts["links_expired"] += await self.context.links.prune(category, now)
        await self.context.links.prune_attempted(now)

    # ── one feed ──

    async def poll(self, url: str) -> None:
        """Poll one feed, unless another process holds its lease."""
        leased = await self.context.feeds.lease(url, self.feeds[url], self.clock.now())
        if not isinstance(leased, LeasedFeed):
            is_held = isinstance(leased, LeasedElsewhere)
            self.counts["held"] += is_held
            self.watch(PollReport(url, PollEnd.HELD if is_held else PollEnd.SKIPPED))
            return
        try:
            await self._poll(leased)
        except BaseException:
            await self.context.feeds.release(leased)
            raise

    async def _poll(self, leased: LeasedFeed) -> None:
        if not leased.is_poll_due:
            now = self.clock.now()
            decision = poll_decision.renewal(leased.state, now)
            await self.context.feeds.save(leased, decision, leased.categories, now)
            return
        result = await self._fetch(leased)
        if result == STOPPED:
            await self.context.feeds.release(leased)  # due as before
            return
        is_unreached = isinstance(result, Broken) and http_status_meanings.is_unreached(result.failed)
        if not isinstance(result, Deferred):
            self.network.record(host_of(leased.state.address), not is_unreached)
        if isinstance(result, Broken) and is_unreached:
            self._unreached.append((leased, result))  # perhaps our own network is down
            if len(self._unreached) >= MAX_UNREACHED:
                await self._commit_unreached()
        else:
            await self._commit(leased, result)

    async def _fetch(self, leased: LeasedFeed) -> PollResult:
        if leased.taken > schedule.MAX_CRASHES:
            text = f"Polling this feed killed Freshet {schedule.MAX_CRASHES} times; it is put aside."
            return Broken(Failed(FailCode.PARSE, FailDetail.TYPE, text))
        context, state = self.context, leased.state
        try:
            result = await context.feed_fetcher.fetch(state, self.clock.now(), random.random(), MAX_WAIT_SECONDS)
            if not isinstance(result, FeedChanged):
                return result
            links, feed_links_key = result.feed.links, context.keys.feed_links(leased.fid)
            known = await context.links.known(leased.categories, feed_links_key, links)
            known |= self._seen_links.intersection(links)
            self._seen_links.update(links)
            return replace(result, known=frozenset(known))
        except (RedisError, OSError, ParserUnavailable):
            raise
        except Exception as error:  # a bug met by one feed must not stop ten thousand others
            log.exception("🐞 This is a bug in Freshet → %s", state.url)
            return Broken(Failed(FailCode.PARSE, text=f"Freshet's own error, see the log: {type(error).__name__}"))

    async def _commit(self, leased: LeasedFeed, result: PollResult) -> None:
        now, url = self.clock.now(), leased.state.url
        option = (await self.context.paces.current()).of_feed(leased.fid)
        policy = replace(self.context.polling_policy, set_interval_seconds=option.interval_seconds)
        decision = poll_decision.decide(leased.state, result, now, random.random(), policy)
        report = report_of(url, result)
        if not await self.context.feeds.save(leased, decision, leased.categories, now, report.counts):
            self.counts["left"] += 1
            report = PollReport(url, PollEnd.DISCARDED)
        else:
            self.counts.update(report.counts)
        _log(report)
        self.watch(report)
        if report.end is PollEnd.CHANGED and isinstance(result, FeedChanged) and result.feed.left_out:
            entries, left_out = decision.state.entries, result.feed.left_out
            log.warning("✂️ Only %d of %d entries are read → %s", entries, entries + left_out, url)

    async def _commit_unreached(self) -> None:
        """Commit an error for each unreachable host, unless nearly none answers: then our own network is down."""
        while self._unreached:
            leased, broken = self._unreached.pop()
            offline = Deferred(OFFLINE_PAUSE_SECONDS, "our own network looked down")
            try:
                await self._commit(leased, offline if self.network.is_down else broken)
            except BaseException:
                await self.context.feeds.release(leased)
                raise


def _log(report: PollReport) -> None:
    match report.end:
        case PollEnd.CHANGED if report.new_links:
            log.info("✅ %d new links, %d rejected → %s", report.new_links, report.rejected_links, report.url)
        case PollEnd.CHANGED | PollEnd.UNCHANGED:
            log.debug("💤 Nothing new → %s", report.url)
        case PollEnd.RETIRED:
            log.warning("🪦 Retired by %s → %s", report.reason, report.url)
        case PollEnd.FAILED:
            log.warning("⚠️ %s → %s", report.reason, report.url)
        case PollEnd.WAITS:
            log.debug("⏳ %s, %.0f s → %s", report.reason, report.wait_seconds, report.url)
        case PollEnd.DISCARDED:
            log.warning("⚠️ Lease lost; it is left for another poll → %s", report.url)
