"""End everything that `./scripts/up` started when `up` itself was killed, even by kill -9.

`up` starts this first and sends it each process through a pipe. End of file means that `up` is gone: then the workers
are ended, after them the servers, so that workers can still release what they hold. It runs in a session of its own,
where no signal for the terminal or for the group of `up` arrives. It keeps the lock of the data folder until it is
done, so that the next `up` waits for it.

python -m scripts.guard    lines on standard input: `worker PID`, `server PID`, `gone PID`
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

WORKER = "worker"
SERVER = "server"
GONE = "gone"
PATIENCE_SECONDS = {WORKER: 7.0, SERVER: 10.0}
"""In the order in which they are ended. A worker gives its job 3.5 s to end, then cleans up its own processes."""
POLL_SECONDS = 0.05
KILLED_SECONDS = 2.0
"""How long the kernel may take for a SIGKILL; a process in uninterruptible sleep is not waited for."""


def main() -> None:
    """Listen until `up` is gone, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pids: dict[str, set[int]] = {role: set() for role in PATIENCE_SECONDS}
    for line in sys.stdin:
        role, _, pid = line.partition(" ")
        if role in pids:
            pids[role].add(int(pid))
        else:
            for known in pids.values():
                known.discard(int(pid))
    for role, patience_seconds in PATIENCE_SECONDS.items():
        end(pids[role], patience_seconds)


def end(pids: Iterable[int], patience_seconds: float) -> None:
    tree, pids = ProcessTree(), list(pids)
    for pid in pids:
        tree.add(pid)
    tree.end(pids, patience_seconds)


class _Process(NamedTuple):
    """A process, with its start time, which tells it from a later one with the same number."""

    pid: int
    started: str


class _TableRow(NamedTuple):
    """What the system's process table says of a process."""

    process: _Process
    parent: int
    is_alive: bool


class ProcessTree:
    """Some processes and all of their descendants, however deep, in whatever session, and even if their parent died."""

    def __init__(self) -> None:
        self._members: set[_Process] = set()

    def add(self, pid: int) -> None:
        """Add a process and whatever it starts."""
        row = _process_table().get(pid)
        if row:
            self._members.add(row.process)

    def alive(self) -> set[_Process]:
        """Look for new descendants and return all members that are alive."""
        table = _process_table()
        living = {one for one in self._members if (row := table.get(one.pid)) and row.process == one and row.is_alive}
        children: dict[int, list[_Process]] = {}
        for row in table.values():
            if row.is_alive:
                children.setdefault(row.parent, []).append(row.process)
        waiting = list(living)
        while waiting:
            new = [child for child in children.get(waiting.pop().pid, ()) if child not in living]
            living.update(new)
            waiting += new
        self._members = living
        return living

    def end(self, pids: Iterable[int], patience_seconds: float) -> None:
        self.alive()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                is_group_leader = os.getpgid(pid) == pid
                (os.killpg if is_group_leader else os.kill)(pid, signal.SIGTERM)
        if not self._is_gone(patience_seconds):
            for member in self.alive():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(member.pid, signal.SIGKILL)
            self._is_gone(KILLED_SECONDS)

    def _is_gone(self, within_seconds: float) -> bool:
        deadline = time.monotonic() + within_seconds
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def is_running(pid: int) -> bool:
    """Return whether there is such a process, and not only a zombie."""
    row = _process_table().get(pid)
    return row is not None and row.is_alive


def _process_table() -> dict[int, _TableRow]:
    rows = _rows_of_proc() if sys.platform == "linux" else _rows_of_ps()
    return {row.process.pid: row for row in rows}


def _rows_of_proc() -> Iterable[_TableRow]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a dozen times faster than Path here
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has just ended
            # After the name, which may hold blanks and brackets: state, parent … the 20th is the start.
            words = text.rpartition(")")[2].split()
            yield _TableRow(_Process(int(name), words[19]), int(words[1]), words[0] not in "ZX")


def _rows_of_ps() -> Iterable[_TableRow]:
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,stat=,lstart="]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        pid, parent, state, started = line.split(None, 3)
        yield _TableRow(_Process(int(pid), started), int(parent), not state.startswith("Z"))


if __name__ == "__main__":
    main()
