"""Work through many hosts at once, each at its own pace.

Every domain has a lane; a slow or crowded domain holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def by_lane(items: Iterable[T], lane_of: Callable[[T], str]) -> dict[str, deque[T]]:
    """Items in order, grouped by lane."""
    lanes: dict[str, deque[T]] = {}
    for item in items:
        lanes.setdefault(lane_of(item), deque()).append(item)
    return lanes


def _is_cancelled() -> bool:
    """On Python 3.11 redis-py may lose a cancellation that comes with an answer; asyncio remembers it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def drive(
    lanes: Mapping[str, deque[T]],
    work: Callable[[T], Awaitable[None]],
    per_lane: int,
    should_stop: Callable[[], bool],
    at_once: int | None = None,
) -> None:
    """Run `work` for every item, at most `per_lane` at a time in each lane; the first exception ends all.

    `at_once` limits all lanes together. With gates that make lanes wait it would let the slow hold up the quick, so
    it is for work that waits for nobody.
    """
    limit: contextlib.AbstractAsyncContextManager[object] = (
        asyncio.Semaphore(at_once) if at_once else contextlib.nullcontext()
    )

    async def follow(lane: deque[T]) -> None:
        while lane and not should_stop() and not _is_cancelled():
            async with limit:
                # Others may have emptied the lane while we waited.
                if lane:
                    await work(lane.popleft())

    async with asyncio.TaskGroup() as group:
        for lane in lanes.values():
            for _ in range(min(per_lane, len(lane))):
                group.create_task(follow(lane))
