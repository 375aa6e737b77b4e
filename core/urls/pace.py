"""Resolve the pace of requests to a host: the default of the settings, or what was set for hosts, feeds and sources.

A host with a pace of its own passes a gate of its own: it does not wait for its siblings below the same registrable
domain, and they are asked neither sooner nor later because of it. Reads nothing; `core.net.pace_store` does.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields, replace
from enum import StrEnum

from core.urls.normalise import host_and_port, politeness_key, registrable_domain, split_origin, split_url
from core.value_class import value_class

LONGEST_GAP_SECONDS = 86_400.0
LONGEST_INTERVAL_SECONDS = 30 * 86_400.0
MOST_PARALLEL = 1_000
MAX_REMEMBERED_HOSTS = 4_096
COMMAND = "command"
"""The origin of what a command set; it wins over what a file says."""
ALL_HOSTS = "*."
"""In front of a registrable domain: the domain and all hosts below it, which then share its gate."""
OWN_GATE = "host:"
"""In front of a host: the name of the gate of a host with a pace of its own."""


class PaceScope(StrEnum):
    """What an option was set for; the first that says anything wins."""

    HOST = "host"
    FEED = "feed"
    SOURCE = "source"


@value_class
class PaceOption:
    """What someone set; None: nothing."""

    interval_seconds: float | None = None
    """The time between two polls of a feed."""
    gap_seconds: float | None = None
    """The shortest time between the beginnings of two requests."""
    parallel: int | None = None
    """How many requests at once a host gets."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set."""
        return self == NOTHING

    def or_else(self, other: PaceOption) -> PaceOption:
        """Return this option with what it does not say from another."""
        missing = {one.name: getattr(other, one.name) for one in fields(self) if getattr(self, one.name) is None}
        return replace(self, **missing)


NOTHING = PaceOption()


@value_class
class StoredPace:
    """An option with what it is for and who set it."""

    scope: PaceScope
    name: str
    """A host, the id of a feed, or the id of a source."""
    origin: str
    """`COMMAND`, the path of a feed file, or the domain of a source."""
    option: PaceOption
    hosts: tuple[str, ...] = ()
    """The hosts for which the gap of a feed or source holds."""


@value_class
class HostPace:
    """Limits of requests to one host."""

    gate: str
    """The name of the gate that its requests pass."""
    domain: str
    """What a Retry-After of any of its hosts closes: a registrable domain, or a bare address with its port."""
    gap_seconds: float
    parallel: int | None
    """None: no limit of its own."""
    set_for: PaceScope | None = None
    """Where the gap comes from; None: from the settings."""

    @property
    def place(self) -> str:
        """The host or domain that shares this rate limit, for people."""
        return self.gate.removeprefix(OWN_GATE)

    @property
    def is_unlimited(self) -> bool:
        """Whether requests need not wait in line."""
        return self.parallel is None and not self.gap_seconds

    def with_crawl_delay(self, seconds: float) -> HostPace:
        """Return the pace that robots.txt asks for; only a gap that was set for this very host ignores it."""
        if self.set_for is PaceScope.HOST or seconds <= self.gap_seconds:
            return self
        return replace(self, gap_seconds=seconds)


@value_class
class PaceDefaults:
    """Default pace, from the settings."""

    gap_seconds: float = 0.0
    parallel: int | None = None
    """FETCH_HOST_PARALLEL; None: two at once, and without a gap no limit."""

    def parallel_at(self, gap_seconds: float) -> int | None:
        """Return how many requests at once a host with this gap gets."""
        return self.parallel or (2 if gap_seconds else None)


class Paces:
    """All options together, as of one moment."""

    def __init__(self, stored: Iterable[StoredPace] = (), defaults: PaceDefaults | None = None) -> None:
        self._defaults = defaults or PaceDefaults()
        merged = _merged(stored)
        hosts = {one.name: one.option for one in merged if one.scope is PaceScope.HOST}
        self._host_gaps = {name: gap for name, one in hosts.items() if (gap := one.gap_seconds) is not None}
        self._host_parallel = {name: one.parallel for name, one in hosts.items() if one.parallel is not None}
        self._feeds = {one.name: one.option for one in merged if one.scope is PaceScope.FEED}
        self._listed = _gaps_by_host(merged)
        self._known: dict[tuple[str, int], HostPace] = {}
        """Asked twice for every page, and the same for all pages of a host."""

    def of(self, host: str, port: int) -> HostPace:
        """Return the pace of a host."""
        known = self._known.get((host, port))
        if known is None:
            if len(self._known) >= MAX_REMEMBERED_HOSTS:
                self._known.clear()
            known = self._known[host, port] = self._find(host, port)
        return known

    def _find(self, host: str, port: int) -> HostPace:
        domain = politeness_key(host, port)
        names = (f"{host}:{port}", host, f"{ALL_HOSTS}{registrable_domain(host)}")
        gap_name, parallel_name = _first(names, self._host_gaps), _first(names, self._host_parallel)
        listed_name = "" if gap_name else _first(names, self._listed)
        gap, set_for = self._defaults.gap_seconds, None
        if gap_name:
            gap, set_for = self._host_gaps[gap_name], PaceScope.HOST
        elif listed_name:
            gap, set_for = self._listed[listed_name]
        parallel = self._host_parallel[parallel_name] if parallel_name else self._defaults.parallel_at(gap)
        own_name = _first(names[:2], {gap_name, parallel_name, listed_name})
        has_siblings = domain == registrable_domain(host)
        gate = f"{OWN_GATE}{own_name}" if own_name and has_siblings else domain
        return HostPace(gate, domain, gap, parallel, set_for)

    def of_url(self, url: str) -> HostPace | None:
        """Return the pace of a URL's host; None if it has none."""
        parts = split_origin(url)
        return self.of(parts.host, parts.port) if parts else None

    def of_feed(self, fid: str) -> PaceOption:
        """Return what was set for a feed."""
        return self._feeds.get(fid, NOTHING)

    @property
    def default_gap_seconds(self) -> float:
        """The gap of hosts for which nothing was set."""
        return self._defaults.gap_seconds

    def gaps_by_host(self) -> dict[str, float]:
        """Return the gaps that differ from the default, by host without port, or `*.` and a registrable domain."""
        gaps: dict[str, float] = {}
        named = {name: gap for name, (gap, _) in self._listed.items()} | self._host_gaps
        for name, gap in named.items():
            host = name.partition(":")[0] if name.count(":") == 1 else name
            gaps[host] = max(gap, gaps.get(host, 0.0))
        return gaps


