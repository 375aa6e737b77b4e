"""The timer: send jobs for what is due, continue runs, expire articles, purge what is gone; record the history.

What people put or edited in `domains/<id>/domain.json` is taken up here too.

It visits nothing itself.

python -m workers.timer          every TIMER_SECONDS
python -m workers.timer --once   what is due now, for cron
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import sys
from contextlib import aclosing

from redis.exceptions import RedisError

from core.doctor.io.doctor import Doctor
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.registry.io.periodic_cleanup import ArticleExpiry, Purger
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.runs.io.state_store import KbStateStore
from core.runtime import logs, signals
from core.runtime.history_recorder import HistoryRecorder
from core.runtime.job_queues import JobQueues
from core.runtime.process_beats import TIMER, ProcessBeats
from core.runtime.store_monitor import StoreMonitor
from core.settings import Settings, load
from core.sources.io.domain_file_sync import DomainWatch
from core.sources.io.domain_store import DomainStore
from core.store import connect, redis_health
from workers.due_jobs import DueJobs

log = logging.getLogger("timer")

RECONCILE_SECONDS = 60.0
RECONCILE_ITEMS = 50


class Timer(DueJobs):
    """Sends jobs for all that is due, again and again, and keeps the store clean meanwhile."""

    def __init__(self, settings: Settings, client: connect.Client, keys: Keys, queues: JobQueues) -> None:
        super().__init__(settings, client, keys, queues)
        self._keys = keys
        self._reconciled_ts = -math.inf
        self._article_expiry = ArticleExpiry(client, keys, Ttls.of(settings))
        self._purger = Purger(client, keys, settings.gone_ttl_seconds)
        self._domain_watch = DomainWatch(settings, client, keys)

    async def tick(self) -> int:
        """Send jobs for all that is due, as far as there is room; return how many were sent."""
        now = await connect.now(self._client)
        await self._article_expiry.run(now)
        await self._domain_watch.look()
        sent = await self.continue_runs(now) + await self.send_listings(now)
        sent += await self.send_due([ARTICLES_SOURCE, URLS_SOURCE, *await self._sources.readable()], now)
        sent += await self.send_embeds()
        await self._purger.run(now)
        await self._reconcile(now)
        return sent

    async def _reconcile(self, now: float) -> None:
        """Check a sample of what search should know and of what it has, once a minute at most, and repair it."""
        if now - self._reconciled_ts < RECONCILE_SECONDS:
            return
        self._reconciled_ts = now
        for domain_id in await DomainStore(self._client, self._keys).ids():
            await KbStateStore(self._client, self._keys).settle(domain_id, now)
        doctor = Doctor(self._client, self._keys, self._settings)
        findings = await doctor.check_sample(RECONCILE_ITEMS)
        await doctor.repair(findings, now)
        if findings:
            kinds = ", ".join(sorted({str(one.problem) for one in findings}))
            log.warning("🩹 %d things were not as they should be, and are set right: %s", len(findings), kinds)


async def _main(settings: Settings, once: bool) -> None:
    logs.configure(settings)
    async with (
        redis_health.open_when_ready(settings, once=once) as (client, keys),
        ProcessBeats(client, keys).running(TIMER),
        aclosing(StoreMonitor(settings, client, keys)) as monitor,
        HistoryRecorder(monitor, client, keys).running(once=once),
    ):
        timer = Timer(settings, client, keys, JobQueues(settings))
        while True:
            await _tick(timer, settings, client, once)
            if once:
                return
            await asyncio.sleep(settings.timer_seconds)


async def _tick(timer: Timer, settings: Settings, client: connect.Client, once: bool) -> None:
    try:
        sent = await timer.tick()
    except RedisError as error:
        if once:
            raise
        log.error("⚠️ %s", redis_health.explain(error, connect.url_of(settings)))
        await redis_health.wait_for_server(client, settings)
        return
    if sent:
        log.info("⏰ %d jobs sent", sent)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m workers.timer", description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="send what is due now, then end")
    once = parser.parse_args().once
    return signals.run_until_stopped(lambda: _main(load(), once))


if __name__ == "__main__":
    sys.exit(main())
