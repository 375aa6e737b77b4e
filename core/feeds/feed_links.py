"""From a parsed feed to the links worth fetching.

Each entry's link is unwrapped, cleaned and checked; rejected ones are counted with their reason.
The check of addresses here keeps nonsense out of the link set; the guard that counts is at connect time, because only
there is it known what a name resolves to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from core.models import Entry, FeedLinks, FeedText, ParsedFeed, RejectedUrl
from core.urls import addresses, secrets, trackers
from core.urls.normalise import host_of, public_url, split_url
from core.urls.unwrap import unwrap

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


def extract_links(feed: ParsedFeed, rules: LinkRules) -> FeedLinks:
    """Return the feed's clean links in order, each once, and what was rejected."""
    links: dict[str, FeedText] = {}
    rejected: list[RejectedUrl] = []
    for entry in feed.entries:
        link = link_of(entry, rules)
        if isinstance(link, RejectedUrl):
            rejected.append(link)
        else:
            links.setdefault(link, _text_of(entry))
    return FeedLinks(
        kind=feed.kind,
        title=feed.title,
        links=tuple(links),
        texts=tuple(links.values()),
        rejected=tuple(RejectedUrl(r.link[:MAX_EXAMPLE_CHARS], r.reason) for r in rejected[:MAX_EXAMPLES]),
        rejected_count=len(rejected),
        hints=feed.hints,
        children=feed.children,
        parser=feed.parser,
        left_out=feed.left_out,
    )


def _text_of(entry: Entry) -> FeedText:
    """Return what the entry says; its text is HTML, whose URLs may contain credentials."""
    text = secrets.redact(entry.content[:MAX_TEXT_CHARS])
    return FeedText(entry.title, entry.author, entry.published_ts or entry.updated_ts, text)


def link_of(entry: Entry, rules: LinkRules) -> str | RejectedUrl:
    """Return the clean link of one entry, or why it has none."""
    if not entry.link.strip():
        return RejectedUrl("", "no_link")
    target = unwrap(entry.link)
    if isinstance(target, RejectedUrl):
        return _with_source(target, entry)
    cleaned = public_url(target, trackers.tracker_matcher(rules.tracking_params))
    if isinstance(cleaned, RejectedUrl):
        return RejectedUrl(entry.link, cleaned.reason)
    if not _may_fetch(cleaned, rules.allowed_hosts):
        return RejectedUrl(entry.link, "private_address")
    return cleaned


def _with_source(rejected: RejectedUrl, entry: Entry) -> RejectedUrl:
    """Add the publisher to the reason: Google News hides the article, and a person can look for that feed instead."""
    host = host_of(entry.source_url)
    if rejected.reason != "aggregator_opaque" or not host:
        return rejected
    return RejectedUrl(rejected.link, f"{rejected.reason} (source {host})")


# ── private addresses ──


def _may_fetch(url: str, allowed_hosts: tuple[str, ...]) -> bool:
    pieces = split_url(url)
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
