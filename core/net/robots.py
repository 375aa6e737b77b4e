"""robots.txt of every origin we visit: fetched like any page, shared through Redis for a day, parsed once per process.

4xx allows everything. 5xx and silence mean "wait", for ten minutes and never for ever (design §6.13).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from core.errors import FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchResult
from core.net.failures import refusal
from core.net.robots_rules import RobotsPolicy, RobotsRules, policy, product, sitemaps, storable
from core.registry import field_parsing
from core.urls.normalise import join_url

LIFE_SECONDS = 86_400
WAIT_SECONDS = 600
"""How long an unreadable robots.txt keeps us away before it is asked for again."""
MEMORY_SECONDS = 900
"""A process looks into Redis again after this, so that a deleted key has an effect."""
MEMORY_CHARS = 8_000_000
MEMORY_ORIGINS = 2_000

# Redirects that lead nowhere, or where we must not go: as good as absent (RFC 9309 §2.3.1.2).
_ABSENT = frozenset({FailDetail.REDIRECTS, FailDetail.BLOCKED, FailDetail.URL})
# The host answers, and what it sends cannot be read: that says nothing about its pages.
_DAMAGED = frozenset({FailDetail.TRUNCATED, FailDetail.PROTOCOL})
_UNREADABLE = "robots.txt cannot be read"
Fetch = Callable[[str], Awaitable[FetchResult]]


@dataclass(frozen=True, slots=True)
class RobotsRecord:
    """What we know of one origin, and until when."""

    policy: RobotsPolicy
    until_ts: float
    rules: RobotsRules | None = None
    sitemaps: tuple[str, ...] = ()
    why: str = ""
    """Why it cannot be read."""

    @property
    def size(self) -> int:
        """Characters kept."""
        return (self.rules.size if self.rules else 0) + sum(map(len, self.sitemaps))


@dataclass(frozen=True, slots=True)
class RobotsPermit:
    """Go ahead, with at least this gap between requests."""

    gap_seconds: float = 0.0


class Robots:
    """Answers whether a URL may be fetched. `fetch` comes with each question, so that there is only one fetcher."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        user_agent: str,
        *,
        clock: Callable[[], float] = time.time,
        memory_chars: int = MEMORY_CHARS,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._product = product(user_agent)
        self._clock = clock
        self._memory_chars = memory_chars
        self._memory: OrderedDict[str, RobotsRecord] = OrderedDict()
        self._chars = 0
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def check(self, url: str, origin: str, fetch: Fetch) -> RobotsPermit | Failed | Deferred:
        """May this URL be fetched? Asks the origin at most once at a time."""
        known = await self._known(origin, fetch)
        if not isinstance(known, RobotsRecord):
            return known
        if known.policy is RobotsPolicy.WAIT:
            reason = f"{_UNREADABLE} ({known.why})" if known.why else _UNREADABLE
            return Deferred(max(known.until_ts - self._clock(), 1.0), reason)
        if known.rules is None:
            return RobotsPermit()
        if not known.rules.allows(url):
            return refusal(FailDetail.ROBOTS, "robots.txt does not allow this URL.")
        return RobotsPermit(known.rules.delay_seconds)

    def delay_of(self, origin: str) -> float:
        """The crawl delay that the origin's robots.txt asks for, as far as this process knows it."""
        known = self._remembered(origin)
        return known.rules.delay_seconds if known and known.rules else 0.0

    async def sitemaps_of(self, origin: str, fetch: Fetch) -> tuple[str, ...]:
        """The sitemaps that the origin's robots.txt names, absolute; none where it cannot be read.

        It is the robots.txt that `check` goes by: whoever comes first has it fetched, and it is fetched once.
        """
        known = await self._known(origin, fetch)
        named = known.sitemaps if isinstance(known, RobotsRecord) else ()
        return tuple(join_url(f"{origin}/robots.txt", url) for url in named)

    async def _known(self, origin: str, fetch: Fetch) -> RobotsRecord | Failed | Deferred:
        return self._remembered(origin) or await self._find_out(origin, fetch)

    async def _find_out(self, origin: str, fetch: Fetch) -> RobotsRecord | Failed | Deferred:
        try:
            async with self._asking[origin]:
                known = self._remembered(origin) or await self._stored(origin)
                return known or await self._ask(origin, fetch)
        finally:
            # Nobody holds or awaits it: let it go, there are many origins.
            if not self._asking[origin].locked():
                self._asking.pop(origin, None)

    async def _ask(self, origin: str, fetch: Fetch) -> RobotsRecord | Failed | Deferred:
        result = await fetch(f"{origin}/robots.txt")
        if isinstance(result, Deferred):
            return result
        if isinstance(result, Fetched):
            body = (
                storable(result.body.decode("utf-8", "replace")) if policy(result.status) is RobotsPolicy.RULES else ""
            )
            return await self._store(origin, policy(result.status), str(result.status), body)
        if result.detail in _ABSENT:
            return await self._store(origin, RobotsPolicy.ALLOW, result.detail, "")
        if result.detail in _DAMAGED:
            return await self._store(origin, RobotsPolicy.WAIT, result.detail, "", result.text)
        # The host is down: its page would meet the same, so this question gets the failure as it is, and all that
        # come within the next minutes are asked to wait.
        await self._store(origin, RobotsPolicy.WAIT, result.detail or result.code, "", result.text)
        return result

    async def _store(self, origin: str, kind: RobotsPolicy, status: str, body: str, why: str = "") -> RobotsRecord:
        now, life = self._clock(), WAIT_SECONDS if kind is RobotsPolicy.WAIT else LIFE_SECONDS
        key = self._keys.robots(origin)
        fields = (
            "policy",
            kind.value,
            "status",
            status,
            "fetched_ts",
            f"{now:.0f}",
            "body",
            body,
            *(("why", why) if why else ()),
        )
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.execute_command("HSET", key, *fields)
            pipe.execute_command("EXPIRE", key, life)
            await pipe.execute()
        return self._remember(origin, kind, body, now + life, why)

    async def _stored(self, origin: str) -> RobotsRecord | None:
        fields = cast(dict[str, str], await self._redis.hgetall(self._keys.robots(origin)))
        if not fields:
            return None
        if fields.get("policy") not in set(RobotsPolicy):
            return None
        kind = RobotsPolicy(fields["policy"])
        life = WAIT_SECONDS if kind is RobotsPolicy.WAIT else LIFE_SECONDS
        until_ts = min(field_parsing.timestamp(fields.get("fetched_ts")), self._clock()) + life
        if until_ts <= self._clock():
            return None
        return self._remember(origin, kind, fields.get("body", ""), until_ts, fields.get("why", ""))

    def _remembered(self, origin: str) -> RobotsRecord | None:
        known = self._memory.get(origin)
        if known is None or known.until_ts <= self._clock():
            return None
        self._memory.move_to_end(origin)
        return known

    def _remember(self, origin: str, kind: RobotsPolicy, body: str, until_ts: float, why: str = "") -> RobotsRecord:
        rules = RobotsRules(body, self._product) if kind is RobotsPolicy.RULES else None
        named = sitemaps(body) if rules else ()
        known = RobotsRecord(kind, min(until_ts, self._clock() + MEMORY_SECONDS), rules, named, why.rstrip("."))
        self._forget(origin)
        self._memory[origin] = known
        self._chars += known.size
        while len(self._memory) > 1 and (len(self._memory) > MEMORY_ORIGINS or self._chars > self._memory_chars):
            self._forget(next(iter(self._memory)))
        return known

    def _forget(self, origin: str) -> None:
        known = self._memory.pop(origin, None)
        self._chars -= known.size if known else 0
