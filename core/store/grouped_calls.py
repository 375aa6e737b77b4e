"""Make many small calls as one: those that come within a few milliseconds go to the server together.

A round trip through redis-py costs about 0.3 ms of our CPU, whatever it carries; a hundred visits side by side each
need several. Grouped, ten of them pay for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Call = TypeVar("Call")
Answer = TypeVar("Answer")

LINGER_SECONDS = 0.01
"""How long the first call of a group waits for others; little beside the fetch that each of them belongs to."""
BUSY_LINGER_SECONDS = 0.05
"""The same where calls are many: at a hundred pages a second, a hundredth of a second would make groups of one."""
BUSY_CALLS, BUSY_SECONDS = 4, 0.5
"""So many calls within this time that did not wait for the answer to another: a loop that makes one after the other
has nobody to wait for."""


class GroupedCalls(Generic[Call, Answer]):
    """Collects calls and makes them together, in the order in which they came."""

    def __init__(self, make: Callable[[Sequence[Call]], Awaitable[Sequence[Answer]]], most: int) -> None:
        """`make` makes up to `most` calls at once and returns an answer for each."""
        self._make = make
        self._most = most
        self._overlapped_at: deque[float] = deque(maxlen=BUSY_CALLS)
        self._unanswered = 0
        self._waiting: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._is_full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def call(self, call: Call) -> Answer:
        """Make this call with others that come soon; an error of the group is raised for each of them.

        A call that is cancelled before it was sent is never sent.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, answer))
        if len(self._waiting) >= self._most:
            self._is_full.set()
        if self._task is None:
            self._start()
        if self._unanswered:
            self._overlapped_at.append(time.monotonic())
        self._unanswered += 1
        try:
            return await answer
        finally:
            self._unanswered -= 1

    async def settled(self) -> None:
        """Wait until the group that is under way has its answers; never raises what it raised."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _start(self) -> None:
        self._task = asyncio.create_task(self._work())
        self._task.add_done_callback(self._go_on)

    def _go_on(self, _: asyncio.Task[None]) -> None:
        self._task = None
        if self._waiting:
            self._start()

    def _is_busy(self) -> bool:
        overlaps = self._overlapped_at
        return len(overlaps) == BUSY_CALLS and time.monotonic() - overlaps[0] < BUSY_SECONDS

    async def _work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BUSY_LINGER_SECONDS if self._is_busy() else LINGER_SECONDS):
                await self._is_full.wait()
        group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        if len(self._waiting) < self._most:
            self._is_full.clear()
        await self._send([(call, answer) for call, answer in group if not answer.done()])

    async def _send(self, group: Sequence[tuple[Call, asyncio.Future[Answer]]]) -> None:
        if not group:
            return
        try:
            answers = await self._make([call for call, _ in group])
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the calls are awaited
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():
                future.set_result(answer)
