"""Crawl a domain: the crawls of its sources one after the other, as one run whose children they are.

What is asked of the domain's run is asked of its children too: they are paused and cancelled with it. Continued, it
goes on with the source that it was at, and repeats none that has come to its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.errors import FreshetError
from core.outputs.vector_store.crawl_report import CrawledSource
from core.runs.io.receipts import joined_receipts
from core.runs.io.run_store import RunStore
from core.runs.io.run_worker import RunWorker
from core.runs.run import COUNTERS, ENDED, Run, RunKind, RunPhase, RunStatus, source_scope
from core.runs.run_request import RunRequest
from core.runtime.context import Context
from core.sources.crawl_parameters import CrawlParameters
from core.sources.io.crawl import crawl_source, stay
from core.sources.io.crawl_archive import archive_crawl
from core.sources.io.crawl_runs import ALL_OF_IT, CrawlMode, open_crawl_run
from core.sources.io.domain_sources import select_sources
from core.sources.io.domain_store import DomainStore
from core.store import cancellation
from core.store.clock import ServerClock


@dataclass(slots=True)
class DomainCrawl:
    """One process's part in the crawl of a domain."""

    context: Context
    domain_id: str
    sids: Sequence[str]
    mode: CrawlMode
    stays: bool = True
    """Wait here while it is paused; a job does not, since another one continues the run."""
    should_stop: Callable[[], bool] = lambda: False
    started_by: str = "script"
    asked: CrawlParameters = ALL_OF_IT
    """What a new run does; one that is continued does what it was asked for."""
    results: dict[str, CrawledSource] = field(default_factory=dict)
    _is_waiting: bool = False
    _in_flight: int = 0
    """Items that its children had in flight when it was last looked."""

    async def run(self, run_id: str = "") -> Run:
        """Open the domain's run or continue it; return it as it is at its end, or as it was left."""
        clock, runs = await ServerClock.ask(self.context.client), self.context.runs
        now = clock.now()
        if run_id:
            run = await runs.require(run_id, now)
        else:
            run = await open_crawl_run(
                *(runs, RunKind.DOMAIN, self.mode, now),
                domain=self.domain_id,
                started_by=self.started_by,
                asked=self.asked,
            )
            await self._select(run)
        worker = RunWorker(runs, clock, run, self.context.leases.prefix)
        worker.left_as = RunStatus.INTERRUPTED if self.stays else RunStatus.QUEUED
        await self._drop_dead(run)
        if await worker.join() is RunRequest.PAUSE and self.stays:
            await stay(worker, self.should_stop)
        if worker.requested is RunRequest.NONE:
            await self._work(worker, clock)
        return await runs.require(run.id, clock.now())

    async def _select(self, run: Run) -> None:
        """Choose the sources of an open run that does more than is asked for now."""
        does = CrawlParameters.of(run.parameters)
        if does != self.asked:
            domain = await DomainStore(self.context.client, self.context.keys).require(self.domain_id)
            self.sids = await select_sources(self.context, domain, does)

    async def run_source(self, sid: str) -> None:
        clock = await ServerClock.ask(self.context.client)
        await self._crawl_source(sid, self.mode, clock, asked=self.asked)

    async def _drop_dead(self, run: Run) -> None:
        """Forget killed processes of this machine, and release what they held: a source that was done, too."""
        for dead in await self.context.runs.workers.dead(run.id):
            for sid in self.sids if dead.lease_prefix else ():
                await self.context.leases.release_of(f"source_{sid}", dead.lease_prefix)
            await self.context.runs.workers.drop(run.id, dead.token)

    async def _work(self, worker: RunWorker, clock: ServerClock) -> None:
        runs, run = self.context.runs, worker.run

        async def tell(now: float) -> Mapping[str, str]:
            worker.is_waiting = self._is_waiting
            return await self._totals(runs, run.id, now)

        worker.tell, worker.in_flight = tell, lambda: self._in_flight
        async with worker.whole_pass():
            for sid in self.sids:
                if self._should_stop(worker):
                    break
                await self._crawl(worker, sid, clock)
                await worker.beat()  # what is asked of the domain is known before the next source begins
            worker.end = worker.left_as if self._should_stop(worker) else self._end()
            worker.end_fields |= await self._totals(runs, run.id, clock.now())
            problem = next((one.problem for one in self.results.values() if one.problem), "")
            worker.end_fields |= {"problem": problem, "message": self._message()}
            worker.end_fields["receipt"] = joined_receipts(
                [one.run.receipt if one.run else "" for one in self.results.values()]
            )
            worker.end_fields["statistics"] = json.dumps(self._statistics(), ensure_ascii=False)
            await self._archive(await runs.require(run.id, clock.now()), worker.end, clock.now())

    async def _archive(self, run: Run, end: RunStatus, now: float) -> None:
        sources = []
        for one in self.results.values():
            kind = (await self.context.sources.details(one.sid)).get("kind", "")
            sources.append(replace(one, kind=kind))
        await archive_crawl(self.context, run, end, sources, now)

    def _should_stop(self, worker: RunWorker) -> bool:
        return self.should_stop() or worker.should_stop()

    async def _crawl(self, worker: RunWorker, sid: str, clock: ServerClock) -> None:
        runs, parent = self.context.runs, worker.run.id
        children = await runs.children(parent, clock.now())
        before = next((child for child in children if child.source == sid), None)
        if before is not None and before.status in ENDED:
            self.results[sid] = CrawledSource(sid, "", before)
            return

        async def on_open(child: Run) -> None:
            await runs.set_child(parent, child)

        async def on_wait(is_waiting: bool) -> None:
            self._is_waiting = is_waiting
            await worker.beat()

        await self._crawl_source(
            *(sid, CrawlMode.of(worker.run), clock),
            run_id=before.id if before else "",
            parent=parent,
            asked=CrawlParameters.of(worker.run.parameters).of_source(),
            on_open=on_open,
            on_wait=on_wait,
        )

    async def _crawl_source(self, sid: str, mode: CrawlMode, clock: ServerClock, **more: Any) -> None:
        """Crawl a source and keep how that ended, even if it is interrupted."""
        runs, scope = self.context.runs, source_scope(sid)
        opened = more.pop("on_open", None)
        run_ids: list[str] = []

        async def on_open(run: Run) -> None:
            run_ids.append(run.id)
            if opened:
                await opened(run)

        error = ""
        try:
            await crawl_source(
                self.context,
                sid,
                mode,
                started_by=self.started_by,
                stays=self.stays,
                should_stop=self.should_stop,
                on_open=on_open,
                **more,
            )
        except FreshetError as failure:
            error = str(failure)
        finally:
            run_id = run_ids[0] if run_ids else (await runs.open_ids()).get(scope, "")
            run = await cancellation.finish(runs.read(run_id, clock.now())) if run_id else None
            self.results[sid] = CrawledSource(sid, "", run, error)

    def _statistics(self) -> dict[str, object]:
        told = {one.sid: dict(one.run.statistics) for one in self.results.values() if one.run and one.run.statistics}
        return {"sources": told} if told else {}

    # ── totals ──

    async def _totals(self, runs: RunStore, run_id: str, now: float) -> Mapping[str, str]:
        """Return the fields of the domain's run that follow from its children."""
        children = await runs.children(run_id, now)
        self._in_flight = sum(child.in_flight for child in children)
        totals: Counter[str] = Counter()
        for child in children:
            totals.update({name: child.counts.get(name, 0) for name in COUNTERS})
        complete = [child for child in children if child.status in ENDED and child.status is not RunStatus.CANCELLED]
        done = sum(1.0 if child in complete else child.progress / 100 for child in children)
        current = next((child for child in children if child.is_open), None)
        what = f"; {current.source}: {current.message}" if current and current.message else ""
        return {
            **{name: str(totals[name]) for name in COUNTERS},
            "phase": str(RunPhase.CRAWLING),
            "parts": str(len(self.sids)),
            "progress": str(min(int(100 * done / max(len(self.sids), 1)), 99)),
            "message": f"{len(complete)}/{len(self.sids)} sources{what}",
        }

    def _end(self) -> RunStatus:
        statuses = [result.status for result in self.results.values()]
        if all(status is RunStatus.SUCCEEDED for status in statuses):
            return RunStatus.SUCCEEDED
        return RunStatus.FAILED if all(one is RunStatus.FAILED for one in statuses) else RunStatus.PARTIAL

    def _message(self) -> str:
        """Name the sources that did not succeed; their own runs say why."""
        others = [one for one in self.results.values() if one.status is not RunStatus.SUCCEEDED]
        return "; ".join(f"{one.sid}: {one.error or one.status}" for one in others)
