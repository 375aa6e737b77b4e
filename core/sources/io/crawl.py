"""One pass over a source: list it, visit what is due, find what is gone.

What is listed is registered before anything is visited, so a pass that is broken off has lost nothing: the next one,
or the timer, goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.models import Batch, End
from core.registry.io.commit_buffer import Progress
from core.registry.io.due import RUN_HOLD_SECONDS
from core.registry.io.registrar import Listing
from core.registry.io.runs import COUNTERS
from core.registry.io.visitor import Visitor
from core.registry.record import iso
from core.runtime import progress
from core.runtime.context import Context
from core.sources.io import root_trouble
from core.sources.io.heartbeat import Heartbeat
from core.sources.io.open_sources import OpenSources
from core.sources.io.reachability import Reachability
from core.sources.io.source import LINKS_DECIDE, UNCHANGED, Source
from core.sources.io.unlist import Unlister
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.commit import Lease, new_token
from core.store.events import event

log = logging.getLogger("refresh")

PATIENCE_SECONDS = 65.0
"""A pass waits for items that politeness put off by less than this."""
RETRY_PAUSE_SECONDS = 1.0
MOST_RENAMES = 5_000
CUT_SHORT = "the listing was cut short"


class Mode(StrEnum):
    """How much a pass asks for."""

    SCHEDULED = "scheduled"
    """List, and visit what is due by its own schedule."""
    INCREMENTAL = "incremental"
    """Check everything that is known, by validators and versions."""
    FULL = "full"
    """Read everything anew."""


@dataclass(slots=True)
class CrawlRun:
    """What one pass carries along."""

    context: Context
    source: Source
    open_sources: OpenSources
    clock: ServerClock
    visitor: Visitor
    run_id: str
    asked_ts: float
    is_over: Callable[[], bool]
    watch: Callable[[Progress], None] | None = None
    end: End | None = None
    unlister: Unlister | None = None

    @property
    def sid(self) -> str:
        """The source."""
        return self.source.sid


async def crawl(
    context: Context,
    sid: str,
    mode: Mode,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], None] | None = None,
) -> Mapping[str, str]:
    """One pass; the run's fields at its end. Another pass over the same source is waited for, not repeated."""
    clock = await ServerClock.ask(context.client)
    asked = clock.now()
    open_sources = OpenSources(context, asked)
    lease = await _take(context, sid, should_stop)
    try:
        source = await open_sources.open(sid)
        if source is None or source.is_built_in:
            raise FreshetError(f"There is no source {sid}. `python -m scripts.domain list` shows what there is.")
        run_id = await context.runs.start(sid, source.state.record.domain, str(mode), asked)

        visitor = Visitor(context, clock, open_sources, run_id=run_id, watch=watch)
        work = CrawlRun(context, source, open_sources, clock, visitor, run_id, asked, should_stop, watch)
        with progress.bar(0, sid) as bar:
            return await _run(work, mode, bar)
    finally:
        await context.leases.release(lease)


async def _take(context: Context, sid: str, should_stop: Callable[[], bool]) -> Lease:
    """The right to list this source."""
    is_told = False
    while True:
        taken = await context.leases.acquire(f"source_{sid}")
        if taken:
            return taken[0]
        if not is_told:
            log.info("⏳ Another run has %s; waiting for its end", sid)
            is_told = True
        if should_stop():
            raise FreshetError(f"{sid} is being crawled by another run.")
        await asyncio.sleep(RETRY_PAUSE_SECONDS)


async def _run(work: CrawlRun, mode: Mode, bar: progress.Bar) -> Mapping[str, str]:
    context, sid = work.context, work.sid
    status, sentence = "stopped", ""
    try:
        async with Heartbeat(context, work.clock, work.visitor, sid, work.run_id, bar).beating():
            await _list(work)
            await _ask_for(work, mode)
            await _drain(work)
            await _take_away(work)
            status, sentence = await _verdict(work, mode)
    except FreshetError as error:
        status, sentence = "failed", str(error)
        raise
    except (RedisError, OSError):
        status = "failed"
        raise
    finally:
        ended = await cancellation.finish(_finish(work, status, sentence))
    log.info(
        "🏁 %s: %s known, %s visited = %s changed, %s unchanged, %s gone, %s failed, %s not for us",
        *(sid, *(ended.get(name, "0") for name in COUNTERS)),
    )
    return ended


