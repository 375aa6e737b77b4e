"""A receiver of webhooks on loopback: verifies with the official library, and misbehaves as it is told.

async with Receiver() as receiver:
    webhook = await add(receiver.url("/a"))
    receiver.trust("/a", webhook.secret)
    receiver.answers("/a", 500, 503, 204)    # one after the other; the last one is repeated
    ...
    assert receiver.taken("/a") == [...]
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """A message that arrived and was verified."""

    id: str
    type: str
    event_id: str
    data: dict[str, Any]
    status: int


class Receiver:
    """A server; each path is a receiver of its own."""

    def __init__(self, *, any_time: bool = False) -> None:
        """`any_time`: the time of a message may be any, for tests whose clock is not the machine's."""
        self._any_time = any_time
        self._verifiers: dict[str, Verifier] = {}
        self._answers: dict[str, list[int | Behaviour]] = {}
        self.received: dict[str, list[Received]] = defaultdict(list)
        self.requests: list[str] = []
        """Paths of all requests, refused ones too."""
        self.port = 0

    def trust(self, path: str, secret: str) -> None:
        """Verify what comes to this path with this secret."""
        self._verifiers[path] = Verifier(secret)

    def answers(self, path: str, *answers: int | Behaviour) -> None:
        """Answer with these statuses, one after the other; the last one is repeated."""
        self._answers[path] = list(answers)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def taken(self, path: str) -> list[str]:
        """Ids of the events that were answered with 2xx, in order."""
        return [one.event_id for one in self.received[path] if 200 <= one.status < 300]

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        body = await request.text()
        try:
            message = self._verified(self._verifiers[request.path], request, body)
        except (KeyError, WebhookVerificationError):
            return web.Response(status=401)
        answers = self._answers.get(request.path, [204])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        response = web.Response(status=answer) if isinstance(answer, int) else await answer(request)
        data = message["data"]
        name, event_id = request.headers["webhook-id"], data.get("event_id", "")
        self.received[request.path].append(Received(name, message["type"], event_id, data, response.status))
        return response

    def _verified(self, verifier: Verifier, request: web.Request, body: str) -> Any:
        if not self._any_time:
            return verifier.verify(body, dict(request.headers))
        sent_at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
        signed = verifier.sign(msg_id=request.headers["webhook-id"], timestamp=sent_at, data=body)
        if signed not in request.headers["webhook-signature"].split():
            raise WebhookVerificationError
        return json.loads(body)


# ── behaviours ──


async def hang(_: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def close(request: web.Request) -> web.StreamResponse:
    """Close the connection without a word."""
    assert request.transport
    request.transport.abort()
    return web.Response(status=599)


def with_headers(status: int, **headers: str) -> Behaviour:
    """A status with headers; `_` stands for `-`."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


def with_body(status: int, size: int) -> Behaviour:
    """A status with a body of this size."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=b"x" * size)

    return answer
