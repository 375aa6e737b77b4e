"""Rate limits shared by all processes: a gap between requests, a limit on parallel ones, and Retry-After.

A registrable domain has one gate, and a host with a pace of its own another (`core.urls.pace`); a Retry-After closes
the whole domain. The state is in Redis, so that all processes together are as polite as one.
`HGETALL fetch:gate:<domain>` shows it: `gap`, `last_at`, `next_at` (the next free place in line), and while a server
asked us to stay away `until`, `why` and its `host`. `fetch:waiting` names the gates at which something waits.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from core.keys import Keys
from core.models import STOPPED, Deferred
from core.registry import field_parsing
from core.runtime import interruptible
from core.store.grouped_calls import GroupedCalls
from core.store.leases import new_token
from core.store.pipeline import read_many
from core.urls.pace import HostPace
from core.value_class import value_class

MAX_CLOSED_SECONDS = 86_400.0
UNLIMITED = 1_000_000
MEMORY_SECONDS = 1.0
"""How long this process remembers that a domain without a line is open; that one is closed, only Redis knows."""
MEMORY_DOMAINS = 10_000
READ_PER_GROUP = 100
"""Domains that are looked up in one round trip."""
T = TypeVar("T")


# ── scripts ──
# All times are epoch seconds of the server's own clock, the only one that all processes share. Microseconds are kept:
# rounded to less, `last_at` could lie in the future of the very next request. Every script may be resent: redis-py does
# so by itself after a lost reply, and the same token gets the same reply.

# KEYS 1 gate HASH, 2 line ZSET (token by start), 3 busy ZSET (token by when it counts as lost), 4 gate HASH of the
# registrable domain, which a Retry-After closes for all its hosts; mostly the same as 1; 5 gates where something waits
# ARGV 1 token, 2 gap, 3 parallel, 4 longest wait, 5 hold; all in seconds; 6 name of the gate
# → {go | wait | busy | defer, seconds to wait, reason}
_ENTER = """
local token, gap, parallel = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local longest, hold = tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000

redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60)
if redis.call('ZSCORE', KEYS[3], token) then return {'go', '0', ''} end

local state = redis.call('HMGET', KEYS[1], 'next_at', 'last_at')
local closing = redis.call('HMGET', KEYS[4], 'until', 'why')
local next_at, last_at = tonumber(state[1] or 0), tonumber(state[2] or 0)
local closed_until = tonumber(closing[1] or 0)
local slot = tonumber(redis.call('ZSCORE', KEYS[2], token) or nil)

local start = math.max(slot or next_at, last_at + gap, closed_until, now)
local admission, wait, reason = 'wait', start - now, 'gap'
if closed_until >= start then reason = closing[2] or '' end

if wait <= 0 and redis.call('ZCARD', KEYS[3]) >= parallel then
  -- Its moment has passed: it goes to the end of the line, so that two starts are never closer than the gap.
  -- Without a gap it asks again soon; the longer the line, the more patiently.
  admission, reason = 'busy', 'busy'
  start = math.max(now, next_at)
  wait = math.max(start - now, math.min(2, 0.1 * (1 + redis.call('ZCARD', KEYS[2]) / parallel)))
end

-- A token with a place was told that its wait is short enough; it may be late by one gap.
if slot then longest = longest + gap end
if wait > longest then
  redis.call('ZREM', KEYS[2], token)
  return {'defer', string.format('%.3f', wait), reason}
end

if wait > 0 then
  if slot ~= start then redis.call('ZADD', KEYS[2], string.format('%.6f', start), token) end
  if not slot or slot ~= start then next_at = math.max(next_at, start + gap) end
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  redis.call('ZADD', KEYS[5], 'GT', string.format('%.6f', math.max(next_at, start)), ARGV[6])
  redis.call('EXPIRE', KEYS[5], 90000)
else
  admission, reason, last_at = 'go', '', now
  next_at = math.max(next_at, now + gap)
  redis.call('ZREM', KEYS[2], token)
  redis.call('ZADD', KEYS[3], string.format('%.6f', now + hold), token)
end

redis.call('HSET', KEYS[1], 'next_at', string.format('%.6f', next_at), 'last_at', string.format('%.6f', last_at),
  'gap', ARGV[2])
redis.call('EXPIRE', KEYS[1], math.ceil(math.max(next_at, closed_until) - now) + 60)
redis.call('EXPIRE', KEYS[2], 600)
redis.call('EXPIRE', KEYS[3], math.ceil(hold))
return {admission, string.format('%.3f', wait), reason}
"""

# KEYS 1 gate HASH, 2 gates where something waits · ARGV 1 seconds, 2 reason, 3 host, 4 name of the gate. Never shortens
# what is already asked of us.
_CLOSE = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local closed_until = now + tonumber(ARGV[1])
if closed_until <= tonumber(redis.call('HGET', KEYS[1], 'until') or 0) then return 0 end
redis.call('HSET', KEYS[1], 'until', string.format('%.6f', closed_until), 'why', ARGV[2], 'host', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], 'GT', string.format('%.6f', closed_until), ARGV[4])
redis.call('EXPIRE', KEYS[2], 90000)
local next_at = tonumber(redis.call('HGET', KEYS[1], 'next_at') or 0)
redis.call('EXPIRE', KEYS[1], math.ceil(math.max(next_at, closed_until) - now) + 60)
return 1
"""

