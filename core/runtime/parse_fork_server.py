"""The fork server: `python -m core.runtime.parse_fork_server OPTIONS`, started by the pool and by nobody else.

Imports the parsers once and forks a child for each request on the socket that it got as standard input. No body ever
reaches it, it has one thread and no event loop, and it tells the pool how each child ended. It exits on end of file.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from core.runtime import garbage, parse_child, parse_tasks
from core.runtime.parse_protocol import EXIT_STATUS, REQUEST_BYTES, ChildOptions
from core.runtime.parse_tasks import ParseTask


def main(argument: str) -> None:
    """Fork children until the pool hangs up."""
    options = msgspec.json.decode(argument, type=ChildOptions)
    parse_child.die_with_parent(options.parent_pid)
    control = socket.socket(fileno=os.dup(0))  # moved away from where a library might read
    parse_child.point_to_null(0)
    garbage.expect_imports()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy would start threads, which a fork does not take along
    ForkServer(control, parse_tasks.load(options.registry), options).serve()


class ForkServer:
    """Forks children and reports their deaths."""

    def __init__(self, control: socket.socket, registry: Mapping[str, ParseTask], options: ChildOptions) -> None:
        self._control = control
        self._registry = registry
        self._options = options
        self._warmed_up: set[str] = set()
        self._endings: dict[int, socket.socket] = {}
        """By the pid of each child that lives: where its exit status is told."""

    def serve(self) -> None:
        """Fork and load whatever is asked, and bury whoever dies."""
        deaths, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler of ours nothing would be written
        while True:
            readable, _, _ = select.select([self._control, deaths], [], [])
            if deaths in readable:
                deaths.recv(select.PIPE_BUF)
                self._bury()
            if self._control in readable:
                request, descriptors, _, _ = socket.recv_fds(self._control, REQUEST_BYTES, 2)
                if not request:
                    return
                name, sockets = request.decode().rstrip(), [socket.socket(fileno=one) for one in descriptors]
                if sockets:
                    self._fork(name, *sockets)
                else:
                    importlib.import_module(name)

    def _fork(self, name: str, connection: socket.socket, ending: socket.socket) -> None:
        """Fork a child that will do a task of this name first; before it, load what that takes."""
        task = self._registry[name]
        if task.sample is not None and name not in self._warmed_up:
            self._warmed_up.add(name)
            task.run(task.sample)
        garbage.settle()
        server_pid = os.getpid()
        with connection:
            try:
                pid = os.fork()
            except OSError as error:
                sys.stderr.write(f"Cannot fork a parse process: {error.strerror}.\n")
                ending.close()
                return
            if pid == 0:
                self._become_child(connection, server_pid)
        self._endings[pid] = ending

    def _become_child(self, connection: socket.socket, server_pid: int) -> NoReturn:
        """Serve calls in the child, and never come back from there."""
        status = 1
        try:
            # Linux shares its processors among sessions (autogroup): in one, all children would have the part of one.
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parse_child.die_with_parent(server_pid)
            parse_child.serve(connection, self._registry, self._options)
            status = 0
        finally:
            os._exit(status)

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):  # none is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._endings.pop(pid) as ending, contextlib.suppress(ConnectionError):
                    ending.sendall(EXIT_STATUS.pack(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main(sys.argv[1])
