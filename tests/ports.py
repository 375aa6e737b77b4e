"""Ports that no other test process takes.

A port that was free a moment ago may belong to somebody else by the time a server binds it. So every test process
claims a block of ports below the range from which the kernel gives away its own, by holding the first one open.
"""

from __future__ import annotations

import atexit
import itertools
import socket
from functools import cache
from pathlib import Path

from core.feeds.io import sample

FIRST, LAST, BLOCK = 20_000, 32_000, 100


@cache
def _claim() -> tuple[socket.socket, itertools.cycle[int]]:
    """Claim a block for this process until it ends."""
    for base in range(FIRST, LAST, BLOCK):
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", base))
            claim.listen()
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        return claim, itertools.cycle(range(base + 1, base + BLOCK))
    raise RuntimeError(f"no block of {BLOCK} ports is free on 127.0.0.1")


def take() -> int:
    """Return a free port of our own block."""
    _, ports = _claim()
    return next(port for port in ports if _is_free(port))


def for_up(folder: Path) -> dict[str, str]:
    """Return the environment of an `up` with ports of its own; the sample site finds its one in `folder`."""
    place = folder / sample.ADDRESS.name
    if not place.exists():
        place.write_text(f"http://127.0.0.1:{take()}\n")
    return {"EMBEDDED_REDIS_PORT": str(take()), "API_BIND": f"127.0.0.1:{take()}"}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
