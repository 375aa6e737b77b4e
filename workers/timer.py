"""The timer: send jobs for what is due. It visits nothing itself, and keeps no state outside the registry.

python -m workers.timer          every TIMER_SECONDS
python -m workers.timer --once   what is due now, for cron
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import random
import sys
from collections.abc import Sequence

from redis.exceptions import RedisError

from core.doctor.io.doctor import Doctor
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.registry.io.cleanup import ArticleExpiry, Purger
from core.registry.io.due import HOLD_SECONDS, NO_SHARE, DueItems
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.runtime import logs, signals
from core.runtime.job_queues import Argument, JobQueues
from core.runtime.queue_names import QueueName
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings, load
from core.sources.io.source_store import SourceStore
from core.store import connect, redis_health

log = logging.getLogger("timer")

MOST_WAITING_JOBS = 10
"""More would only stand in line: what is not picked stays due, oldest first."""
MOST_EMBED_JOBS = 4
EMBED_BATCH = 64
"""Items per job; a job has half a minute, and what it does not reach is sent again."""
RECONCILE_SECONDS = 60.0
RECONCILE_ITEMS = 50


class Timer:
    """Picks what is due and sends jobs for it."""

    def __init__(self, settings: Settings, client: connect.Client, keys: Keys, queues: JobQueues) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._queues = queues
        self._due = DueItems(client, keys)
        self._embed_queue = EmbedQueue(client, keys)
        self._sources = SourceStore(client, keys)
        self._reconciled_ts = -math.inf
        self._article_expiry = ArticleExpiry(client, keys, Ttls.of(settings))
        self._purger = Purger(client, keys, settings.gone_ttl_seconds)

    async def tick(self) -> int:
        """Send jobs for all that is due, as far as there is room; return how many were sent."""
        now = await connect.now(self._client)
        await self._article_expiry.run(now)
        sent = await self.send_listings(now)
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
        doctor = Doctor(self._client, self._keys, self._settings)
        findings = await doctor.check_sample(RECONCILE_ITEMS)
        await doctor.repair(findings, now)
        if findings:
            kinds = ", ".join(sorted({str(one.problem) for one in findings}))
            log.warning("🩹 %d things were not as they should be, and are set right: %s", len(findings), kinds)

    async def send_listings(self, now: float) -> int:
        """Send a crawl for every source that is due to be listed."""
        sent = 0
        for sid in await self._sources.claim_due(now, HOLD_SECONDS):
            sent += await self._send("workers.jobs.crawl", [sid], ("crawl", sid))
        return sent

    async def send_due(self, sources: Sequence[str], now: float) -> int:
        """Send batches of due items, oldest first; each source and each host has its share."""
        batch = self._settings.refresh_batch_items
        waiting = await asyncio.to_thread(self._queues.count_waiting, QueueName.REFRESH)
        room = max(MOST_WAITING_JOBS - waiting, 0)
        busy = [sid for sid in sources if await self._due.count(sid, now)] if room else []
        random.shuffle(busy)  # with more sources than room, each has its turn sooner or later
        # With a gap between requests, as many of one host as fit into a job's time.
        gap = self._settings.fetch_host_gap_seconds
        per_host = max(int(self._settings.refresh_budget_seconds / gap), 1) if gap else NO_SHARE
        sent = 0
        for place, sid in enumerate(busy):
            share = -(-(room - sent) // (len(busy) - place))  # what is left, evenly
            picked = await self._due.pick(sid, now, share * batch, HOLD_SECONDS, per_host)
            for start in range(0, len(picked), batch):
                some = picked[start : start + batch]
                sent += await self._send("workers.jobs.refresh", [some, now, sid], ("refresh", some[0], str(int(now))))
        return sent

    async def send_embeds(self) -> int:
        """Send texts that search does not know yet, newest first; none while the embedder is away."""
        if await self._embed_queue.pause_reason():
            return 0
        room = MOST_EMBED_JOBS - await asyncio.to_thread(self._queues.count_waiting, QueueName.EMBED)
        newest = await self._embed_queue.newest(room * EMBED_BATCH)
        sent = 0
        for start in range(0, len(newest), EMBED_BATCH):
            some = newest[start : start + EMBED_BATCH]
            sent += await self._send("workers.embed_jobs.embed", [some], ("embed", some[0], some[-1]))
        return sent

    async def _send(self, function: str, arguments: list[Argument], id_words: tuple[str, ...]) -> bool:
        return await asyncio.to_thread(self._queues.enqueue, function, *arguments, id_words=id_words)


async def _main(settings: Settings, once: bool) -> None:
    logs.configure(settings)
    async with redis_health.open_when_ready(settings, once=once) as (client, keys):
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