async def _finish(work: CrawlRun, status: str, sentence: str) -> Mapping[str, str]:
    context = work.context
    await _count_discovered(work)
    ended = await context.runs.finish(work.run_id, status, work.clock.now(), sentence)
    told = {name: ended.get(name, "") for name in ("id", "source", "domain", "mode", "status", *COUNTERS)}
    await context.leases.run([event(context.keys, "run.finished", **told)])
    return ended


async def _verdict(work: CrawlRun, mode: Mode) -> tuple[str, str]:
    """How the pass ended, and what a person should know of it."""
    told = await work.context.sources.details(work.sid)
    how = work.end.reason.removeprefix(LINKS_DECIDE).removeprefix("; ") if work.end else CUT_SHORT
    notes = [told.get("held", ""), work.source.news, "" if how == UNCHANGED else how, told.get("full", "")]
    if work.is_over():
        return "stopped", _sentence(notes)
    if work.visitor.network.is_down:
        return "incomplete", _sentence(["nearly no host answers: our own network looks down", *notes])
    was_asked, counts = mode is not Mode.SCHEDULED, work.visitor.counts
    trouble = await root_trouble.find(work.context, work.source, counts, was_asked=was_asked, since=work.asked_ts)
    if trouble:
        return trouble.status, _sentence([trouble.sentence, *notes])
    if told.get("held"):
        return "held", _sentence(notes)
    return "incomplete" if _is_incomplete(work) else "finished", _sentence(notes)


def _sentence(notes: Sequence[str]) -> str:
    return "; ".join(filter(None, notes))


def _is_incomplete(work: CrawlRun) -> bool:
    """A folder or repository that could not be listed to its end; a site is never listed, its links decide."""
    end = work.end
    is_whole = end is not None and (end.is_complete or end.reason == UNCHANGED)
    return work.source.is_listing_evidence and not is_whole


# ── listing ──


async def _list(work: CrawlRun) -> None:
    context, source = work.context, work.source
    listing = Listing(
        work.sid,
        most=source.most_items,
        revives=source.is_listing_evidence,
        believes_versions=source.is_listing_evidence or source.state.lastmod_trust.is_trusted,
        must_exist=True,
    )
    await context.sources.forget_refused(work.sid)
    await context.sources.let_go(work.sid)
    async for part in source.list(source.state.memory):
        if isinstance(part, End):
            work.end = part
            break
        await _register(work, part, listing)
        if work.is_over():
            break


async def _register(work: CrawlRun, part: Batch, listing: Listing) -> None:
    registered = await work.context.registrar.register(part.refs, listing, work.clock.now())
    await work.context.sources.refuse(work.sid, part.refused)
    for refused in part.refused[:5]:
        log.warning("🚫 %s → %s", refused.reason, refused.link)
    if registered.left_out:
        await work.context.sources.fill(work.sid, listing.most)
    if work.source.follows_links and part.refs:
        named = [*registered.new, *registered.moved, *registered.known]
        await work.context.members.name(work.sid, named)
    await _count_discovered(work)


async def _count_discovered(work: CrawlRun) -> None:
    """What the source has, and what this pass found that it has no more: it was known, and may have been visited."""
    known = await work.context.members.count(work.sid) + (work.unlister.unlisted if work.unlister else 0)
    await work.context.runs.tell(work.run_id, {"discovered": str(known), "heartbeat_ts": f"{work.clock.now():.3f}"})


async def _ask_for(work: CrawlRun, mode: Mode) -> None:
    """Make everything due that the mode asks for; folders and repositories are compared by their listing."""
    is_compared = work.source.is_listing_evidence and mode is Mode.INCREMENTAL
    if mode is Mode.SCHEDULED or is_compared:
        return
    token, is_full = new_token(), mode is Mode.FULL
    async for some in work.context.members.pieces(work.sid):
        now = work.clock.now()
        await work.context.forcing.make_due(some, now, iso(now), force=is_full, token=token, since=work.asked_ts)


