"""Send requests to one SharePoint site: retry what fails for a moment, renew what has expired, explain the rest.

Only the request that failed is repeated. So a listing whose third page is refused for a while asks for its third page
again, and for no other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from office365.runtime.client_request_exception import ClientRequestException
from office365.runtime.http.request_options import RequestOptions
from office365.runtime.paths.service_operation import ServiceOperationPath
from office365.sharepoint.client_context import ClientContext
from requests import Response

from core.settings import Settings
from core.sources.sharepoint.io.sharepoint_session import GuardedSession, ServerBusy, read_body
from core.sources.sharepoint.io.sharepoint_token import SharePointTokens
from core.sources.sharepoint.io.throttle_gate import ShouldStop, ThrottleGate, backoff_seconds, gate_of
from core.sources.sharepoint.odata import error_of, origin_of
from core.sources.sharepoint.refusals import RequestRefused, is_over_threshold
from core.sources.sharepoint.remote_items import SharePointUnavailable

MOST_FAILURES = 4
"""Broken connections, time-outs and errors of the server, in a row."""
MOST_THROTTLED = 20
"""Refusals for the moment; each is waited for as the server asks."""
BAD_DIGEST = "-2130575251"

Answer = TypeVar("Answer")


class SiteRequests:
    """The requests to one site; safe for several threads."""

    def __init__(self, settings: Settings, site_url: str) -> None:
        # It logs a traceback for each refusal that it raises; the caller logs what follows from it.
        logging.getLogger("office365").setLevel(logging.CRITICAL)
        origin = origin_of(site_url)
        self.session = GuardedSession(settings)
        self.timeout_seconds = settings.sharepoint_timeout_seconds
        self._tokens = SharePointTokens(settings, self.session, f"https://{origin.partition('://')[2]}")
        self.graph_url = settings.sharepoint_graph_url
        self._graph_tokens = SharePointTokens(settings, self.session, origin_of(self.graph_url))
        self._gate = gate_of(origin)
        self.context = ClientContext(site_url).with_access_token(self._tokens).with_transport(session=self.session)

    def list_address(self, path: str) -> str:
        # The library's `get_list` puts the site in front of a path that begins with it, if the site's name has signs
        # that are encoded in its address.
        return self._operation("getList", [path])

    def file_address(self, path: str) -> str:
        return self._operation("getFileByServerRelativePath", {"DecodedUrl": path})

    def _operation(self, name: str, parameters: list[str] | dict[str, str]) -> str:
        web = self.context.web.resource_path
        return f"{self.context.service_root_url}{ServiceOperationPath(name, parameters, web)}"

    def json(self, url: str, should_stop: ShouldStop) -> Any:
        """Return the JSON at this address; `RequestRefused`, or `SharePointUnavailable` after all tries."""
        return self.repeat(lambda: self._read_json(self.answer(url)), should_stop)

    def graph_json(self, url: str, should_stop: ShouldStop) -> Any:
        """Return the JSON at an address of Microsoft Graph, which has tokens of its own."""
        return self.repeat(lambda: self._read_json(self._graph_answer(url)), should_stop)

    def _read_json(self, answer: AbstractContextManager[Response]) -> Any:
        with answer as response:
            return _parse(read_body(response, self.timeout_seconds), response)

    def _graph_answer(self, url: str) -> Response:
        for is_last in (False, True):
            token = self._graph_tokens.current()
            response = self.session.get(url, headers={"Authorization": f"Bearer {token}"}, stream=True)
            if response.ok:
                return response
            refused = _refusal(response)
            if _expired(refused) != "token" or is_last:
                break
            self._graph_tokens.renew(token)
        raise refused

    @contextmanager
    def answer(self, url: str, **headers: str) -> Iterator[Response]:
        """Ask once, with a new token or digest if the old one has expired; the body is read by the caller."""
        response = self._send(url, headers)
        try:
            yield response
        finally:
            response.close()

    def repeat(self, ask: Callable[[], Answer], should_stop: ShouldStop) -> Answer:
        """Call until it succeeds, as often as its failures pass by themselves."""
        failed = throttled = 0
        while True:
            self._gate.wait(should_stop)
            try:
                return ask()
            except ServerBusy as busy:
                failed += busy.gate is None
                throttled += busy.gate is not None
                if failed >= MOST_FAILURES or throttled >= MOST_THROTTLED:
                    tries = f"Tried {failed + throttled} times; the next crawl tries again."
                    raise SharePointUnavailable(f"{busy} {tries}") from busy
                gate = busy.gate or ThrottleGate()
                if not busy.is_gate_closed:
                    gate.close_for(backoff_seconds(failed + throttled))
                # It may be the gate of another server: that which gives the tokens.
                gate.wait(should_stop)

    def _send(self, url: str, headers: dict[str, str]) -> Response:
        renewals = {"token", "digest"}
        while True:
            options = RequestOptions(url, headers=dict(headers), stream=True)
            try:
                return self.context.pending_request().execute_request_direct(options)
            except ClientRequestException as error:
                refused = _refusal(error.response)
                expired = _expired(refused)
                if expired not in renewals:
                    raise refused from error
                renewals.remove(expired)
                self._renew(expired, options)

    def _renew(self, expired: str, options: RequestOptions) -> None:
        if expired == "token":
            self._tokens.renew(options.headers.get("Authorization", "").partition(" ")[2])
        else:
            self.context.pending_request().invalidate_digest()


def _parse(body: bytes, response: Response) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("Content-Type", "")
        if "json" in kind.lower():
            raise ServerBusy(f"{origin_of(response.url)} answers with JSON that cannot be read.") from error
        raise SharePointUnavailable(
            f"{origin_of(response.url)} answers with a page instead of data. Check site_url, and that the app may read "
            "the site."
        ) from error


def _refusal(response: Response | None) -> RequestRefused:
    """Return what the answer of a refused request says; `ServerBusy` if the server itself is broken."""
    if response is None:
        raise ServerBusy("SharePoint did not answer.")
    code, message = error_of(_error_body(response))
    if response.status_code >= 500 and not is_over_threshold(code):
        raise ServerBusy(f"{origin_of(response.url)} answers {response.status_code}.")
    return RequestRefused(response.status_code, code, message)


def _error_body(response: Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None


def _expired(refused: RequestRefused) -> str:
    if refused.status == 401:
        return "token"
    is_digest = refused.status == 403 and (
        BAD_DIGEST in refused.code or "security validation" in refused.message.lower()
    )
    return "digest" if is_digest else ""
