"""The processes that `./scripts/up` starts: none runs before the guard knows of it, none outlives `up`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from core.store.embedded import Starter
from scripts import guard
from scripts.process_tree import Tree

ROOT = Path(__file__).resolve().parents[1]
KEEPER = ROOT / "scripts" / "keeper.py"
LOOK_SECONDS = 1.0
LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+ \[|\{")
"""How a log line begins, in both formats (`core.runtime.logs`)."""
Process = subprocess.Popen[bytes]


class Family:
    """Starts processes, each in a session of its own, so that Ctrl-C reaches `up` alone and it decides the order."""

    def __init__(self, lock: int) -> None:
        """`lock` is an open, locked file that the guard keeps until everything has ended."""
        self._lock = lock
        self._lifelines = {role: os.pipe() for role in guard.PATIENCE_SECONDS}
        self._members: dict[int, tuple[str, Process]] = {}
        self._trees = {role: Tree() for role in guard.PATIENCE_SECONDS}
        self._guard: Process | None = None
        self._looked_at = 0.0
        self._telling = threading.Lock()
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

    def _tell(self, *lines: str) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        # A guard that was killed hears nothing; the next look starts another, which is told everything.
        with self._telling, contextlib.suppress(BrokenPipeError):
            self._guard.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._guard.stdin.flush()

    def look(self) -> None:
        """Replace a guard that was killed; remember what our processes have started themselves."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            for tree in self._trees.values():
                tree.alive()
            if self._guard and self._guard.poll() is not None:
                self._guard = self._start_guard()
                self._tell(*(f"{role} {pid}" for pid, (role, _) in list(self._members.items())))

    # ── processes ──

    def start(
        self, words: Sequence[str], environment: Mapping[str, str] | None = None, *, is_piped: bool = False
    ) -> Process:
        """Start a worker; piped: what it prints is ours to read."""
        starter = self.starter(guard.WORKER)
        process = subprocess.Popen(
            starter.words,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if is_piped else None,
            stderr=subprocess.STDOUT if is_piped else None,
            start_new_session=True,
            pass_fds=starter.files,
        )
        self.adopt(process, guard.WORKER)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(words).encode() + b"\n")
        return process

    def starter(self, role: str) -> Starter:
        """What a process of this role is started with, so that it ends also when `up` and the guard are both killed.

        A worker's keeper holds the lifeline of the servers too, so that those end after the workers. All keepers hold
        the lock, so that the next `up` waits for them.
        """
        reader, writer = self._lifelines[role][0], self._lifelines[guard.SERVER][1]
        words = [sys.executable, "-I", "-S", str(KEEPER), str(reader), str(guard.PATIENCE_SECONDS[role])]
        return Starter(words, (self._lock, reader, *([writer] if role == guard.WORKER else [])))

    def adopt(self, process: Process, role: str) -> None:
        """Let a process end with us; it waits for its first input, so it does nothing before."""
        if process.pid not in self._members:
            self._members[process.pid] = role, process
            self._trees[role].add(process.pid)
            self._tell(f"{role} {process.pid}")

    def end_all(self, role: str) -> None:
        """End the processes of a role with all that they started."""
        pids = [pid for pid, (known, _) in list(self._members.items()) if known == role]
        self._trees[role].end(pids, guard.PATIENCE_SECONDS[role])
        for pid in pids:
            self.forget(pid)

    def end(self, process: Process) -> None:
        """End one worker with all that it started."""
        if process.pid in self._members:
            guard.end([process.pid], guard.PATIENCE_SECONDS[guard.WORKER])
            self.forget(process.pid)

    def forget(self, pid: int) -> None:
        """A process has ended: its number may soon be somebody else's."""
        member = self._members.pop(pid, None)  # another thread may have ended it too
        if member:
            member[1].poll()
            self._tell(f"{guard.GONE} {pid}")

    # ── what they print ──

    def relay(self, name: str, width: int, process: Process) -> None:
        """Print every line of a piped process: a log line as it is, any other with time and name in front."""
        threading.Thread(target=self._relay, args=(name, width, process), daemon=True).start()

    def _relay(self, name: str, width: int, process: Process) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            tag = b"" if LOG_LINE.match(line) else f"{time.strftime('%H:%M:%S')} {name:<{width}} | ".encode()
            text = tag + line.rstrip(b"\n") + b"\n"
            # Past Python's buffer: one that cannot be written would be complained of at the exit. And on: a process
            # whose words nobody takes would stand still.
            with self._printing, contextlib.suppress(OSError):
                while text:
                    text = text[os.write(sys.stdout.fileno(), text) :]
