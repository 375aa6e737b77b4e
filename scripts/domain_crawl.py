"""Crawl a domain in this very process, or take one step of that: no worker is needed, and leases make it safe beside
them.

A dry run of a folder writes nothing at all; that of a site or a repository sends the few requests of a listing, for
which the fetcher keeps its politeness in Redis (gates, robots.txt).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core.outputs.vector_store.crawl_report import CrawledSource
from core.runtime.context import Context
from core.runtime.terminal import echo
from core.sources.crawl_parameters import (
    ALL,
    ALL_STEPS,
    MOST_RETRY_BATCHES,
    RETRY_BATCHES,
    SCOPES,
    CrawlParameters,
    StepName,
)
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_crawl import DomainCrawl
from core.sources.io.domain_steps import ChosenSources, DomainSteps, StepResult
from core.sources.io.source_losses import approve_losses
from core.store.cancellation import Canceller
from scripts import command_line
from scripts.domain_results import preview_text, result_json, show_results, step_json

STOP_SECONDS = 2.0
INTERRUPTED = 130


def add_crawl_options(parser: argparse.ArgumentParser) -> None:
    modes = [str(CrawlMode.INCREMENTAL), str(CrawlMode.FULL)]
    parser.add_argument("domain_id", metavar="id")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--scope", choices=[ALL, *SCOPES], default=ALL, help="only these sources of SharePoint")
    parser.add_argument("--source", metavar="ID", help="one source only: `docs.site`, or `site`")
    parser.add_argument("--source-type", metavar="TYPE", help="only sources of this type: `web_sources`")
    parser.add_argument("--dry-run", action="store_true", help="tell what it would do; changes nothing")
    parser.add_argument(
        "--retry-batches",
        metavar="N",
        type=int,
        choices=range(1, MOST_RETRY_BATCHES + 1),
        default=RETRY_BATCHES,
        help="how often SharePoint sources try what failed; 1: once",
    )
    parser.add_argument("--yes", action="store_true", help="it may lose more than the guard lets it, for a day")


async def crawl(
    domain_id: str,
    mode: str = CrawlMode.INCREMENTAL,
    *,
    step: StepName | None = None,
    scope: str = ALL,
    source: str | None = None,
    source_type: str | None = None,
    dry_run: bool = False,
    retry_batches: int = RETRY_BATCHES,
    yes: bool = False,
    json: bool = False,
) -> int:
    """Crawl each source, or take one step of that, or tell what it would do; return 1 if one was held or failed."""
    steps = frozenset({step} if step else ALL_STEPS)
    asked = CrawlParameters(steps, scope, source or "", source_type or "", retry_batches)
    async with command_line.open_context() as context:
        work = _Work(context, domain_id, CrawlMode(mode), asked, step)
        chosen = await work.steps.select(domain_id, asked)
        if dry_run:
            return await work.preview(chosen, json=json)
        for sid in chosen.sids if yes else ():
            await approve_losses(context.client, context.keys, domain_id, sid)
        stop = asyncio.Event()
        async with _stoppable(stop):
            await work.run(chosen, stop)
    results = list(work.results.values())
    if json:
        command_line.print_json(step_json(results, work.others) if step else [result_json(one) for one in results])
    else:
        show_results(results, work.others)
    if stop.is_set():
        echo("Stopped. What is left is due; the next crawl, or the timer, goes on with it.", file=sys.stderr)
        return INTERRUPTED
    return int(any(one.is_trouble for one in results))


async def cleanup(domain_id: str, *, dry_run: bool = False, json: bool = False) -> int:
    """Remove from files_metadata.json what no vector store and no map has any more."""
    async with command_line.open_context() as context:
        done = await DomainSteps(context, is_own_command=True).clean_metadata(domain_id, dry_run=dry_run)
    said = "Would remove" if dry_run else "Removed"
    text = f"{said} {done['removed']} of files_metadata.json; {done['remaining']} remain."
    told = {"domain_id": domain_id, "dry_run": dry_run, **done}
    return command_line.answer(told, text, as_json=json)


@dataclass(slots=True)
class _Work:
    context: Context
    domain_id: str
    mode: CrawlMode
    asked: CrawlParameters
    step: StepName | None
    results: dict[str, CrawledSource] = field(default_factory=dict)
    others: StepResult | None = None
    """What was set going for sources without steps."""

    @property
    def steps(self) -> DomainSteps:
        return DomainSteps(self.context, is_own_command=True)

    async def preview(self, chosen: ChosenSources, *, json: bool) -> int:
        """Tell what it would do; changes nothing. Returns 1 if a source could not be asked."""
        sids = chosen.sids if self.step in (None, StepName.DOWNLOAD) else chosen.stepped
        reports = await self.steps.preview(sids, self.mode)
        has_trouble = int(any(one.is_incomplete for one in reports))
        if json:
            command_line.print_json([one.to_json() for one in reports])
            return has_trouble
        others = await self._others(chosen.others, dry_run=True)
        if others:
            echo(f"Items of sources without steps: {others.items}.")
        echo(preview_text(reports))
        return has_trouble

    async def run(self, chosen: ChosenSources, stop: asyncio.Event) -> None:
        """Crawl, or take the step: here where sources have steps, by jobs where they have none."""
        if self.step is StepName.EMBED and chosen.stepped:
            await self.steps.require_store(self.domain_id)
        self.others = await self._others(chosen.others, dry_run=False)
        sids = chosen.stepped if self.others else chosen.sids
        crawling = DomainCrawl(
            *(self.context, self.domain_id, sids, self.mode),
            should_stop=stop.is_set,
            asked=self.asked,
            results=self.results,
        )
        if sids:
            await (crawling.run_source(sids[0]) if self.asked.source_id else crawling.run())

    async def _others(self, sids: Sequence[str], *, dry_run: bool) -> StepResult | None:
        """Take the step for sources that have none of their own; None: a crawl does it."""
        if self.step is StepName.PROCESS and sids:
            return await self.steps.read_again(sids, force=self.mode is CrawlMode.FULL, dry_run=dry_run)
        if self.step is StepName.EMBED and sids:
            return await self.steps.embed_waiting(self.domain_id, sids, dry_run=dry_run)
        return None


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
