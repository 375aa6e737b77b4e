"""Requests over aiohttp's connections: what is sent, when a connection is used again, when a response is too late."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest

from core.net.address_guard import Target
from core.net.connector import open_connector
from core.net.direct_client import DirectClient

Answer = Callable[[bytes, asyncio.StreamWriter], bool]
"""Gets a request and writes a response; False: the connection is then closed."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Served:
    """A server on loopback, a client of it, and the requests that came by connection."""

    def __init__(self, client: DirectClient, origin: str, connections: list[list[bytes]]) -> None:
        self._client = client
        self._origin = origin
        self.connections = connections

    async def ask(
        self, headers: Mapping[str, str] | None = None, *, method: str = "GET", seconds: float = 60.0, path: str = "/a"
    ) -> bytes:
        async def receive(status: int, head: Mapping[str, str], content: aiohttp.StreamReader) -> bytes:
            return await content.read()

        target = Target(f"{self._origin}{path}", "127.0.0.1", int(self._origin.rpartition(":")[2]), self._origin)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_read=min(10.0, seconds))
        body = b"{}" if method == "POST" else None
        return await self._client.exchange(method, target, headers or {}, body, timeout, receive)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Served]:
    connections: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        connections.append(requests)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                requests.append(head)
                if b"content-length: 2" in head.lower():
                    await reader.readexactly(2)
                if not answer(head, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connector = open_connector(lambda address: socket.socket(*address[:3]), aiohttp.ThreadedResolver())
    client = DirectClient(connector, {"User-Agent": "Freshet", "Accept": "*/*"})
    try:
        yield Served(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections)
    finally:
        await connector.close()
        server.close()


def always(response: bytes) -> Answer:
    def answer(head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(response)
        return True

    return answer


async def test_one_connection_serves_one_request_after_another() -> None:
    """A response that was read to its end leaves its connection to the next request."""
    async with serving(always(OK)) as served:
        answers = [await served.ask() for _ in range(3)]

    assert answers == [b"ok"] * 3
    assert [len(requests) for requests in served.connections] == [3]


async def test_own_header_replaces_the_common_one() -> None:
    """Names of headers are compared without case; the others are sent too."""
    async with serving(always(OK)) as served:
        await served.ask({"accept": "text/html", "If-None-Match": '"ü"'}, path="/a?b=%7e#c")

    lines = served.connections[0][0].decode().split("\r\n")
    assert lines[0] == "GET /a?b=%7e HTTP/1.1"
    assert lines[1].startswith("Host: 127.0.0.1:")
    assert lines[2:5] == ["User-Agent: Freshet", "accept: text/html", 'If-None-Match: "ü"']


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_line_break_in_a_header_sends_nothing(value: str) -> None:
    """A validator is a server's own text; it cannot become a header or a request."""
    async with serving(always(OK)) as served:
        with pytest.raises(ValueError, match="line break"):
            await served.ask({"If-None-Match": value})

    assert served.connections == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_idle_connection_that_the_server_closed(method: str) -> None:
    """A GET is sent once more on a new connection; what may have been done already is not."""
    seen: list[bytes] = []

    def answer(head: bytes, writer: asyncio.StreamWriter) -> bool:
        seen.append(head)
        if len(seen) != 2:  # the second request meets a server that is just closing
            writer.write(OK)
        return len(seen) != 2

    async with serving(answer) as served:
        await served.ask()
        if method == "GET":
            assert await served.ask() == b"ok"
        else:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await served.ask(method="POST")

    assert len(seen) == (3 if method == "GET" else 2)


async def test_late_response_ends_at_its_own_deadline() -> None:
    """Also on a connection that an earlier request had more time on, and whatever still flows."""
    dripping: list[asyncio.Future[None]] = []

    def answer(head: bytes, writer: asyncio.StreamWriter) -> bool:
        if b"/slow" not in head:
            writer.write(OK)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            dripping.append(asyncio.ensure_future(drip(writer)))
        return True

    async def drip(writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(b".")
            await asyncio.sleep(0.01)

    async with serving(answer) as served:
        await served.ask(seconds=600.0)
        with pytest.raises(TimeoutError):
            await served.ask(path="/slow", seconds=0.2)
        assert await served.ask() == b"ok"

    assert [len(requests) for requests in served.connections] == [2, 1]
