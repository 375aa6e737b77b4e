"""The RQ jobs of the queue `embed`: short jobs in one process, so that the model is loaded once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from core.runs.io.run_jobs import continue_run
from core.runs.io.run_store import RunStore
from core.runs.io.state_saver import StateSaver
from core.runs.run import RunKind
from core.runtime import logs, signals
from core.runtime.job_specs import JobRefused
from core.search.io.embed_job import EmbedJob
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embed_run_items import EmbedRunItems
from core.settings import Settings, load
from core.urls.secrets import redact
from workers.embedding_context import open_embedding

BUDGET_SECONDS = 30.0
"""Half of what RQ gives: a job sends no heartbeat while it runs."""


def embed(item_ids: list[str] | str) -> None:
    """Embed what is new in these items."""
    settings = load()
    logs.configure(settings)
    ends_at = time.monotonic() + BUDGET_SECONDS
    if not isinstance(item_ids, str):
        asyncio.run(_embed_unpaused(settings, item_ids, ends_at))
    # Else a person wrote it: the dispatcher sends lists.
    elif not asyncio.run(embed_items(settings, [item_ids], ends_at)):
        raise JobRefused(f"{redact(item_ids)} has no text to embed. `freshet why` says what became of it.")


def embed_run(run_id: str) -> None:
    """Embed texts of a domain that wait, as a part of this run."""
    settings = load()
    logs.configure(settings)
    asyncio.run(embed_as_run(settings, run_id, time.monotonic() + BUDGET_SECONDS))


async def embed_items(settings: Settings, item_ids: list[str], ends_at: float) -> Counter[str]:
    """Embed what is new in these items, on a loop that runs; return what became of them."""
    async with open_embedding(settings, len(item_ids)) as opened:
        await opened.run.embed_many(item_ids, lambda: _is_over(ends_at))
    return opened.run.counts


async def embed_as_run(settings: Settings, run_id: str, ends_at: float) -> None:
    """Embed what is left of a run, on a loop that runs."""
    async with open_embedding(settings, 0) as opened:
        client, keys, clock = opened.client, opened.keys, opened.clock
        runs = RunStore(client, keys, StateSaver(settings, client, keys).save_step)
        run = await runs.read(run_id, clock.now())
        job = EmbedJob(runs, clock, run, EmbedRunItems(client, keys, run_id)) if run else None
        has_more = job is not None and await job.embed(opened.run, lambda: _is_over(ends_at))
        if has_more and not signals.is_stop_requested():
            await continue_run(settings, await runs.require(run_id, clock.now()))


async def _embed_unpaused(settings: Settings, item_ids: list[str], ends_at: float) -> None:
    """Embed what was sent, without what was paused since."""
    async with open_embedding(settings, len(item_ids)) as opened:
        blocked = await RunStore(opened.client, opened.keys).blocked()
        queue = EmbedQueue(opened.client, opened.keys)
        left = await queue.without(item_ids, blocked.paused_embeds())
        if left and str(RunKind.EMBED) not in blocked.paused:
            await opened.run.embed_many(left, lambda: _is_over(ends_at))


def _is_over(ends_at: float) -> bool:
    return signals.is_stop_requested() or time.monotonic() > ends_at
