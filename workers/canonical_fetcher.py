"""The canonical fetcher: fetch each new link once and store it as a clean article. It runs once and ends.

python -m workers.canonical_fetcher    fetch what is new, for at most CANONICAL_BUDGET_SECONDS
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

from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.io.links_to_fetch import LinkFinder, NewLinks
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.models import LinkResult
from core.registry.io.article_store import ArticleStore
from core.registry.io.periodic_cleanup import Pruner
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind
from core.runtime import logs, progress, signals
from core.settings import Settings, load
from core.store import connect, redis_health
from core.store.clock import ServerClock

if TYPE_CHECKING:
    # Imported only when there is something to fetch: a run that finds nothing new stays small and quick.
    from core.runtime.context import Context

log = logging.getLogger("canon")


@dataclass(slots=True)
class FetchRun:
    """One run: the links to fetch, and the result of each."""

    clock: ServerClock
    categories: list[str]
    new: NewLinks
    is_continued: bool = False
    """A run was paused or interrupted; this is its end, even if nothing is left."""
    started: float = field(default_factory=time.monotonic)
    results: Counter[LinkResult] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether every new link was visited, or refused."""
        return sum(self.results.values()) >= len(self.new.links) and not self.results[LinkResult.DEFERRED]

    def counts(self) -> dict[str, int]:
        """found = new + known + rejected; new = stored + failed + retry + alias + duplicate + deferred."""
        counts = {str(result): self.results[result] for result in LinkResult}
        counts["known"] += self.new.known
        new = sum(counts.values()) - counts["known"] - counts["rejected"]
        return {"found": new + counts["known"] + counts["rejected"], "new": new, **counts}


async def find_links(client: connect.Client, keys: Keys, settings: Settings) -> FetchRun:
    """Start a run with all new links; those added by hand enter the categories of articles that are there already."""
    shared = (client, keys, Ttls.of(settings))
    links, articles, pruner = LinkStore(*shared), ArticleStore(*shared), Pruner(*shared)
    subscriptions = Subscriptions(client, keys)
    await subscriptions.find_categories()
    clock, categories = await ServerClock.ask(client), await subscriptions.categories()
    await pruner.forget_old_attempts(clock.now())
    for category in categories:
        await pruner.drop_stale_stamps(category)
        await articles.renewal([category], await links.added_by_hand(category), clock.now())
    open_run = await RunStore(client, keys).open_run(str(RunKind.CANONICAL), clock.now())
    return FetchRun(
        clock, categories, await LinkFinder(client, keys).find(categories, clock.now()), open_run is not None
    )


async def fetch_links(context: Context, run: FetchRun, budget_seconds: float) -> None:
    """Visit every new link, the domains side by side, until the time is over."""
    from core.registry.io.link_run import visit_links_as_run

    links, end, fanout = run.new.links, run.started + budget_seconds, None
    if 0 < context.settings.canonical_fanout < len(links):
        from core.registry.io.link_fanout import LinkFanout  # brings RQ, for a tenth of the CPU time of the start

        fanout = LinkFanout(context.settings, links)
    is_over = lambda: time.monotonic() > end  # noqa: E731
    try:
        with progress.bar(len(links), "articles") as bar:
            visiting = visit_links_as_run(context, run.clock, links, is_over=is_over, watch=bar.update, fanout=fanout)
            run.results.update(await visiting)
    finally:
        if fanout:
            await fanout.close()


async def finish(client: connect.Client, keys: Keys, settings: Settings, run: FetchRun) -> Mapping[str, int]:
    """Prune a little, record the counts, and log one sentence if there was anything to do."""
    ttls, counts = Ttls.of(settings), run.counts()
    await Pruner(client, keys, ttls).run(run.categories, run.clock.now())
    if run.is_whole and run.new.mark:
        await LinkFinder(client, keys).remember(run.new.mark)
    await ArticleStore(client, keys, ttls).record_run(counts, run.clock.now(), time.monotonic() - run.started)
    if run.new.links:
        log.info(
            "🏁 %(found)d links: %(known)d known, %(rejected)d rejected, %(new)d new = %(stored)d stored, "
            "%(failed)d failed, %(retry)d to retry, %(alias)d aliases, %(duplicate)d duplicates, %(deferred)d deferred",
            counts,
        )
    return counts


async def run_once(context: Context, budget_seconds: float) -> Mapping[str, int]:
    """Run once with an open context: the ingestor does so after its cycles."""
    run = await find_links(context.client, context.keys, context.settings)
    if run.new.links or run.is_continued:
        await fetch_links(context, run, budget_seconds)
    return await finish(context.client, context.keys, context.settings, run)


async def _main(settings: Settings) -> None:
    """Run once from the command line; nothing heavy is imported before there is something to fetch."""
    logs.configure(settings)
    async with redis_health.open_when_ready(settings, once=True) as (client, keys):
        run = await find_links(client, keys, settings)
        if run.new.links or run.is_continued:
            from core.runtime.context import build_context

            async with build_context(settings, client, keys) as context:
                await fetch_links(context, run, settings.canonical_budget_seconds)
        await finish(client, keys, settings, run)


def main() -> int:
    """The command line."""
    argparse.ArgumentParser(
        prog="python -m workers.canonical_fetcher", description=__doc__.splitlines()[0]
    ).parse_args()
    return signals.run_until_stopped(lambda: _main(load()))


if __name__ == "__main__":
    sys.exit(main())