# KEYS 1 line, 2 busy · ARGV beginnings of tokens, whose places are free.
_FORGET = """
for _, key in ipairs(KEYS) do
  for _, token in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    for _, prefix in ipairs(ARGV) do
      if string.sub(token, 1, #prefix) == prefix then redis.call('ZREM', key, token) end
    end
  end
end
return 1
"""

# ── the gate ──


class Admission(StrEnum):
    """Whether a request may start."""

    GO = "go"
    WAIT = "wait"
    """A place in line is reserved; its time has not come."""
    BUSY = "busy"
    """As many requests as allowed are running."""
    DEFER = "defer"
    """It would take longer than the caller may wait; nothing is reserved."""


@value_class
class GateReply:
    """The gate's reply to one attempt to enter."""

    admission: Admission
    wait_seconds: float = 0.0
    reason: str = ""


@value_class
class DomainPace:
    """Limits of requests to one domain."""

    gap_seconds: float = 0.0
    closed_seconds: float = 0.0
    """How much longer no request may be sent at all."""
    reason: str = ""


@value_class
class GateState:
    """What Redis has of one domain's rate limit, for people; times are epoch seconds."""

    last_at: float = 0.0
    next_at: float = 0.0
    closed_until: float = 0.0
    reason: str = ""
    in_line: int = 0
    under_way: int = 0


async def read_gate(redis: Redis, keys: Keys, pace: HostPace, now: float) -> GateState:
    """Return the state of the rate limit that a host with this pace is under; changes nothing."""
    pipe = redis.pipeline(transaction=False)
    pipe.hmget(keys.gate(pace.gate), ["last_at", "next_at"])
    pipe.hmget(keys.gate(pace.domain), ["until", "why"])
    pipe.zcount(keys.gate_line(pace.gate), now - 60, "+inf")
    pipe.zcount(keys.gate_busy(pace.gate), now, "+inf")
    (last_at, next_at), (until, why), in_line, under_way = await pipe.execute()
    last, free, closed = (field_parsing.timestamp(value) for value in (last_at, next_at, until))
    return GateState(last, free, closed, str(why or ""), int(in_line), int(under_way))


