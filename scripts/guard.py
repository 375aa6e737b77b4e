"""End everything that `./scripts/up` started when `up` itself has died without doing so, be it by kill -9.

`up` starts this first and tells it of each process through a pipe. The end of file means that `up` is gone: then the
workers are ended, after them the servers, so that workers can still give back what they hold. It is in a session of its
own, where no signal for the terminal or for `up` and its group arrives. It keeps the lock of the data folder until it
is done, so that the next `up` waits for it.

python -m scripts.guard    lines on standard input: `worker PID`, `server PID`, `gone PID`
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable

from scripts.process_tree import Tree

WORKER = "worker"
SERVER = "server"
GONE = "gone"
PATIENCE_SECONDS = {WORKER: 7.0, SERVER: 10.0}
"""In the order of the end. A worker gives its job 3.5 s to end, and then looks after its own processes."""


def end(pids: Iterable[int], patience_seconds: float) -> None:
    """End these processes and all that they started."""
    tree, pids = Tree(), list(pids)
    for pid in pids:
        tree.add(pid)
    tree.end(pids, patience_seconds)


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


if __name__ == "__main__":
    main()
