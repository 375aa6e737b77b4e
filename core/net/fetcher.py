"""The one fetcher for everything: feeds, pages, robots.txt, sitemaps, images, and what is sent to webhooks.

Each hop of a redirect passes the same checks as the first request: guard, robots, gate, connect-time address check.
Expected errors are returned as values; only an unreachable Redis raises.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Self

from redis.asyncio import Redis

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import STOPPED, Deferred, Failed, Fetched, FetchRequest, FetchResult, Hop
from core.net.address_guard import Guard, Target
from core.net.http_session import ERROR_BODY_BYTES, HttpResponse, HttpSession, RequestLimits
from core.net.pace_store import PaceStore
from core.net.rate_limit import DomainPace, Gate
from core.net.robots import MAX_ROBOTS_BYTES, Robots, RobotsPermit
from core.registry.http_headers import retry_after_seconds
from core.runtime import interruptible
from core.settings import Settings
from core.urls import secrets
from core.urls.normalise import politeness_key, public_url
from core.urls.tracking_parameters import Trackers, tracker_matcher

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver  # `http_session` imports aiohttp first, in its own way

MAX_REDIRECTS = 10
REDIRECT_WAIT_SECONDS = 30.0
"""After a redirect we wait at least so long at the next gate: the domain was just asked, so its gap is always due."""

# They belong to the first URL; another one would compare them with its own validators.
_CONDITIONAL = ("if-", "range")
# All that another host may see. Everything else could be a credential, whatever its name.
_HARMLESS = frozenset({"accept", "accept-language", "cache-control", "pragma", "user-agent"})

_WITH_RETRY_AFTER = frozenset({429, 503})
_HOLD_MARGIN_SECONDS = 60.0
_SITEMAP_WAIT_SECONDS = 60.0
_NO_RULES = RobotsPermit()


class BodySlot:
    """One body in memory: `with BodySlot(semaphore) as slot: await fetcher.fetch(request, slot); …parse…`.

    Waiting at a gate takes no slot; a body that waits to be parsed does. So fetching never runs far ahead of parsing.
    """

    def __init__(self, semaphore: asyncio.Semaphore, *, keep_packed: bool = False) -> None:
        """`keep_packed`: a good page stays compressed as it came; whoever reads it unpacks it and keeps the limit."""
        self.keep_packed = keep_packed
        self._semaphore = semaphore
        self._is_taken = False

    async def take(self) -> None:
        """Take the slot, once: the fetcher does so before each request, also after a redirect."""
        if not self._is_taken:
            await self._semaphore.acquire()
            self._is_taken = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_taken:
            self._semaphore.release()


@dataclass(slots=True)
class RedirectChain:
    """The state of one fetch."""

    request: FetchRequest
    limits: RequestLimits
    """What the next request may take; the time is over all hops, and waiting at gates does not count."""
    headers: Mapping[str, str]
    hops: tuple[Hop, ...] = ()
    requested: frozenset[str] = frozenset()
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
        self.hops += (Hop(self._public_name(target), response.status),)
        self.requested |= {target.url}
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
            self.hops,
            self._is_signed(target),
            response.packing,
        )

    def _is_signed(self, target: Target) -> bool:
        return self.is_signed or (bool(self.hops) and secrets.has_credentials(target.url))

    def _public_name(self, target: Target) -> str:
        """Return the URL without credentials: the first as it was given, a redirect's cleaned like any link."""
        name = public_url(target.url, self.trackers) if self.hops else None
        return name if isinstance(name, str) else secrets.without_credentials(target.url)


