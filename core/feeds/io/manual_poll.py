"""Poll feeds because a person asked for it, beside the ingestor and by the same poller and leases.

`make_due` only moves feeds to the front of the schedule: a running ingestor notices within a second and polls them.
`poll_now` does that and polls them in this process. Neither overrides a server that asked for a pause by Retry-After.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.poller import PollCycle
from core.feeds.io.subscriptions import Subscriptions
from core.feeds.poll_decision import RETRY_AFTER
from core.feeds.poll_result import PollEnd, PollReport
from core.keys import Keys
from core.runs.run import RunKind, resume_command
from core.runtime.context import Context
from core.store import cancellation, connect
from core.store.connect import Client

PAUSE_CHECK_SECONDS = 1.0


class PollingPaused(FreshetError):
    """Someone has paused polling."""


async def require_unpaused(client: Client, keys: Keys) -> None:
    """Raise PollingPaused, a sentence, if polling is paused."""
    since = await client.hget(keys.runs_paused, str(RunKind.INGEST))
    if since is not None:
        raise PollingPaused(
            f"Polling is paused since {since!s}, and nothing was polled. "
            f"`{resume_command(str(RunKind.INGEST))}` ends that; then poll."
        )


async def choose_feeds(subscriptions: Subscriptions, *, url: str = "", category: str = "") -> list[str]:
    """Return the feed of this URL, or all of a category; FeedFileError names what is there instead."""
    if url:
        return [await subscriptions.require(url)]
    return (await subscriptions.by_category())[await subscriptions.require_category(category, with_feeds=True)]


async def make_due(store: FeedStore, urls: Sequence[str], now: float, *, force: bool = False) -> list[PollReport]:
    """Make feeds due at once, and return those that are not: a server asked for a pause.

    With `force` their next poll sends no validators and reads the body even if it is the same.
    """
    waiting = [
        PollReport(state.url, PollEnd.WAITS, reason=state.next_poll_reason, wait_seconds=state.next_poll_ts - now)
        for state in await store.states(urls)
        if state.next_poll_reason.startswith(RETRY_AFTER) and state.next_poll_ts > now
    ]
    skipped = {report.url for report in waiting}
    await store.make_due([url for url in urls if url not in skipped], force=force)
    return waiting


async def poll_now(
    context: Context,
    urls: Sequence[str],
    *,
    force: bool = False,
    watch: Callable[[PollReport], None] = lambda report: None,
) -> list[PollReport]:
    """Poll these feeds in this process and return how each poll ended; `watch` is called after each."""
    await require_unpaused(context.client, context.keys)
    reports: list[PollReport] = []

    def note(report: PollReport) -> None:
        reports.append(report)
        watch(report)

    for report in await make_due(context.feeds, urls, await connect.now(context.client), force=force):
        note(report)
    waiting = {report.url for report in reports}
    pause = asyncio.create_task(_wait_for_pause(context))
    cycle = replace(await PollCycle.start(context), watch=note, should_stop=pause.done)
    try:
        await cycle.poll_many([url for url in urls if url not in waiting and url in cycle.feeds])
    finally:
        is_paused = pause.done()
        await cancellation.cancel_and_wait(pause)
    reported = {report.url for report in reports}
    reason = "polling was paused meanwhile" if is_paused else "our own network looks down"
    for url in urls:
        if url not in reported:
            note(PollReport(url, PollEnd.WAITS, reason=reason))
    return reports


async def _wait_for_pause(context: Context) -> None:
    while True:
        await asyncio.sleep(PAUSE_CHECK_SECONDS)
        with contextlib.suppress(RedisError, OSError):  # the polls meet the same error and report it
            if await context.client.hexists(context.keys.runs_paused, str(RunKind.INGEST)):
                return
