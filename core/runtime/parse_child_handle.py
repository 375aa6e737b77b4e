"""A parse child as its parent sees it: start it, send it calls, end it.

Plain `Popen` and one socket pair rather than asyncio's subprocesses: no thread per child, no watcher that can lose an
exit status, and nothing that a cancelled call could leave half-read (the caller kills the child instead).
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from core.errors import ParserUnavailable
from core.runtime.parse_protocol import HEADER, MAX_REPLY_BYTES, ChildOptions

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All a child sees: no secrets of ours, no PYTHON* switches."""
START_SECONDS = 60.0
READ_BYTES = 256 * 1024
END_POLL_SECONDS = 0.002
END_WAIT_SECONDS = 2.0


class InvalidReply(Exception):
    """The child's answer is not a frame we accept."""


class ParseChildHandle:
    """A running child process with our end of its socket."""

    def __init__(self, options: ChildOptions) -> None:
        self._process, self._connection = _spawn(options)
        self.pid = self._process.pid

    async def ready(self) -> None:
        """Wait until it can take its first call; a child that dies before has no body to blame."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._receive()
        except (TimeoutError, EOFError, ConnectionError, InvalidReply) as error:
            raise ParserUnavailable("A parse process did not start; its own words are on stderr.") from error

    async def ask(self, frame: bytearray) -> bytes:
        """Send a call, wait for the answer. After any exception the child is out of step and must be killed."""
        await asyncio.get_running_loop().sock_sendall(self._connection, frame)
        return await self._receive()

    def is_alive(self) -> bool:
        """Asks the kernel, so that a child killed a moment ago does not get another call."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it, whatever it is doing; whoever waits for its answer sees the end of file. Safe to repeat."""
        self._process.kill()

    def hang_up(self) -> None:
        """Close our end. Only when nobody waits for an answer: a closed socket never wakes its reader."""
        self._connection.close()

    async def exit_status(self) -> int | None:
        """Its exit status as soon as it has one; None if it has closed its socket and lives on."""
        for _ in range(int(END_WAIT_SECONDS / END_POLL_SECONDS)):
            if not self.is_alive():
                break
            await asyncio.sleep(END_POLL_SECONDS)
        return self._process.returncode

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


def _spawn(options: ChildOptions) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "core.runtime.parse_child", msgspec.json.encode(options).decode()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env=ENVIRONMENT,
            # Its own session: Ctrl-C or honcho's signal to our group must not end a call we are still waiting for.
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise ParserUnavailable(f"Cannot start a parse process: {os.strerror(error.errno or 0)}.") from error
    finally:
        theirs.close()
    return process, ours
