"""What a fake web server can answer: each reply is an async callable that plays itself on an `Exchange`."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import NamedTuple

import brotli


class Seen(NamedTuple):
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    at: float

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


@dataclass
class Exchange:
    """One request being answered."""

    seen: Seen
    writer: asyncio.StreamWriter
    keeps_alive: bool = False

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Status line and headers; the body is up to the caller."""
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Odd"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        await self.send("\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape"))

    async def answer(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """A whole, honest answer; the connection stays open."""
        body = b"" if status in (204, 304) else body
        await self.head(status, {**(headers or {}), "Content-Length": str(len(body))})
        await self.send(body)
        self.keeps_alive = True

    async def hang(self) -> None:
        """Say nothing more, for ever."""
        await asyncio.Event().wait()

    def reset(self) -> None:
        """RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


Reply = Callable[[Exchange], Awaitable[None]]


def raw(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


@dataclass
class Document:
    """An ordinary page. With an etag or a date it answers 304 to whoever has it."""

    body: bytes = b""
    status: int = 200
    etag: str = ""
    last_modified: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = "text/html; charset=utf-8"

    async def __call__(self, exchange: Exchange) -> None:
        headers = {"Content-Type": self.media_type, **self.headers}
        headers |= {"ETag": self.etag} if self.etag else {}
        headers |= {"Last-Modified": self.last_modified} if self.last_modified else {}
        await exchange.answer(304 if self._is_known(exchange.seen) else self.status, headers, self.body)

    def _is_known(self, seen: Seen) -> bool:
        if "if-none-match" in seen.headers:
            return bool(self.etag) and self.etag in seen.headers["if-none-match"]
        return bool(self.last_modified) and seen.headers.get("if-modified-since") == self.last_modified


def lying_etag(body: str | bytes, etag: str = '"lie"') -> Reply:
    """304 to any validator, whatever has changed."""

    async def reply(exchange: Exchange) -> None:
        status = 304 if "if-none-match" in exchange.seen.headers else 200
        await exchange.answer(status, {"ETag": etag, "Content-Type": "text/html"}, raw(body))

    return reply


def changing_etag(body: str | bytes) -> Reply:
    """A new ETag each time for the same bytes."""
    numbers = count(1)

    async def reply(exchange: Exchange) -> None:
        await exchange.answer(200, {"ETag": f'"{next(numbers)}"', "Content-Type": "text/html"}, raw(body))

    return reply


def redirect(to: str, status: int = 302) -> Reply:
    return Document(b"moved", status, headers={"Location": to})


def slow(chunk: str | bytes, times: int, delay: float, *, total: int | None = None) -> Reply:
    """The chunk again and again with a pause after each."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, {"Content-Length": str(len(raw(chunk)) * times if total is None else total)})
        for _ in range(times):
            await exchange.send(raw(chunk))
            await asyncio.sleep(delay)

    return reply


def late(seconds: float, then: Reply) -> Reply:
    """Silence first."""

    async def reply(exchange: Exchange) -> None:
        await asyncio.sleep(seconds)
        await then(exchange)

    return reply


def cut(body: str | bytes, promised: int) -> Reply:
    """Closes before the promised length."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, {"Content-Length": str(promised)})
        await exchange.send(raw(body))

    return reply


def bomb(encoding: str, megabytes: int) -> Reply:
    """Zeros that inflate to so many megabytes."""
    packed = _packed(encoding, megabytes)

    async def reply(exchange: Exchange) -> None:
        await exchange.answer(200, {"Content-Encoding": encoding, "Content-Type": "text/html"}, packed)

    return reply


def _packed(encoding: str, megabytes: int) -> bytes:
    zeros: Iterator[bytes] = (bytes(1 << 20) for _ in range(megabytes))
    if encoding == "br":
        packer = brotli.Compressor(quality=5)
        return b"".join([*map(packer.process, zeros), packer.finish()])
    stream = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    return b"".join([*map(stream.compress, zeros), stream.flush()])


def packed(body: str | bytes, encoding: str) -> Reply:
    """The body compressed as asked for."""
    coders = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}
    return Document(coders[encoding](raw(body)), headers={"Content-Encoding": encoding})


def packed_part(body: str | bytes, encoding: str, share: float = 0.5, **headers: str) -> Reply:
    """The beginning of the compressed body, framed as if it were all."""
    coders = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}
    whole = coders[encoding](raw(body))
    return Document(whole[: int(len(whole) * share)], headers={"Content-Encoding": encoding, **headers})


async def hang(exchange: Exchange) -> None:
    await exchange.hang()


async def reset(exchange: Exchange) -> None:
    exchange.reset()


def reset_after(body: str | bytes, promised: int) -> Reply:
    """RST in the middle of the body."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, {"Content-Length": str(promised)})
        await exchange.send(raw(body))
        exchange.reset()

    return reply


def header_flood(fields: int, size: int) -> Reply:
    """So many header fields of that size each."""

    async def reply(exchange: Exchange) -> None:
        await exchange.answer(200, {f"X-{i}": "b" * size for i in range(fields)}, b"x")

    return reply


def bytes_as_they_are(data: bytes) -> Reply:
    """Not necessarily HTTP."""

    async def reply(exchange: Exchange) -> None:
        await exchange.send(data)

    return reply
