"""The one fetcher for everything: feeds, pages, robots.txt, sitemaps, images.

Each hop of a redirect passes the same doors as the first request: guard, robots, gate, connect-time address check.
Expected trouble comes back as a value; only Redis being away is an exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Self

from aiohttp.abc import AbstractResolver
from redis.asyncio import Redis

from core.keys import Keys
from core.models import Deferred, Failed, FetchResult, Request
from core.net.body_slot import BodySlot
from core.net.gate import DomainPace, Gate
from core.net.guard import Guard, Target
from core.net.http_session import HttpResponse, HttpSession
from core.net.redirects import RedirectChain
from core.net.robots import Robots, RobotsPermit
from core.net.robots_rules import MAX_BYTES as ROBOTS_BYTES
from core.registry.http_headers import retry_after_seconds
from core.settings import Settings
from core.urls.normalise import politeness_key
from core.urls.trackers import tracker_matcher

_ASKS_FOR_PATIENCE = frozenset({429, 503})
_HOLD_MARGIN_SECONDS = 60.0
_SITEMAP_WAIT_SECONDS = 60.0


class Fetcher:
    """Fetches within the law of the house. An async context manager: it owns the connections."""

    def __init__(
        self,
        settings: Settings,
        gate: Gate,
        robots: Robots,
        *,
        resolver: AbstractResolver | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._gate = gate
        self._robots = robots
        self._clock = clock
        self._guard = Guard.of(settings)
        self._wire = HttpSession(settings, self._guard, resolver)
        self._slots = asyncio.Semaphore(settings.fetch_concurrency)

    async def __aenter__(self) -> Self:
        await self._wire.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._wire.__aexit__(*error)

    async def fetch(self, request: Request, slot: BodySlot | None = None) -> FetchResult:
        """The answer of whatever status, why there is none, or how long to wait before asking again."""
        return await self._travel(request, slot=slot)

    async def hold_off(self, url: str, seconds: float, why: str) -> None:
        """Nobody of us asks the domain of this URL for so long; for servers that ask it by headers of their own."""
        here = self._guard.target(url)
        if isinstance(here, Target) and seconds > 0:
            await self._shut(here, seconds, why)

    async def pace_of(self, url: str) -> DomainPace | None:
        """How quickly the domain of this URL may be asked; None where there is no politeness to keep."""
        here = self._guard.target(url)
        if not isinstance(here, Target) or self._gate.is_exempt(here.host, here.port):
            return None
        return await self._gate.pace(politeness_key(here.host, here.port), self._robots.delay_of(here.origin))

    async def sitemaps_of(self, origin: str) -> Sequence[str]:
        """The sitemaps that an origin's robots.txt names; nothing where robots.txt is not ours to read."""
        if not self._settings.robots_respect:
            return ()
        return await self._robots.sitemaps_of(origin, partial(self._robots_txt, _SITEMAP_WAIT_SECONDS))

    async def _travel(self, request: Request, cut: bool = False, slot: BodySlot | None = None) -> FetchResult:
        cap = self._settings.fetch_max_bytes if request.max_bytes is None else request.max_bytes
        seconds, trackers = (
            self._settings.fetch_timeout_seconds,
            tracker_matcher(self._settings.tracking_param_prefixes),
        )
        trip = RedirectChain(request, seconds, cap, cut, request.headers, slot=slot, trackers=trackers)
        here = self._guard.target(request.url)
        while isinstance(here, Target):
            refused = trip.refuses(here)
            if refused:
                return refused
            answer = await self._ask(here, trip)
            if not isinstance(answer, HttpResponse):
                return answer
            if not answer.location:
                return trip.arrive(here, answer)
            trip.leave_behind(here, answer)
            here = self._next(here, answer, trip)
        return here

    def _next(self, here: Target, answer: HttpResponse, trip: RedirectChain) -> Target | Failed:
        there = self._guard.target(answer.location, here.url)
        if isinstance(there, Target) and there.origin != here.origin:
            trip.change_origin()
        return there

    async def _ask(self, here: Target, trip: RedirectChain) -> HttpResponse | Failed | Deferred:
        """One request, after robots.txt and the gate have agreed."""
        permit = RobotsPermit() if trip.is_api else await self._permit(here, trip.request)
        if not isinstance(permit, RobotsPermit):
            return permit
        work = partial(self._on_the_wire, here, trip)
        if self._gate.is_exempt(here.host, here.port):
            async with self._slots:
                return await work()
        domain, patience = politeness_key(here.host, here.port), trip.max_wait_seconds
        if trip.is_api:
            return await self._gate.unless_shut(domain, self._slots, work, max_wait_seconds=patience)
        return await self._gate.in_turn(
            domain, self._slots, work, max_wait_seconds=patience, min_gap_seconds=permit.gap_seconds
        )

    async def _permit(self, here: Target, request: Request) -> RobotsPermit | Failed | Deferred:
        if not (request.respect_robots and self._settings.robots_respect):
            return RobotsPermit()
        return await self._robots.check(here.url, here.origin, partial(self._robots_txt, request.max_wait_seconds))

    async def _robots_txt(self, max_wait_seconds: float, url: str) -> FetchResult:
        request = Request(url, max_bytes=ROBOTS_BYTES, respect_robots=False, max_wait_seconds=max_wait_seconds)
        return await self._travel(request, cut=True)

    async def _on_the_wire(self, here: Target, trip: RedirectChain) -> HttpResponse | Failed | Deferred:
        if trip.slot:
            await trip.slot.take()
        began = time.monotonic()
        answer = await self._wire.ask(here, trip.headers_for(here), trip.limits, trip.request.method)
        # A total of zero would mean "no limit" to aiohttp.
        trip.seconds_left = max(trip.seconds_left - (time.monotonic() - began), 0.001)
        if isinstance(answer, HttpResponse) and answer.status in _ASKS_FOR_PATIENCE:
            await self._be_patient(here, answer)
        return answer

    async def _be_patient(self, here: Target, answer: HttpResponse) -> None:
        """Retry-After speaks for the whole domain, to all our processes."""
        seconds = retry_after_seconds(answer.headers.get("retry-after", ""), self._clock())
        if seconds:
            await self._shut(here, seconds, f"Retry-After ({answer.status})")

    async def _shut(self, here: Target, seconds: float, why: str) -> None:
        if not self._gate.is_exempt(here.host, here.port):
            await self._gate.punish(politeness_key(here.host, here.port), seconds, why)


def open_fetcher(
    settings: Settings,
    redis: Redis,
    keys: Keys,
    *,
    exempt: Iterable[str] = (),
    resolver: AbstractResolver | None = None,
) -> Fetcher:
    """A fetcher with its gate and robots, all from the settings."""
    gate = Gate(
        redis,
        keys,
        settings.fetch_host_gap_seconds,
        settings.host_parallel,
        exempt,
        hold_seconds=settings.fetch_timeout_seconds + _HOLD_MARGIN_SECONDS,
    )
    return Fetcher(settings, gate, Robots(redis, keys, settings.user_agent), resolver=resolver)
