"""Visit new links as a run of the canonical fetcher. Without new links there is no run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from core.models import LinkResult
from core.registry.io.batch_visitor import Visitor
from core.runs.io.pass_run import PassProgress, open_pass
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import RunKind, RunStatus
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.store.clock import ServerClock

if TYPE_CHECKING:
    from core.registry.io.link_fanout import LinkFanout  # brings RQ, which a run without jobs never needs

log = logging.getLogger("canon")

COUNTERS = ("found", *map(str, LinkResult))
"""found = the sum of all others: every link that the run took on has one result."""
Links = Mapping[str, Sequence[str]]


async def visit_links_as_run(
    context: Context,
    clock: ServerClock,
    links: Links,
    *,
    is_over: Callable[[], bool] = lambda: False,
    watch: Callable[[], object] = lambda: None,
    fanout: LinkFanout | None = None,
) -> Counter[LinkResult]:
    """Visit new links and return what became of each; those that were not reached, or are paused, are deferred.

    `fanout`: share them with RQ workers; what these have done counts as known here, and in the run as what it is.
    """
    async with open_pass(context.runs, clock, RunKind.CANONICAL, counters=COUNTERS, stays=False) as worker:
        if worker is None:
            log.warning("⏸️ The canonical fetcher is paused; `python -m scripts.runs resume canonical` ends that")
            return Counter({LinkResult.DEFERRED: len(links)})
        return await _visit(context, clock, worker, links, is_over, watch, fanout)


async def _visit(
    context: Context,
    clock: ServerClock,
    worker: RunWorker,
    links: Links,
    is_over: Callable[[], bool],
    watch: Callable[[], object],
    fanout: LinkFanout | None,
) -> Counter[LinkResult]:
    visitor = Visitor(context, clock, OpenSources(context, clock.now()))
    tally = RunTally(context.keys, worker.run.id, worker.failed_items)
    progress = PassProgress(worker, context.leases, tally, "Fetching articles", len(links))
    results, left = visitor.link_results, 0

    def counts() -> dict[str, int]:
        """What is put off is counted at the end: the run may be paused and come to it after all."""
        counted = {str(result): results[result] for result in LinkResult} | {str(LinkResult.DEFERRED): left}
        return {"found": sum(counted.values()), **counted}

    def step() -> None:
        progress.step()
        watch()

    progress.counts = counts
    visitor.watch_links(lambda failed: progress.failed.append(failed), lambda uid: progress.succeeded.append(uid))
    worker.in_flight = lambda: visitor.in_flight
    should_stop = lambda: is_over() or worker.should_stop()  # noqa: E731
    held: list[str] = []
    if fanout:
        log.info("📤 %d links in %d jobs for workers on any host", len(links), await fanout.send())
        async for share in fanout.here(should_stop):
            held += await visitor.visit_links(share, is_over=should_stop, watch=step)
    else:
        held += await visitor.visit_links(links, is_over=should_stop, watch=step)
    results[LinkResult.KNOWN] += await context.articles.count_attempted(held)
    elsewhere = await context.articles.count_attempted(fanout.elsewhere if fanout else ())
    results[LinkResult.DEFERRED] += len(links) - results.total() - elsewhere
    left = 0 if worker.should_stop() else results[LinkResult.DEFERRED]
    has_failed = results[LinkResult.FAILED] or results[LinkResult.RETRY]
    worker.end = RunStatus.PARTIAL if has_failed else RunStatus.SUCCEEDED
    told = ", ".join(f"{results[result]} {result}" for result in LinkResult if results[result])
    told = ", ".join(filter(None, (told, f"{elsewhere} by other workers" if elsewhere else "")))
    worker.end_fields["message"] = f"{len(links)} links: {told}" if links else ""
    return results + Counter({LinkResult.KNOWN: elsewhere})
