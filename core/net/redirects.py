"""One fetch from its first URL to its last: what it has seen, what it still carries, what it may still spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import FailDetail
from core.models import Failed, Fetched, Hop, Request
from core.net.body_slot import BodySlot
from core.net.failures import refusal
from core.net.guard import Target
from core.net.http_session import HttpResponse, RequestLimits
from core.urls import secrets
from core.urls.normalise import public_url
from core.urls.trackers import Trackers

MAX_REDIRECTS = 10
REDIRECT_WAIT_SECONDS = 30.0
"""After a redirect we wait at least so long at the next gate: the domain was just asked, so its gap is always due."""

# They belong to the first URL; another one would compare them with its own validators (trap T57).
_CONDITIONAL = ("if-", "range")
# All that a stranger may see. Everything else could be a credential, whatever its name.
_HARMLESS = frozenset({"accept", "accept-language", "cache-control", "pragma", "user-agent"})


@dataclass(slots=True)
class RedirectChain:
    """The state of one fetch."""

    request: Request
    seconds_left: float
    """Of time on the wire, over all hops; waiting at gates does not count."""
    body_bytes: int
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    hops: list[Hop] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    slot: BodySlot | None = None
    trackers: Trackers | None = None
    is_signed: bool = False
    """Did a redirect lead to a URL with credentials?"""
    has_left: bool = False
    """Did a redirect lead to another origin?"""

    @property
    def is_api(self) -> bool:
        """Does the service we asked count our requests itself? Where it sends us is a stranger like any other."""
        return self.request.is_api and not self.has_left

    @property
    def limits(self) -> RequestLimits:
        """What the next request may take."""
        return RequestLimits(self.seconds_left, self.body_bytes, self.cut)

    @property
    def max_wait_seconds(self) -> float:
        """How long the next request may stand in line."""
        stated = self.request.max_wait_seconds
        return max(stated, REDIRECT_WAIT_SECONDS) if self.hops else stated

    def refuses(self, target: Target) -> Failed | None:
        """Why we do not go on to this target, if so."""
        last_status = self.hops[-1].status if self.hops else 0
        if len(self.hops) > MAX_REDIRECTS:
            return refusal(FailDetail.REDIRECTS, f"More than {MAX_REDIRECTS} redirects.", last_status)
        if target.url in self.asked:
            return refusal(FailDetail.REDIRECTS, "The redirects lead in a circle.", last_status)
        return None

    def headers_for(self, here: Target) -> Mapping[str, str]:
        """What goes along to this target: validators only to the URL they came from (trap T57)."""
        if self.request.conditional and self._name(here) == secrets.without_credentials(self.request.conditional_url):
            return {**self.headers, **self.request.conditional}
        return self.headers

    def leave_behind(self, here: Target, answer: HttpResponse) -> None:
        """A redirect was answered here."""
        self.is_signed = self._is_signed(here)
        self.hops.append(Hop(self._name(here), answer.status))
        self.asked.add(here.url)
        self.headers = {k: v for k, v in self.headers.items() if not k.lower().startswith(_CONDITIONAL)}

    def change_origin(self) -> None:
        """The next host is another one: only harmless headers go along."""
        self.has_left = True
        self.headers = {k: v for k, v in self.headers.items() if k.lower() in _HARMLESS}

    def arrive(self, here: Target, answer: HttpResponse) -> Fetched:
        """The answer that is no redirect."""
        first, name = secrets.without_credentials(self.request.url), self._name(here)
        return Fetched(first, name, answer.status, answer.headers, answer.body, tuple(self.hops), self._is_signed(here))

    def _is_signed(self, here: Target) -> bool:
        return self.is_signed or (bool(self.hops) and secrets.has_credentials(here.url))

    def _name(self, here: Target) -> str:
        """What is told of a URL that was asked: the first as it was given, a redirect's as any link; no credentials."""
        named = public_url(here.url, self.trackers) if self.hops else secrets.without_credentials(here.url)
        return named if isinstance(named, str) else secrets.without_credentials(here.url)