class Gate:
    """One for all domains; `exempt` names `host:port`s of our own, which need no politeness."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        exempt: Iterable[str] = (),
        *,
        hold_seconds: float = 120.0,
        token_prefix: str = "",
    ) -> None:
        """`token_prefix`: how the tokens of this process begin, so that they are known when it is dead."""
        self._redis = redis
        self._keys = keys
        self._prefix = token_prefix
        self._exempt = frozenset(exempt)
        # The place of a process that died during a request is free after this; longer than any request lasts.
        self._hold = hold_seconds
        self._waiters: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._open_at: dict[str, float] = {}
        self._reading = GroupedCalls(self._read_closings, READ_PER_GROUP)
        self._closings = 0

    def is_exempt(self, host: str, port: int) -> bool:
        """Return whether this is one of our own servers."""
        return bool(self._exempt) and f"{host}:{port}" in self._exempt

    async def pace(self, pace: HostPace) -> DomainPace:
        """Return what a request has to wait for, for people."""
        wait, reason = await self._read_closed(pace.domain)
        return DomainPace(pace.gap_seconds, max(wait, 0.0), reason)

    # ── running requests ──

    async def run_in_turn(
        self,
        pace: HostPace,
        slots: asyncio.Semaphore,
        work: Callable[[], Awaitable[T]],
        *,
        max_wait_seconds: float,
    ) -> T | Deferred:
        """Do the work when its turn comes, or return how long that would take.

        `slots` limits the requests that run; none is held while waiting in line.
        """
        if pace.is_unlimited:
            return await self.run_unless_closed(pace.domain, slots, work, max_wait_seconds=max_wait_seconds)
        token, began = f"{self._prefix}{new_token()}", time.monotonic()
        has_place = True
        try:
            while True:
                async with slots:
                    left = max_wait_seconds - (time.monotonic() - began)
                    reply = await self.enter(pace, token, left)
                    if reply.admission is Admission.GO:
                        return await work()
                if reply.admission is Admission.DEFER:
                    has_place = False
                    return Deferred(reply.wait_seconds, reply.reason)
                await self._wait(pace.gate, reply)
                if interruptible.is_stopping():
                    return STOPPED
        finally:
            if has_place:
                await self._leave_and_wake(pace.gate, token)

    async def run_unless_closed(
        self, domain: str, slots: asyncio.Semaphore, work: Callable[[], Awaitable[T]], *, max_wait_seconds: float
    ) -> T | Deferred:
        """Do the work without a place in line; only a server may have asked us to stay away."""
        began = time.monotonic()
        while True:
            async with slots:
                wait, reason = (0.0, "") if self._is_known_open(domain) else await self._closed_for(domain)
                if wait <= 0:
                    return await work()
            if wait > max_wait_seconds - (time.monotonic() - began):
                return Deferred(wait, reason)
            if not await interruptible.sleep(wait):
                return STOPPED

    # ── closed domains ──

    async def close_for(self, domain: str, seconds: float, reason: str, host: str = "") -> None:
        """Send nothing to this domain for so long, a day at most, as its `host` asked. Never shortens a closing."""
        bounded = min(max(seconds, 0.0), MAX_CLOSED_SECONDS)
        keys = (self._keys.gate(domain), self._keys.gates_waiting)
        await self._redis.eval(_CLOSE, len(keys), *keys, str(bounded), reason, host, domain)
        self._closings += 1
        self._open_at.pop(domain, None)

    def _is_known_open(self, domain: str, within_seconds: float = MEMORY_SECONDS) -> bool:
        return time.monotonic() - self._open_at.get(domain, -math.inf) < within_seconds

    async def _closed_for(self, domain: str) -> tuple[float, str]:
        """Return how much longer the domain is closed, and why; reads Redis once a second while it is open."""
        if self._is_known_open(domain, 2 * MEMORY_SECONDS):
            self._remember_open(domain)  # this one reads for all others too; meanwhile they go on
        return await self._read_closed(domain)

    async def _read_closed(self, domain: str) -> tuple[float, str]:
        closings = self._closings
        try:
            until, reason = await self._reading.call(domain)
        except BaseException:
            self._open_at.pop(domain, None)
            raise
        wait = float(until or 0) - time.time()
        # If this process closed a domain meanwhile, what was read may be older than that.
        if wait <= 0 and closings == self._closings:
            self._remember_open(domain)
        else:
            self._open_at.pop(domain, None)
        return wait, str(reason or "")

    async def _read_closings(self, domains: Sequence[str]) -> list[list[str | None]]:
        """Read several domains in one round trip: a run begins with the first page of every host at once."""
        unique = dict.fromkeys(domains)
        replies = await read_many(
            self._redis, [("HMGET", self._keys.gate(domain), "until", "why") for domain in unique]
        )
        by_domain = dict(zip(unique, replies, strict=True))
        return [by_domain[domain] for domain in domains]

    def _remember_open(self, domain: str) -> None:
        if len(self._open_at) >= MEMORY_DOMAINS:
            self._open_at.clear()
        self._open_at[domain] = time.monotonic()

    # ── the line ──

    async def enter(self, pace: HostPace, token: str, max_wait_seconds: float) -> GateReply:
        """Try to enter. The same token gets the same reply, however often it tries."""
        limits = (pace.gap_seconds, pace.parallel or UNLIMITED, max(max_wait_seconds, 0.0), self._hold)
        build, arguments = self._keys, (token, *limits, pace.gate)
        own = (key(pace.gate) for key in (build.gate, build.gate_line, build.gate_busy))
        keys = (*own, build.gate(pace.domain), build.gates_waiting)
        reply = await self._redis.eval(_ENTER, len(keys), *keys, *map(str, arguments))
        admission, wait, reason = cast(list[str], reply)
        return GateReply(Admission(admission), float(wait), reason)

    async def leave(self, gate: str, token: str) -> None:
        """Free the place. Twice does no harm."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.zrem(self._keys.gate_line(gate), token)
        pipe.zrem(self._keys.gate_busy(gate), token)
        await pipe.execute()

    async def forget(self, pace: HostPace, prefixes: Sequence[str]) -> None:
        """Free the places of processes that are known to be dead, by the beginning of their tokens."""
        keys = (self._keys.gate_line(pace.gate), self._keys.gate_busy(pace.gate))
        await self._redis.eval(_FORGET, len(keys), *keys, *prefixes)

    async def _leave_and_wake(self, gate: str, token: str) -> None:
        # The work is done, and the place expires by itself: no reason to lose the result over it.
        with suppress(RedisError):
            await self.leave(gate, token)
        waiters = self._waiters.get(gate)
        if waiters:
            waiters.popleft().set_result(None)

    async def _wait(self, gate: str, reply: GateReply) -> None:
        """Wait for our time, or, when all places are taken, until a request of this process ends."""
        if reply.admission is Admission.WAIT:
            await interruptible.sleep(reply.wait_seconds)
            return
        place_free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[gate].append(place_free)
        await asyncio.wait((place_free,), timeout=reply.wait_seconds)
        with suppress(ValueError):
            self._waiters[gate].remove(place_free)
        if not self._waiters[gate]:
            del self._waiters[gate]
