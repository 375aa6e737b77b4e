"""Fetch robots.txt of every origin, share it through Redis for a day, parse it once per process.

4xx allows everything. 5xx and silence mean "wait", for ten minutes and not for ever (docs/architecture.md#politeness).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from itertools import chain
from typing import cast

from protego import Protego
from redis.asyncio import Redis

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchResult
from core.registry import field_parsing
from core.store.commands import Command, Word, flat
from core.store.grouped_calls import GroupedCalls
from core.store.pipeline import read_many
from core.urls.normalise import join_url
from core.urls.secrets import without_credentials
from core.value_class import value_class

# ── parsing ──
# Only the groups that apply to us reach the parser: it spends agents × rules, and a hostile file of 500 KB can name ten
# thousand of each.

MAX_ROBOTS_BYTES = 500 * 1024
"""RFC 9309 §2.5 asks for at least 500 KiB; what comes after is not read."""
MAX_DELAY_SECONDS = 60.0
MAX_SITEMAPS = 500
MAX_RULES_EXPLAINED = 2_000
"""Rules that are looked at to tell which of them decides."""

_AGENT_LINE = re.compile(r"\s*user[- ]?agents?\s*[:\s]\s*(.*)", re.IGNORECASE)
_RULE_LINE = re.compile(r"\s*(?:dis)?allow\s*:", re.IGNORECASE)
_PRODUCT = re.compile(r"[a-z_-]+|\*", re.IGNORECASE)
# They belong to the whole file and end no group.
_NO_RULE = re.compile(r"\s*(#|$|site-?maps?\b|host\b)", re.IGNORECASE)
_SITEMAP_LINE = re.compile(r"[ \t]*site-?maps?[ \t]*:[ \t]*([^\s#]\S{0,2047})(?!\S)", re.IGNORECASE)


class RobotsPolicy(StrEnum):
    """What the response to robots.txt means (RFC 9309 §2.3.1)."""

    RULES = "rules"
    ALLOW = "allow"
    WAIT = "wait"


def policy_of_status(status: int) -> RobotsPolicy:
    """Return the policy: 2xx has rules; 5xx and 429 mean "not now"; anything else means that there are no rules."""
    if 200 <= status < 300:
        return RobotsPolicy.RULES
    return RobotsPolicy.WAIT if status >= 500 or status == 429 else RobotsPolicy.ALLOW


def product_name(user_agent: str) -> str:
    """Return the name by which robots.txt would address us: `freshet` of `Freshet/0.1 (…)`."""
    match = _PRODUCT.match(user_agent)
    return match[0].lower() if match else "*"


class RobotsRules:
    """The rules of one origin for one product."""

    __slots__ = ("_parsed", "_product", "delay_seconds", "size")

    def __init__(self, text: str, our_product: str) -> None:
        ours = groups_for(text, our_product)
        self._product = our_product
        self._parsed = Protego.parse(ours)
        self.delay_seconds = min(self._parsed.crawl_delay(our_product) or 0.0, MAX_DELAY_SECONDS)
        self.size = len(ours)

    def allows(self, url: str) -> bool:
        """Return whether we may fetch this URL."""
        return bool(self._parsed.can_fetch(url, self._product))


def groups_for(text: str, our_product: str) -> str:
    """Return the lines that apply to this product or to everybody, in order."""
    kept: list[str] = []
    names: list[str] = []
    rules_began = True
    for line in text.removeprefix("\ufeff").splitlines():
        if _NO_RULE.match(line):
            continue
        agent = _AGENT_LINE.match(line)
        if agent is None:
            rules_began = True
            if names:
                kept.append(line)
            continue
        if rules_began:
            names, rules_began = [], False
            kept.append("")
        name = product_name(agent[1]) if agent[1] else ""
        if name in {our_product, "*"} and name not in names:
            names.append(name)
            kept.append(f"User-agent: {name}")
    return "\n".join(kept)


def deciding_rule(text: str, our_product: str, url: str) -> str:
    """Return the line that decides about this URL, as it is written: the longest that matches; empty if none does."""
    rules: dict[str, list[str]] = {}
    names: list[str] = []
    was_agent = False
    for line in groups_for(text, our_product).splitlines():
        agent = _AGENT_LINE.match(line)
        if agent:
            names = [*names, agent[1]] if was_agent else [agent[1]]
        elif _RULE_LINE.match(line):
            for name in names:
                rules.setdefault(name, []).append(line.strip())
        was_agent = bool(agent)
    ours = rules.get(our_product, rules.get("*", []))[:MAX_RULES_EXPLAINED]
    matching = [line for line in ours if _matches_alone(line, url)]
    return max(matching, key=lambda line: (len(line.partition(":")[2].strip()), line[:1] in "aA"), default="")


def _matches_alone(line: str, url: str) -> bool:
    pattern = line.partition(":")[2].partition("#")[0].strip()
    return bool(pattern) and not Protego.parse(f"User-agent: *\nDisallow: {pattern}").can_fetch(url, "*")


def without_credentials_in_sitemaps(text: str) -> str:
    """Return the robots.txt as it is stored: no credentials in its `Sitemap:` lines."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if match := _SITEMAP_LINE.match(line):
            lines[number] = line[: match.start(1)] + without_credentials(match[1]) + line[match.end(1) :]
    return "".join(lines)


