"""Crawl a domain in this very process: no worker is needed, and leases make it safe beside them.

A dry run of a folder writes nothing at all; that of a site or a repository sends the few requests of a listing, for
which the fetcher keeps its politeness in Redis (gates, robots.txt).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

from core.errors import FreshetError
from core.runs.run import COUNTERS
from core.runtime.context import build_context
from core.runtime.terminal import echo
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_crawl import DomainCrawl, SourceResult
from core.sources.io.domain_steps import DomainSteps
from core.sources.io.dry_run import DryRunReport, dry_run_source
from core.sources.io.loss_approval import approve_losses
from core.store.cancellation import Canceller
from scripts import command_line
from scripts.command_names import as_typed
from scripts.domain_report import COUNTER_HEAD, message_of
from scripts.tables import table

STOP_SECONDS = 2.0
INTERRUPTED = 130
DRY_RUN_HEAD = ("SOURCE", "KIND", "ADDS", "CHANGED", "REMOVED", "UNCHANGED", "REFUSED", "REQUESTS", "THE LISTING")


async def crawl(
    domain_id: str,
    mode: str = CrawlMode.INCREMENTAL,
    *,
    scope: str = "all",
    source: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
) -> int:
    """Crawl each source, or tell what that would do; return 1 if one of them was held or failed."""
    if scope != "all":
        raise FreshetError(f"--scope {scope}: this version knows only `all`; scopes are for SharePoint, later.")
    async with (
        command_line.open_session() as (settings, keys, client),
        build_context(settings, client, keys) as context,
    ):
        steps = DomainSteps(context, is_own_command=True)
        sids = [record.sid for record in await steps.select(domain_id, source=source)]
        if dry_run:
            reports = [await dry_run_source(context, sid, CrawlMode(mode)) for sid in sids]
            if json:
                command_line.print_json([_preview_json(one) for one in reports])
            else:
                echo(_preview(reports))
            return 0
        if yes:
            await approve_losses(client, keys, domain_id, source)
        stop = asyncio.Event()
        crawling = DomainCrawl(context, domain_id, sids, CrawlMode(mode), should_stop=stop.is_set)
        async with _stoppable(stop):
            await (crawling.run_source(sids[0]) if source is not None else crawling.run())
    results = list(crawling.results.values())
    if json:
        command_line.print_json([_result_json(one) for one in results])
    else:
        _show(results)
    if stop.is_set():
        echo("Stopped. What is left is due; the next crawl, or the timer, goes on with it.", file=sys.stderr)
        return INTERRUPTED
    return int(any(one.is_trouble for one in results))


@contextlib.asynccontextmanager
async def _stoppable(stop: asyncio.Event) -> AsyncIterator[None]:
    """Let Ctrl-C and SIGTERM set `stop`, and cancel the task soon after; either way everything is given back."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    canceller = Canceller(task)

    def request_stop() -> None:
        stop.set()
        loop.call_later(STOP_SECONDS, canceller.cancel)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, request_stop)
    try:
        yield
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        canceller.disarm()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _show(results: list[SourceResult]) -> None:
    rows = [(one.sid, _end(one), *(one.counts.get(name, 0) for name in COUNTERS)) for one in results]
    echo(table(("SOURCE", "END", *COUNTER_HEAD), rows))
    for one in results:
        message = one.error or (message_of(one.run) if one.run else "")
        if message:
            echo(as_typed(message), file=sys.stderr if one.is_trouble else sys.stdout)


def _result_json(one: SourceResult) -> dict[str, object]:
    return {
        "source": one.sid,
        "run": one.run.id if one.run else "",
        "status": str(one.status),
        "problem": one.problem,
        "message": one.error or (one.run.message if one.run else ""),
        "counts": dict(one.counts),
    }


def _end(result: SourceResult) -> str:
    return f"{result.status} ({result.problem})" if result.problem else str(result.status)


def _preview(reports: list[DryRunReport]) -> str:
    lines = [table(DRY_RUN_HEAD, [_preview_row(one) for one in reports])]
    lines += [f"{one.source.sid}: {one.held}. Nothing would be removed without --yes." for one in reports if one.held]
    if any(one.source.follows_links for one in reports):
        lines.append("Of a site, pages that only links lead to are counted when they are found.")
    return "\n".join([*lines, "Nothing was changed."])


def _preview_row(one: DryRunReport) -> tuple[object, ...]:
    sid, kind = one.source.sid, one.source.state.record.kind
    removed = one.removed if one.source.is_listing_evidence else "?"
    return (sid, kind, one.added, one.changed, removed, one.unchanged, one.refused, one.requests, one.how)


def _preview_json(one: DryRunReport) -> dict[str, object]:
    return {
        "source": one.source.sid,
        "kind": one.source.state.record.kind,
        "added": one.added,
        "changed": one.changed,
        "removed": one.removed if one.source.is_listing_evidence else None,
        "unchanged": one.unchanged,
        "refused": one.refused,
        "requests": one.requests,
        "listing": one.how,
        "held": one.held,
    }
