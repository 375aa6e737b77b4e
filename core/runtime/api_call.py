"""One call of `core.api`: on the store itself, or, with FRESHET_URL, as a request to the HTTP API.

Both ways give plain values, which become the same types.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from pydantic import TypeAdapter, ValidationError
from redis.exceptions import RedisError

from core.errors import FreshetError, NotFound, StoreUnreachable
from core.keys import Keys
from core.settings import Settings, load
from core.store import connect, redis_health
from core.value_class import value_class

TIMEOUT_SECONDS = 120.0
T = TypeVar("T")
_ERRORS: dict[int, type[FreshetError]] = {404: NotFound, 503: StoreUnreachable}


class OpenStore(NamedTuple):
    """What a call works on in this process."""

    settings: Settings
    client: connect.Client
    keys: Keys


@value_class
class ApiRequest:
    """A route with its values: in the query of a GET, in the body of a POST. Empty ones are left out."""

    method: str
    path: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """The values that say something."""
        return {name: value for name, value in self.values.items() if value not in ("", None) and value is not False}

    def url(self, base: str) -> str:
        query = {name: "true" if value is True else value for name, value in self.given.items()}
        words = f"?{urlencode(query)}" if self.method == "GET" and query else ""
        return f"{base.rstrip('/')}{quote(self.path)}{words}"


def answer(
    kind: type[T],
    here: Callable[[OpenStore], Awaitable[object]],
    request: ApiRequest,
    shape: Callable[[Any], object] = lambda values: values,
) -> T:
    """Return the typed answer. Both ways lead through the same plain values, so that they cannot differ."""
    settings = load()
    values = _run(ask(settings, request) if settings.freshet_url else _on_the_store(settings, here))
    try:
        return TypeAdapter(kind).validate_python(shape(values))
    except (ValidationError, KeyError, TypeError) as error:
        raise FreshetError(
            f"The answer to {request.method} {request.path} is not what this version expects ({type(error).__name__}). "
            "Use the same version of Freshet on both sides."
        ) from error


async def _on_the_store(settings: Settings, here: Callable[[OpenStore], Awaitable[object]]) -> object:
    try:
        async with redis_health.open_when_ready(settings, once=True) as (client, keys):
            return await here(OpenStore(settings, client, keys))
    except RedisError as error:
        raise StoreUnreachable(redis_health.explain(error, connect.url_of(settings))) from None


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end; in a thread of its own where this one has an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


# ── over HTTP ──


async def ask(settings: Settings, request: ApiRequest) -> Any:
    """Return what the API at FRESHET_URL answers; raise FreshetError with its message and hint."""
    headers = {"Accept": "application/json"}
    if settings.api_token is not None:
        headers["Authorization"] = f"Bearer {settings.api_token.get_secret_value()}"
    body = request.given if request.method == "POST" and request.values else None
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    try:
        # A redirect could carry the token to somebody else; the API sends none.
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.request(
                request.method, request.url(settings.freshet_url), json=body, allow_redirects=False
            ) as response,
        ):
            return _values(settings, response.status, await response.read())
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise StoreUnreachable(
            f"{settings.freshet_url} does not answer ({type(error).__name__}). Start ./scripts/up or "
            "python -m workers.web there, or correct FRESHET_URL; unset, the store itself is used."
        ) from None


def _values(settings: Settings, status: int, body: bytes) -> Any:
    try:
        values = json.loads(body)
    except ValueError:
        values = None
    if status == 200 and values is not None:
        return values
    try:
        detail = values["error"]
        sentence = " ".join(filter(None, (detail["message"], detail["hint"])))
    except (TypeError, KeyError):
        raise FreshetError(
            f"{settings.freshet_url} is no Freshet: it answers HTTP {status}. Correct FRESHET_URL."
        ) from None
    raise _ERRORS.get(status, FreshetError)(sentence)
