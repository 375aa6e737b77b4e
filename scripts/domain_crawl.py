"""Crawl a domain in this very process: no worker is needed, and leases make it safe beside them.

With `dry_run` a plan is made instead: a folder's costs no write at all; a site's or a repository's sends the few
requests of a listing, for which the fetcher keeps its politeness in Redis (gates, robots.txt). Nothing else is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from core.errors import FreshetError
from core.runtime.context import Context, build_context
from core.runtime.terminal import echo
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.dry_run import DryRunReport, dry_run
from core.sources.io.source_store import DAY_SECONDS
from core.store import connect
from core.store.cancellation import Canceller
from scripts import session
from scripts.domain_remove import known
from scripts.domain_report import COUNTERS
from scripts.tables import table

STOP_SECONDS = 2.0
TROUBLE = frozenset({"failed", "held", "incomplete"})
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    domain_id: str
    mode: CrawlMode = CrawlMode.INCREMENTAL
    scope: str = "all"
    source: str | None = None
    dry_run: bool = False
    yes: bool = False


@dataclass(slots=True)
class Ended:
    """How the pass over one source ended."""

    sid: str
    run: Mapping[str, str]
    sentence: str = ""
    is_trouble: bool = False


@dataclass(slots=True)
class Stop:
    """Has somebody pressed Ctrl-C?"""

    is_wanted: bool = False


async def crawl(asked: Asked) -> int:
    """A pass over each source; 1 if one of them was held or failed."""
    if asked.scope != "all":
        raise FreshetError(f"--scope {asked.scope}: this version knows only `all`; scopes are for SharePoint, later.")
    async with session.open_session() as (settings, keys, client), build_context(settings, client, keys) as context:
        wanted = _wanted(await known(DomainStore(client, keys), asked.domain_id), asked.source)
        if asked.dry_run:
            echo(_planned([await dry_run(context, sid, asked.mode) for sid in wanted]))
            return 0
        if asked.yes:
            until = await connect.now(client) + DAY_SECONDS
            for sid in wanted:
                await context.sources.allow_loss(sid, until)
        stop, ended = Stop(), []
        async with _stoppable(stop):
            for sid in wanted:
                if not stop.is_wanted:
                    ended.append(await _crawl_one(context, sid, asked.mode, stop))
        if stop.is_wanted:
            ended += await _broken_off(context, wanted[len(ended) :])
    return _tell(ended, stop)


def _wanted(domain: StoredDomain, source: str | None) -> list[str]:
    if source is None:
        return list(domain.sources)
    sid = source if source in domain.sources else f"{domain.id}.{source}"
    if sid not in domain.sources:
        named = ", ".join(one.partition(".")[2] for one in domain.sources)
        raise FreshetError(f"{domain.id} has no source {source}; it has {named}.")
    return [sid]


# ── a pass ──


async def _crawl_one(context: Context, sid: str, mode: CrawlMode, stop: Stop) -> Ended:
    try:
        run = await crawl_source(context, sid, mode, should_stop=lambda: stop.is_wanted)
    except FreshetError as error:
        return Ended(sid, {"status": "failed"}, str(error), is_trouble=True)
    message = run.get("message", "")
    sentence = f"{sid}: {message}" if message and not message.startswith(f"{sid}: ") else message
    return Ended(sid, run, sentence, is_trouble=run["status"] in TROUBLE)


async def _broken_off(context: Context, sids: Sequence[str]) -> list[Ended]:
    """What the pass did that was cancelled in the middle."""
    newest = await context.runs.newest(1, await connect.now(context.client))
    return [Ended(run["source"], run) for run in newest if run["source"] in sids and run["status"] == "stopped"]


@contextlib.asynccontextmanager
async def _stoppable(stop: Stop) -> AsyncIterator[None]:
    """Ctrl-C and SIGTERM ask politely, then cancel; either way everything is given back."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    canceller = Canceller(task)

    def ask() -> None:
        stop.is_wanted = True
        loop.call_later(STOP_SECONDS, canceller.cancel)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    try:
        yield
    except asyncio.CancelledError:
        if not stop.is_wanted:
            raise
    finally:
        canceller.disarm()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


# ── telling ──


def _tell(ended: list[Ended], stop: Stop) -> int:
    head = ("SOURCE", "END", "KNOWN", "VISITED", "CHANGED", "UNCHANGED", "GONE", "FAILED", "NOT FOR US")
    rows = [(one.sid, one.run["status"], *(one.run.get(name, "0") for name in COUNTERS)) for one in ended]
    echo(table(head, rows))
    for one in ended:
        if one.sentence:
            echo(one.sentence, file=sys.stderr if one.is_trouble else sys.stdout)
    if stop.is_wanted:
        echo("Stopped. What is left is due; the next crawl, or the timer, goes on with it.", file=sys.stderr)
        return INTERRUPTED
    return int(any(one.is_trouble for one in ended))


def _planned(plans: list[DryRunReport]) -> str:
    head = ("SOURCE", "KIND", "ADDS", "CHANGED", "REMOVED", "UNCHANGED", "REFUSED", "REQUESTS", "THE LISTING")
    rows = [_plan_row(one) for one in plans]
    lines = [table(head, rows)]
    lines += [f"{one.sid}: {one.held}. Nothing would be removed without --yes." for one in plans if one.held]
    if any(one.source.follows_links for one in plans):
        lines.append("Of a site, pages that only links lead to are counted when they are found.")
    return "\n".join([*lines, "Nothing was changed."])


def _plan_row(one: DryRunReport) -> tuple[object, ...]:
    removed = one.removed if one.source.is_listing_evidence else "?"
    return (one.sid, one.kind, one.added, one.changed, removed, one.unchanged, one.refused, one.requests, one.how)
