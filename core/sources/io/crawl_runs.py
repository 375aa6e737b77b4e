"""Open the run of a crawl, or continue the open one; a request for more than the open one reads gets a new run."""

from __future__ import annotations

from enum import StrEnum

from core.runs.io.run_store import RunStore
from core.runs.run import Run, RunKind, RunStatus
from core.sources.crawl_parameters import CrawlParameters


class CrawlMode(StrEnum):
    """How much a run visits, from little to all."""

    SCHEDULED = "scheduled"
    """List, and visit what is due by its own schedule."""
    INCREMENTAL = "incremental"
    """Check everything that is known, by validators and versions."""
    FULL = "full"
    """Read everything again."""

    @classmethod
    def of(cls, run: Run) -> CrawlMode:
        return cls(run.mode) if run.mode in set(cls) else cls.SCHEDULED


ALL_OF_IT = CrawlParameters()
TOOK_OVER = "took_over"
"""The parameter of a run that names the one whose work it does too."""
_STRENGTH = {mode: place for place, mode in enumerate(CrawlMode)}


async def open_crawl_run(
    runs: RunStore,
    kind: RunKind,
    mode: CrawlMode,
    now: float,
    *,
    domain: str,
    source: str = "",
    parent: str = "",
    started_by: str = "",
    asked: CrawlParameters = ALL_OF_IT,
) -> Run:
    """Return the open run of the source or domain, or a new one. No other worker may work on the source meanwhile.

    An open run that does less than is asked for is superseded, by one that does what both were asked for.
    """
    asked = asked.of_source() if source else asked

    async def opened(wanted: CrawlParameters = asked, mode: CrawlMode = mode, took_over: str = "") -> Run:
        run, _ = await runs.open(
            *(kind, now),
            source=source,
            domain=domain,
            mode=str(mode),
            parent=parent,
            started_by=started_by,
            parameters=wanted.to_run() | ({TOOK_OVER: took_over} if took_over else {}),
        )
        return run

    run = await opened()
    if run.kind is RunKind.REFRESH and kind is not RunKind.REFRESH:
        await end_refresh(runs, run, now)
        run = await opened()
    elif is_weaker(run, mode, asked):
        before = CrawlMode.of(run)
        strongest = max(before, mode, key=_STRENGTH.__getitem__)
        # A scheduled crawl comes again by itself, and its steps were not asked for.
        is_asked_for = before is not CrawlMode.SCHEDULED
        wanted = asked.joined(CrawlParameters.of(run.parameters)) if is_asked_for else asked
        message = f"superseded by a crawl with mode {strongest}"
        if not wanted.is_whole_crawl:
            message += f", steps {wanted.told()['steps']}"
        await runs.finish(run, RunStatus.CANCELLED, now, {"message": message})
        run = await opened(wanted, strongest, run.id if is_asked_for else "")
    if parent and run.parent != parent:
        await runs.update(run.id, {"parent": parent})
    return run


def is_weaker(run: Run, mode: CrawlMode, asked: CrawlParameters) -> bool:
    is_less = _STRENGTH[CrawlMode.of(run)] < _STRENGTH[mode]
    return is_less or not CrawlParameters.of(run.parameters).covers(asked)


async def end_refresh(runs: RunStore, run: Run, now: float) -> None:
    """End a refresh because a crawl takes its place; jobs of it that still come join the crawl."""
    end = RunStatus.PARTIAL if run.counts.get("failed") else RunStatus.SUCCEEDED
    await runs.finish(run, end, now, {"message": "a crawl of the source took over"})
