"""End processes together with everything that they started, however deep and in whatever session.

Reads the system's process table; a process is told from a later one with the same number by when it was started.
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

POLL_SECONDS = 0.05
KILLED_SECONDS = 2.0
"""How long the kernel may take for a SIGKILL; a process in uninterruptible sleep is not waited for."""


class Process(NamedTuple):
    """One process: its number and when it was started."""

    pid: int
    started: str


class Row(NamedTuple):
    """What the system says of a process."""

    process: Process
    parent: int
    is_alive: bool


class Tree:
    """Some processes and all of their descendants, also those whose parent has died since they were seen."""

    def __init__(self) -> None:
        self._members: set[Process] = set()

    def add(self, pid: int) -> None:
        """Take in a process and what it starts."""
        row = _table().get(pid)
        if row:
            self._members.add(row.process)

    def alive(self) -> set[Process]:
        """Return the members that live, after a look for new ones."""
        table = _table()
        living = {member for member in self._members if _is_alive(table, member)}
        children: dict[int, list[Process]] = {}
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
        """SIGTERM to these and their process groups; SIGKILL to every member that is still there after a while."""
        self.alive()
        for pid in pids:
            _signal(pid, signal.SIGTERM)
        if not self._are_gone(patience_seconds):
            for member in self.alive():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(member.pid, signal.SIGKILL)
            self._are_gone(KILLED_SECONDS)

    def _are_gone(self, within_seconds: float) -> bool:
        deadline = time.monotonic() + within_seconds
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def is_running(pid: int) -> bool:
    """Is there such a process, and not only one that has ended and that its parent has not yet taken note of?"""
    row = _table().get(pid)
    return row is not None and row.is_alive


def _signal(pid: int, number: signal.Signals) -> None:
    """To the group that this process leads, else to it alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _is_alive(table: dict[int, Row], process: Process) -> bool:
    row = table.get(process.pid)
    return row is not None and row.process == process and row.is_alive


def _table() -> dict[int, Row]:
    rows = _of_proc() if sys.platform == "linux" else _of_ps()
    return {row.process.pid: row for row in rows}


def _of_proc() -> Iterable[Row]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a dozen times faster than Path here
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has just ended
            # After the name, which may hold blanks and brackets: state, parent … the 20th is the start.
            words = text.rpartition(")")[2].split()
            yield Row(Process(int(name), words[19]), int(words[1]), words[0] not in "ZX")


def _of_ps() -> Iterable[Row]:
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,stat=,lstart="]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        pid, parent, state, started = line.split(None, 3)
        yield Row(Process(int(pid), started), int(parent), not state.startswith("Z"))
