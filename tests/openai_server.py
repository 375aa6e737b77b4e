"""An endpoint on loopback that speaks OpenAI's `POST /v1/embeddings`.

    async with EmbeddingServer(most_texts=8) as server:
        server.then(429, retry_after="30").then_nan()
        settings = Settings(embedder="openai", embed_api_url=server.url)
        ...
        assert server.batches == [1, 8, 8]

Scripted answers are given first, one per request; after them honest ones: a vector per text, the same for the same
text, of no particular length.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from aiohttp import web

Question = dict[str, Any]
Answer = Callable[[Question], Awaitable[web.StreamResponse]]


def numbers(text: str, dimension: int) -> list[float]:
    """Made of the text alone; never all zero."""
    digest = hashlib.shake_256(text.encode()).digest(dimension)
    return [(byte - 127.5) / 40 for byte in digest]


class EmbeddingServer:
    """See the top of the file."""

    def __init__(
        self,
        dimension: int = 16,
        *,
        key: str = "",
        most_texts: int = 1000,
        most_characters: int = 10_000_000,
        forbidden: str = "\0",
    ) -> None:
        self.dimension = dimension
        self.most_texts = most_texts
        self.most_characters = most_characters
        self.forbidden = forbidden
        self.questions: list[Question] = []
        self.headers: list[Mapping[str, str]] = []
        self.always: Answer | None = None
        self._key = key
        self._script: list[Answer] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    # ── verbs ──

    def then(self, status: int, *, retry_after: str = "", body: str = "{}", **headers: str) -> Self:
        """The next request gets this status."""
        sent = {**headers, **({"Retry-After": retry_after} if retry_after else {})}
        return self.then_do(lambda _: web.Response(status=status, text=body, headers=sent))

    def then_body(self, body: str) -> Self:
        """The next answer is this, with 200."""
        return self.then_do(lambda _: web.Response(text=body, content_type="application/json"))

    def then_data(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Self:
        """The next answer's list of vectors is changed first."""
        return self.then_do(lambda question: self._answer(change(self._data(question))))

    def then_hang(self) -> Self:
        """The next request is never answered."""

        async def hang(_: Question) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        self._script.append(hang)
        return self

    def then_do(self, reply: Callable[[Question], web.StreamResponse]) -> Self:
        async def answer(question: Question) -> web.StreamResponse:
            return reply(question)

        self._script.append(answer)
        return self

    # ── looking back ──

    @property
    def batches(self) -> list[int]:
        """How many texts each request had."""
        return [len(question["input"]) for question in self.questions]

    @property
    def texts(self) -> list[str]:
        return [text for question in self.questions for text in question["input"]]

    # ── serving ──

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/embeddings", self._reply)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """From now on connections are refused."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        question: Question = await request.json()
        self.questions.append(question)
        self.headers.append(dict(request.headers))
        if self._script:
            return await self._script.pop(0)(question)
        if self._key and request.headers.get("Authorization") != f"Bearer {self._key}":
            return web.Response(status=401, text=f"Incorrect key: {request.headers.get('Authorization')}")
        return self._honest(question)

    def _honest(self, question: Question) -> web.StreamResponse:
        texts = question["input"]
        if len(texts) > self.most_texts:
            return web.Response(status=413, text="too many texts")
        if any(not text or len(text) > self.most_characters or self.forbidden in text for text in texts):
            return web.Response(status=400, text="a text is empty, too long or forbidden")
        return self._answer(self._data(question))

    def _data(self, question: Question) -> list[dict[str, Any]]:
        dimension = question.get("dimensions", self.dimension)
        return [
            {"object": "embedding", "index": place, "embedding": numbers(text, dimension)}
            for place, text in enumerate(question["input"])
        ]

    def _answer(self, data: list[dict[str, Any]]) -> web.StreamResponse:
        # Python writes NaN as it is, as some servers do.
        return web.Response(text=json.dumps({"object": "list", "data": data}), content_type="application/json")
