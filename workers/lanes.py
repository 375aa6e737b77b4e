"""Work through many hosts at once, each at its own pace.

Every domain has a lane; a slow or crowded domain holds up nobody else.
"""

from __future__ import annotations

import asyncio
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


async def drive(
    lanes: Mapping[str, deque[T]], work: Callable[[T], Awaitable[None]], per_lane: int, should_stop: Callable[[], bool]
) -> None:
    """Run `work` for every item, at most `per_lane` at a time in each lane; the first exception ends all."""

    async def follow(lane: deque[T]) -> None:
        while lane and not should_stop():
            await work(lane.popleft())

    async with asyncio.TaskGroup() as group:
        for lane in lanes.values():
            for _ in range(min(per_lane, len(lane))):
                group.create_task(follow(lane))
