"""A chain of redirects from the first URL to the last: URLs seen, headers still sent, time still left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched, FetchRequest, Hop
from core.net.guard import Target
from core.net.http_session import HttpResponse, RequestLimits
from core.urls import secrets
from core.urls.normalise import public_url
from core.urls.trackers import Trackers

MAX_REDIRECTS = 10
REDIRECT_WAIT_SECONDS = 30.0
"""After a redirect we wait at least so long at the next gate: the domain was just asked, so its gap is always due."""

# They belong to the first URL; another one would compare them with its own validators.
_CONDITIONAL = ("if-", "range")
# All that another host may see. Everything else could be a credential, whatever its name.
_HARMLESS = frozenset({"accept", "accept-language", "cache-control", "pragma", "user-agent"})


@dataclass(slots=True)
class RedirectChain:
    """The state of one fetch."""

    request: FetchRequest
    limits: RequestLimits
    """What the next request may take; the time is over all hops, and waiting at gates does not count."""
    headers: Mapping[str, str] = field(default_factory=dict)
    hops: list[Hop] = field(default_factory=list)
    requested: set[str] = field(default_factory=set)
    trackers: Trackers | None = None
    is_signed: bool = False
    """Whether a redirect led to a URL with credentials."""
    has_left_origin: bool = False
    """Whether a redirect led to another origin."""

    @property
    def is_api(self) -> bool:
        """Whether this host is a service that counts our requests itself; a host it redirects to is not."""
        return self.request.is_api and not self.has_left_origin

    @property
    def max_wait_seconds(self) -> float:
        """How long the next request may wait at the gate."""
        stated = self.request.max_wait_seconds
        return max(stated, REDIRECT_WAIT_SECONDS) if self.hops else stated

    def refusal(self, target: Target) -> Failed | None:
        """Return why this target is not followed; None if it is."""
        last_status = self.hops[-1].status if self.hops else 0
        if len(self.hops) > MAX_REDIRECTS:
            text = f"More than {MAX_REDIRECTS} redirects."
            return Failed(FailCode.HTTP, FailDetail.REDIRECTS, text, last_status)
        if target.url in self.requested:
            return Failed(FailCode.HTTP, FailDetail.REDIRECTS, "The redirects lead in a circle.", last_status)
        return None

    def headers_for(self, target: Target) -> Mapping[str, str]:
        """Return the headers to send; validators go only to the URL they came from."""
        request = self.request
        if request.conditional and self._public_name(target) == secrets.without_credentials(request.conditional_url):
            return {**self.headers, **request.conditional}
        return self.headers

    def add_redirect(self, target: Target, response: HttpResponse) -> None:
        """Record that this target answered with a redirect."""
        self.is_signed = self._is_signed(target)
        self.hops.append(Hop(self._public_name(target), response.status))
        self.requested.add(target.url)
        self.headers = {k: v for k, v in self.headers.items() if not k.lower().startswith(_CONDITIONAL)}

    def change_origin(self) -> None:
        """Keep only harmless headers: the next host is another one."""
        self.has_left_origin = True
        self.headers = {k: v for k, v in self.headers.items() if k.lower() in _HARMLESS}

    def finish(self, target: Target, response: HttpResponse) -> Fetched:
        """Return the result: this response is no redirect."""
        return Fetched(
            secrets.without_credentials(self.request.url),
            self._public_name(target),
            response.status,
            response.headers,
            response.body,
            tuple(self.hops),
            self._is_signed(target),
        )

    def _is_signed(self, target: Target) -> bool:
        return self.is_signed or (bool(self.hops) and secrets.has_credentials(target.url))

    def _public_name(self, target: Target) -> str:
        """Return the URL without credentials: the first as it was given, a redirect's cleaned like any link."""
        name = public_url(target.url, self.trackers) if self.hops else None
        return name if isinstance(name, str) else secrets.without_credentials(target.url)