def sitemaps(text: str) -> tuple[str, ...]:
    """Return what the `Sitemap:` lines name, each once, as written; they apply to everybody, in any group."""
    named: dict[str, None] = {}
    for line in text.removeprefix("\ufeff").splitlines():
        match = _SITEMAP_LINE.match(line)
        if match and len(named) < MAX_SITEMAPS:
            named[match[1]] = None
    return tuple(named)


# ── fetching, sharing and remembering ──

WAIT_SECONDS = 600
"""After this an unreadable robots.txt is asked for again."""
_TTL_SECONDS = {RobotsPolicy.RULES: 86_400, RobotsPolicy.ALLOW: 86_400, RobotsPolicy.WAIT: WAIT_SECONDS}
MEMORY_SECONDS = 900
"""A process reads Redis again after this, so that a deleted key has an effect."""
MEMORY_CHARS = 8_000_000
MEMORY_ORIGINS = 2_000
ORIGINS_PER_GROUP = 20
"""Origins that are read or written in one round trip; each may have half a megabyte."""

# Redirects that lead nowhere, or where we must not go: as good as absent (RFC 9309 §2.3.1.2).
_ABSENT = frozenset({FailDetail.REDIRECTS, FailDetail.BLOCKED, FailDetail.URL})
# The host answers, and what it sends cannot be read: that says nothing about its pages.
_DAMAGED = frozenset({FailDetail.TRUNCATED, FailDetail.PROTOCOL})
_UNREADABLE = "robots.txt cannot be read"
Fetch = Callable[[str], Awaitable[FetchResult]]


@value_class
class RobotsPermit:
    """The URL may be fetched, with at least this gap between requests."""

    gap_seconds: float = 0.0


