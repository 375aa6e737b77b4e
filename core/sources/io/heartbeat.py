"""The heartbeat of a run: it shows that the run is alive, extends its hold on picked items, and says why it waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from core.net.rate_limit import DomainPace
from core.registry.io.due import RUN_HOLD_SECONDS
from core.registry.io.visitor import Visitor
from core.runtime import progress
from core.runtime.context import Context
from core.store import cancellation
from core.store.clock import ServerClock

log = logging.getLogger("refresh")

BEAT_SECONDS = 3.0
HOLD_EVERY_SECONDS = 15.0
FIRST_LOG_SECONDS = 10.0
LOG_EVERY_SECONDS = 60.0


@dataclass(slots=True)
class Heartbeat:
    """Beats beside one run."""

    context: Context
    clock: ServerClock
    visitor: Visitor
    sid: str
    run_id: str
    bar: progress.Bar
    began: float = field(default_factory=time.monotonic)
    _held_at: float = 0.0
    _logged_at: float = 0.0

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Beat until the run ends."""

        async def beat_forever() -> None:
            while True:
                await asyncio.sleep(BEAT_SECONDS)
                with contextlib.suppress(RedisError, OSError):  # the run meets the same trouble and reports it
                    await self.beat()

        beats = asyncio.create_task(beat_forever())
        try:
            yield
        finally:
            await cancellation.cancel_and_wait(beats)

    async def beat(self) -> None:
        """Write the heartbeat, extend the hold, show the progress."""
        now, held = self.clock.now(), self.visitor.unfinished
        left = await self.context.due.count(self.sid, now) + len(held)
        pace = await self.context.fetcher.pace_of(held[0].fetch_url) if held else None
        spent = time.monotonic() - self.began
        reason = waiting_reason(pace, self.visitor.decided, left, spent)
        await self.context.runs.update(self.run_id, {"heartbeat_ts": f"{now:.3f}", "message": reason})
        if spent - self._held_at >= HOLD_EVERY_SECONDS:
            self._held_at = spent
            await self.context.due.hold(self.sid, [item.id for item in held], now + RUN_HOLD_SECONDS)
        self.bar.n = self.visitor.decided
        self.bar.total = self.visitor.decided + left
        self.bar.set_postfix_str(reason)
        next_log = self._logged_at + LOG_EVERY_SECONDS if self._logged_at else FIRST_LOG_SECONDS
        if reason and spent >= next_log:
            self._logged_at = spent
            log.info("⏳ %s: %d read, %d to go; %s", self.sid, self.visitor.decided, left, reason)


def waiting_reason(pace: DomainPace | None, done: int, left: int, spent_seconds: float) -> str:
    """Return why a run takes its time and how long it will, for people; empty where nobody makes it wait."""
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
