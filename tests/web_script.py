"""Plays the server scripts of hostile inputs: lists such as `["status", 200], ["stream", spec, count, delay]`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.web_replies import Exchange

Make = Callable[[Any], bytes]
"""Turns the spec of a body into bytes."""


class Script:
    """A reply that follows the script step by step."""

    def __init__(self, steps: list[list[Any]], make: Make) -> None:
        self._steps = steps
        self._make = make

    async def __call__(self, exchange: Exchange) -> None:
        stage = _Stage(exchange, self._make)
        for verb, *words in self._steps:
            await getattr(stage, f"do_{verb}")(*words)
        await stage.do_end()


class _Stage:
    """Where the script is: what is collected and what is already sent."""

    def __init__(self, exchange: Exchange, make: Make) -> None:
        self._exchange = exchange
        self._make = make
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_head_sent = False

    async def do_status(self, status: int) -> None:
        self._status = status

    async def do_header(self, name: str, value: str) -> None:
        self._headers[name] = value

    async def do_headergen(self, name: str, spec: Any) -> None:
        self._headers[name] = self._make(spec).decode("utf-8", "surrogateescape")

    async def do_body(self, spec: Any) -> None:
        body = self._make(spec)
        self._headers.setdefault("Content-Length", str(len(body)))
        await self._send_head()
        await self._exchange.send(body)

    async def do_stream(self, spec: Any, times: int, delay: float) -> None:
        chunk = self._make(spec)
        if self._headers.get("Transfer-Encoding") == "chunked":
            chunk = b"%x\r\n%s\r\n" % (len(chunk), chunk)
        await self._send_head()
        for _ in range(times):
            await self._exchange.send(chunk)
            if delay:
                await asyncio.sleep(delay)

    async def do_sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def do_hang(self) -> None:
        await self._exchange.hang()

    async def do_rst(self) -> None:
        await self._send_head()
        self._exchange.reset()

    async def do_redirect(self, status: int, url: str) -> None:
        await self._exchange.answer(status, {"Location": url})
        self._is_head_sent = True

    async def do_redirectchain(self, length: int, how: str = "") -> None:
        """`/` → `?hop=1` → …; with `loop` the last leads back to the first."""
        hop = int(self._exchange.seen.query.removeprefix("hop=") or 0)
        if hop < length:
            following = (hop + 1) % length if how == "loop" else hop + 1
            await self.do_redirect(302, f"{self._exchange.seen.path}?hop={following}")
        else:
            await self.do_status(200)

    async def do_trap(self, name: str) -> None:
        """A page that links deeper into itself."""
        here = self._exchange.seen.path.rstrip("/")
        await self._exchange.answer(200, {"Content-Type": "text/html"}, f'<a href="{here}/{name}">on</a>'.encode())
        self._is_head_sent = True

    async def do_end(self) -> None:
        if self._status:
            self._headers.setdefault("Content-Length", "0")
            await self._send_head()

    async def _send_head(self) -> None:
        if not self._is_head_sent and self._status:
            await self._exchange.head(self._status, self._headers)
        self._is_head_sent = True
