"""A scriptable web on loopback.

    async with FakeWeb() as web:
        web.page("/a", "hello", etag='"1"').then(404)
        web.redirect("/old", "/a", 301)
        ...
        assert web.paths == ["/a"]

A path answers its replies in order and repeats the last. Keys are `/path` for any host or `host/path` for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from typing import Any, Self

from tests import web_replies as replies
from tests.web_replies import Document, Exchange, Reply, Seen, raw


class Page:
    """What one path answers."""

    def __init__(self, first: Reply) -> None:
        self._replies = [first]

    def then(self, what: Reply | int | str | bytes, **options: Any) -> Self:
        """The next answer: a reply, a status or a new body."""
        self._replies.append(as_reply(what, **options))
        return self

    def then_gone(self) -> Self:
        return self.then(410)

    def next_reply(self) -> Reply:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def as_reply(what: Reply | int | str | bytes, **options: Any) -> Reply:
    if isinstance(what, int):
        return Document(status=what, **options)
    return Document(raw(what), **options) if isinstance(what, str | bytes) else what


class FakeWeb:
    """A server on loopback; more hosts share the port of the first."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts or ("127.0.0.1",)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._pages: dict[str, Page] = {}
        self.fallback: Reply = Document(b"not here", 404)
        self.requests: list[Seen] = []
        self.connections = 0
        self.port = 0

    # ── verbs ──

    def on(self, path: str, *answers: Reply | int | str | bytes) -> Page:
        """The path gives these answers, one after the other."""
        page = self._pages[path] = Page(as_reply(answers[0]))
        for answer in answers[1:]:
            page.then(answer)
        return page

    def page(self, path: str, body: str | bytes = "", **options: Any) -> Page:
        """Options of `Document`: status, etag, last_modified, headers, media_type."""
        return self.on(path, Document(raw(body), **options))

    def robots(self, rules: str | int) -> Page:
        """robots.txt with these rules, or answering with a status."""
        return self.on("/robots.txt", rules)

    def redirect(self, path: str, to: str, status: int = 302) -> Page:
        return self.on(path, replies.redirect(to, status))

    def redirect_loop(self, *paths: str) -> None:
        """Each leads to the next, the last to the first."""
        for path, to in zip(paths, (*paths[1:], paths[0]), strict=True):
            self.redirect(path, to)

    def gone(self, path: str) -> Page:
        return self.on(path, 410)

    def retry_after(self, path: str, status: int, value: str) -> Page:
        return self.page(path, "later", status=status, headers={"Retry-After": value})

    def wrong_type(self, path: str, body: bytes = b"%PDF-1.7", media_type: str = "application/pdf") -> Page:
        return self.page(path, body, media_type=media_type)

    def slow(self, path: str, chunk: str | bytes, times: int, delay: float) -> Page:
        return self.on(path, replies.slow(chunk, times, delay))

    def cut(self, path: str, body: str | bytes, promised: int) -> Page:
        return self.on(path, replies.cut(body, promised))

    def bomb(self, path: str, encoding: str, megabytes: int) -> Page:
        return self.on(path, replies.bomb(encoding, megabytes))

    def lying_etag(self, path: str, body: str | bytes) -> Page:
        return self.on(path, replies.lying_etag(body))

    def changing_etag(self, path: str, body: str | bytes) -> Page:
        return self.on(path, replies.changing_etag(body))

    def hang(self, path: str) -> Page:
        return self.on(path, replies.hang)

    def reset(self, path: str) -> Page:
        return self.on(path, replies.reset)

    def header_flood(self, path: str, fields: int = 1, size: int = 200_000) -> Page:
        return self.on(path, replies.header_flood(fields, size))

    # ── looking back ──

    def url(self, path: str = "/", host: str = "") -> str:
        """The absolute URL of a path, on our address or under another name."""
        name = host or self._hosts[0]
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """Paths asked for, in order, without robots.txt."""
        return [seen.path for seen in self.requests if seen.path != "/robots.txt"]

    def asked(self, path: str) -> list[Seen]:
        return [seen for seen in self.requests if seen.path == path]

    # ── serving ──

    async def __aenter__(self) -> Self:
        for _ in range(20):
            try:
                return await self._listen()
            except OSError as error:
                await self._stop_listening()
                if error.errno != errno.EADDRINUSE:
                    raise
        raise RuntimeError("no port is free on all of " + ", ".join(self._hosts))

    async def __aexit__(self, *_: object) -> None:
        await self._stop_listening()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self) -> Self:
        port = 0
        for host in self._hosts:
            server = await asyncio.start_server(self._connected, host, port, limit=1 << 20)
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
        self.port = port
        return self

    async def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            keeps_alive = True
            while keeps_alive:
                seen = _parsed(await reader.readuntil(b"\r\n\r\n"))
                self.requests.append(seen)
                exchange = Exchange(seen, writer)
                await self._reply_to(seen)(exchange)
                keeps_alive = exchange.keeps_alive

    def _reply_to(self, seen: Seen) -> Reply:
        host = seen.headers.get("host", "").partition(":")[0]
        for key in (host + seen.target, seen.target, host + seen.path, seen.path):
            if key in self._pages:
                return self._pages[key].next_reply()
        return self.fallback


def available(*hosts: str) -> tuple[str, ...]:
    """Those of the addresses that this machine has; containers often lack ::1."""
    return tuple(filter(_can_listen, hosts))


def _can_listen(host: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe, contextlib.suppress(OSError):
        probe.bind((host, 0))
        return True
    return False


def _parsed(head: bytes) -> Seen:
    first, *lines = head.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Seen(method, target, headers, time.time())
