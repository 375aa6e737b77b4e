"""The work of each heartbeat of a crawl: extend its hold on picked items, report progress and why it waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.net.rate_limit import DomainPace
from core.registry.io.batch_visitor import Visitor
from core.registry.io.due import RUN_HOLD_SECONDS
from core.runs.run import Run, RunPhase
from core.runtime import progress
from core.runtime.context import Context
from core.value_class import value_class

log = logging.getLogger("refresh")

HOLD_EVERY_SECONDS = 15.0
FIRST_LOG_SECONDS = 10.0
LOG_EVERY_SECONDS = 60.0
PERCENT_OF_VISITS = 95
"""The rest is for what comes after the visits."""


@value_class
class PercentRange:
    """What a part of a run takes of its percents."""

    first: int
    last: int

    def at(self, done: int, total: int) -> int:
        return self.first + (self.last - self.first) * min(done, total) // total if total > 0 else self.first


@dataclass(slots=True)
class CrawlProgress:
    """The progress of one crawl; `joined` is its run as it was when this process joined it."""

    context: Context
    visitor: Visitor
    sid: str
    joined: Run
    bar: progress.Bar
    phase: RunPhase = RunPhase.CRAWLING
    visits: PercentRange = field(default_factory=lambda: PercentRange(0, PERCENT_OF_VISITS))
    are_visits_done: bool = False
    step: Mapping[str, str] | None = None
    """What a step of the source itself tells, while there is one."""
    began: float = field(default_factory=time.monotonic)
    _held_at: float = 0.0
    _logged_at: float = 0.0

    async def tell(self, now: float) -> Mapping[str, str]:
        if self.step is not None:
            return self.step
        held, done = self.visitor.unfinished, self.joined.counts.get("visited", 0) + self.visitor.decided
        left = await self.context.due.count(self.sid, now) + len(held)
        pace = await self.context.fetcher.pace_of(held[0].fetch_url) if held else None
        spent = time.monotonic() - self.began
        reason = waiting_reason(pace, self.visitor.decided, left, spent)
        if spent - self._held_at >= HOLD_EVERY_SECONDS:
            self._held_at = spent
            await self.context.due.hold(self.sid, [item.id for item in held], now + RUN_HOLD_SECONDS)
        self._show(done, left, reason, spent)
        percent = self.visits.at(done, done + left if done else 0)
        message = f"Crawling: {done}/{done + left} pages"
        return {
            "phase": str(self.phase),
            "progress": str(self.visits.last if self.are_visits_done else percent),
            "message": f"{message}; {reason}" if reason else message,
        }

    def _show(self, done: int, left: int, reason: str, spent: float) -> None:
        self.bar.n = done
        self.bar.total = done + left
        self.bar.set_postfix_str(reason)
        next_log = self._logged_at + LOG_EVERY_SECONDS if self._logged_at else FIRST_LOG_SECONDS
        if reason and spent >= next_log:
            self._logged_at = spent
            log.info("⏳ %s: %d read, %d to go; %s", self.sid, done, left, reason)


def waiting_reason(pace: DomainPace | None, done: int, left: int, spent_seconds: float) -> str:
    """Return why a run takes its time and how long it will, for people; empty if nothing makes it wait."""
    if pace is None or not left:
        return ""
    if pace.closed_seconds > 0:
        return f"the host asked us to wait ({pace.reason}), {duration(pace.closed_seconds)} more"
    if not pace.gap_seconds:
        return ""
    each = max(pace.gap_seconds, spent_seconds / done if done else 0.0)
    return f"{pace.gap_seconds:g} s between requests to this host, about {duration(each * left)} left"


def duration(seconds: float) -> str:
    """`40 s`, `18 min`, `3 h`: as much as an estimate is good for."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
