"""Run one command of `./scripts/up` as its parent, and end it when `up` and its guard are both gone, even by kill -9.

Both hold the writing end of a pipe, the lifeline: its end of file means that no process is left to end the command.
Signals are passed on to the command's process group, and its exit is this process's exit. When this process itself is
killed, the kernel tells the command (Linux). Nothing but the standard library is imported: there is one per command.

python -I -S scripts/keeper.py LIFELINE_FD PATIENCE_SECONDS    line 1 of standard input: the command as JSON
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

PASSED_ON = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""
Process = subprocess.Popen[bytes]


def main() -> None:
    """Start the command, watch it, end as it ended."""
    lifeline, patience_seconds = int(sys.argv[1]), float(sys.argv[2])
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):  # byte by byte: the rest is the command's
        line += byte
    if not line.endswith(b"\n"):
        sys.exit(1)  # our parent was killed before the guard knew of us
    signals = _listen()
    process = _start(json.loads(line))
    if not _has_ended(process, signals, lifeline):
        _signal(process, signal.SIGTERM)
        if not _has_ended(process, signals, within_seconds=patience_seconds):
            _signal(process, signal.SIGKILL)
    code = process.wait()
    if code < 0:  # end by the same signal
        with contextlib.suppress(OSError):  # SIGKILL cannot be set, and needs not to be
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _listen() -> int:
    """Return a file from which the number of each signal can be read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (*PASSED_ON, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _start(words: list[str]) -> Process:
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def tie() -> None:
        if prctl:
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    # A group of its own, so that a signal for our group does not reach it twice. We have no threads: tie is safe.
    return subprocess.Popen(words, start_new_session=True, preexec_fn=tie)


def _has_ended(
    process: Process, signals: int, lifeline: int | None = None, within_seconds: float | None = None
) -> bool:
    """Wait for the end of the process and pass signals on; False at the end of the lifeline or of the time."""
    deadline = None if within_seconds is None else time.monotonic() + within_seconds
    files = [signals] if lifeline is None else [signals, lifeline]
    while process.poll() is None:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        ready = select.select(files, [], [], left)[0]
        if not ready or lifeline in ready:
            return process.poll() is not None
        for number in os.read(signals, 64):
            if number in PASSED_ON:
                _signal(process, signal.Signals(number))
    return True


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


if __name__ == "__main__":
    main()
