"""Turn the entries of a parsed feed into links to fetch: unwrapped, cleaned and checked; rejected ones with a reason.

The check of addresses here keeps nonsense out of the link set; the guard that counts is at connect time, because only
there is it known what a name resolves to.
"""

from __future__ import annotations

from functools import lru_cache

from core.models import FeedEntry, FeedLinks, FeedText, ParsedFeed, RejectedUrl
from core.urls import secrets
from core.urls.forbidden_addresses import AllowList, is_address, is_forbidden
from core.urls.normalise import host_of, public_url, split_url
from core.urls.tracking_parameters import Trackers, tracker_matcher
from core.urls.unwrap import unwrap

MAX_EXAMPLES = 10
MAX_EXAMPLE_CHARS = 200
MAX_TEXT_CHARS = 200_000

# Names that never lead to the public internet: RFC 6761, RFC 6762, and ICANN's reservation of `.internal` (2024).
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal")
_allow_list = lru_cache(maxsize=8)(AllowList.parse)


def extract_links(
    feed: ParsedFeed, tracking_params: tuple[str, ...] = (), allowed_hosts: tuple[str, ...] = ()
) -> FeedLinks:
    """Return the feed's clean links in order, each once, and what was rejected.

    `allowed_hosts`: `host`, `host:port` or CIDR ranges that may be private.
    """
    matcher, allow_list = tracker_matcher(tracking_params), _allow_list(allowed_hosts)
    links: dict[str, FeedText] = {}
    rejected: list[RejectedUrl] = []
    for entry in feed.entries:
        link = _link_of(entry, matcher, allow_list)
        if isinstance(link, RejectedUrl):
            rejected.append(link)
        elif link not in links:
            html = secrets.redact(entry.content[:MAX_TEXT_CHARS])
            links[link] = FeedText(entry.title, entry.author, entry.published_ts or entry.updated_ts, html)
    return FeedLinks(
        kind=feed.kind,
        title=feed.title,
        links=tuple(links),
        texts=tuple(links.values()),
        rejected=tuple(RejectedUrl(r.url[:MAX_EXAMPLE_CHARS], r.reason) for r in rejected[:MAX_EXAMPLES]),
        rejected_count=len(rejected),
        hints=feed.hints,
        children=feed.children,
        parser=feed.parser,
        left_out=feed.left_out,
    )


def _link_of(entry: FeedEntry, matcher: Trackers, allow_list: AllowList) -> str | RejectedUrl:
    if not entry.link.strip():
        return RejectedUrl("", "no_link")
    target = unwrap(entry.link)
    if isinstance(target, RejectedUrl):
        # Google News hides the article but names its publisher; a person can look for that feed instead.
        publisher = host_of(entry.source_url) if target.reason == "aggregator_opaque" else ""
        return RejectedUrl(target.url, f"{target.reason} (source {publisher})") if publisher else target
    cleaned = public_url(target, matcher)
    if isinstance(cleaned, RejectedUrl):
        return RejectedUrl(entry.link, cleaned.reason)
    parts = split_url(cleaned)
    if parts is None or (_is_private(parts.host) and not allow_list.permits(parts.host, parts.port)):
        return RejectedUrl(entry.link, "private_address")
    return cleaned


@lru_cache(maxsize=16_384)
def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith(_PRIVATE_SUFFIXES):
        return True
    return is_address(host) and is_forbidden(host)
