"""The canonical fetcher: each new link once, as a clean article (spec 004 §7). It runs once and ends; never a loop.

python -m workers.canonical_fetcher    fetch what is new, at most CANONICAL_BUDGET_SECONDS; the rest is for next time
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.feeds.io.link_store import Ttls
from core.feeds.io.new_links import NewLinkFinder, NewLinks
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.registry.io.articles import ArticleStore
from core.registry.io.cleanup import Pruner
from core.registry.page_url import LinkResult
from core.runtime import logs, progress, signals
from core.settings import Settings, load
from core.store import connect, redis_health, version
from core.store.clock import ServerClock

if TYPE_CHECKING:
    # Only with something to fetch: a run that finds nothing new stays small and quick.
    from core.runtime.context import Context

log = logging.getLogger("canon")


@dataclass(slots=True)
class Run:
    """One run: its clock, what it found, and how each link ended."""

    clock: ServerClock
    findings: NewLinks
    categories: list[str]
    started: float = field(default_factory=time.monotonic)
    ends: Counter[LinkResult] = field(default_factory=Counter)


async def look(client: connect.Client, keys: Keys, settings: Settings) -> Run:
    """What is new? Links added by hand enter the categories of articles that are there already."""
    subscriptions = Subscriptions(client, keys)
    await subscriptions.find_categories()
    clock, categories = await ServerClock.ask(client), await subscriptions.categories()
    frontier = NewLinkFinder(client, keys)
    articles = ArticleStore(client, keys, Ttls.of(settings))
    pruner = Pruner(client, keys, Ttls.of(settings))
    await pruner.forget_old_attempts(clock.now())
    for category in categories:
        await pruner.drop_stale_stamps(category)
        by_hand = await frontier.unstamped(category)
        await articles.renewal([category], by_hand, clock.now())
    return Run(clock, await frontier.look(categories, clock.now()), categories)


async def fetch(context: Context, run: Run, budget_seconds: float) -> None:
    """Visit every link that was found, each domain in its lane, until the time is over."""
    from core.registry.io.visitor import Visitor
    from core.sources.io.open_sources import OpenSources

    links, end = run.findings.links, run.started + budget_seconds
    visitor = Visitor(context, run.clock, OpenSources(context, run.clock.now()))
    with progress.bar(len(links), "articles") as bar:
        held = await visitor.visit_links(links, is_over=lambda: time.monotonic() > end, watch=bar.update)
    run.ends.update(visitor.link_results)
    run.ends[LinkResult.KNOWN] += await context.articles.count_attempted(held)
    run.ends[LinkResult.DEFERRED] += len(links) - run.ends.total()


async def finish(client: connect.Client, keys: Keys, settings: Settings, run: Run) -> Mapping[str, int]:
    """Prune a little, count everything once, say one sentence if there was anything to do."""
    lives = Ttls.of(settings)
    await Pruner(client, keys, lives).run(run.categories, run.clock.now())
    counts = tally(run)
    seconds = time.monotonic() - run.started
    await ArticleStore(client, keys, lives).record_run(counts, run.clock.now(), seconds)
    if run.findings.links:
        log.info(
            "🏁 %(found)d links: %(known)d known, %(rejected)d rejected, %(new)d new = %(stored)d stored, "
            "%(failed)d failed, %(retry)d to retry, %(alias)d aliases, %(duplicate)d duplicates, %(deferred)d deferred",
            counts,
        )
    return counts


def tally(run: Run) -> dict[str, int]:
    """found = new + known + rejected; new = stored + failed + retry + alias + duplicate + deferred."""
    counts = {str(end): run.ends[end] for end in LinkResult}
    counts["known"] += run.findings.known
    new = sum(counts[str(end)] for end in LinkResult if end not in (LinkResult.KNOWN, LinkResult.REJECTED))
    return {"found": new + counts["known"] + counts["rejected"], "new": new, **counts}


# ── the two ways to run it ──


async def run_once(context: Context, budget_seconds: float) -> Mapping[str, int]:
    """One run with an open context: after every cycle of the ingestor."""
    run = await look(context.client, context.keys, context.settings)
    if run.findings.links:
        await fetch(context, run, budget_seconds)
    return await finish(context.client, context.keys, context.settings, run)


async def _main(settings: Settings) -> None:
    """One run by hand or by cron: nothing heavy is loaded before there is something to fetch."""
    logs.configure(settings)
    keys, client = Keys.of(settings), connect.open_store(settings)
    try:
        await redis_health.wait_for_server(client, settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS)
        await version.check(client, keys)
        run = await look(client, keys, settings)
        if run.findings.links:
            from core.runtime.context import build_context

            async with build_context(settings, client, keys) as context:
                await fetch(context, run, settings.canonical_budget_seconds)
        await finish(client, keys, settings, run)
    finally:
        await client.aclose()


def main() -> int:
    """The command line."""
    argparse.ArgumentParser(
        prog="python -m workers.canonical_fetcher", description=__doc__.splitlines()[0]
    ).parse_args()
    return signals.run_until_stopped(lambda: _main(load()))


if __name__ == "__main__":
    sys.exit(main())