def _first(names: Iterable[str], known: Container[str]) -> str:
    """Return the first name that is known; empty if none is."""
    return next((name for name in names if name in known), "")


def _merged(stored: Iterable[StoredPace]) -> list[StoredPace]:
    """Return one option for each host, feed and source: a command's before a file's, value by value."""
    merged: dict[tuple[PaceScope, str], StoredPace] = {}
    for one in sorted(stored, key=lambda one: (one.origin != COMMAND, one.origin)):
        known = merged.get((one.scope, one.name))
        option = known.option.or_else(one.option) if known else one.option
        hosts = known.hosts or one.hosts if known else one.hosts
        merged[one.scope, one.name] = replace(one, option=option, hosts=hosts)
    return list(merged.values())


def _gaps_by_host(merged: Iterable[StoredPace]) -> dict[str, tuple[float, PaceScope]]:
    """Return the gaps of feeds and sources by host; where two of them name one host, the longer gap counts."""
    gaps: dict[str, tuple[float, PaceScope]] = {}
    for one in merged:
        gap = one.option.gap_seconds
        for host in one.hosts if gap is not None and one.scope is not PaceScope.HOST else ():
            if gap is not None and (host not in gaps or gap > gaps[host][0]):
                gaps[host] = (gap, one.scope)
    return gaps


# ── names and values as people write them ───────────────────────────────────────────────────────


def hosts_of_url(url: str, *, whole_domain: bool = False) -> tuple[str, ...]:
    """Return the names under which the gap of a feed or source is kept: its host, with and without `www.`."""
    parts = split_url(url)
    if parts is None:
        return ()
    domain = politeness_key(parts.host, parts.port)
    if domain != registrable_domain(parts.host):
        return (domain,)  # a bare address, or a name without a dot: each port is a server of its own
    if whole_domain:
        return (f"{ALL_HOSTS}{domain}",)
    bare = parts.host.removeprefix("www.")
    return (bare, f"www.{bare}") if "." in bare else (parts.host,)


def checked_host(name: str) -> str:
    """Return a host as it is compared; ValueError, a sentence, if it is none."""
    text = name.strip().lower().rstrip(".")
    host = text.removeprefix(ALL_HOSTS)
    parts = split_url(f"http://{host}/")
    if parts is None or not parts.host or set("/@*?") & set(host):
        raise ValueError(f"{name!r} is not a host; write docs.example.org, 10.0.0.1:8080 or *.example.org")
    if host == text:
        port = host_and_port(host)[1]
        return f"{parts.host}:{port}" if port else parts.host
    if registrable_domain(host) != host:
        raise ValueError(f"{name!r} is not a registrable domain; name the host itself, or *.{registrable_domain(host)}")
    return text


def checked_option(values: Mapping[str, object], allowed: Iterable[str]) -> PaceOption:
    """Return the option that these values describe; ValueError, a sentence that begins with the name of the value."""
    allowed = tuple(allowed)
    for name in values:
        if name not in allowed:
            raise ValueError(f"{name} is not a key that Freshet knows; there are {', '.join(allowed)}")
    return PaceOption(
        interval_seconds=_seconds(values, "interval_seconds", LONGEST_INTERVAL_SECONDS, is_zero_fine=False),
        gap_seconds=_seconds(values, "gap_seconds", LONGEST_GAP_SECONDS, is_zero_fine=True),
        parallel=_parallel(values),
    )


def _seconds(values: Mapping[str, object], name: str, most: float, *, is_zero_fine: bool) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    number = float(value) if is_number and isinstance(value, int | float) else -1.0
    if number < 0 or number > most or (not number and not is_zero_fine):
        least = "0 or more" if is_zero_fine else "more than 0"
        raise ValueError(f"{name} must be a number of seconds, {least} and at most {most:,.0f}")
    return number


def _parallel(values: Mapping[str, object]) -> int | None:
    value = values.get("parallel")
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PARALLEL):
        return value if isinstance(value, int) else None
    raise ValueError(f"parallel must be a whole number from 1 to {MOST_PARALLEL:,}")
