"""Work on the items of many domains at once, so that a slow or rate-limited domain holds up no other.

A domain here is what passes one gate: a registrable domain, or a host with a pace of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import zip_longest
from typing import TypeVar

from core.runtime import interruptible
from core.settings import Settings
from core.store import cancellation
from core.urls.pace import HostPace, Paces

T = TypeVar("T")


def group(items: Iterable[T], domain_of: Callable[[T], str]) -> dict[str, deque[T]]:
    """Group items by domain, each domain's in their order."""
    domains: dict[str, deque[T]] = {}
    for item in items:
        domains.setdefault(domain_of(item), deque()).append(item)
    return domains


class GateLanes:
    """Says which gate a URL passes, how many items of a gate are worked on at once, and how far apart they start."""

    def __init__(self, paces: Paces, settings: Settings) -> None:
        self._paces = paces
        self._settings = settings
        self._seen: dict[str, HostPace] = {}

    def gate_of(self, url: str) -> str:
        """Return the gate of a URL; empty if it has no host."""
        pace = self._paces.of_url(url)
        if pace is None:
            return ""
        self._seen[pace.gate] = pace
        return pace.gate

    def limit_of(self, gate: str) -> int:
        """Return how many items of a gate are worked on at once."""
        pace = self._seen.get(gate)
        return pace.parallel or self._settings.fetch_concurrency if pace else self._settings.parallel_per_domain

    def gap_of(self, gate: str) -> float:
        """Return the gap at a gate."""
        return self._seen[gate].gap_seconds if gate in self._seen else 0.0


class _StartGap:
    """Lets the items of a domain start one after another, so many seconds apart."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._next_at = 0.0

    async def wait(self) -> None:
        """Reserve the next start and wait for it."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next_at)
        self._next_at = at + self.seconds
        await interruptible.sleep(at - now)


async def run(
    domains: Mapping[str, deque[T]],
    work: Callable[[T], Awaitable[None]],
    limit_of: Callable[[str], int],
    should_stop: Callable[[], bool],
    at_once: int | None = None,
    gap_of: Callable[[str], float] = lambda domain: 0.0,
) -> None:
    """Run `work` for every item, at most `limit_of` at a time of each domain; the first exception ends all.

    `at_once` limits all domains together. Work that waits at its domain's gate occupies one of these places;
    `gap_of` a domain delays its items before they start, when they occupy nothing yet.
    """
    limit: contextlib.AbstractAsyncContextManager[object] = (
        asyncio.Semaphore(at_once) if at_once else contextlib.nullcontext()
    )

    async def work_through(items: deque[T], gap: _StartGap) -> None:
        while items:
            item = items.popleft()
            if gap.seconds:
                await gap.wait()
            async with limit:
                if should_stop() or cancellation.is_cancelled():
                    items.appendleft(item)
                    return
                await work(item)

    lanes = [(items, _StartGap(gap_of(domain)), limit_of(domain)) for domain, items in domains.items()]
    # The first of each domain, then the second of each: places are given in this order. One domain after the other, a
    # host would be asked for all its pages at once, each over a connection of its own, and then never again.
    turns = zip_longest(*([lane] * min(lane[2], len(lane[0]), at_once or lane[2]) for lane in lanes))
    tasks = [asyncio.create_task(work_through(*lane[:2])) for turn in turns for lane in turn if lane]
    await _wait_for_all(tasks)


async def _wait_for_all(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for all; when one fails, or the caller is cancelled, end the others first."""
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        done = [task for task in tasks if task.done()]
        await cancellation.cancel_and_wait(*tasks)
    for task in done:
        task.result()
