"""Find the feeds of a site: the URL itself, what its page links to, then the usual paths.

Everything is fetched by the guarded fetcher and read in a parse child; a candidate counts only if it parses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import FailCode
from core.feeds import autodiscovery
from core.feeds.io.feed_fetcher import ACCEPT, Fetches, Parses
from core.models import Deferred, DiscoveredFeed, Failed, FeedLinks, Fetched, Request
from core.runtime.parse_tasks import FeedRequest, PageRequest

MOST_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """What is at a URL and around it."""

    feeds: Sequence[DiscoveredFeed]
    """Best first; the URL itself alone, if it is a feed."""
    http_status: int
    """How the URL itself answered."""
    page_url: str
    """Where its redirects ended."""

    @property
    def is_dead(self) -> bool:
        """Nothing is at the URL; the feeds, if any, are others of the same site."""
        return self.http_status not in (200, 203)


class FeedFinder:
    """Looks for feeds of a site. The person named its URL, so robots.txt is asked only about what we try besides."""

    def __init__(self, fetcher: Fetches, pool: Parses) -> None:
        self._fetcher = fetcher
        self._pool = pool

    async def find(self, url: str) -> DiscoveryResult | Failed:
        """Feeds at or behind a URL; `Failed` when the URL itself cannot be fetched."""
        answer = await self._get(url, respect_robots=False)
        if isinstance(answer, Failed):
            return answer
        title = await self._title_if_feed(answer)
        if title is not None:
            return _around(answer, [DiscoveredFeed(url, title, answer.header("content-type"))])
        linked = await self._pool.run("discover", PageRequest(answer.body, answer.final_url))
        named: list[DiscoveredFeed] = [] if isinstance(linked, Failed) else list(linked)
        usual = [DiscoveredFeed(guess, "", "") for guess in autodiscovery.common_feed_urls(answer.final_url)]
        return _around(answer, await self._confirmed(named) or await self._confirmed(usual))

    async def _get(self, url: str, respect_robots: bool = True) -> Fetched | Failed:
        request = Request(url=url, headers={"Accept": ACCEPT}, respect_robots=respect_robots)
        answer = await self._fetcher.fetch(request)
        if isinstance(answer, Deferred):
            return Failed(FailCode.HTTP, text=f"it asks us to wait {answer.wait_seconds:.0f} s ({answer.reason}).")
        return answer

    async def _confirmed(self, candidates: list[DiscoveredFeed]) -> list[DiscoveredFeed]:
        """Those candidates that really are feeds, with the title they give themselves."""
        found = []
        for candidate in candidates[:MOST_CANDIDATES]:
            answer = await self._get(candidate.url)
            if isinstance(answer, Failed):
                continue
            title = await self._title_if_feed(answer)
            if title is not None:
                found.append(DiscoveredFeed(candidate.url, title or candidate.title, answer.header("content-type")))
        return found

    async def _title_if_feed(self, answer: Fetched) -> str | None:
        if answer.status != 200:
            return None
        harvest = await self._pool.run(
            "feed", FeedRequest(answer.body, answer.final_url, answer.header("content-type"))
        )
        return harvest.title if isinstance(harvest, FeedLinks) else None


def _around(answer: Fetched, feeds: Sequence[DiscoveredFeed]) -> DiscoveryResult:
    return DiscoveryResult(feeds, answer.status, answer.final_url)
