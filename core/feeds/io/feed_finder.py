"""Find the feeds of a site: the URL itself, what its page links to, then the usual paths.

Everything is fetched by the guarded fetcher and parsed in a child process; a candidate counts only if it parses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice

from core.errors import FailCode
from core.feeds.autodiscovery import common_feed_urls
from core.feeds.io.feed_fetcher import ACCEPT, FeedFetcher
from core.models import Deferred, DiscoveredFeed, Failed, FeedLinks, Fetched, FetchRequest
from core.net.fetcher import Fetcher
from core.registry import http_status_meanings
from core.registry.http_status_meanings import ResponseKind
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import DiscoveryRequest
from core.value_class import value_class

MAX_CANDIDATES = 12


@value_class
class DiscoveryResult:
    """The feeds at a URL and around it."""

    feeds: Sequence[DiscoveredFeed]
    """Best first; the URL itself alone, if it is a feed."""
    http_status: int
    """The status of the URL itself."""
    contents: Mapping[str, FeedLinks] = field(default_factory=dict)
    """What each feed lists, by its URL."""

    @property
    def is_dead(self) -> bool:
        """Nothing is at the URL; the feeds, if any, are others of the same site."""
        return http_status_meanings.status(self.http_status).kind is not ResponseKind.OK


class FeedFinder:
    """Looks for the feeds of a site. A person named its URL, so robots.txt applies only to what we try besides."""

    def __init__(self, fetcher: Fetcher, pool: ParsePool, feeds: FeedFetcher) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._feeds = feeds
        self._contents: dict[str, FeedLinks] = {}

    async def find(self, url: str) -> DiscoveryResult | Failed:
        """Return the feeds at or behind a URL; `Failed` when the URL itself cannot be fetched."""
        page = await self._fetch(url, respect_robots=False)
        if isinstance(page, Failed):
            return page
        itself = await self._as_feed(page, DiscoveredFeed(url))
        if itself:
            return DiscoveryResult([itself], page.status, self._contents)
        linked = await self._pool.run("discover", DiscoveryRequest(page.body, page.final_url))
        feeds = await self._confirmed([] if isinstance(linked, Failed) else linked)
        feeds = feeds or await self._confirmed(map(DiscoveredFeed, common_feed_urls(page.final_url)))
        return DiscoveryResult(feeds, page.status, self._contents)

    async def _fetch(self, url: str, respect_robots: bool = True) -> Fetched | Failed:
        fetched = await self._fetcher.fetch(
            FetchRequest(url, headers={"Accept": ACCEPT}, respect_robots=respect_robots)
        )
        if isinstance(fetched, Deferred):
            return Failed(FailCode.HTTP, text=f"it asks us to wait {fetched.wait_seconds:.0f} s ({fetched.reason}).")
        return fetched

    async def _confirmed(self, candidates: Iterable[DiscoveredFeed]) -> list[DiscoveredFeed]:
        """Return those candidates that really are feeds, with the title they give themselves."""
        feeds: list[DiscoveredFeed] = []
        for candidate in islice(candidates, MAX_CANDIDATES):
            fetched = await self._fetch(candidate.url)
            feed = await self._as_feed(fetched, candidate) if isinstance(fetched, Fetched) else None
            feeds += [feed] if feed else []
        return feeds

    async def _as_feed(self, fetched: Fetched, candidate: DiscoveredFeed) -> DiscoveredFeed | None:
        """Return the candidate with the title and type it has, if this body is a feed."""
        if fetched.status != 200:
            return None
        feed = await self._feeds.read(fetched)
        if not isinstance(feed, FeedLinks):
            return None
        self._contents[candidate.url] = feed
        return DiscoveredFeed(candidate.url, feed.title or candidate.title, fetched.header("content-type"))
