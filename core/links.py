"""From a parsed feed to the links worth fetching.

Pure. Each entry's link is unwrapped, cleaned and checked; what is turned away is counted with its reason.
The check of addresses here keeps nonsense out of the link set; the guard that counts is at connect time, because only
there is it known what a name resolves to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from core import addresses, secrets, trackers, urls
from core.models import Entry, FeedText, Harvest, ParsedFeed, Rejected
from core.unwrap import unwrap

MAX_EXAMPLES = 10
MAX_EXAMPLE_CHARS = 200
MAX_TEXT_CHARS = 200_000

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
    links: dict[str, FeedText] = {}
    rejected: list[Rejected] = []
    for entry in feed.entries:
        link = link_of(entry, rules)
        if isinstance(link, Rejected):
            rejected.append(link)
        else:
            links.setdefault(link, _text_of(entry))
    return Harvest(
        kind=feed.kind,
        title=feed.title,
        links=tuple(links),
        texts=tuple(links.values()),
        rejected=tuple(Rejected(r.link[:MAX_EXAMPLE_CHARS], r.reason) for r in rejected[:MAX_EXAMPLES]),
        rejected_count=len(rejected),
        hints=feed.hints,
        children=feed.children,
        parser=feed.parser,
        truncated=feed.truncated,
    )


def _text_of(entry: Entry) -> FeedText:
    return FeedText(entry.title, entry.author, entry.published_ts or entry.updated_ts, entry.content[:MAX_TEXT_CHARS])


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
    return secrets.without_credentials(cleaned)


def _with_source(rejected: Rejected, entry: Entry) -> Rejected:
    """Google News hides the article but names its publisher; a person can look for that feed instead."""
    host = urls.host_of(entry.source_url)
    if rejected.reason != "aggregator_opaque" or not host:
        return rejected
    return Rejected(rejected.link, f"{rejected.reason} (source {host})")


# ── private places ──────────────────────────────────────────────────────────────────────────────


def _may_fetch(url: str, allowed_hosts: tuple[str, ...]) -> bool:
    pieces = urls.parts(url)
    if pieces is None:
        return False
    return not _is_private(pieces.host) or _allow_list(allowed_hosts).permits(pieces.host, pieces.port)


@lru_cache(maxsize=16_384)
def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith(_PRIVATE_SUFFIXES):
        return True
    return addresses.is_address(host) and addresses.is_forbidden(host)


@lru_cache(maxsize=8)
def _allow_list(entries: tuple[str, ...]) -> addresses.AllowList:
    return addresses.AllowList.parse(entries)
