"""Run `python -m …` in a process of its own without importing everything anew: most of a short command is imports.

`run` asks a server process, started at the first call, that has imported all commands; it forks for each of them.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
LENGTH_BYTES = 4
PARENT_CHECK_SECONDS = 5.0


# ── asking ──────────────────────────────────────────────────────────────────────────────────────


class Process:
    """A running command, with as much of `subprocess.Popen` as tests need. Its standard input is empty."""

    def __init__(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> None:
        self.args = [sys.executable, "-m", *command]
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address())
        request = json.dumps([list(command), str(cwd), dict(env)]).encode()
        socket.send_fds(self._connection, [len(request).to_bytes(LENGTH_BYTES)], [out.fileno(), err.fileno()])
        self._connection.sendall(request)
        self._lines = self._connection.makefile("r")
        self.pid = int(self._lines.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> Process | subprocess.Popen[bytes]:
    """Start a module with its arguments, in a session of its own. Elsewhere than on Linux it is a usual process."""
    if sys.platform == "linux":
        return Process(command, cwd, env, out, err)
    words = [sys.executable, "-m", *command]
    return subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )


def run(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a module with its arguments to its end, as `subprocess.run` does."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(command, cwd, env, out, err)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read().decode(), err.read().decode())


@cache
def _address() -> str:
    """Start the server; it ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="prefork-")
    address = f"{folder.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.prefork", address],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy starts no threads, which a fork would lose
        stdout=subprocess.PIPE,
    )
    assert server.stdout
    assert server.stdout.readline() == b"ready\n"

    def end() -> None:
        server.kill()
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


# ── serving ─────────────────────────────────────────────────────────────────────────────────────


def main(address: str) -> None:
    """Serve until killed, or until whoever started us is gone."""
    for path in sorted((*ROOT.glob("scripts/*.py"), *ROOT.glob("workers/*.py"))):
        if path.stem not in ("__init__", "__main__", "keeper"):
            importlib.import_module(f"{path.parent.name}.{path.stem}")
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would lose a thread"
    gc.freeze()
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(64)
    server.settimeout(PARENT_CHECK_SECONDS)
    parent = os.getppid()
    os.write(1, b"ready\n")
    request = None
    while request is None:
        _reap()
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if os.getppid() != parent:
                return
            continue
        if os.fork() == 0:
            server.close()
            request = _receive(connection)
        connection.close()
    _run(*request)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _receive(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    """Return in the process that is to run the command; its parent waits for it and tells its exit code."""
    head, files, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 2)
    with connection.makefile("rb") as stream:
        command, cwd, env = json.loads(stream.read(int.from_bytes(head)))
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        connection.sendall(b"%d\n" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(b"%d\n" % code)
        os._exit(0)
    return command, cwd, env, files


def _run(command: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[0] = cwd
    module = command[0]
    sys.modules.pop(module, None)
    sys.argv = command
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    _end(code)


def _end(code: int) -> None:
    """End as Python does, but take no module apart: that writes to all memory that is shared with the server."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