# ── visiting ──


async def _drain(work: CrawlRun) -> None:
    """Visit until nothing is due; what politeness put off for a moment is waited for."""
    batch = work.context.settings.refresh_batch_items
    while not work.is_over() and not work.visitor.network.should_stop:
        now = work.clock.now()
        picked = await work.context.due.pick(work.sid, now, batch, RUN_HOLD_SECONDS)
        if picked:
            await work.visitor.visit_many(picked, picked_ts=work.asked_ts, via=work.sid, is_over=work.is_over)
            await _count_discovered(work)
            continue  # picking moved their stamps ahead, so that this comes to an end
        next_at = await work.context.due.next_at(work.sid)
        if next_at is None or next_at > now + PATIENCE_SECONDS:
            return
        await asyncio.sleep(min(max(next_at - now, 0.05), RETRY_PAUSE_SECONDS))


# ── the end ──


async def _take_away(work: CrawlRun) -> None:
    """Remove what is no longer there, as far as there is evidence."""
    context, source = work.context, work.source
    new_names = await _new_names(work)
    unlister = Unlister(
        context, source, work.open_sources, work.clock, work.run_id, work.asked_ts, new_names, work.watch
    )
    work.unlister = unlister
    await _count_untouched(work)
    how = "complete" if work.end and work.end.is_complete else (work.end.reason if work.end else CUT_SHORT)
    refusal = ""
    if source.follows_links:
        refusal = await _orphans(work, unlister)
    elif work.end and work.end.is_complete:
        refusal = await unlister.unlist_unseen(work.asked_ts)
    now = work.clock.now()
    memory = work.end.memory if work.end and not refusal else None
    await context.sources.listed(work.sid, memory, how, now, now + work.open_sources.interval_seconds(source))


async def _count_untouched(work: CrawlRun) -> None:
    """What a listing proved to be as it was counts as visited and unchanged, though nobody opened it."""
    is_same = work.end is not None and work.end.reason == UNCHANGED
    is_proved = is_same or (work.end is not None and work.end.is_complete)
    if not work.source.is_listing_evidence or not is_proved:
        return
    members, seen = work.context.members, work.visitor.counts
    missing = 0 if is_same else await members.count_unseen(work.sid, work.asked_ts)
    untouched = await members.count(work.sid) - missing - (seen["visited"] - seen["gone"])
    if untouched > 0:
        counts = {"visited": untouched, "unchanged": untouched}
        await work.context.leases.run(work.context.runs.counted(work.run_id, counts, work.clock.now()))


async def _new_names(work: CrawlRun) -> Mapping[str, str]:
    """By the hash of their bytes, what is new in a folder or repository: something missing may have moved there.

    New is what was added since the last pass came to its end: one that was broken off may have registered it.
    """
    state, members = work.source.state, work.context.members
    if not work.source.is_listing_evidence or not await members.count_unseen(work.sid, work.asked_ts):
        return {}
    return await members.added_since(work.sid, state.listed_ts, MOST_RENAMES)


async def _orphans(work: CrawlRun, unlister: Unlister) -> str:
    """Pages that nothing leads to any more; and links that lead to pages we do not know."""
    context = work.context
    await work.open_sources.keep_notes(work.source)
    current = await context.sources.read(work.sid)
    if current is None or not current.is_dirty or work.is_over() or not work.end:
        return ""
    while True:
        await context.sources.look(work.sid)
        reachability = Reachability(context, work.source, work.open_sources, work.clock)
        found_new = await reachability.walk()
        if not found_new or work.is_over():
            break
        await _drain(work)
    if work.is_over() or not await reachability.is_sound():
        return ""
    refusal = await unlister.unlist_unseen(reachability.began)
    if not refusal:
        await context.sources.looked(work.sid)
    return refusal
