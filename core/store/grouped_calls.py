"""Make many small calls as one: those that come within a few milliseconds go to the server together.

A round trip through redis-py costs about 0.3 ms of our CPU, whatever it carries; a hundred visits side by side each
need several. Grouped, ten of them pay for one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Call = TypeVar("Call")
Answer = TypeVar("Answer")

LINGER_SECONDS = 0.01
"""How long the first call of a group waits for others; little beside the fetch that each of them belongs to."""


class GroupedCalls(Generic[Call, Answer]):
    """Collects calls and makes them together, in the order in which they came."""

    def __init__(self, make: Callable[[Sequence[Call]], Awaitable[Sequence[Answer]]], most: int) -> None:
        """`make` makes up to `most` calls at once and returns an answer for each."""
        self._make = make
        self._most = most
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
        return await answer

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

    async def _work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
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
