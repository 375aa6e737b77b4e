"""Parse hostile bytes in child processes that may be killed, and tell what happened as a value.

No child runs until the first task. At most `processes` tasks run at once, others queue. A child that hangs or answers
nonsense costs its own task only: the next one gets a fresh child. One that is killed costs nothing: its task is tried
again in another, and only a body over which three have died is given up.
"""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, Self

import msgspec

from core.errors import ParserUnavailable
from core.runtime import parse_failures, parse_protocol, parse_tasks
from core.runtime.parse_failures import Death
from core.runtime.parse_process import InvalidReply, ParseProcess

DEFAULT_REGISTRY = "core.runtime.parse_tasks:TASKS"
DEFAULT_MAX_TASKS = 5_000
MOST_CRASHES = 3
"""Over the same body. A child may be killed by somebody who knows nothing of it, such as the system short of memory."""
MOST_STARTS = 10
"""Children in a row that are killed before they are ready."""
START_PAUSE_SECONDS = 0.1
"""After the first of them; twice as long after the second, and so on."""


class ParsePool:
    """`async with ParsePool(...) as pool: result = await pool.run("feed", FeedRequest(...))`."""

    def __init__(
        self,
        processes: int,
        cpu_seconds: float,
        memory_bytes: int,
        *,
        wall_seconds: float = 60.0,
        max_tasks: int = DEFAULT_MAX_TASKS,
        registry: str = DEFAULT_REGISTRY,
    ) -> None:
        """Nothing is started yet.

        Args:
            wall_seconds: a task's limit on the clock; well above the CPU limit, or a busy machine fails good input.
            max_tasks: a child is replaced after that many tasks (or sooner, when it keeps half its memory limit).
            registry: `module:attribute` of a mapping of `parse_tasks.ParseTask`, importable here and in the child.
        """
        self._options = parse_protocol.ChildOptions(registry, os.getpid(), cpu_seconds, memory_bytes, max_tasks)
        self._wall_seconds = wall_seconds
        self._results: dict[str, msgspec.msgpack.Decoder[Any]] = {
            name: msgspec.msgpack.Decoder(task.result) for name, task in parse_tasks.load(registry).items()
        }
        self._slots = asyncio.Semaphore(processes)
        self._idle: list[ParseProcess] = []
        self._busy: set[ParseProcess] = set()
        self._dying: list[ParseProcess] = []
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The children alive now."""
        return tuple(child.pid for child in (*self._idle, *self._busy) if child.is_alive())

    async def run(self, task: str, request: object) -> Any:
        """The task's result (of its registered type), or `Failed` with code FAIL_PARSE.

        Raises `ParserUnavailable` when the trouble is ours, so that no body is blamed for it.
        """
        decoder = self._results[task]
        async with self._slots:
            frame = parse_protocol.call_frame(
                task, request
            )  # in our turn: a thousand queued bodies are not copied at once
            answer: Any = None
            for _ in range(MOST_CRASHES):
                answer = await self._try(frame, decoder)
                if not isinstance(answer, Death) or not answer.may_be_chance:
                    break
        return parse_failures.of_death(answer, self._options) if isinstance(answer, Death) else answer

    async def _try(self, frame: bytearray, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        child = await self._take()
        try:
            return await self._ask(child, frame, decoder)
        except BaseException:
            self._discard(child)  # cancelled: its answer would otherwise be read as the next task's
            raise

    async def _ask(self, child: ParseProcess, frame: bytearray, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        try:
            async with asyncio.timeout(self._wall_seconds):
                reply = parse_protocol.reply_decoder.decode(await child.ask(frame))
            result = decoder.decode(reply.result) if reply.status == parse_protocol.ReplyStatus.DONE else None
        except TimeoutError:
            self._discard(child)
            return parse_failures.of_clock(self._wall_seconds)
        except (EOFError, ConnectionError):
            return await self._death(child)
        except (InvalidReply, msgspec.MsgspecError, RecursionError, UnicodeError):
            self._discard(child)
            return parse_failures.of_garbage()
        self._release(child, reply.retiring)
        return (
            result if reply.status == parse_protocol.ReplyStatus.DONE else parse_failures.of_reply(reply, self._options)
        )

    async def close(self) -> None:
        """Kill every child and wait until the kernel has them; calls still running raise `ParserUnavailable`."""
        self._is_closed = True
        for child in self._busy:
            child.kill()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.gather(*(child.exit_status() for child in (*self._busy, *self._dying)))
        self._dying.clear()

    async def _take(self) -> ParseProcess:
        self._refuse_if_closed()
        self._dying = [child for child in self._dying if child.is_alive()]
        while self._idle:
            child = self._idle.pop()
            if child.is_alive():
                self._busy.add(child)
                return child
            self._discard(child)
        return await self._start()

    async def _start(self) -> ParseProcess:
        """A fresh child. One that is killed while it starts says nothing about us: another follows a little later."""
        for attempt in range(1, MOST_STARTS + 1):
            child = ParseProcess(self._options)
            self._busy.add(child)
            try:
                await child.ready()
                return child
            except ParserUnavailable as error:
                death = await self._death(child)
                if not death.may_be_chance:
                    raise
                if attempt == MOST_STARTS:
                    raise ParserUnavailable(parse_failures.of_starts(death, attempt)) from error
            except BaseException:
                self._discard(child)
                raise
            # Whoever kills (a system short of memory, a person) may need a moment; longer each time.
            await asyncio.sleep(START_PAUSE_SECONDS * attempt)
            self._refuse_if_closed()
        raise AssertionError("the last try returns or raises")

    def _release(self, child: ParseProcess, is_retiring: bool) -> None:
        if is_retiring or self._is_closed:
            self._discard(child)
        else:
            self._busy.discard(child)
            self._idle.append(child)

    def _discard(self, child: ParseProcess) -> None:
        self._busy.discard(child)
        child.kill()
        child.hang_up()
        self._dying.append(child)  # its exit status is collected later: nobody should wait for a dying process

    async def _death(self, child: ParseProcess) -> Death:
        status = await child.exit_status()
        self._discard(child)
        self._refuse_if_closed()  # then the death was our doing
        return Death(status)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ParserUnavailable("The parse pool is closed.")
