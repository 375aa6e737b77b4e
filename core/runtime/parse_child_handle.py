"""A parse child as the pool sees it: have it forked, send it calls, end it.

Nothing that a cancelled call could leave half-read: the caller kills the child instead. How a child ended is told by
the fork server, its parent, over a socket of its own; if that closes without a word, the server has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from core.errors import ParserUnavailable
from core.runtime.parse_fork_server_handle import END_POLL_SECONDS, END_WAIT_SECONDS, ForkServerHandle
from core.runtime.parse_protocol import EXIT_STATUS, HEADER, MAX_REPLY_BYTES, PID

START_SECONDS = 60.0
READ_BYTES = 256 * 1024


class InvalidReply(Exception):
    """The child's answer is not a frame we accept."""


class ParseChildHandle:
    """A child process with our ends of its sockets."""

    def __init__(self, server: ForkServerHandle, task: str) -> None:
        """`task`: the first that it will do."""
        self._server = server
        self._connection, connection = _socket_pair()
        self._ending, ending = _socket_pair()
        with connection, ending:
            server.fork(task, connection, ending)
        self._has_ended = False
        self._exit_status: int | None = None
        self.pid: int | None = None
        """None until it is ready."""

    async def ready(self) -> None:
        """Wait until it can take its first call; a child that dies before has no body to blame."""
        try:
            async with asyncio.timeout(START_SECONDS):
                (self.pid,) = PID.unpack(await self._receive())
        except (TimeoutError, EOFError, ConnectionError, InvalidReply) as error:
            raise ParserUnavailable("A parse process did not start; its own words are on stderr.") from error

    async def ask(self, frame: bytearray) -> bytes:
        """Send a call, wait for the answer. After any exception the child is out of step and must be killed."""
        await asyncio.get_running_loop().sock_sendall(self._connection, frame)
        return await self._receive()

    def is_idle(self) -> bool:
        """Return whether its end of the socket is open and silent, so that one killed a moment ago gets no call."""
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def is_alive(self) -> bool:
        """Return whether it runs, as far as its server has told."""
        if not self._has_ended:
            with contextlib.suppress(BlockingIOError):
                told = self._ending.recv(EXIT_STATUS.size)
                self._has_ended = True
                self._ending.close()
                if told:
                    (self._exit_status,) = EXIT_STATUS.unpack(told)
        return not self._has_ended

    def kill(self) -> None:
        """End it, whatever it is doing; whoever waits for its answer sees the end of file. Safe to repeat."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # one that is not ready yet ends by this
        if self.pid is not None and self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def hang_up(self) -> None:
        """Close our end. Only when nobody waits for an answer: a closed socket never wakes its reader."""
        self._connection.close()

    async def exit_status(self) -> int | None:
        """Its exit status as soon as it has one; None if it has closed its socket and lives on."""
        for _ in range(int(END_WAIT_SECONDS / END_POLL_SECONDS)):
            if not self.is_alive():
                break
            await asyncio.sleep(END_POLL_SECONDS)
        if self._exit_status is None and self._has_ended:  # its server died, and the kernel ended them both
            return await self._server.exit_status() if self.pid is None else -signal.SIGKILL
        return self._exit_status

    async def _receive(self) -> bytes:
        buffer = bytearray()
        needed = HEADER.size
        while len(buffer) < needed:
            piece = await asyncio.get_running_loop().sock_recv(self._connection, READ_BYTES)
            if not piece:
                raise EOFError
            buffer += piece
            if needed == HEADER.size <= len(buffer):
                needed += int(HEADER.unpack_from(buffer)[0])
                if needed > HEADER.size + MAX_REPLY_BYTES:
                    raise InvalidReply
        if len(buffer) > needed:  # we speak in turns: nothing may follow an answer
            raise InvalidReply
        return bytes(memoryview(buffer)[HEADER.size :])


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs
