"""The fork server as the pool sees it: start it, ask it for children, end it.

Plain `Popen` and socket pairs rather than asyncio's subprocesses: no thread, no watcher that can lose an exit status.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from core.errors import ParserUnavailable
from core.runtime.parse_protocol import REQUEST_BYTES, ChildOptions

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All that it and its children see: no secrets of ours, no PYTHON* switches."""
END_POLL_SECONDS = 0.002
END_WAIT_SECONDS = 2.0


class ForkServerHandle:
    """A running fork server with our end of its socket."""

    def __init__(self, options: ChildOptions) -> None:
        self._process, self._control = _spawn(options)
        self.pid = self._process.pid

    def fork(self, task: str, connection: socket.socket, ending: socket.socket) -> None:
        """Ask for a child that has these two sockets; if the server is dead, they are closed like those of a child."""
        self._ask(task, connection.fileno(), ending.fileno())

    def load(self, module: str) -> None:
        """Load a module for all children that are forked from now on."""
        self._ask(module)

    def is_alive(self) -> bool:
        """Ask the kernel."""
        return self._process.poll() is None

    async def exit_status(self) -> int | None:
        """Its exit status as soon as it has one; None if it lives on."""
        for _ in range(int(END_WAIT_SECONDS / END_POLL_SECONDS)):
            if not self.is_alive():
                break
            await asyncio.sleep(END_POLL_SECONDS)
        return self._process.returncode

    async def close(self) -> None:
        """End it, and with it every child that is left; wait until the kernel has it."""
        self._process.kill()
        self._control.close()
        await self.exit_status()

    def _ask(self, name: str, *descriptors: int) -> None:
        with contextlib.suppress(ConnectionError):
            socket.send_fds(self._control, [name.encode().ljust(REQUEST_BYTES)], descriptors)


def _spawn(options: ChildOptions) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "core.runtime.parse_fork_server", msgspec.json.encode(options).decode()],
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
