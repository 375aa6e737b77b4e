"""The one fetcher for everything: feeds, pages, robots.txt, sitemaps, images.

Each hop of a redirect passes the same checks as the first request: guard, robots, gate, connect-time address check.
Expected errors are returned as values; only an unreachable Redis raises.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

from aiohttp.abc import AbstractResolver
from redis.asyncio import Redis

from core.keys import Keys
from core.models import Deferred, Failed, FetchRequest, FetchResult
from core.net.gate import DomainPace, Gate
from core.net.guard import Guard, Target
from core.net.http_session import HttpResponse, HttpSession, RequestLimits
from core.net.redirects import RedirectChain
from core.net.robots import Robots, RobotsPermit
from core.net.robots_rules import MAX_ROBOTS_BYTES
from core.registry.http_headers import retry_after_seconds
from core.settings import Settings
from core.urls.normalise import politeness_key
from core.urls.trackers import tracker_matcher

_WITH_RETRY_AFTER = frozenset({429, 503})
_HOLD_MARGIN_SECONDS = 60.0
_SITEMAP_WAIT_SECONDS = 60.0


class BodySlot:
    """One body in memory: `async with BodySlot(semaphore) as slot: await fetcher.fetch(request, slot); …parse…`.

    Waiting at a gate takes no slot; a body that waits to be parsed does. So fetching never runs far ahead of parsing.
    """

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._is_taken = False

    async def take(self) -> None:
        """Take the slot, once: the fetcher does so before each request, also after a redirect."""
        if not self._is_taken:
            await self._semaphore.acquire()
            self._is_taken = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_taken:
            self._semaphore.release()


class Fetcher:
    """Fetches URLs within the limits of the settings. An async context manager: it owns the connections."""

    def __init__(
        self,
        settings: Settings,
        redis: Redis,
        keys: Keys,
        *,
        exempt: Iterable[str] = (),
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._settings = settings
        self._gate = Gate(
            redis,
            keys,
            settings.fetch_host_gap_seconds,
            settings.host_parallel,
            exempt,
            hold_seconds=settings.fetch_timeout_seconds + _HOLD_MARGIN_SECONDS,
        )
        self._robots = Robots(redis, keys, settings.user_agent)
        self._guard = Guard.of(settings)
        self._session = HttpSession(settings, self._guard, resolver)
        self._slots = asyncio.Semaphore(settings.fetch_concurrency)

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
        trackers = tracker_matcher(settings.tracking_param_prefixes)
        limits = RequestLimits(settings.fetch_timeout_seconds, max_bytes, cut)
        chain = RedirectChain(request, limits, request.headers, trackers=trackers)
        target = self._guard.target(request.url)
        while isinstance(target, Target):
            refusal = chain.refusal(target)
            if refusal:
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
        domain = politeness_key(target.host, target.port)
        return await self._gate.pace(domain, self._robots.delay_of(target.origin))

    async def sitemaps_of(self, origin: str) -> Sequence[str]:
        """Return the sitemaps that an origin's robots.txt names; none where the settings ignore robots.txt."""
        if not self._settings.robots_respect:
            return ()
        return await self._robots.sitemaps_of(origin, partial(self._fetch_robots_txt, _SITEMAP_WAIT_SECONDS))

    async def _request(
        self, target: Target, chain: RedirectChain, slot: BodySlot | None
    ) -> HttpResponse | Failed | Deferred:
        """Send one request, after robots.txt and the gate have agreed."""
        permit: RobotsPermit | Failed | Deferred = RobotsPermit()
        if chain.request.respect_robots and self._settings.robots_respect and not chain.is_api:
            fetch = partial(self._fetch_robots_txt, chain.request.max_wait_seconds)
            permit = await self._robots.check(target.url, target.origin, fetch)
        if not isinstance(permit, RobotsPermit):
            return permit
        send = partial(self._send, target, chain, slot)
        if self._gate.is_exempt(target.host, target.port):
            async with self._slots:
                return await send()
        domain, max_wait = politeness_key(target.host, target.port), chain.max_wait_seconds
        if chain.is_api:
            return await self._gate.run_unless_closed(domain, self._slots, send, max_wait_seconds=max_wait)
        return await self._gate.run_in_turn(
            domain, self._slots, send, max_wait_seconds=max_wait, min_gap_seconds=permit.gap_seconds
        )

    async def _fetch_robots_txt(self, max_wait_seconds: float, url: str) -> FetchResult:
        request = FetchRequest(url, max_bytes=MAX_ROBOTS_BYTES, respect_robots=False, max_wait_seconds=max_wait_seconds)
        return await self.fetch(request, cut=True)

    async def _send(
        self, target: Target, chain: RedirectChain, slot: BodySlot | None
    ) -> HttpResponse | Failed | Deferred:
        if slot:
            await slot.take()
        began = time.monotonic()
        response = await self._session.send(target, chain.headers_for(target), chain.limits, chain.request.method)
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
            await self._gate.close_for(politeness_key(target.host, target.port), seconds, reason)
