"""Send one request to an OpenAI-compatible endpoint and check what it returns.

Raises `TextsRefused` where the endpoint does not take these texts, or not so many of them, and `EmbedderUnavailable`
where it cannot answer now; the sentence names the setting to look at. The key is in one header, in no sentence and in
no repr.
"""

from __future__ import annotations

import math
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from core.errors import SettingsError
from core.registry.http_headers import retry_after_seconds
from core.search.protocols import EmbedderUnavailable, Vector
from core.secret_text import SecretStr
from core.settings import Settings
from core.urls.secrets import redact
from core.value_class import value_class

RETRY_SECONDS = 60.0
SETTING_RETRY_SECONDS = 300.0
"""Where a person has to act first."""
LONGEST_RETRY_SECONDS = 3600.0
LONGEST_ANSWER_BYTES = 64_000_000
"""2,048 vectors of 1,536 dimensions as JSON are about 60 MB."""
_MOST_QUOTED_CHARS = 200
_REFUSALS = frozenset((400, 413, 422))
_WHAT_TO_CHECK = {401: "EMBED_API_KEY", 403: "EMBED_API_KEY", 404: "EMBED_API_URL and EMBED_MODEL"}


class TextsRefused(Exception):
    """The endpoint does not take these texts; the message says why, without the key."""


@value_class
class Endpoint:
    """The address, the key and the model."""

    url: str
    shown: str
    """Its name in messages: without path and query."""
    model: str
    key: SecretStr | None = None
    dimensions: int | None = None
    timeout_seconds: float = 60.0

    @classmethod
    def of(cls, settings: Settings) -> Endpoint:
        """Read it from the settings. Raises SettingsError."""
        url, shown = _address(settings.embed_api_url)
        key = settings.embed_api_key.get_secret_value().strip() if settings.embed_api_key else ""
        if not (key.isascii() and key.isprintable()):
            raise SettingsError("EMBED_API_KEY has characters that no key has.")
        secret = SecretStr(key) if key else None
        dimensions, timeout = settings.embed_dimensions, settings.embed_timeout_seconds
        return cls(url, shown, settings.embed_model, secret, dimensions, timeout)


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _EmbeddingsReply(msgspec.Struct):
    data: list[_Embedding]


class EmbeddingsApi:
    """Sends texts, and returns checked vectors of length 1 in the order of the texts."""

    def __init__(self, endpoint: Endpoint, now: Callable[[], float] = time.time) -> None:
        self._endpoint = endpoint
        self._now = now
        self._session: aiohttp.ClientSession | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Send one request. Raises TextsRefused or EmbedderUnavailable."""
        request: dict[str, object] = {"model": self._endpoint.model, "input": list(texts), "encoding_format": "float"}
        if self._endpoint.dimensions:
            request["dimensions"] = self._endpoint.dimensions
        body = msgspec.json.encode(request)
        try:
            async with self._open().post(self._endpoint.url, data=body, allow_redirects=False) as response:
                content = await self._content(response)
        except TimeoutError:
            seconds = self._endpoint.timeout_seconds
            self._unavailable(f"did not answer within {seconds:g} s; see EMBED_TIMEOUT_SECONDS and EMBED_BATCH.")
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            # Only its kind: the text of such an error may hold the whole address.
            self._unavailable(f"cannot be reached ({type(error).__name__}); see EMBED_API_URL.")
        if response.status != 200:
            self._raise_for_status(response.status, response.headers, content)
        return self._vectors(content, len(texts))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            if self._endpoint.key:
                headers["Authorization"] = f"Bearer {self._endpoint.key.get_secret_value()}"
            timeout = aiohttp.ClientTimeout(total=self._endpoint.timeout_seconds)
            self._session = aiohttp.ClientSession(
                headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session

    async def _content(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for part in response.content.iter_chunked(1 << 16):
            content += part
            if len(content) > LONGEST_ANSWER_BYTES:
                self._unavailable("sends answers without end; see EMBED_API_URL.")
        return bytes(content)

    def _raise_for_status(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        if status in _REFUSALS:
            raise TextsRefused(self._quoted(content))
        if status in _WHAT_TO_CHECK:
            self._unavailable(f"answers {status}; check {_WHAT_TO_CHECK[status]}.", SETTING_RETRY_SECONDS)
        if 300 <= status < 400:
            self._unavailable(f"sends us elsewhere ({status}); check EMBED_API_URL.", SETTING_RETRY_SECONDS)
        wait = retry_after_seconds(headers.get("Retry-After", ""), self._now())
        seconds = RETRY_SECONDS if wait is None else min(max(wait, 1.0), LONGEST_RETRY_SECONDS)
        self._unavailable(f"answers {status}.", seconds)

    def _quoted(self, content: bytes) -> str:
        """Quote the beginning of an error body, on one line, without our key."""
        key = self._endpoint.key.get_secret_value() if self._endpoint.key else ""
        text = redact(content.decode("utf-8", "replace"), (key,) if key else ())
        text = " ".join(text.split())[:_MOST_QUOTED_CHARS]
        return f"It says: {text}" if text else ""

    def _vectors(self, content: bytes, count: int) -> list[Vector]:
        try:
            items = msgspec.json.decode(content, type=_EmbeddingsReply).data
        except (msgspec.DecodeError, UnicodeDecodeError):
            # NaN is no JSON, so that it ends here too.
            self._unavailable("gave an answer that holds no vectors; check EMBED_API_URL and EMBED_MODEL.")
        ordered = _in_order(items)
        if len(ordered) != count:
            self._unavailable(f"gave {len(items)} vectors for {count} texts.")
        if len({len(item.embedding) for item in ordered}) > 1:
            self._unavailable("gave vectors of several dimensions in one answer.")
        return [self._unit(item.embedding) for item in ordered]

    def _unit(self, values: list[float]) -> Vector:
        length = math.hypot(*values)
        if not math.isfinite(length) or not length:
            self._unavailable("gave a vector without a direction (all zeros, or too large).")
        return struct.pack(f"<{len(values)}f", *(value / length for value in values))

    def _unavailable(self, what: str, seconds: float = RETRY_SECONDS) -> NoReturn:
        # Without the cause, which may hold the whole address.
        raise EmbedderUnavailable(f"{self._endpoint.shown} {what}", seconds) from None


def _in_order(items: list[_Embedding]) -> list[_Embedding]:
    """Sort by `index`; keep the order if no item has one; return nothing where an index is missing or there twice."""
    if all(item.index is None for item in items):
        return items
    by_index = {item.index: item for item in items}
    complete = set(by_index) == set(range(len(items)))
    return [by_index[place] for place in range(len(items))] if complete else []


def _address(base: str) -> tuple[str, str]:
    """Return the URL to post to, and its name in messages."""
    try:
        parts = urlsplit(base.strip())
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise SettingsError("EMBED_API_URL must be an address like https://api.openai.com/v1.")
    if "@" in parts.netloc:
        raise SettingsError("EMBED_API_URL must not hold a password; that is what EMBED_API_KEY is for.")
    path = parts.path.rstrip("/").removesuffix("/embeddings")
    url = urlunsplit((parts.scheme, parts.netloc, f"{path}/embeddings", parts.query, ""))
    return url, f"{parts.scheme}://{parts.netloc}"
