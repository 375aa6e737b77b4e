"""The HTTP session of everything that speaks to SharePoint: listings, downloads, form digests and tokens.

It sends our User-Agent and no cookies, checks the address of every connection where the socket is made, follows no
redirect to another server, and reads no answer without a limit. Failures that pass by themselves are raised as
`ServerBusy`, which the libraries below do not know and so do not repeat by rules of their own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin

import requests
from requests import PreparedRequest, Response
from requests import exceptions as failures
from urllib3.exceptions import HTTPError as BodyError

from core.models import Failed
from core.net.address_guard import Guard
from core.registry.http_headers import retry_after_seconds
from core.settings import Settings
from core.sources.sharepoint.io.guarded_adapter import GuardedAdapter
from core.sources.sharepoint.io.throttle_gate import ThrottleGate, gate_of
from core.sources.sharepoint.odata import origin_of
from core.sources.sharepoint.remote_items import SharePointUnavailable

CONNECT_SECONDS = 10.0
MOST_REDIRECTS = 5
MOST_ANSWER_BYTES = 64_000_000
"""Limit for one answer in JSON, after decompression."""
_CHUNK_BYTES = 65_536
_THROTTLED = (429, 503)
_PASSING = (408, 502, 504)


class ServerBusy(Exception):
    """The server or the network fails in a way that passes: try the same request again, later."""

    def __init__(self, sentence: str, gate: ThrottleGate | None = None, *, is_gate_closed: bool = False) -> None:
        super().__init__(sentence)
        self.gate = gate
        """The gate of the server that said "not now"; None for other failures."""
        self.is_gate_closed = is_gate_closed
        """The server said for how long."""


class GuardedSession(requests.Session):
    """A session for all threads of a site."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._guard = Guard.of(settings)
        self._count = itertools.count(1)
        self._timeout = (min(CONNECT_SECONDS, settings.sharepoint_timeout_seconds), settings.sharepoint_timeout_seconds)
        self.request_count = 0
        self.headers["User-Agent"] = settings.sharepoint_user_agent
        self.max_redirects = MOST_REDIRECTS
        # Proxies and passwords (.netrc) of the environment are not ours.
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        if settings.fetch_proxy_url is not None:
            self.proxies = dict.fromkeys(("http", "https"), settings.fetch_proxy_url.get_secret_value())
        adapter = GuardedAdapter(self._guard, connections=settings.sharepoint_downloads + 2)
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
        """Send a request; `ServerBusy` if it may be repeated, `SharePointUnavailable` if that would not help."""
        url = str(request.url)
        target = self._guard.target(origin_of(url) + "/")
        if isinstance(target, Failed):
            raise SharePointUnavailable(f"{origin_of(url)} may not be asked. {target.text}")
        self.request_count = next(self._count)
        is_streamed = kwargs.get("stream", False)
        try:
            response = super().send(request, **{**kwargs, "stream": True, "timeout": self._timeout})
        except failures.RequestException as error:
            raise _failure(error, url) from error
        self._check_status(request, response)
        if not is_streamed or not response.ok:
            # What requests itself would do, but with a limit. The library reads errors whole.
            response._content = read_body(response, self._timeout[1])
            response._content_consumed = True
        return response

    def get_redirect_target(self, resp: Response) -> str | None:
        """Refuse to follow a redirect to another server: the token would go there."""
        location = super().get_redirect_target(resp)
        if location is None or origin_of(urljoin(resp.url, location)) == origin_of(resp.url):
            return location
        resp.close()
        raise SharePointUnavailable(
            f"{origin_of(resp.url)} sends us on to another server, which is not followed. Check site_url: it must be "
            "the address where the site is now."
        )

    def _check_status(self, request: PreparedRequest, response: Response) -> None:
        status, origin = response.status_code, origin_of(response.url)
        # A form digest or token that fails with 500 would be repeated by the library, with waits that nothing can stop.
        is_passing = status in _PASSING or (status == 500 and request.method == "POST")
        if status not in _THROTTLED and not is_passing:
            return
        seconds = retry_after_seconds(response.headers.get("Retry-After", ""), time.time())
        gate = gate_of(origin) if status in _THROTTLED or seconds is not None else None
        response.close()
        if gate and seconds is not None:
            gate.close_for(seconds)
        raise ServerBusy(f"{origin} answers {status}.", gate, is_gate_closed=seconds is not None)


def read_body(response: Response, seconds: float) -> bytes:
    """Return the whole decompressed body; `ServerBusy` if it is cut short or takes longer than ten time-outs."""
    chunks: list[bytes] = []
    size = 0
    for chunk in body_chunks(response, 10 * seconds):
        size += len(chunk)
        chunks.append(chunk)
        if size > MOST_ANSWER_BYTES:
            response.close()
            raise SharePointUnavailable(
                f"{origin_of(response.url)} answers with more than {MOST_ANSWER_BYTES // 1_000_000} MB at once. "
                "Narrow the source down by `filter`."
            )
    return b"".join(chunks)


def body_chunks(response: Response, most_seconds: float) -> Iterator[bytes]:
    """Yield the decompressed body as it comes in; `ServerBusy` if it is cut short or takes longer than this."""
    deadline = time.monotonic() + most_seconds
    try:
        # Small pieces as they come, so that the reader can check in between whether to stop.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            yield chunk
            if time.monotonic() > deadline:
                raise ServerBusy(f"{origin_of(response.url)} answers too slowly.")
    except (BodyError, OSError) as error:
        raise ServerBusy(f"An answer of {origin_of(response.url)} was cut short.") from error
    finally:
        response.close()


def _failure(error: failures.RequestException, url: str) -> Exception:
    """Return what a failed request means. Sentences are ours: those of the library hold whole addresses."""
    origin = origin_of(url)
    if isinstance(error, failures.SSLError):
        return SharePointUnavailable(
            f"The TLS certificate of {origin} cannot be verified. If the server has a certificate of its own, name its "
            "authority in SSL_CERT_FILE."
        )
    if isinstance(error, failures.ProxyError):
        return ServerBusy("The proxy does not answer. Check FETCH_PROXY_URL.")
    if isinstance(error, failures.Timeout):
        return ServerBusy(f"{origin} did not answer in time; SHAREPOINT_TIMEOUT_SECONDS says how long to wait.")
    if isinstance(error, failures.ConnectionError | failures.ChunkedEncodingError):
        return ServerBusy(
            f"{origin} cannot be reached, or broke the connection off. Check the address and the network."
        )
    return SharePointUnavailable(f"{origin} cannot be asked: {type(error).__name__}. Check site_url.")
