"""Parse untrusted bytes in child processes that may be killed, and return what happened as a value.

Nothing runs until the first task; then children are forked from a server that has loaded the parsers. At most
`processes` tasks run at once, others queue. A child that hangs or answers nonsense costs its own task only: the next
one gets a fresh child. One that is killed costs nothing: its task is tried again in another, and only a body over which
three have died is given up (docs/architecture.md#parse-children).
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Self

import msgspec

from core.errors import FailCode, FailDetail, ParserUnavailable
from core.models import Failed
from core.runtime import parse_tasks
from core.runtime.parse_child_handle import InvalidReply, ParseChildHandle
from core.runtime.parse_fork_server_handle import ForkServerHandle
from core.runtime.parse_protocol import EXIT_MEMORY, ChildOptions, Reply, ReplyStatus, call_frame, reply_decoder
from core.runtime.parse_tasks import LOADED_WHEN_NEEDED
from core.value_class import value_class

DEFAULT_REGISTRY = "core.runtime.parse_tasks:TASKS"
DEFAULT_MAX_TASKS = 5_000
MOST_CRASHES = 3
"""Over the same body. A child may be killed for reasons of others, e.g. by a system short of memory."""
MOST_STARTS = 10
"""Children in a row that are killed before they are ready, or their server."""
START_PAUSE_SECONDS = 0.1
"""After the first of them; twice as long after the second, and so on."""
FAILURE_CHARS = 300
NO_RESULT = "The parser answered with something that is not a result."


@value_class
class _NotLoaded:
    """A task that waits for a module, which the fork server loads now."""


@value_class
class _ChildDeath:
    """A child that died over its task. `status` is its exit status, None if it only closed its socket."""

    status: int | None

    @property
    def is_by_chance(self) -> bool:
        """Killed by a signal that is not our own CPU limit: the body need not have anything to do with it."""
        return self.status is not None and self.status < 0 and self.status != -signal.SIGXCPU

    @property
    def signal_name(self) -> str:
        number = -(self.status or 0)
        return next((known.name for known in signal.Signals if known == number), f"signal {number}")


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
        """Start nothing yet.

        Args:
            wall_seconds: a task's limit on the clock; well above the CPU limit, or a busy machine fails good input.
            max_tasks: a child is replaced after that many tasks (or sooner, when it keeps half its memory limit).
            registry: `module:attribute` of a mapping of `ParseTask`, importable here and in the child.
        """
        self._options = ChildOptions(registry, os.getpid(), cpu_seconds, memory_bytes, max_tasks)
        self._wall_seconds = wall_seconds
        self._results: dict[str, msgspec.msgpack.Decoder[Any]] = {
            name: msgspec.msgpack.Decoder(task.result) for name, task in parse_tasks.load(registry).items()
        }
        self._slots = asyncio.Semaphore(processes)
        self._server: ForkServerHandle | None = None
        self._idle: list[ParseChildHandle] = []
        self._busy: set[ParseChildHandle] = set()
        self._dying: list[ParseChildHandle] = []
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The children that are ready and alive now."""
        return tuple(child.pid for child in (*self._idle, *self._busy) if child.pid and child.is_alive())

    async def run(self, task: str, request: object) -> Any:
        """Return the task's result (of its registered type), or `Failed` with code FAIL_PARSE.

        Raises `ParserUnavailable` when the trouble is ours, so that no body is blamed for it.
        """
        decoder = self._results[task]
        async with self._slots:
            frame = call_frame(task, request)  # in our turn: a thousand queued bodies are not copied at once
            outcome: Any = None
            crashes = loads = 0
            while crashes < MOST_CRASHES and loads <= len(LOADED_WHEN_NEEDED):
                # An idle child may be older than what was just loaded, and would ask for it again.
                child = await (self._start(task) if loads else self._take(task))
                try:
                    outcome = await self._ask(child, frame, decoder)
                except BaseException:
                    self._discard(child)  # cancelled: its answer would otherwise be read as the next task's
                    raise
                if isinstance(outcome, _NotLoaded):
                    loads += 1
                elif isinstance(outcome, _ChildDeath) and outcome.is_by_chance:
                    crashes += 1
                else:
                    break
        if isinstance(outcome, _NotLoaded):
            return _failed(FailDetail.CRASH, NO_RESULT)
        return self._death_failure(outcome) if isinstance(outcome, _ChildDeath) else outcome

    async def _ask(self, child: ParseChildHandle, frame: bytearray, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        try:
            async with asyncio.timeout(self._wall_seconds):
                reply = reply_decoder.decode(await child.ask(frame))
            result = decoder.decode(reply.result) if reply.status == ReplyStatus.DONE else None
        except TimeoutError:
            self._discard(child)
            return _failed(FailDetail.CPU, f"Reading this took longer than {self._wall_seconds:g} s.")
        except (EOFError, ConnectionError):
            return await self._death(child)
        except (InvalidReply, msgspec.MsgspecError, RecursionError, UnicodeError):
            self._discard(child)
            return _failed(FailDetail.CRASH, NO_RESULT)
        self._release(child, reply.retiring)
        if reply.status == ReplyStatus.NOT_LOADED and reply.text in LOADED_WHEN_NEEDED and self._server:
            self._server.load(reply.text)
            return _NotLoaded()
        return result if reply.status == ReplyStatus.DONE else self._reply_failure(reply)

    async def close(self) -> None:
        """Kill every child and wait until the kernel has them; calls still running raise `ParserUnavailable`."""
        self._is_closed = True
        for child in self._busy:
            child.kill()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.gather(*(child.exit_status() for child in (*self._busy, *self._dying)))
        self._dying.clear()
        if self._server:
            await self._server.close()

    # ── children ──

    async def _take(self, task: str) -> ParseChildHandle:
        self._dying = [child for child in self._dying if child.is_alive()]
        while self._idle:
            child = self._idle.pop()
            if child.is_idle():
                self._busy.add(child)
                return child
            self._discard(child)
        return await self._start(task)

    async def _start(self, task: str) -> ParseChildHandle:
        """Start a child. One that is killed while it starts says nothing about us: another follows a little later."""
        for attempt in range(1, MOST_STARTS + 1):
            self._refuse_if_closed()
            if self._server is None or not self._server.is_alive():
                self._server = ForkServerHandle(self._options)
            child = ParseChildHandle(self._server, task)
            self._busy.add(child)
            try:
                await child.ready()
                return child
            except ParserUnavailable as error:
                death = await self._death(child)
                if not death.is_by_chance:
                    raise
                if attempt == MOST_STARTS:
                    raise ParserUnavailable(
                        f"A parse process was killed {attempt} times while it started, at last by {death.signal_name}. "
                        "Look who ends it (often a system short of memory), then start again."
                    ) from error
            except BaseException:
                self._discard(child)
                raise
            # Whoever kills (a system short of memory, a person) may need a moment; longer each time.
            await asyncio.sleep(START_PAUSE_SECONDS * attempt)
        raise AssertionError("the last try returns or raises")

    def _release(self, child: ParseChildHandle, is_retiring: bool) -> None:
        if is_retiring or self._is_closed:
            self._discard(child)
        else:
            self._busy.discard(child)
            self._idle.append(child)

    def _discard(self, child: ParseChildHandle) -> None:
        self._busy.discard(child)
        child.kill()
        child.hang_up()
        self._dying.append(child)  # its exit status is collected later: nobody should wait for a dying process

    async def _death(self, child: ParseChildHandle) -> _ChildDeath:
        status = await child.exit_status()
        self._discard(child)
        self._refuse_if_closed()  # then the death was our doing
        return _ChildDeath(status)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ParserUnavailable("The parse pool is closed.")

    # ── failures ──

    def _reply_failure(self, reply: Reply) -> Failed:
        if reply.status == ReplyStatus.REFUSED:
            return _failed(FailDetail.TYPE, reply.text)
        if reply.status == ReplyStatus.CUT_SHORT:
            return _failed(FailDetail.TRUNCATED, reply.text)
        if reply.status == ReplyStatus.MEMORY:
            return self._memory_failure()
        return _failed(FailDetail.CRASH, f"The parser failed: {reply.text}.")

    def _death_failure(self, death: _ChildDeath) -> Failed:
        if death.status == -signal.SIGXCPU:
            return _failed(FailDetail.CPU, "Reading this took more CPU time than it may have.")
        if death.status == EXIT_MEMORY:
            return self._memory_failure()
        if death.status is None:
            return _failed(FailDetail.CRASH, "The parser hung up without an answer.")
        if death.is_by_chance:
            return _failed(FailDetail.CRASH, f"The parser was killed again and again, at last by {death.signal_name}.")
        return _failed(FailDetail.CRASH, f"The parser ended with exit status {death.status}.")

    def _memory_failure(self) -> Failed:
        megabytes = self._options.memory_bytes // 1_000_000
        return _failed(FailDetail.MEMORY, f"Reading this needed more than {megabytes} MB of memory.")


def _failed(detail: FailDetail, text: str) -> Failed:
    """The text may come from a child we do not trust: short, one line, printable."""
    printable = "".join(char if char.isprintable() else " " for char in text[:FAILURE_CHARS])
    return Failed(FailCode.PARSE, detail, printable)
