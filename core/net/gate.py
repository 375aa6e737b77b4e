"""Politeness as shared state: per registrable domain a gap between requests, a limit on parallel ones, and Retry-After.

The state is in Redis, so that all processes together are as polite as one. `HGETALL fetch:gate:<domain>` shows it:
`last_at`, `next_at` (the next free place in line), and while a server asked us to stay away `until` and `why`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from core.keys import Keys
from core.models import Deferred
from core.net import gate_scripts
from core.store.commit import new_token

LONGEST_SHUT_SECONDS = 86_400.0
UNLIMITED = 1_000_000
MEMORY_SECONDS = 1.0
"""How long this process believes that a domain with no line to stand in is open; that it is shut, Redis says."""
MEMORY_DOMAINS = 10_000
T = TypeVar("T")


class Admission(StrEnum):
    """What the gate says."""

    GO = "go"
    WAIT = "wait"
    """A place in line is ours; its time has not come."""
    BUSY = "busy"
    """As many requests as allowed are under way."""
    DEFER = "defer"
    """It would take longer than we may wait; nothing is reserved."""


@dataclass(frozen=True, slots=True)
class GateReply:
    """The gate's answer to one knock."""

    verdict: Admission
    wait_seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class DomainPace:
    """How quickly a domain may be asked."""

    gap_seconds: float = 0.0
    shut_seconds: float = 0.0
    """How much longer nobody may ask at all."""
    why: str = ""