@value_class
class RobotsRecord:
    """What is known of one origin's robots.txt, and until when."""

    policy: RobotsPolicy
    until_ts: float
    rules: RobotsRules | None = None
    sitemaps: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be read."""
    permit: RobotsPermit = RobotsPermit()
    """For every URL that its rules allow."""

    @property
    def size(self) -> int:
        """Characters in memory."""
        return (self.rules.size if self.rules else 0) + sum(map(len, self.sitemaps))


@value_class
class RobotsExplanation:
    """What the stored robots.txt of an origin says about a URL, for people."""

    policy: RobotsPolicy
    is_allowed: bool
    fetched_ts: float
    until_ts: float
    rule: str = ""
    """The line that decides."""
    delay_seconds: float = 0.0
    problem: str = ""


class Robots:
    """Checks URLs against robots.txt. `fetch` comes with each call, so that there is only one fetcher."""

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
        self._product = product_name(user_agent)
        self._clock = clock
        self._memory_chars = memory_chars
        self._memory: OrderedDict[str, RobotsRecord] = OrderedDict()
        self._chars = 0
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # A run begins with the first page of every host at once.
        self._reading = GroupedCalls(self._read_many, ORIGINS_PER_GROUP)
        self._writing = GroupedCalls(self._write_many, ORIGINS_PER_GROUP)

    async def check(self, url: str, origin: str, fetch: Fetch) -> RobotsPermit | Failed | Deferred:
        """Return whether this URL may be fetched. Asks the origin at most once at a time."""
        record = self._remembered(origin) or await self._record(origin, fetch)
        if not isinstance(record, RobotsRecord):
            return record
        if record.policy is RobotsPolicy.WAIT:
            reason = f"{_UNREADABLE} ({record.problem})" if record.problem else _UNREADABLE
            return Deferred(max(record.until_ts - self._clock(), 1.0), reason)
        if record.rules and not record.rules.allows(url):
            return Failed(FailCode.HTTP, FailDetail.ROBOTS, "robots.txt does not allow this URL.")
        return record.permit

    async def explain(self, url: str, origin: str) -> RobotsExplanation | None:
        """Return what is stored about this URL, without a request; None: nothing is, or it is too old."""
        fields = cast(dict[str, str], await self._redis.hgetall(self._keys.robots(origin)))
        record = await self._load(origin)
        if record is None:
            return None
        fetched_ts, body = field_parsing.timestamp(fields.get("fetched_ts")), fields.get("body", "")
        until_ts = fetched_ts + _TTL_SECONDS[record.policy]
        if record.rules is None:
            is_allowed = record.policy is RobotsPolicy.ALLOW
            return RobotsExplanation(record.policy, is_allowed, fetched_ts, until_ts, problem=record.problem)
        rule, delay = deciding_rule(body, self._product, url), record.rules.delay_seconds
        return RobotsExplanation(record.policy, record.rules.allows(url), fetched_ts, until_ts, rule, delay)

    async def forget(self, origin: str) -> None:
        """Forget the stored robots.txt of this origin: the next visit asks for it again."""
        self._forget(origin)
        await self._redis.delete(self._keys.robots(origin))
        await self._redis.zrem(self._keys.robots_unreadable, origin)

    def delay_of(self, origin: str) -> float:
        """Return the crawl delay that the origin's robots.txt asks for, as far as this process knows it."""
        record = self._remembered(origin)
        return record.rules.delay_seconds if record and record.rules else 0.0

    async def sitemaps_of(self, origin: str, fetch: Fetch) -> tuple[str, ...]:
        """Return the sitemaps that the origin's robots.txt names, absolute; none where it cannot be read.

        It is fetched once for both `check` and this.
        """
        record = await self._record(origin, fetch)
        named = record.sitemaps if isinstance(record, RobotsRecord) else ()
        return tuple(join_url(f"{origin}/robots.txt", url) for url in named)

    async def _record(self, origin: str, fetch: Fetch) -> RobotsRecord | Failed | Deferred:
        record = self._remembered(origin)
        if record:
            return record
        try:
            async with self._locks[origin]:
                record = self._remembered(origin) or await self._load(origin)
                return record or await self._fetch(origin, fetch)
        finally:
            # Nobody holds or awaits it: drop it, there are many origins.
            if not self._locks[origin].locked():
                self._locks.pop(origin, None)

    async def _fetch(self, origin: str, fetch: Fetch) -> RobotsRecord | Failed | Deferred:
        result = await fetch(f"{origin}/robots.txt")
        if isinstance(result, Deferred):
            return result
        if isinstance(result, Fetched):
            policy, body = policy_of_status(result.status), ""
            if policy is RobotsPolicy.RULES:
                body = without_credentials_in_sitemaps(result.body.decode("utf-8", "replace"))
            return await self._store(origin, policy, str(result.status), body)
        if result.detail in _ABSENT:
            return await self._store(origin, RobotsPolicy.ALLOW, result.detail)
        record = await self._store(origin, RobotsPolicy.WAIT, result.detail or result.code, problem=result.text)
        # A host that is down fails its page in the same way, so this caller gets the failure as it is, and all that
        # come within the next minutes are asked to wait.
        return record if result.detail in _DAMAGED else result

    async def _store(
        self, origin: str, policy: RobotsPolicy, status: str, body: str = "", problem: str = ""
    ) -> RobotsRecord:
        now, key = self._clock(), self._keys.robots(origin)
        fields: dict[str, Word] = {"policy": policy.value, "status": status, "fetched_ts": f"{now:.0f}", "body": body}
        if problem:
            fields["why"] = problem
        index, is_unreadable = self._keys.robots_unreadable, policy is RobotsPolicy.WAIT
        await self._writing.call(
            [
                ("HSET", key, *flat(fields)),
                ("EXPIRE", key, _TTL_SECONDS[policy]),
                ("ZREMRANGEBYSCORE", index, "-inf", f"{now:.0f}"),
                ("ZADD", index, now + WAIT_SECONDS, origin) if is_unreadable else ("ZREM", index, origin),
                *([("EXPIRE", index, WAIT_SECONDS)] if is_unreadable else []),
            ]
        )
        return self._remember(origin, policy, body, now + _TTL_SECONDS[policy], problem)

    async def _write_many(self, groups: Sequence[Sequence[Command]]) -> list[None]:
        async with self._redis.pipeline(transaction=True) as pipe:
            for command in chain.from_iterable(groups):
                pipe.execute_command(*command)
            await pipe.execute()
        return [None] * len(groups)

    async def _read_many(self, origins: Sequence[str]) -> list[dict[str, str]]:
        return await read_many(self._redis, [("HGETALL", self._keys.robots(origin)) for origin in origins])

    async def _load(self, origin: str) -> RobotsRecord | None:
        fields = await self._reading.call(origin)
        if fields.get("policy") not in set(RobotsPolicy):
            return None
        policy = RobotsPolicy(fields["policy"])
        until_ts = min(field_parsing.timestamp(fields.get("fetched_ts")), self._clock()) + _TTL_SECONDS[policy]
        if until_ts <= self._clock():
            return None
        return self._remember(origin, policy, fields.get("body", ""), until_ts, fields.get("why", ""))

    # ── the memory of this process ──

    def _remembered(self, origin: str) -> RobotsRecord | None:
        record = self._memory.get(origin)
        if record is None or record.until_ts <= self._clock():
            return None
        self._memory.move_to_end(origin)
        return record

    def _remember(self, origin: str, policy: RobotsPolicy, body: str, until_ts: float, problem: str) -> RobotsRecord:
        rules = RobotsRules(body, self._product) if policy is RobotsPolicy.RULES else None
        named = sitemaps(body) if rules else ()
        until_ts = min(until_ts, self._clock() + MEMORY_SECONDS)
        permit = RobotsPermit(rules.delay_seconds if rules else 0.0)
        record = RobotsRecord(policy, until_ts, rules, named, problem.rstrip("."), permit)
        self._forget(origin)
        self._memory[origin] = record
        self._chars += record.size
        while len(self._memory) > 1 and (len(self._memory) > MEMORY_ORIGINS or self._chars > self._memory_chars):
            self._forget(next(iter(self._memory)))
        return record

    def _forget(self, origin: str) -> None:
        record = self._memory.pop(origin, None)
        self._chars -= record.size if record else 0
