"""For `freshet why`: read guard, robots.txt, rate limit, pauses and leases of a URL. Sends no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from core.feeds.io import sample
from core.keys import Keys
from core.models import Failed
from core.net.address_guard import Guard
from core.net.pace_store import PaceStore
from core.net.rate_limit import read_gate
from core.net.robots import Robots, RobotsPolicy
from core.registry import field_parsing
from core.registry.why_fetch import FetchFacts, GateFacts, RobotsFacts
from core.settings import Settings
from core.store.connect import Client
from core.store.pipeline import read_many
from core.urls.normalise import origin_of, split_url


class FetchReader:
    def __init__(self, client: Client, keys: Keys, settings: Settings, now: float) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._now = now

    async def read(self, url: str, leased: str, scopes: Sequence[str], refused_ts: float) -> FetchFacts:
        """Return the facts.

        Args:
            leased: the name of its lease: an item id, or a feed's.
            scopes: what the work on the URL belongs to, as pauses name it.
            refused_ts: when robots.txt refused its last visit; 0 if it did not.
        """
        is_web = url.startswith("http")
        lease, embed_lease, crashes = await read_many(
            self._client,
            [
                ("PTTL", self._keys.lease(leased)),
                ("PTTL", self._keys.lease(f"embed_{leased}")),
                ("GET", self._keys.crashes(leased)),
            ],
        )
        robots, gate, refusal = RobotsFacts(), GateFacts(), ""
        if is_web:
            refusal = self._guard_refusal(url)
            robots = await self._robots(url, refused_ts)
            gate = await self._gate(url, robots.delay_seconds)
        return FetchFacts(
            is_web=is_web,
            guard_refusal=refusal,
            robots=robots,
            gate=gate,
            paused=await self._marked(self._keys.runs_paused, scopes),
            cancelled=await self._marked(self._keys.runs_cancelled, scopes),
            lease_seconds=max(lease, 0) / 1000,
            embed_lease_seconds=max(embed_lease, 0) / 1000,
            crashes=field_parsing.integer(crashes),
        )

    def _guard_refusal(self, url: str) -> str:
        target = Guard.of(allowing_sample(self._settings)).target(url)
        return target.text if isinstance(target, Failed) else ""

    async def _robots(self, url: str, refused_ts: float) -> RobotsFacts:
        origin, settings = origin_of(url), self._settings
        robots = Robots(self._client, self._keys, settings.user_agent, clock=lambda: self._now)
        said = await robots.explain(url, origin)
        if said is None:
            return RobotsFacts(origin, settings.robots_respect, refused_ts=refused_ts)
        return RobotsFacts(
            origin,
            settings.robots_respect,
            is_stored=True,
            must_wait=said.policy is RobotsPolicy.WAIT,
            is_allowed=said.is_allowed,
            rule=said.rule,
            fetched_ts=said.fetched_ts,
            until_ts=said.until_ts,
            delay_seconds=said.delay_seconds,
            problem=said.problem,
            refused_ts=refused_ts,
        )

    async def _gate(self, url: str, delay_seconds: float) -> GateFacts:
        parts = split_url(url)
        if parts is None:
            return GateFacts()
        paces = await PaceStore(self._client, self._keys, self._settings).read()
        pace = paces.of(parts.host, parts.port).with_crawl_delay(delay_seconds)
        is_ours = f"{parts.host}:{parts.port}" in sample.hosts(self._settings)
        state = await read_gate(self._client, self._keys, pace, self._now)
        gap = 0.0 if is_ours else pace.gap_seconds
        closed, line = (state.closed_until, state.reason), (state.last_at, state.next_at)
        return GateFacts(pace.place, gap, *closed, *line, state.in_line, state.under_way)

    async def _marked(self, key: str, scopes: Sequence[str]) -> Mapping[str, str]:
        """Return those of the scopes that are paused or cancelled."""
        values = await self._client.hmget(key, list(scopes)) if scopes else []
        pairs = zip(scopes, cast(list[str | None], values), strict=True)
        return {scope: value for scope, value in pairs if value is not None}


def allowing_sample(settings: Settings) -> Settings:
    """Return the settings that fetchers use: the sample site is allowed though it is loopback."""
    allowed = (*settings.fetch_allowed_hosts, *sample.hosts(settings))
    return settings.model_copy(update={"fetch_allowed_hosts": allowed})


async def ask_robots(client: Client, keys: Keys, settings: Settings, url: str) -> None:
    """Fetch the robots.txt of a URL's origin, unless it is stored; the one request that an explanation may send."""
    fetch_settings = allowing_sample(settings)
    if isinstance(Guard.of(fetch_settings).target(url), Failed):
        return
    # Imported here: the HTTP client would double the start of a command that sends no request.
    from core.net.fetcher import Fetcher

    async with Fetcher(fetch_settings, client, keys, exempt=sample.hosts(settings)) as fetcher:
        await fetcher.sitemaps_of(origin_of(url))
