"""Subscribe to a feed by its URL, or by that of a site whose feed is looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.feeds.io.feed_finder import FeedFinder
from core.models import DiscoveredFeed, Failed, FeedLinks, RejectedUrl
from core.runtime.context import Context
from core.urls.normalise import clean_url
from core.urls.secrets import redact
from core.value_class import value_class


class NoFeedThere(FeedFileError):
    """There is no feed at a URL, and nothing was added."""

    def __init__(self, sentence: str, others: Sequence[DiscoveredFeed] = ()) -> None:
        super().__init__(sentence)
        self.others = others
        """Other feeds of the same site."""


@value_class
class FoundFeed:
    feed: DiscoveredFeed
    content: FeedLinks
    asked_url: str
    """The clean URL that was asked for; another than the feed's if that is a page."""
    others: Sequence[DiscoveredFeed]
    category: str = ""
    """The category that it was added to."""


async def add_feed(context: Context, category: str, url: str) -> FoundFeed:
    """Add the feed at a URL, or the best one of the site there; raise FeedFileError, a sentence, if there is none."""
    found = await find_feed(context, url)
    slug = category_slug(category)
    await context.subscriptions.add(slug, found.feed.url, found.content.title or found.feed.title)
    return replace(found, category=slug)


async def find_feed(context: Context, url: str) -> FoundFeed:
    """Return the feed at a URL, or the best one of the site there; FeedFileError, a sentence, if there is none."""
    clean = clean_url(url if "://" in url else f"https://{url}")
    if isinstance(clean, RejectedUrl):
        raise FeedFileError(f"{redact(url)} is not a URL that can be fetched ({clean.reason}).")
    result = await FeedFinder(context.fetcher, context.pool, context.feed_fetcher).find(clean)
    if isinstance(result, Failed):
        raise NoFeedThere(f"Cannot fetch {redact(clean)}: {result.text}")
    if result.is_dead:
        # Another feed of the site is not what was asked for: it is named, and nothing is added.
        sentence = f"{redact(clean)} answers HTTP {result.http_status}: no feed is there, and nothing was added."
        raise NoFeedThere(sentence, result.feeds)
    if not result.feeds:
        raise NoFeedThere(f"No feed at {redact(clean)}, in its links or at the usual places. Give the feed's own URL.")
    best, *others = result.feeds
    return FoundFeed(best, result.contents[best.url], clean, others)
