"""Read the parameters of a request into its model: every mistake is a 4xx with a sentence that names the parameter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from workers.web.dashboard.forms import read_form
from workers.web.errors import ApiError, nearest
from workers.web.limits import MOST_DEPTH, json_depth

if TYPE_CHECKING:
    from workers.web.routing import Route

JSON = "application/json"
BODY_SECONDS = 30.0


async def read_parameters(route: Route[Any], request: web.Request) -> tuple[BaseModel, bytes]:
    """Return the request model, and the body of a route that takes something else than JSON."""
    if route.fields_in == "form":
        return await _read_form(route, request), b""
    body = await _read_body(route, request)
    path = {name: request.match_info[name] for name in route.path_fields}
    query = _read_query(route, request)
    try:
        if route.fields_in == "query":
            return route.request.model_validate_strings({**query, **path}), body
        return _read_json(route, body, path), b""
    except ValidationError as error:
        raise _refusal(error.errors(), route, request.path) from None


async def _read_form(route: Route[Any], request: web.Request) -> BaseModel:
    path = {name: request.match_info[name] for name in route.path_fields}
    model: type[BaseModel] = route.request
    try:
        return model.model_validate_strings({**await read_form(request), **path})
    except ValidationError as error:
        raise _refusal(error.errors(), route, request.path) from None


def _read_query(route: Route[Any], request: web.Request) -> Mapping[str, str]:
    """Return the query; a name that the route does not have, or one that comes twice, is refused."""
    known = [] if route.fields_in == "body" else sorted(set(field_names(route.request)) - set(route.path_fields))
    for name in request.query:
        if name not in known:
            raise ApiError(
                422, "unknown_parameter", f"{request.path} has no parameter {name[:80]}.", nearest(name, known)
            )
        if len(request.query.getall(name)) > 1:
            raise ApiError(422, "invalid", f"The parameter {name} is there more than once.", "Write it once.")
    return {name: value for name, value in request.query.items() if value or not route.takes_filters}


async def _read_body(route: Route[Any], request: web.Request) -> bytes:
    """Return the body; only the route's own content type is read, and none is fine where there is no body.

    A form of a foreign page can send neither JSON nor XML, so it cannot do anything here.
    """
    if not request.can_read_body:
        return b""
    if request.content_type not in (route.body_type, *route.other_body_types):
        hint = f"Send Content-Type: {route.body_type}" + ("." if route.takes_body else ", or no body at all.")
        raise ApiError(415, "unsupported_media_type", f"{request.path} does not take {request.content_type}.", hint)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise ApiError(408, "timeout", "The body did not come in time.", "Send it at once.") from None
    if route.body_type == JSON and body and not route.takes_body and body.strip() not in (b"", b"{}"):
        raise ApiError(422, "invalid", f"{request.path} takes no body.", "Write its parameters into the query.")
    return body


def _read_json(route: Route[Any], body: bytes, path: Mapping[str, str]) -> BaseModel:
    if json_depth(body) > MOST_DEPTH:
        raise ApiError(422, "too_deep", f"The body is nested more than {MOST_DEPTH} levels deep.", "Flatten it.")
    try:
        values = from_json(body, allow_inf_nan=False) if body.strip() else {}
    except ValueError as error:
        raise ApiError(
            400, "not_json", f"The body is not JSON: {error}.", "Check quotes, commas and brackets."
        ) from None
    if not isinstance(values, dict):
        raise ApiError(422, "invalid", "The body is JSON, but no object.", 'Send an object: {"…": …}.')
    if twice := sorted(set(values) & set(path)):
        raise ApiError(422, "unknown_parameter", f"{twice[0]} is part of the path, not of the body.", "Leave it out.")
    model: type[BaseModel] = route.request
    return model.model_validate_json(json.dumps({**values, **path}))


def _refusal(problems: list[ErrorDetails], route: Route[Any], path: str) -> ApiError:
    known = field_names(route.request)
    if all(one["loc"][:1] and one["loc"][0] in route.path_fields for one in problems):
        return ApiError(404, "not_found", f"There is nothing at {path}.", f"{'; '.join(problem_sentences(problems))}.")
    unknown = [str(one["loc"][0]) for one in problems if one["type"] == "extra_forbidden" and len(one["loc"]) == 1]
    if unknown:
        return ApiError(
            422, "unknown_parameter", f"There is no parameter {unknown[0][:80]}.", nearest(unknown[0], known)
        )
    sentence = "; ".join(problem_sentences(problems))
    return ApiError(422, "invalid", f"{sentence[:1000]}.", f"Parameters: {', '.join(known)}. /docs describes them.")


def problem_sentences(problems: Iterable[ErrorDetails]) -> Iterable[str]:
    """Return what is wrong with each field, for people."""
    for one in problems:
        place = ".".join(str(part) for part in one["loc"])[:200]
        text = one["msg"].removeprefix("Value error, ")
        yield f"{place}: {text}" if place else text


def field_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
