"""What can go wrong with the SharePoint of tests, and what it was asked.

Each fault changes the answers to requests whose path matches `on`, so many times; with a page, only those of that page
of a listing. Nothing here waits for a fixed time: a request that is held waits until it is released.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime

from sample_sharepoint.loopback import Reply, Request
from sample_sharepoint.odata import ODataError
from sample_sharepoint.rest import error_reply
from sample_sharepoint.service import SharePointService

LISTING = r"/items$"
DOWNLOAD = r"/\$value$"
COLUMNS = r"/fields$"
CONTEXT = r"/contextinfo$"
DELTA = r"/root/delta$"
TOKEN = r"/oauth2/v2\.0/token$"
THROTTLED = "-2147429894, Microsoft.SharePoint.SPException"


@dataclass
class Fault:
    """Changes answers to requests whose path matches, so many times; with a page, only those of that page."""

    change: Callable[[Reply], Reply]
    on: str = ""
    page: int = 0
    times: int = 1
    after: int = 0
    """Let so many matching requests pass first."""
    seen: int = 0

    def is_met(self, request: Request, page: int) -> bool:
        return bool(re.search(self.on, request.path, re.IGNORECASE)) and self.page in (0, page)


@dataclass
class Hold:
    """Requests wait here until they are released."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()


class SharePointFaults:
    """Answers for a service, unless something is to go wrong."""

    def __init__(self, service: SharePointService) -> None:
        self.service = service
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._lock = threading.Lock()

    def page_size(self, size: int) -> None:
        """No page is longer than this."""
        self.service.rest.largest_page = size

    def throttle(
        self, retry_after: int | datetime | str = 1, *, status: int = 429, on: str = "", page: int = 0, times: int = 1
    ) -> None:
        """429 or 503 with Retry-After in seconds or as a date."""
        text = format_datetime(retry_after.astimezone(UTC), usegmt=True) if isinstance(retry_after, datetime) else ""
        refused = error_reply(ODataError(status, THROTTLED, "The request has been throttled."))
        reply = replace(refused, headers={**refused.headers, "Retry-After": text or str(retry_after)})
        self._fault(lambda _: reply, on, page, times)

    def fail(self, status: int = 500, *, on: str = "", page: int = 0, times: int = 1, after: int = 0) -> None:
        """An error instead of an answer."""
        reply = error_reply(ODataError(status, "-1, Microsoft.SharePoint.SPException", "Something went wrong."))
        self._fault(lambda _: reply, on, page, times, after)

    def drop(self, *, on: str = "", page: int = 0, times: int = 1, after: int = 0) -> None:
        """Close the connection instead of answering."""
        self._fault(lambda _: Reply(is_dropped=True), on, page, times, after)

    def cut(self, at: int = 1, *, on: str = DOWNLOAD, page: int = 0, times: int = 1) -> None:
        """Close the connection after so many bytes of the body."""
        self._fault(lambda reply: replace(reply, cut_at=at), on, page, times)

    def shorten(self, by: int = 1, *, on: str = DOWNLOAD, times: int = 1) -> None:
        """Leave the last bytes of the body out, and say a Content-Length that fits: only the listing knows better."""
        self._fault(lambda reply: replace(reply, body=reply.body[: len(reply.body) - by]), on, 0, times)

    def wrong_length(self, length: int, *, on: str = DOWNLOAD, times: int = 1) -> None:
        """Say another Content-Length than the body has."""
        self._fault(lambda reply: replace(reply, declared_length=length), on, 0, times)

    def hold(self, *, on: str = "", page: int = 0, times: int = 1, after: int = 0) -> Hold:
        """Keep requests waiting until they are released; `reached` is set when the first has come."""
        hold = Hold()
        self._holds.append(hold)

        def wait(reply: Reply) -> Reply:
            hold.reached.set()
            hold.released.wait()
            return reply

        self._fault(wait, on, page, times, after)
        return hold

    def expire_token(self, new_token: str = "") -> None:
        """401 for the next request; with a new token, for all that come with another."""
        if new_token:
            self.service.access_token = new_token
            return
        body = {"error": "invalid_token", "error_description": "Invalid JWT token. The token is expired."}
        self._fault(lambda _: Reply.of_json(body, 401), r"/_api/(?!contextinfo)|/v1\.0/", 0, 1)

    def expire_digest(self) -> None:
        """403 for requests with a digest that was given out before."""
        self.service.digest += 1

    def forget_deltas(self) -> None:
        """410 for Graph's links that were given out before."""
        self.service.oldest_delta_token = self.service.tenant.changes + 1

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults.clear()
        for hold in self._holds:
            hold.release()

    def _fault(self, change: Callable[[Reply], Reply], on: str, page: int, times: int, after: int = 0) -> None:
        with self._lock:
            self._faults.append(Fault(change, on, page, times, after))

    # ── looking back ──

    @property
    def listings(self) -> list[Request]:
        """Requests for a page of items or columns."""
        return self.asked(rf"{LISTING}|{DELTA}|/files$|/folders$")

    @property
    def downloads(self) -> list[Request]:
        return self.asked(DOWNLOAD)

    def asked(self, pattern: str) -> list[Request]:
        """Requests whose path matches."""
        return [one for one in self.requests if re.search(pattern, one.path, re.IGNORECASE)]

    def forget(self) -> None:
        """Count requests from here."""
        with self._lock:
            self.requests.clear()

    # ── answering ──

    def answer(self, request: Request) -> Reply:
        page = self.service.rest.page_of_link.get(f"{request.origin}{request.target}", 1)
        with self._lock:
            self.requests.append(request)
            fault = self._next_fault(request, page)
        reply = self.service.answer(request)
        return fault.change(reply) if fault else reply

    def _next_fault(self, request: Request, page: int) -> Fault | None:
        for fault in self._faults:
            if fault.times and fault.is_met(request, page):
                fault.seen += 1
                if fault.seen > fault.after:
                    fault.times -= 1
                    return fault
        return None
