"""Die right before the n-th Redis command, at every n.

    for point in crash.every_point():
        await prepare()
        with point:                 # commands sent by this task and the tasks it starts are counted
            await run()             # raises Crash before command n; from then on every command does
        await recover_and_compare()

Each command of a pipeline is a point of its own: those before it are sent and answered, as when a process dies in
mid-write. Commands of other tasks (the test's own client, made outside the `with`) are left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self
from unittest import mock

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from tests.faults import resp

_send = AbstractConnection.send_packed_command
_here: ContextVar[Point | None] = ContextVar("crash_point", default=None)


class Crash(BaseException):
    """The process is dead. No `except Exception` may bring it back to life."""


class Point:
    """A run that dies before its n-th command; 0 only counts."""

    def __init__(self, before: int = 0) -> None:
        self.before = before
        self.commands: list[str] = []
        self.is_dead = False
        self._token: Token[Point | None] | None = None
        self._patch = mock.patch.object(AbstractConnection, "send_packed_command", _send_or_die)

    def __repr__(self) -> str:
        return f"before command {self.before}, {self.commands[-1] if self.is_dead else 'not reached'}"

    def __enter__(self) -> Self:
        self._patch.start()
        self._token = _here.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._token
        _here.reset(self._token)
        self._patch.stop()
        return self.is_dead and error is not None and _is_only_crash(error)

    def allows(self, frames: Iterable[bytes]) -> list[bytes]:
        """The commands that are still sent; fewer than given: the process dies after them."""
        sent: list[bytes] = []
        for frame in frames:
            if not resp.is_set_up(frame):
                self.commands.append(resp.shown(frame))
            if self.is_dead or len(self.commands) == self.before:
                self.is_dead = True
                break
            sent.append(frame)
        return sent


def every_point(step: int = 1, most: int = 10_000) -> Iterator[Point]:
    """Every so many points, beginning with the first, until a run gets through alive."""
    for number in range(1, most, step):
        point = Point(number)
        yield point
        if not point.is_dead:
            return
    raise AssertionError(f"{most} crashes, and no run came to its end")


async def _send_or_die(
    connection: AbstractConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
) -> None:
    point = _here.get()
    if point is None:
        return await _send(connection, command, check_health)
    if point.is_dead:
        raise Crash
    packed = (
        command.encode() if isinstance(command, str) else command if isinstance(command, bytes) else b"".join(command)
    )
    frames = resp.Frames().feed(packed)
    allowed = point.allows(frames)
    if len(allowed) == len(frames):
        return await _send(connection, packed, check_health)
    if allowed:
        await _send(connection, b"".join(allowed), check_health)
        for _ in allowed:
            with contextlib.suppress(RedisError):
                await connection.read_response()
    await connection.disconnect(nowait=True)
    raise Crash


def _is_only_crash(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_only_crash, error.exceptions))
    return isinstance(error, Crash)
