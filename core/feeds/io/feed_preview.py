"""Show what a subscription to a feed would bring, without subscribing.

Nothing is written but the state of politeness: when the host was asked, and its robots.txt.
"""

from __future__ import annotations

from collections.abc import Sequence

from core import ids
from core.feeds.category_names import category_slug
from core.feeds.feed_state import FeedState
from core.feeds.io.feed_adder import FoundFeed, NoFeedThere, find_feed
from core.feeds.poll_result import FeedChanged, report_of
from core.models import DiscoveredFeed, FeedKind, FeedLinks, RejectedUrl
from core.runtime.context import Context
from core.store import connect
from core.urls.secrets import redact
from core.value_class import value_class

MOST_ENTRIES = 20
LONGEST_WAIT_SECONDS = 60.0


@value_class
class PreviewEntry:
    """An entry of the feed, with the link as it would be stored: unwrapped, without trackers."""

    url: str
    title: str
    published_ts: float | None
    is_new: bool


@value_class
class FeedPreview:
    feed: DiscoveredFeed
    kind: str
    asked_url: str
    others: Sequence[DiscoveredFeed]
    category: str
    """As it would be written; empty if none was named."""
    subscribed: Sequence[str]
    """The categories that have the feed already."""
    entries: Sequence[PreviewEntry]
    """The first of them."""
    links: int
    new_links: int
    rejected: Sequence[RejectedUrl]
    """The first links that would be refused, and why."""
    rejected_links: int
    left_out: int
    """Entries beyond the limit, which would not be read."""

    @property
    def known_links(self) -> int:
        return self.links - self.new_links


async def preview_feed(context: Context, url: str, category: str = "") -> FeedPreview:
    """Return what the feed at a URL, or the best one of the site there, would bring; FeedFileError if there is none."""
    found = await find_feed(context, url)
    content = await _content(context, found)
    slug = category_slug(category) if category else ""
    feed_links_key = context.keys.feed_links(ids.feed_id(found.feed.url))
    known = await context.links.known([slug] if slug else [], feed_links_key, content.links)
    first = zip(content.links[:MOST_ENTRIES], content.texts[:MOST_ENTRIES], strict=True)
    return FeedPreview(
        feed=found.feed,
        kind=str(content.kind),
        asked_url=found.asked_url,
        others=found.others,
        category=slug,
        subscribed=(await context.subscriptions.by_feed()).get(found.feed.url, []),
        entries=[PreviewEntry(link, text.title, text.published_ts, link not in known) for link, text in first],
        links=len(content.links),
        new_links=len(content.links) - len(known),
        rejected=content.rejected,
        rejected_links=content.rejected_count,
        left_out=content.left_out,
    )


async def _content(context: Context, found: FoundFeed) -> FeedLinks:
    """Return what the feed lists; the sitemaps of an index are read as a poll would read them."""
    if found.content.kind is not FeedKind.SITEMAP_INDEX:
        return found.content
    state, now = FeedState(found.feed.url), await connect.now(context.client)
    result = await context.feed_fetcher.fetch(state, now, 0.0, LONGEST_WAIT_SECONDS)
    if isinstance(result, FeedChanged):
        return result.feed
    reason = report_of(found.feed.url, result).reason
    raise NoFeedThere(f"{redact(found.feed.url)} is an index of sitemaps, and they cannot be read: {reason}")
