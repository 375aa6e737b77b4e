"""The HTTP API of a test: the real application on a real socket of loopback."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from pydantic import Field

from core.settings import Settings
from workers.web.app import build_app
from workers.web.models import AnswerModel, RequestModel
from workers.web.protocol import ApiSite
from workers.web.routes import ROUTES
from workers.web.routing import Call, Route, Routes
from workers.web.services import ServiceOpener


class ProbeRequest(RequestModel):
    """A request of the probe."""

    word: str = Field(default="", max_length=10)
    number: int = 0
    is_on: bool = False


class ProbeAnswer(AnswerModel):
    """What the probe was asked."""

    word: str
    number: int
    is_on: bool


async def _probe(call: Call, asked: ProbeRequest) -> ProbeAnswer:
    if asked.word == "fail":
        raise RuntimeError("a mistake of ours, with a secret: hunter2")
    if asked.word == "redis":
        await call.services.client.get("x")
    return ProbeAnswer(word=asked.word, number=asked.number, is_on=asked.is_on)


PROBES: Routes = (
    Route(
        method="POST",
        path="/probe",
        summary="Say it again.",
        tag="probe",
        request=ProbeRequest,
        handler=_probe,
        answer=ProbeAnswer,
        fields_in="body",
    ),
)
"""A table of one route that takes a body, repeats it, and fails when it is told to."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, str]:
        """The error; fails if the answer is none, or has not all its parts."""
        detail = self.json["error"]
        assert set(detail) == {"code", "message", "hint"}
        assert detail["message"].endswith("."), detail
        return detail


@dataclass(frozen=True)
class ApiServer:
    """A running API and a client for it."""

    url: str
    session: aiohttp.ClientSession
    opener: ServiceOpener

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        """Send one request; `json=`, `data=`, `headers=`, `params=` as aiohttp has them."""
        async with self.session.request(method, f"{self.url}{path}", **options) as reply:
            return Answer(reply.status, reply.headers, await reply.text())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, **options: Any) -> Answer:
        return await self.ask("POST", path, **options)


@contextlib.asynccontextmanager
async def api_server(settings: Settings, table: Routes = ROUTES) -> AsyncIterator[ApiServer]:
    """Serve a route table on a free port, with a client that follows no redirects."""
    opener = ServiceOpener(settings)
    async with opener.running(), aiohttp.ClientSession() as session:
        runner = web.AppRunner(build_app(settings, opener, table), shutdown_timeout=1)
        await runner.setup()
        try:
            site = ApiSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            yield ApiServer(f"http://127.0.0.1:{port}", session, opener)
        finally:
            opener.let_streams_go()
            await runner.cleanup()