class Fetcher:
    """Fetches URLs within the limits of the settings. An async context manager: it owns the connections."""

    def __init__(
        self,
        settings: Settings,
        redis: Redis,
        keys: Keys,
        *,
        exempt: Iterable[str] = (),
        paces: PaceStore | None = None,
        token_prefix: str = "",
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._settings = settings
        self._gate = Gate(
            redis,
            keys,
            exempt,
            hold_seconds=settings.fetch_timeout_seconds + _HOLD_MARGIN_SECONDS,
            token_prefix=token_prefix,
        )
        self._paces = paces or PaceStore(redis, keys, settings)
        self._robots = Robots(redis, keys, settings.user_agent)
        self._guard = Guard.of(settings)
        self._session = HttpSession(settings, self._guard, resolver)
        self._slots = asyncio.Semaphore(settings.fetch_concurrency)
        self._trackers = tracker_matcher(settings.tracking_param_prefixes)

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.__aexit__(*error)

    async def fetch(self, request: FetchRequest, slot: BodySlot | None = None, *, cut: bool = False) -> FetchResult:
        """Return the response of whatever status, why there is none, or how long to wait before asking again.

        `cut`: keep the beginning of a body that is too large.
        """
        settings = self._settings
        max_bytes = settings.fetch_max_bytes if request.max_bytes is None else request.max_bytes
        limits = _limits(settings.fetch_timeout_seconds, max_bytes, cut, slot is not None and slot.keep_packed)
        chain = RedirectChain(request, limits, request.headers, trackers=self._trackers)
        target = self._guard.target(request.url)
        while isinstance(target, Target):
            if chain.hops and (refusal := chain.refusal(target)):
                return refusal
            response = await self._request(target, chain, slot)
            if not isinstance(response, HttpResponse):
                return response
            if not response.location:
                return chain.finish(target, response)
            chain.add_redirect(target, response)
            origin = target.origin
            target = self._guard.target(response.location, target.url)
            if isinstance(target, Target) and target.origin != origin:
                chain.change_origin()
        return target

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse | Failed | Deferred:
        """Send a body to a URL that a person named; return the answer without its body.

        No redirect is followed, and no gate is asked: the receiver wants these requests, and only its own Retry-After
        holds for it, which is the caller's to keep.
        """
        target = self._guard.target(url)
        if isinstance(target, Failed):
            return target
        limits = RequestLimits(self._settings.fetch_timeout_seconds, ERROR_BODY_BYTES, discard=True)
        async with self._slots:
            return await self._session.send(target, headers, limits, "POST", body)

    async def hold_off(self, url: str, seconds: float, reason: str) -> None:
        """Send nothing to the domain of this URL for so long, for servers that ask so by headers of their own."""
        target = self._guard.target(url)
        if isinstance(target, Target) and seconds > 0:
            await self._close_gate(target, seconds, reason)

    async def pace_of(self, url: str) -> DomainPace | None:
        """Return how quickly the domain of this URL may be asked; None where there is no politeness to keep."""
        target = self._guard.target(url)
        if not isinstance(target, Target) or self._gate.is_exempt(target.host, target.port):
            return None
        pace = (await self._paces.current()).of(target.host, target.port)
        return await self._gate.pace(pace.with_crawl_delay(self._robots.delay_of(target.origin)))

    async def forget_requests(self, url: str, prefixes: Sequence[str]) -> None:
        """Forget requests to the host of this URL that processes had under way which are known to be dead."""
        target = self._guard.target(url)
        if prefixes and isinstance(target, Target):
            await self._gate.forget((await self._paces.current()).of(target.host, target.port), prefixes)

    async def sitemaps_of(self, origin: str) -> Sequence[str]:
        """Return the sitemaps that an origin's robots.txt names; none where the settings ignore robots.txt."""
        if not self._settings.robots_respect:
            return ()
        return await self._robots.sitemaps_of(origin, partial(self._fetch_robots_txt, _SITEMAP_WAIT_SECONDS))

    async def _request(
        self, target: Target, chain: RedirectChain, slot: BodySlot | None
    ) -> HttpResponse | Failed | Deferred:
        """Send one request, after robots.txt and the gate have agreed."""
        permit: RobotsPermit | Failed | Deferred = _NO_RULES
        if chain.request.respect_robots and self._settings.robots_respect and not chain.is_api:
            fetch = partial(self._fetch_robots_txt, chain.request.max_wait_seconds)
            permit = await self._robots.check(target.url, target.origin, fetch)
        if not isinstance(permit, RobotsPermit):
            return permit
        send = partial(self._send, target, chain, slot)
        if self._gate.is_exempt(target.host, target.port):
            async with self._slots:
                return await send()
        pace, max_wait = (await self._paces.current()).of(target.host, target.port), chain.max_wait_seconds
        if chain.is_api:
            return await self._gate.run_unless_closed(pace.domain, self._slots, send, max_wait_seconds=max_wait)
        pace = pace.with_crawl_delay(permit.gap_seconds)
        return await self._gate.run_in_turn(pace, self._slots, send, max_wait_seconds=max_wait)

    async def _fetch_robots_txt(self, max_wait_seconds: float, url: str) -> FetchResult:
        request = FetchRequest(url, max_bytes=MAX_ROBOTS_BYTES, respect_robots=False, max_wait_seconds=max_wait_seconds)
        return await self.fetch(request, cut=True)

    async def _send(
        self, target: Target, chain: RedirectChain, slot: BodySlot | None
    ) -> HttpResponse | Failed | Deferred:
        if slot:
            await slot.take()
        if interruptible.is_stopping() and not chain.hops:  # a redirect is followed to its end
            return STOPPED
        began = time.monotonic()
        response = await self._session.send(target, chain.headers_for(target), chain.limits, chain.request.method)
        if isinstance(response, HttpResponse) and response.location:
            # A total of zero would mean "no limit" to aiohttp.
            seconds_left = max(chain.limits.seconds - (time.monotonic() - began), 0.001)
            chain.limits = replace(chain.limits, seconds=seconds_left)
        if isinstance(response, HttpResponse) and response.status in _WITH_RETRY_AFTER:
            # Retry-After holds for the whole domain and for all our processes.
            seconds = retry_after_seconds(response.headers.get("retry-after", ""), time.time())
            if seconds:
                await self._close_gate(target, seconds, f"Retry-After ({response.status})")
        return response

    async def _close_gate(self, target: Target, seconds: float, reason: str) -> None:
        if not self._gate.is_exempt(target.host, target.port):
            await self._gate.close_for(politeness_key(target.host, target.port), seconds, reason, target.host)


@lru_cache(maxsize=64)  # nearly all requests of a process have the same
def _limits(seconds: float, body_bytes: int, cut: bool, keep_packed: bool) -> RequestLimits:
    return RequestLimits(seconds, body_bytes, cut, keep_packed=keep_packed)
