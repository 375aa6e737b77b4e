"""Host names to addresses, by the system's resolver in threads of our own.

asyncio's default pool has a handful of threads on a small machine: a few domains whose servers do not answer would
fill it, and every healthy feed behind them would look slow.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

THREADS = 32


class PooledResolver(AbstractResolver):
    """getaddrinfo, many at a time."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of the host; OSError if there is none."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._pool, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Let go of the threads; a lookup that still hangs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