class Gate:
    """One for all domains.

    `parallel` None means no limit of its own; `exempt` names `host:port`s of our own, which need no politeness.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        gap_seconds: float,
        parallel: int | None,
        exempt: Iterable[str] = (),
        *,
        hold_seconds: float = 120.0,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._gap = gap_seconds
        self._parallel = parallel
        self._exempt = frozenset(exempt)
        # A process that dies on the wire gives its place back after this; longer than any request lasts.
        self._hold = hold_seconds
        self._sleepers: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._open_at: dict[str, float] = {}
        self._asking = asyncio.Lock()
        self._shuts = 0

    def is_exempt(self, host: str, port: int) -> bool:
        """Is this one of our own servers?"""
        return f"{host}:{port}" in self._exempt

    async def pace(self, domain: str, min_gap_seconds: float = 0.0) -> DomainPace:
        """What a request to this domain has to wait for, for people; asks nobody but Redis."""
        wait, why = await self._ask_shut(domain)
        return DomainPace(max(self._gap, min_gap_seconds), max(wait, 0.0), why)

    async def in_turn(
        self,
        domain: str,
        slots: asyncio.Semaphore,
        work: Callable[[], Awaitable[T]],
        *,
        max_wait_seconds: float,
        min_gap_seconds: float = 0.0,
    ) -> T | Deferred:
        """Do the work when the domain's turn comes, or say how long that would take.

        `slots` counts what is on the wire; it is not held while standing in line.
        """
        if self._parallel is None and not max(self._gap, min_gap_seconds):
            return await self.unless_shut(domain, slots, work, max_wait_seconds=max_wait_seconds)
        token, began = new_token(), time.monotonic()
        inside = True
        try:
            while True:
                async with slots:
                    left = max_wait_seconds - (time.monotonic() - began)
                    say = await self.enter(domain, token, left, min_gap_seconds)
                    if say.verdict is Admission.GO:
                        return await work()
                if say.verdict is Admission.DEFER:
                    inside = False
                    return Deferred(say.wait_seconds, say.why)
                await self._sleep(domain, say)
        finally:
            if inside:
                await self._go_away(domain, token)

    async def unless_shut(
        self, domain: str, slots: asyncio.Semaphore, work: Callable[[], Awaitable[T]], *, max_wait_seconds: float
    ) -> T | Deferred:
        """Nobody asks for politeness, so there is no line to stand in; only a server may have shut us out."""
        began = time.monotonic()
        while True:
            async with slots:
                wait, why = await self._shut_for(domain)
                if wait <= 0:
                    return await work()
            if wait > max_wait_seconds - (time.monotonic() - began):
                return Deferred(wait, why)
            await asyncio.sleep(wait)

    async def _shut_for(self, domain: str) -> tuple[float, str]:
        """How much longer the domain is shut, and why; asked of Redis once a second while it is open."""
        age = time.monotonic() - self._open_at.get(domain, -math.inf)
        if age < MEMORY_SECONDS:
            return 0.0, ""
        if age < 2 * MEMORY_SECONDS:
            self._remember_open(domain)  # we ask for all others too; meanwhile they go on
            return await self._ask_shut(domain)
        async with self._asking:
            if time.monotonic() - self._open_at.get(domain, -math.inf) < MEMORY_SECONDS:
                return 0.0, ""
            return await self._ask_shut(domain)

    async def _ask_shut(self, domain: str) -> tuple[float, str]:
        shuts = self._shuts
        try:
            until, why = await self._redis.hmget(self._keys.gate(domain), ["until", "why"])
        except BaseException:
            self._open_at.pop(domain, None)
            raise
        wait = float(until or 0) - time.time()
        # While we read, this process may have shut it: then what we read is older than what we did.
        if wait <= 0 and shuts == self._shuts:
            self._remember_open(domain)
        else:
            self._open_at.pop(domain, None)
        return wait, str(why or "")

    def _remember_open(self, domain: str) -> None:
        if len(self._open_at) >= MEMORY_DOMAINS:
            self._open_at.clear()
        self._open_at[domain] = time.monotonic()

    async def enter(self, domain: str, token: str, max_wait_seconds: float, min_gap_seconds: float = 0.0) -> GateReply:
        """Knock once. The same token gets the same answer, however often it knocks."""
        gap = max(self._gap, min_gap_seconds)
        words = (token, gap, self._parallel or UNLIMITED, max(max_wait_seconds, 0.0), self._hold)
        keys = (self._keys.gate(domain), self._keys.gate_line(domain), self._keys.gate_busy(domain))
        verdict, wait, why = cast(list[str], await self._run(gate_scripts.ENTER, keys, *words))
        return GateReply(Admission(verdict), float(wait), why)

    async def leave(self, domain: str, token: str) -> None:
        """Give the place back. Twice does no harm."""
        await self._run(gate_scripts.LEAVE, (self._keys.gate_line(domain), self._keys.gate_busy(domain)), token)

    async def punish(self, domain: str, seconds: float, why: str) -> None:
        """Nobody asks this domain for so long, a day at most. Never shortens an earlier one."""
        bounded = min(max(seconds, 0.0), LONGEST_SHUT_SECONDS)
        await self._run(gate_scripts.SHUT, (self._keys.gate(domain),), bounded, why)
        self._shuts += 1
        self._open_at.pop(domain, None)

    async def _run(self, script: str, keys: tuple[str, ...], *words: str | float) -> object:
        return await self._redis.eval(script, len(keys), *keys, *map(str, words))

    async def _go_away(self, domain: str, token: str) -> None:
        # The work is done, and the place frees itself: no reason to lose the answer over it.
        with suppress(RedisError):
            await self.leave(domain, token)
        sleepers = self._sleepers.get(domain)
        if sleepers:
            sleepers.popleft().set_result(None)

    async def _sleep(self, domain: str, say: GateReply) -> None:
        """Until our time comes, or, when all places are taken, until one of this process becomes free."""
        if say.verdict is Admission.WAIT:
            await asyncio.sleep(say.wait_seconds)
            return
        bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[domain].append(bell)
        await asyncio.wait((bell,), timeout=say.wait_seconds)
        self._stop_listening(domain, bell)

    def _stop_listening(self, domain: str, bell: asyncio.Future[None]) -> None:
        sleepers = self._sleepers[domain]
        with suppress(ValueError):
            sleepers.remove(bell)
        if not sleepers:
            del self._sleepers[domain]
