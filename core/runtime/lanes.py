"""Work through many hosts at once, each at its own pace.

Every domain has a lane; a slow or crowded domain holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from core.store import cancelling

T = TypeVar("T")


def by_lane(items: Iterable[T], lane_of: Callable[[T], str]) -> dict[str, deque[T]]:
    """Items in order, grouped by lane."""
    lanes: dict[str, deque[T]] = {}
    for item in items:
        lanes.setdefault(lane_of(item), deque()).append(item)
    return lanes


class Turns:
    """When the next item of a lane may begin: so many seconds after the one before it."""

    def __init__(self, gap_seconds: float) -> None:
        self._gap = gap_seconds
        self._next_at = 0.0

    async def wait(self) -> None:
        """Take the next turn, and return when it has come."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        at = max(now, self._next_at)
        self._next_at = at + self._gap
        await asyncio.sleep(at - now)


async def drive(
    lanes: Mapping[str, deque[T]],
    work: Callable[[T], Awaitable[None]],
    per_lane: int,
    should_stop: Callable[[], bool],
    at_once: int | None = None,
    gap_of: Callable[[str], float] = lambda lane: 0.0,
) -> None:
    """Run `work` for every item, at most `per_lane` at a time in each lane; the first exception ends all.

    `at_once` limits all lanes together. Work that waits in line at its domain's gate holds one of these places
    meanwhile; `gap_of` a lane makes its items wait for their turn before they begin, so that they hold nothing.
    """
    limit: contextlib.AbstractAsyncContextManager[object] = (
        asyncio.Semaphore(at_once) if at_once else contextlib.nullcontext()
    )

    async def follow(lane: deque[T], turns: Turns) -> None:
        while lane and not should_stop() and not cancelling.is_cancelled():
            item = lane.popleft()
            await turns.wait()
            async with limit:
                if should_stop():
                    lane.appendleft(item)
                else:
                    await work(item)

    tasks = []
    for name, lane in lanes.items():
        turns = Turns(gap_of(name))
        tasks += [asyncio.create_task(follow(lane, turns)) for _ in range(min(per_lane, len(lane)))]
    await _all_of(tasks)


async def _all_of(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for all; when one fails, or we are cancelled, end the others first."""
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        failed = [task for task in tasks if task.done()]
        await cancelling.end(*tasks)
    for task in failed:
        task.result()
