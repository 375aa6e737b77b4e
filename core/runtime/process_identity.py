"""Name a process so that another one on the same machine can tell whether it is dead.

A process id alone is not enough: ids are used again, and a container has ids of its own. Where the system does not tell
(no /proc), nobody is called dead.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@cache
def _machine() -> str:
    """Name this boot of this machine, and the container in which process ids are counted; empty where unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process was started, in ticks since the boot; empty if there is none of that id."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (OSError, ValueError):
        return ""
    state, *rest = stat.rpartition(")")[2].split()  # a name may hold blanks and brackets
    return "" if state in "ZX" else rest[18]


def own_identity() -> str:
    """Return the identity of this process."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_started(pid)}"


def is_dead(identity: str) -> bool:
    """Return whether this is a process of this machine that no longer runs."""
    machine, _, rest = identity.partition("|")
    pid, _, started = rest.partition("|")
    if not started or not machine or machine != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started
