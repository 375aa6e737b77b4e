"""Run the steps of a source that keeps local copies: before its listing, and after the visits.

A run may name some of the steps in its parameters; without that it does all. What a source without steps does is the
same whatever is named. What was prepared to its end is not prepared again when the run is continued.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.registry.io.loss_guard import LossGuard
from core.runs.run import Run, RunPhase
from core.runtime.context import Context
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io.crawl_progress import CrawlProgress, PercentRange
from core.sources.io.crawl_runs import CrawlMode
from core.sources.io.source import Source
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.step_results import SourceStatistics
from core.sources.source_record import SOURCES_SUFFIX
from core.store.clock import ServerClock

PREPARED, STATISTICS = "prepared", "statistics"
"""Fields of a run: its source was prepared to the end; what its steps did."""
_VISITS = PercentRange(60, 80)


@dataclass(slots=True)
class CrawlSteps:
    """The steps of one process's pass over one source."""

    context: Context
    source: Source
    clock: ServerClock
    run: Run
    """As it was when this process joined it."""
    guard: LossGuard
    shown: CrawlProgress
    should_stop: Callable[[], bool]
    problem: str = ""
    """Why the copies could not be brought up to date."""
    publish_problem: str = ""
    warnings: list[str] = field(default_factory=list)
    statistics: SourceStatistics | None = None
    dead_leases: set[str] = field(default_factory=set)
    """How the leases of the run's killed workers begin."""
    _range: PercentRange = field(default=PercentRange(0, 0))
    _phase: RunPhase = RunPhase.CRAWLING
    _began: float = 0.0

    @property
    def asked(self) -> CrawlParameters:
        return CrawlParameters.of(self.run.parameters)

    @property
    def lists(self) -> bool:
        """Whether the source is listed in this pass, and its items are visited."""
        return StepName.EMBED in self.asked.steps or not self.source.has_steps

    @property
    def notes(self) -> list[str]:
        """What people should read at the end: why the store is not up to date, and the first of what else failed."""
        more = f" (and {len(self.warnings) - 1} more)" if len(self.warnings) > 1 else ""
        return [phrase for phrase in (self.publish_problem, *(f"{one}{more}" for one in self.warnings[:1])) if phrase]

    def with_failures(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Return the counters of the run, with what the steps could not do among what failed."""
        told = self.statistics
        failed = told.download.failed + told.process.failed + told.embed.failed if told else 0
        return {**counts, "failed": counts.get("failed", 0) + failed}

    async def prepare(self) -> bool:
        """Bring the copies of the source up to date; tell whether its listing may begin."""
        if not self.source.has_steps:
            return True
        if not (await self.context.runs.fields(self.run.id)).get(PREPARED):
            step = self._step(RunPhase.CRAWLING, PercentRange(0, _VISITS.first if self.lists else 99))
            self.problem = await self.source.prepare(step)
            self.warnings += step.warnings
            await self._leave_step()
            if not self.problem and not self.should_stop():
                await self.context.runs.update(self.run.id, {PREPARED: "1"})
        self.shown.phase, self.shown.visits = RunPhase.PROCESSING, _VISITS
        return not self.problem and not self.should_stop()

    async def publish(self) -> None:
        if not self.source.has_steps:
            return
        step = self._step(RunPhase.INDEXING, PercentRange(_VISITS.last, 99))
        self.publish_problem = await self.source.publish(step)
        self.warnings += step.warnings
        await self._leave_step()

    # ── reports of a step ──

    def _step(self, phase: RunPhase, percents: PercentRange) -> Step:
        record = self.source.state.record
        if self.statistics is None:
            own_name = record.sid.removeprefix(f"{record.domain}.")
            # A run that is continued counts on.
            self.statistics = SourceStatistics.of(own_name, f"{record.kind}{SOURCES_SUFFIX}", self.run.statistics)
        self._began = time.monotonic()
        self._phase, self._range = phase, percents
        self.shown.step = self._told(percents.first, "")
        return Step(
            self.statistics,
            names=self.asked.steps,
            mode=str(CrawlMode.FULL if CrawlMode.of(self.run) is CrawlMode.FULL else CrawlMode.INCREMENTAL),
            should_stop=self.should_stop,
            retry_batches=self.asked.retry_batches,
            began_ts=self.run.created_ts,
            downloads_at_once=self.context.settings.sharepoint_downloads,
            run_id=self.run.id,
            dead_leases=frozenset(self.dead_leases),
            now=self.clock.now,
            on_progress=self._progress,
            on_removal=self._may_remove,
        )

    async def _leave_step(self) -> None:
        """Write down what was done; the visits tell from here on how far the run is."""
        self.shown.step = None
        if self.statistics is not None:
            self.statistics.seconds = round(self.statistics.seconds + time.monotonic() - self._began, 3)
            stored = json.dumps(self.statistics.to_json(), ensure_ascii=False)
            await self.context.runs.update(self.run.id, {STATISTICS: stored})

    async def _progress(self, done: int, total: int, message: str) -> None:
        self.shown.step = self._told(self._range.at(done, total), message)

    def _told(self, percent: int, message: str) -> Mapping[str, str]:
        return {"phase": str(self._phase), "progress": str(percent), "message": message}

    async def _may_remove(self, removed: int, known: int) -> str:
        return await self.guard.refuse_loss(self.source, removed, known=known)
