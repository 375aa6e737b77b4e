"""From a parsed feed to the links worth fetching.

Pure. Each entry's link is unwrapped, cleaned and checked; what is turned away is counted with its reason.
The check of addresses here keeps nonsense out of the link set; the guard that counts is at connect time, because only
there is it known what a name resolves to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from core import trackers, urls
from core.models import Entry, Harvest, ParsedFeed, Rejected
from core.unwrap import unwrap

MAX_EXAMPLES = 10
MAX_EXAMPLE_CHARS = 200

# Names that never lead to the public internet: RFC 6761, RFC 6762, and ICANN's reservation of `.internal` (2024).
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal")


@dataclass(frozen=True, slots=True)
class LinkRules:
    """What the settings say about links."""

    tracking_params: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """`host`, `host:port` or a CIDR range that may be private."""


def harvest(feed: ParsedFeed, rules: LinkRules) -> Harvest:
    """The feed's clean links in order without repeats, and what was turned away."""
    links: dict[str, None] = {}
    rejected: list[Rejected] = []
    for entry in feed.entries:
        link = link_of(entry, rules)
        if isinstance(link, Rejected):
            rejected.append(link)
        else:
            links[link] = None
    return Harvest(
        kind=feed.kind,
        title=feed.title,
        links=tuple(links),
        rejected=tuple(Rejected(r.link[:MAX_EXAMPLE_CHARS], r.reason) for r in rejected[:MAX_EXAMPLES]),
        rejected_count=len(rejected),
        hints=feed.hints,
        children=feed.children,
        parser=feed.parser,
        truncated=feed.truncated,
    )


def link_of(entry: Entry, rules: LinkRules) -> str | Rejected:
    """The clean link of one entry, or why it has none."""
    if not entry.link.strip():
        return Rejected("", "no_link")
    target = unwrap(entry.link)
    if isinstance(target, Rejected):
        return _with_source(target, entry)
    cleaned = urls.clean(target, trackers.matcher(rules.tracking_params))
    if isinstance(cleaned, Rejected):
        return Rejected(entry.link, cleaned.reason)
    if not _may_fetch(cleaned, rules.allowed_hosts):
        return Rejected(entry.link, "private_address")
    return cleaned


def _with_source(rejected: Rejected, entry: Entry) -> Rejected:
    """Google News hides the article but names its publisher; a person can look for that feed instead."""
    host = urls.host_of(entry.source_url)
    if rejected.reason != "aggregator_opaque" or not host:
        return rejected
    return Rejected(rejected.link, f"{rejected.reason} (source {host})")


# ── private places ──────────────────────────────────────────────────────────────────────────────


def _may_fetch(url: str, allowed_hosts: tuple[str, ...]) -> bool:
    pieces = urls.parts(url)
    return pieces is not None and (not _is_private(pieces.host) or _is_allowed(pieces.host, pieces.port, allowed_hosts))


@lru_cache(maxsize=16_384)
def _is_private(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(_PRIVATE_SUFFIXES)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return not address.is_global or address.is_multicast


def _is_allowed(host: str, port: int, allowed_hosts: tuple[str, ...]) -> bool:
    names, networks = _allow_list(allowed_hosts)
    written = f"[{host}]" if ":" in host else host
    if not names.isdisjoint((host, written, f"{written}:{port}")):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in networks)


@lru_cache(maxsize=8)
def _allow_list(entries: tuple[str, ...]) -> tuple[frozenset[str], tuple[IPv4Network | IPv6Network, ...]]:
    names = frozenset(entry.strip().lower() for entry in entries)
    return names, tuple(network for name in names if "/" in name for network in _networks(name))


def _networks(text: str) -> list[IPv4Network | IPv6Network]:
    """One range, or none: a setting that is no range allows nothing."""
    try:
        return [ip_network(text, strict=False)]
    except ValueError:
        return []
