"""What the steps of a crawl get from the run that they belong to, and what they tell it.

The steps know nothing of runs, Redis or the registry: a test gives them a `Step` of its own.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from core.sources.crawl_parameters import ALL_STEPS, StepName
from core.sources.sharepoint.step_results import SourceStatistics

Progress = Callable[[int, int, str], Awaitable[object]]
"""Called with the number done, the number of all, and the present task."""
MayRemove = Callable[[int, int], Awaitable[str]]
"""Called with the number to remove and the number of all; returns a sentence why not, or nothing."""


async def _say_nothing(*_: object) -> str:
    return ""


@dataclass(slots=True)
class Step:
    """One source's part in a run."""

    statistics: SourceStatistics
    """Counted by the steps as they go."""
    names: frozenset[StepName] = frozenset(ALL_STEPS)
    """Which steps the run does."""
    mode: str = "incremental"
    """`full`: everything is downloaded and embedded again."""
    should_stop: Callable[[], bool] = lambda: False
    """Whether the run was paused or cancelled; a step then ends between two items, with everything written."""
    retry_batches: int = 2
    """How often what failed is tried, the first time included; 1: once."""
    began_ts: float = 0.0
    """When the run was requested: what was downloaded since then was downloaded for it."""
    downloads_at_once: int = 4
    run_id: str = ""
    dead_leases: Collection[str] = ()
    """How the leases begin of processes that were killed while they worked on this run."""
    now: Callable[[], float] = time.time
    """The time that stamps are made of."""
    on_progress: Progress = _say_nothing
    on_removal: MayRemove = _say_nothing
    warnings: list[str] = field(default_factory=list)
    """What a person should read at the end of the run."""

    async def progress(self, done: int, total: int, message: str) -> None:
        await self.on_progress(done, total, message)

    async def may_remove(self, removed: int, known: int) -> str:
        """Return a sentence why this many items may not be removed now; empty if they may.

        `known`: all that the source has, with those that are to go and those that were found new.
        """
        return await self.on_removal(removed, known) if removed else ""
