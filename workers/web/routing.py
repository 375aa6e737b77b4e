"""A route as a declared value: the aiohttp routes, the OpenAPI document and the docs page are made from it."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, is_dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_type_hints

from aiohttp import web
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from core.keys import Keys
from core.registry.time_parsing import parse_moment
from core.runtime.context import Context
from core.settings import Settings
from core.store import connect
from core.value_class import value_class
from workers.web.models import adapter
from workers.web.parameters import read_parameters
from workers.web.services import ServiceOpener, Services

R = TypeVar("R", bound=BaseModel)
Handler = Callable[[Any, R], Awaitable[object]]
"""The first argument is a `Call`, or a `StoreCall` where that is enough. It returns an answer or a response."""
H = TypeVar("H", bound=Callable[..., Any])
Method = Literal["GET", "POST", "PUT", "DELETE"]
JSON = "application/json"
HTML = "text/html"
EVENT_STREAM = "text/event-stream"
ANSWER_SECONDS = 60.0
"""How long an answer may take before the client gets a 504; streams have all the time they want."""


@value_class
class StoreCall:
    """One request, however it came: what a handler works with that only needs the stores."""

    opener: ServiceOpener

    @property
    def services(self) -> Services:
        """Return the stores; raise StoreUnreachable while Redis does not answer."""
        return self.opener.require()

    @property
    def context(self) -> Context:
        return self.services.context

    @property
    def settings(self) -> Settings:
        return self.services.settings

    @property
    def client(self) -> connect.Client:
        return self.services.client

    @property
    def keys(self) -> Keys:
        return self.services.keys

    async def now(self) -> float:
        return await connect.now(self.client)

    async def moment(self, word: str, *, is_end: bool = False) -> float | None:
        """Return the point in time that a parameter names, by the store's clock; None: it names none."""
        return parse_moment(word, await self.now(), is_end=is_end) if word else None


@value_class
class Call(StoreCall):
    """One request over HTTP."""

    http: web.Request
    route: Route[Any]
    body: bytes = b""
    """The body of a route whose `body_type` is not JSON."""

    @property
    def is_head(self) -> bool:
        """Whether the answer should have no body."""
        return self.http.method == "HEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[R]):
    """One method of one path."""

    method: Method
    path: str
    """As aiohttp writes it: `/v2/jobs/{id}`. A name in braces is a field of the request model."""
    summary: str
    tag: str
    request: type[R]
    """Fields of the path, of the query, and, where `fields_in` says so, of the body."""
    handler: Handler[R]
    answer: type | None
    """What a JSON answer holds, a model or a value of core; None if it is never JSON, or any JSON."""
    statuses: tuple[int, ...] = (200,)
    """With which the answer may come."""
    other_types: tuple[str, ...] = ()
    """Further content types of the answer."""
    fields_in: Literal["query", "body", "form"] = "query"
    """Where the fields are that are not in the path: `body` is JSON, `form` what a page of the dashboard sends."""
    body_type: str = JSON
    """Another content type: the handler gets the bytes."""
    other_body_types: tuple[str, ...] = ()
    """Content types that mean the same."""
    takes_filters: bool = False
    """Whether the query is what a form with filters sends, in which an empty field was not filled in."""
    description: str = ""
    is_destructive: bool = False
    is_public: bool = False
    """Needs no token."""
    takes_feed_token: bool = False
    """May be read with the token of feeds in the query, see `feed_token`."""
    seconds: float | None = ANSWER_SECONDS
    """None: no limit."""

    @property
    def path_fields(self) -> tuple[str, ...]:
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    @property
    def takes_body(self) -> bool:
        return self.fields_in == "body" or self.body_type != JSON

    @property
    def name(self) -> str:
        """Return a name for programs: `get_v2_jobs_id_log`."""
        return re.sub(r"\W+", "_", f"{self.method.lower()}{self.path}").strip("_")


class RouteTable(list[Route[Any]]):
    """The routes of one module, under one tag."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag

    def add(self, method: Method, path: str, **options: Any) -> Callable[[H], H]:
        """Make a function the handler of a route; its annotations say what it takes and what it answers.

        The first line of its docstring is the summary, the rest the description. `options` are further fields of
        `Route`, or those that docstring and annotations do not tell.
        """

        def declare(handler: H) -> H:
            returned = get_type_hints(handler)["return"]
            told: dict[str, Any] = {"request": request_of(handler), "tag": self.tag}
            told["answer"] = next((one for one in (returned, *get_args(returned)) if _is_model(one)), None)
            told["summary"], *more = (inspect.getdoc(handler) or path).split("\n\n")
            told["description"] = " ".join(" ".join(more).split())
            self.append(Route(method=method, path=path, handler=handler, **{**told, **options}))
            return handler

        return declare


def request_of(handler: Callable[..., Any]) -> type[BaseModel]:
    """Return the request model that a handler, view or action names as its second argument."""
    _, request, _ = get_type_hints(handler).values()
    return cast("type[BaseModel]", request)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


Routes = tuple[Route[Any], ...]
OPENER: web.AppKey[ServiceOpener] = web.AppKey("opener", ServiceOpener)
ROUTES: web.AppKey[Routes] = web.AppKey("routes")


def add_routes(app: web.Application, routes: Routes) -> None:
    for route in routes:
        if route.method == "GET":
            app.router.add_get(route.path, _bound(route))
        else:
            app.router.add_route(route.method, route.path, _bound(route))


def _bound(route: Route[Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(route.seconds):
            parameters, body = await read_parameters(route, request)
            answer = await route.handler(Call(request.app[OPENER], request, route, body), parameters)
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.Response(body=encoded(answer), content_type=JSON)

    return handle


def encoded(answer: object) -> bytes:
    """Return an answer as JSON; bytes in the store that are not UTF-8 become question marks."""
    known = adapter(type(answer))
    try:
        return known.dump_json(answer, by_alias=True)
    except PydanticSerializationError:
        plain = known.dump_python(answer, mode="json", by_alias=True)
        return json.dumps(plain, ensure_ascii=False).encode(errors="replace")
