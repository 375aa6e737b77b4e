"""Send jobs for what is due: listings, items, texts to embed, and runs without a worker."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.ids import domain_of_source
from core.keys import Keys
from core.net.pace_store import PaceStore
from core.registry.io.due import HOLD_SECONDS, DueItems, HostShares
from core.runs.io.run_jobs import enqueue_next, is_continued_by_job
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind, source_scope
from core.runs.run_request import BlockedScopes
from core.runtime.job_queues import Argument, JobQueues
from core.runtime.queue_names import QueueName
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings
from core.sources.io.source_store import SourceStore
from core.store import connect

if TYPE_CHECKING:  # the timer fetches nothing, and starts without what fetches
    from core.runtime.context import Context

log = logging.getLogger("timer")

MOST_WAITING_JOBS = 10
"""More would only stand in line: what is not picked stays due, oldest first."""
MOST_EMBED_JOBS = 4
EMBED_BATCH = 16
"""Items per job. What was sent is done first, so few are sent ahead: a new source waits for 64 items at most."""


class DueJobs:
    """Picks what is due and sends jobs for it. Keeps no state outside the registry."""

    def __init__(self, settings: Settings, client: connect.Client, keys: Keys, queues: JobQueues) -> None:
        self._settings = settings
        self._client = client
        self._queues = queues
        self._due = DueItems(client, keys)
        self._paces = PaceStore(client, keys, settings)
        self._embed_queue = EmbedQueue(client, keys)
        self._sources = SourceStore(client, keys)
        self._runs = RunStore(client, keys)

    async def continue_runs(self, now: float) -> int:
        """Mark interrupted runs, and send a job for each without a worker."""
        runs = await self._runs.check_open(now)
        open_ids, sent = {run.id for run in runs}, 0
        for run in runs:
            is_away = run.kind is RunKind.EMBED and await self._embed_queue.pause_reason()
            if is_away or not is_continued_by_job(run, open_ids):
                continue
            if await asyncio.to_thread(enqueue_next, self._queues, run):
                log.info("▶️ %s goes on: %s was %s", run.scope, run.id, run.status)
                sent += 1
        return sent

    async def send_listings(self, now: float) -> int:
        """Send a crawl for every source that is due to be listed, unless that is paused or being crawled."""
        blocked, sent = await self._runs.blocked(), 0
        for sid in await self._sources.claim_due(now, HOLD_SECONDS, blocked.paused):
            known = await self._runs.open_run(source_scope(sid), now)
            if known is None or known.kind is not RunKind.CRAWL:
                sent += await self._send("workers.jobs.crawl", [sid, "", "scheduled", now], ("crawl", sid))
        return sent

    async def send_due(self, sources: Sequence[str], now: float) -> int:
        """Send batches of due items, oldest first; each source and each host has its share."""
        batch = self._settings.refresh_batch_items
        waiting = await asyncio.to_thread(self._queues.count_waiting, QueueName.REFRESH)
        room = max(MOST_WAITING_JOBS - waiting, 0)
        blocked = await self._runs.blocked()
        sendable = [sid for sid in sources if room and blocked.is_refreshed(sid)]
        busy = [
            sid for sid in sendable if await self._due.count(sid, now) and await self._takes_jobs(sid, blocked, now)
        ]
        random.shuffle(busy)  # with more sources than room, each gets its turn in time
        # With a gap between requests, as many of one host as fit into a job's time.
        shares = HostShares.within(self._settings.refresh_budget_seconds, await self._paces.read())
        sent = 0
        for place, sid in enumerate(busy):
            share = -(-(room - sent) // (len(busy) - place))  # what is left, evenly
            picked = await self._due.pick(
                sid, now, share * batch, HOLD_SECONDS, shares, paused_runs=blocked.paused_reindexes(sid)
            )
            batches = [picked[start : start + batch] for start in range(0, len(picked), batch)]
            run_id = await self._run_for(sid, len(batches), blocked, now) if batches else ""
            for some in batches:
                id_words = ("refresh", some[0], str(int(now)))
                sent += await self._send("workers.jobs.refresh", [some, now, sid, run_id], id_words)
        return sent

    async def _takes_jobs(self, sid: str, blocked: BlockedScopes, now: float) -> bool:
        run_id = blocked.open_runs.get(source_scope(sid))
        return not run_id or await self._runs.takes_jobs(run_id, now)

    async def _run_for(self, sid: str, jobs: int, blocked: BlockedScopes, now: float) -> str:
        """Return the open run of a source, or a refresh that begins with these jobs."""
        run_id = blocked.open_runs.get(source_scope(sid), "")
        if not run_id:
            run, _ = await self._runs.open(
                RunKind.REFRESH, now, source=sid, domain=domain_of_source(sid), started_by="timer"
            )
            run_id = run.id
        await self._runs.count_jobs(run_id, jobs)
        return run_id

    async def send_embeds(self) -> int:
        """Send texts that search does not know yet, newest first, each source in its turn; none while paused."""
        blocked = await self._runs.blocked()
        if str(RunKind.EMBED) in blocked.paused or await self._embed_queue.pause_reason():
            return 0
        room = MOST_EMBED_JOBS - await asyncio.to_thread(self._queues.count_waiting, QueueName.EMBED)
        waiting = await self._embed_queue.next(room * EMBED_BATCH, blocked.paused_embeds())
        sent = 0
        for start in range(0, len(waiting), EMBED_BATCH):
            some = waiting[start : start + EMBED_BATCH]
            sent += await self._send("workers.embed_jobs.embed", [some], ("embed", some[0], some[-1]))
        return sent

    async def _send(self, function: str, arguments: list[Argument], id_words: tuple[str, ...]) -> bool:
        return await asyncio.to_thread(self._queues.enqueue, function, *arguments, id_words=id_words)


async def send_due(context: Context, source: str) -> None:
    """Send jobs for the new pages of a source that visited ones led to, without waiting for the timer."""
    jobs = DueJobs(context.settings, context.client, context.keys, JobQueues(context.settings))
    await jobs.send_due([source], await connect.now(context.client))
