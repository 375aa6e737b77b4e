"""Turn whatever goes wrong into `{"error": {"code", "message", "hint"}}` with a fitting status."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping

from aiohttp import web
from redis.exceptions import RedisError

from core.errors import FreshetError, NotFound, ParserUnavailable, StoreUnreachable
from core.outputs.webhook_filter import InvalidWebhook
from core.registry.io.article_list import InvalidCursor
from core.registry.io.item_list import InvalidItemCursor
from core.registry.time_parsing import InvalidMoment
from core.search.query_arguments import InvalidQuery
from core.sources.source_record import DomainFileError
from core.store import redis_health
from workers.web.models import ErrorAnswer, ErrorDetail

log = logging.getLogger("web")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ErrorPage = Callable[[web.Request, "ApiError"], Awaitable[web.Response]]
ERROR_PAGE: web.AppKey[ErrorPage] = web.AppKey("error_page")
"""Renders an error for people; programs get JSON."""
RETRY_SECONDS = 5
_CODES = {
    400: ("bad_request", ""),
    404: ("not_found", "GET /docs lists the routes."),
    405: ("method_not_allowed", "The header Allow says which methods this path has."),
    413: ("too_large", "Send less, or raise API_MAX_BODY_BYTES."),
    417: ("bad_request", "Leave the header Expect out."),
}


class ApiError(Exception):
    """A request that is refused: status, code, sentence, hint."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(code=code, message=message, hint=hint)
        self.headers = dict(headers or {})

    @property
    def sentence(self) -> str:
        """Return what is wrong and what to do, for people."""
        return f"{self.detail.message} {self.detail.hint}".strip()


@contextlib.contextmanager
def as_conflict() -> Iterator[None]:
    """Turn a refusal of the store into 409: the request is fine, but what it names is in no state for it."""
    try:
        yield
    except (NotFound, StoreUnreachable, ParserUnavailable):
        raise
    except FreshetError as error:
        raise ApiError(409, "conflict", str(error)) from None


def response(error: ApiError) -> web.Response:
    body = ErrorAnswer(error=error.detail).model_dump_json().encode()
    return web.Response(status=error.status, body=body, content_type="application/json", headers=error.headers)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a request that fails; nothing but a lost connection goes further up."""
    try:
        return await handler(request)
    except (asyncio.CancelledError, ConnectionResetError):
        raise
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the client gets an answer
        problem = explained_request(request, error)
        return await request.app[ERROR_PAGE](request, problem) if wants_page(request) else response(problem)


def wants_page(request: web.Request) -> bool:
    """Return whether a browser asks for a page. The API always answers in JSON."""
    is_api = request.path.startswith(("/api/", "/v2/"))
    return not is_api and "text/html" in request.headers.get("Accept", "")


def explained_request(request: web.Request, error: Exception) -> ApiError:
    """Return the error to answer with for an exception in a request."""
    if isinstance(error, web.HTTPException):
        return _of_http(request, error)
    return explained(error, f"{request.method} {request.path}")


def explained(error: Exception, place: str) -> ApiError:
    """Return the error to answer with for an exception; an unexpected one is logged with its `place`."""
    match error:
        case ApiError():
            return error
        case NotFound():
            return ApiError(404, "not_found", str(error))
        case (
            InvalidMoment()
            | InvalidCursor()
            | InvalidItemCursor()
            | InvalidQuery()
            | DomainFileError()
            | InvalidWebhook()
        ):
            return ApiError(422, "invalid", str(error))
        case StoreUnreachable() | ParserUnavailable():
            return _unavailable(str(error))
        case RedisError() | ConnectionError():
            return _unavailable(redis_health.explain(error, ""))
        case TimeoutError():
            return ApiError(504, "timeout", "This took too long and was given up.", "Ask for less, or try again.")
        case ModuleNotFoundError():
            hint = "pip install -e '.[documents,search,web]' installs everything."
            return ApiError(501, "not_installed", f"This needs the package {error.name}, which is not installed.", hint)
        case FreshetError():
            return ApiError(400, "refused", str(error))
    return _unexpected(error, place)


def _of_http(request: web.Request, error: web.HTTPException) -> ApiError:
    code, hint = _CODES.get(error.status, ("refused", ""))
    message = error.reason or "The request is refused"
    if isinstance(error, web.HTTPNotFound):
        message = f"There is nothing at {request.path}"
    if isinstance(error, web.HTTPMethodNotAllowed):
        message = f"{request.path} has no {request.method}"
    kept = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return ApiError(error.status, code, f"{message.rstrip('.')}.", hint, kept)


def _unavailable(sentence: str) -> ApiError:
    return ApiError(503, "unavailable", sentence, "Try again soon.", {"Retry-After": str(RETRY_SECONDS)})


def _unexpected(error: Exception, place: str) -> ApiError:
    number = secrets.token_hex(4)
    log.error("💥 Error %s in %s", number, place, exc_info=error)
    hint = f"The log of this process has the details under {number}."
    return ApiError(500, "internal", f"Something unexpected went wrong (error {number}).", hint)


def nearest(name: str, known: list[str]) -> str:
    """Return a hint that names what was probably meant, or all there is."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    if close:
        return f"Did you mean {close[0]}?"
    return f"It has {', '.join(known)}." if known else "It has none."
