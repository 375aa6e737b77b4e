"""The processes that `./scripts/up` starts, and when it has to stop: none outlives `up`.

Each runs in a session of its own, so that Ctrl-C reaches `up` alone and it decides the order, and below a keeper
(`scripts/keeper.py`), which ends it when `up` and the guard are both killed. The guard knows of it before it
runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from core.store.embedded import Wrapper
from scripts import guard
from scripts.guard import ProcessTree

ROOT = Path(__file__).resolve().parents[1]
KEEPER = ROOT / "scripts" / "keeper.py"
CHECK_SECONDS = 1.0
POLL_SECONDS = 0.1
LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+ \[|\{")
"""How a log line begins, in both formats (`core.runtime.logs`)."""
Process = subprocess.Popen[bytes]


class Stopped(Exception):
    """Someone wants `up` to end."""


class StopRequest:
    """Whether `up` has to end: a signal, a closed terminal, or a closed pipe for its output.

    A signal only leaves a mark, so that nothing is cut off in the middle; a wait looks at it.
    """

    def __init__(self) -> None:
        self._is_made = False
        self._readers = select.poll()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                self._readers.register(stream.fileno(), 0)  # only reports that the other end is closed

    def listen(self) -> None:
        """Take over the signals of this process."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` means it
                signal.signal(number, self._make)

    def _make(self, *_: object) -> None:
        self._is_made = True

    def check(self) -> None:
        """Raise `Stopped` if it is time to end."""
        # `up | head -1`: the reader is gone. A closed terminal looks the same.
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._readers.poll(0)):
            self._is_made = True
        if self._is_made:
            raise Stopped

    def pause(self, seconds: float = POLL_SECONDS) -> None:
        """Sleep; raise `Stopped` soon after it is time to end."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS))

    async def sleep(self, seconds: float) -> None:
        """Sleep in the same way in asyncio."""
        for _ in range(max(int(seconds / POLL_SECONDS), 1)):
            self.check()
            await asyncio.sleep(POLL_SECONDS)


class UpProcesses:
    def __init__(self, lock: int, stop: StopRequest) -> None:
        """`lock` is an open, locked file that the guard keeps until everything has ended."""
        self._lock = lock
        self._stop = stop
        self._lifelines = {role: os.pipe() for role in guard.PATIENCE_SECONDS}
        self._members: dict[int, tuple[str, Process]] = {}
        self._trees = {role: ProcessTree() for role in guard.PATIENCE_SECONDS}
        self._guard: Process | None = None
        self._checked_at = 0.0
        self._telling_guard = threading.Lock()
        self._printing = threading.Lock()

    def __enter__(self) -> Self:
        self._guard = self._start_guard()
        return self

    def __exit__(self, *_: object) -> None:
        for role in guard.PATIENCE_SECONDS:
            self.end_all(role)
        if self._guard and self._guard.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
            self._guard.wait()
        for file in (file for pipe in self._lifelines.values() for file in pipe):
            os.close(file)

    # ── the guard ──

    def _start_guard(self) -> Process:
        return subprocess.Popen(
            [sys.executable, "-m", "scripts.guard"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(self._lock, *(writer for _, writer in self._lifelines.values())),
        )

    def _tell_guard(self, *lines: str) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        # A killed guard gets no messages; the next check starts another, which gets all of them.
        with self._telling_guard, contextlib.suppress(BrokenPipeError):
            self._guard.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._guard.stdin.flush()

    def check(self) -> None:
        """Replace a guard that was killed; remember what our processes have started themselves."""
        now = time.monotonic()
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            for tree in self._trees.values():
                tree.alive()
            if self._guard and self._guard.poll() is not None:
                self._guard = self._start_guard()
                self._tell_guard(*(f"{role} {pid}" for pid, (role, _) in list(self._members.items())))

    # ── start ──

    def start(
        self, words: Sequence[str], environment: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> Process:
        """Start a worker; with `subprocess.PIPE` all that it prints is ours to read."""
        keeper = self.keeper(guard.WORKER)
        process = subprocess.Popen(
            keeper.words,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout == subprocess.PIPE else None,
            start_new_session=True,
            pass_fds=keeper.files,
        )
        self.adopt(process, guard.WORKER)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(words).encode() + b"\n")
        return process

    def keeper(self, role: str) -> Wrapper:
        """Return the keeper of a process of this role.

        A worker's keeper holds the lifeline of the servers too, so that those end after the workers. All keepers hold
        the lock, so that the next `up` waits for them.
        """
        reader, writer = self._lifelines[role][0], self._lifelines[guard.SERVER][1]
        words = [sys.executable, "-I", "-S", str(KEEPER), str(reader), str(guard.PATIENCE_SECONDS[role])]
        return Wrapper(words, (self._lock, reader, *([writer] if role == guard.WORKER else [])))

    def adopt(self, process: Process, role: str) -> None:
        """Let a process end with us; it waits for its first input, so it does nothing before."""
        if process.pid not in self._members:
            self._members[process.pid] = role, process
            self._trees[role].add(process.pid)
            self._tell_guard(f"{role} {process.pid}")

    # ── watch ──

    def watch(self, processes: Mapping[str, Process], check_server: Callable[[], None]) -> tuple[str, int]:
        """Look after everything until one of these ends; return its name and exit code."""
        while True:
            for name, process in processes.items():
                if process.poll() is not None:
                    self.forget(process.pid)
                    return name, process.returncode
            check_server()
            self.check()
            self._stop.pause()

    def relay(self, name: str, width: int, process: Process) -> None:
        """Print every line of a piped process: a log line as it is, any other with time and name in front."""
        threading.Thread(target=self._relay, args=(name, width, process), daemon=True).start()

    def _relay(self, name: str, width: int, process: Process) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            tag = b"" if LOG_LINE.match(line) else f"{time.strftime('%H:%M:%S')} {name:<{width}} | ".encode()
            text = tag + line.rstrip(b"\n") + b"\n"
            # Not through Python's buffer, which would complain at the exit if it cannot be written. Errors are ignored:
            # a process whose output is not read would block.
            with self._printing, contextlib.suppress(OSError):
                while text:
                    text = text[os.write(sys.stdout.fileno(), text) :]

    # ── end ──

    def end_all(self, role: str) -> None:
        """End the processes of a role with everything that they started."""
        pids = [pid for pid, (known, _) in list(self._members.items()) if known == role]
        self._trees[role].end(pids, guard.PATIENCE_SECONDS[role])
        for pid in pids:
            self.forget(pid)

    def end(self, process: Process) -> None:
        """End one worker with everything that it started."""
        if process.pid in self._members:
            guard.end([process.pid], guard.PATIENCE_SECONDS[guard.WORKER])
            self.forget(process.pid)

    def forget(self, pid: int) -> None:
        """Drop a process that has ended: its number may soon belong to another."""
        member = self._members.pop(pid, None)  # another thread may have ended it too
        if member:
            member[1].poll()
            self._tell_guard(f"{guard.GONE} {pid}")
