"""Send requests to OpenAI by its own client, and try again where that can help.

The client would repeat a request whose answer was lost, and with it an upload; so its own retries are off. Whoever
sends a request that changes something says how to find out whether an earlier try arrived. Raises `CallFailed`; the
sentence names the setting to look at, and never holds the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlsplit

from core.models import Failed
from core.net.address_guard import Guard
from core.outputs.vector_store.protocol import VectorStoreUnavailable
from core.registry.http_headers import retry_after_seconds
from core.settings import Settings
from core.urls.secrets import redact

if TYPE_CHECKING:
    import openai
    from openai.pagination import AsyncCursorPage

T = TypeVar("T")
R = TypeVar("R", bound="HasId")
Sleep = Callable[[float], Awaitable[object]]

TRIES = 4
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0
"""A crawl does not wait for a longer Retry-After: the next one tries again."""
_MOST_QUOTED_CHARS = 200
_TRANSIENT = frozenset((408, 409, 429))
_OURS = frozenset((401, 403, 404))
"""The key or the address is wrong, and not what was sent."""
_QUOTA = "insufficient_quota"


class CallFailed(Exception):
    """A request failed for good, or as often as we try; the text says why, for people."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        """0: there was no answer."""

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again."""
        return 400 <= self.status < 500 and self.status not in _TRANSIENT | _OURS

    @property
    def is_transient(self) -> bool:
        """Whether the same request may be answered later."""
        return not self.status or self.status >= 500 or self.status in _TRANSIENT


class HasId(Protocol):
    """What OpenAI lists: a page is continued after the id of its last one."""

    id: str


class OpenAiCalls:
    """The client, and the tries. All requests wait while OpenAI asks for it."""

    def __init__(self, client: openai.AsyncOpenAI, shown: str, key: str, sleep: Sleep = asyncio.sleep) -> None:
        self.client = client
        self._shown = shown
        self._key = key
        self._sleep = sleep
        self._blocked_until = 0.0

    async def send(
        self, request: Callable[[], Awaitable[T]], find: Callable[[], Awaitable[T | None]] | None = None
    ) -> T:
        """Send a request, several times if need be; `find` looks for what an earlier try did before it is repeated."""
        import openai

        for number in range(TRIES):
            await self._wait_for_permission()
            try:
                return await request()
            except openai.APIStatusError as error:
                failed = self._refused(error)
                wait = self._wait_seconds(error.response.headers, number)
                is_worth_it = failed.is_transient and wait <= LONGEST_WAIT_SECONDS and error.code != _QUOTA
                may_have_arrived = error.status_code >= 500
            except openai.APIConnectionError as error:
                failed, is_worth_it = self._unreached(error)
                wait, may_have_arrived = self._wait_seconds({}, number), True
            if find and may_have_arrived and is_worth_it and (found := await find()) is not None:
                return found
            if not is_worth_it or number == TRIES - 1:
                raise failed
            await self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def finds(self, request: Callable[[], Awaitable[object]]) -> bool:
        """Send a request; return False if what it is about is not there. Only a "not found" counts as that."""
        try:
            await self.send(request)
        except CallFailed as error:
            if error.is_missing:
                return False
            raise
        return True

    async def each(self, list_page: Callable[..., Awaitable[AsyncCursorPage[R]]]) -> AsyncIterator[R]:
        """Yield everything that a listing has. Each page is a request with tries of its own."""
        after: dict[str, str] = {}
        while True:
            page = await self.send(partial(list_page, **after))
            for one in page.data:
                yield one
            if not page.has_next_page():
                return
            after = {"after": page.data[-1].id}

    # ── waiting ──

    async def _wait_for_permission(self) -> None:
        wait = self._blocked_until - time.monotonic()
        if wait > 0:
            await self._sleep(wait)

    def _wait_seconds(self, headers: Mapping[str, str], number: int) -> float:
        stated = _stated_wait(headers)
        if stated is None:
            return float(FIRST_WAIT_SECONDS * 2**number)
        if stated <= LONGEST_WAIT_SECONDS:
            self._blocked_until = max(self._blocked_until, time.monotonic() + stated)
        return stated

    # ── sentences ──

    def _refused(self, error: openai.APIStatusError) -> CallFailed:
        status = error.status_code
        if status in (401, 403):
            return CallFailed(f"{self._shown} answers {status}; check OPENAI_API_KEY and its permissions.", status)
        if status == 429:
            why = "the quota is used up" if error.code == _QUOTA else "too many requests; it is tried again next time"
            return CallFailed(f"{self._shown} answers 429: {why}.", status)
        said = redact(" ".join(error.message.split()), (self._key,))[:_MOST_QUOTED_CHARS]
        return CallFailed(f"{self._shown} answers {status}: {said}", status)

    def _unreached(self, error: openai.APIConnectionError) -> tuple[CallFailed, bool]:
        import openai

        from core.net.guarded_transport import is_blocked

        if is_blocked(error):
            return CallFailed(f"{self._shown} is at an address that is not open to us; see FETCH_ALLOWED_HOSTS."), False
        if isinstance(error, openai.APITimeoutError):
            return CallFailed(f"{self._shown} does not answer in time; see OPENAI_TIMEOUT_SECONDS."), True
        # Only its kind: the text of such an error may hold the whole address.
        kind = type(error.__cause__ or error).__name__
        return CallFailed(f"{self._shown} cannot be reached ({kind}); see OPENAI_BASE_URL."), True


@contextlib.asynccontextmanager
async def open_calls(settings: Settings, sleep: Sleep = asyncio.sleep) -> AsyncIterator[OpenAiCalls]:
    """Open the client these settings ask for. Raises VectorStoreUnavailable."""
    try:
        import openai

        from core.net.guarded_transport import open_http_client
    except ImportError:
        raise VectorStoreUnavailable("The client of OpenAI is not installed. Install it: ./scripts/setup") from None
    key = settings.openai_api_key.get_secret_value().strip() if settings.openai_api_key else ""
    if not key or not (key.isascii() and key.isprintable()):
        raise VectorStoreUnavailable("There is no usable OPENAI_API_KEY; set it, or give the domain the index redis.")
    guard = Guard.of(settings)
    target = guard.target(settings.openai_base_url)
    if isinstance(target, Failed):
        raise VectorStoreUnavailable(f"OPENAI_BASE_URL cannot be used. {target.text}")
    seconds = settings.openai_timeout_seconds
    async with open_http_client(settings, guard, target, seconds) as http:
        client = openai.AsyncOpenAI(
            api_key=key, base_url=target.url, http_client=http, max_retries=0, timeout=http.timeout
        )
        parts = urlsplit(target.url)
        yield OpenAiCalls(client, f"{parts.scheme}://{parts.netloc}", key, sleep)


def _stated_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` asks for; None if neither can be read."""
    with contextlib.suppress(ValueError):
        return max(float(headers.get("retry-after-ms", "")) / 1000, 0.0)
    return retry_after_seconds(headers.get("retry-after", ""), time.time())
