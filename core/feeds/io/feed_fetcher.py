"""Fetch one feed, see whether it changed, and parse it in a child process.

Returns what happened as a value; writes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from core import ids
from core.errors import FailCode, FailDetail
from core.feeds import poll_decision
from core.feeds.feed_state import FeedState
from core.feeds.poll_result import FeedChanged, FeedResponse, FeedUnchanged, PollResult
from core.models import STOPPED, Deferred, Failed, FeedKind, FeedLinks, Fetched, FetchRequest
from core.net.fetcher import Fetcher
from core.registry import http_headers, http_status_meanings, outcomes
from core.registry.http_status_meanings import ResponseKind
from core.registry.outcomes import Broken, Missing
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import FeedRequest

ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8"
MAX_CHILD_SITEMAPS = 10
MAX_LINKS = 50_000
"""Limit for all sitemaps of an index together: as many as one sitemap may list."""


class FeedFetcher:
    def __init__(
        self, fetcher: Fetcher, pool: ParsePool, tracking_params: tuple[str, ...], allowed_hosts: tuple[str, ...]
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._tracking_params = tracking_params
        self._allowed_hosts = allowed_hosts

    async def fetch(self, state: FeedState, now: float, chance: float, max_wait_seconds: float) -> PollResult:
        """Fetch a feed; which of its links are new, only the store knows."""
        conditional = poll_decision.conditional_headers(state, chance)
        fetched = await self._fetcher.fetch(
            FetchRequest(
                url=state.address,
                headers={"Accept": ACCEPT},
                conditional=conditional,
                conditional_url=state.validators_url,
                respect_robots=False,  # a person subscribed to this URL; robots.txt speaks to crawlers
                max_wait_seconds=max_wait_seconds,
            )
        )
        if isinstance(fetched, Deferred):
            return fetched
        if isinstance(fetched, Failed):
            return Broken(fetched)
        match http_status_meanings.status(fetched.status).kind:
            case ResponseKind.UNCHANGED if conditional:
                return FeedUnchanged(_response(fetched, now))
            case ResponseKind.OK:
                return await self._parse(state, fetched, now)
            case ResponseKind.MISSING | ResponseKind.GONE:
                return Missing(fetched.status)
        refused = outcomes.refusal(fetched, now)
        assert refused is not None  # a 304 without validators, or a status that no feed has
        return Broken(refused)

    async def _parse(self, state: FeedState, fetched: Fetched, now: float) -> PollResult:
        if not fetched.body.strip():
            return Broken(Failed(FailCode.EMPTY, text="The answer is empty.", http_status=fetched.status))
        body_hash = ids.body_hash(fetched.body)
        if body_hash == state.body_hash:
            return FeedUnchanged(_response(fetched, now))
        feed = await self.read(fetched)
        if isinstance(feed, Failed):
            # No feed today may be one tomorrow; only a killed parse child says nothing about it at all.
            detail = feed.detail if http_status_meanings.is_transient(feed) else FailDetail.NONE
            return Broken(replace(feed, detail=detail, http_status=fetched.status))
        if feed.kind is FeedKind.SITEMAP_INDEX:
            return await self._fetch_sitemaps(state, fetched, feed, now)
        return FeedChanged(_response(fetched, now), feed, body_hash)

    async def read(self, fetched: Fetched) -> FeedLinks | Failed:
        content_type = fetched.header("content-type")
        feed: FeedLinks | Failed = await self._pool.run(
            "feed",
            FeedRequest(fetched.body, fetched.final_url, content_type, self._tracking_params, self._allowed_hosts),
        )
        return feed

    async def _fetch_sitemaps(self, state: FeedState, fetched: Fetched, index: FeedLinks, now: float) -> PollResult:
        """Read the sitemaps of an index.

        An index changes when its sitemaps do, so its hash is theirs and it has no validators of its own.
        """
        body_hash = hashlib.sha256(fetched.body)
        wanted = index.children[:MAX_CHILD_SITEMAPS]
        sitemaps: list[FeedLinks] = []
        for url in wanted:
            child = await self._fetcher.fetch(FetchRequest(url=url, headers={"Accept": ACCEPT}))
            if child == STOPPED:
                return STOPPED
            if not isinstance(child, Fetched) or http_status_meanings.status(child.status).kind is not ResponseKind.OK:
                continue
            sitemap = await self.read(child)
            if isinstance(sitemap, FeedLinks):
                body_hash.update(child.body)
                sitemaps.append(sitemap)
        if not sitemaps:
            text = "None of the sitemaps in this index could be read."
            return Broken(Failed(FailCode.PARSE, text=text, http_status=fetched.status))
        response = replace(_response(fetched, now), etag="", last_modified="", validators_url="")
        if body_hash.hexdigest() == state.body_hash:
            return FeedUnchanged(response)
        missing = len(wanted) - len(sitemaps)
        trouble = f"{missing} of {len(wanted)} sitemaps could not be read" if missing else ""
        is_cut = len(index.children) > len(wanted)
        remark = f"only the newest {len(wanted)} of {len(index.children)} sitemaps are read" if is_cut else ""
        return FeedChanged(response, _merged(index, sitemaps), body_hash.hexdigest(), trouble=trouble, remark=remark)


def _merged(index: FeedLinks, sitemaps: Sequence[FeedLinks]) -> FeedLinks:
    texts = {url: text for part in reversed(sitemaps) for url, text in zip(part.links, part.texts, strict=True)}
    links = tuple(dict.fromkeys(url for part in sitemaps for url in part.links))
    return replace(
        index,
        links=links[:MAX_LINKS],
        texts=tuple(texts[url] for url in links[:MAX_LINKS]),
        rejected=tuple(rejected for part in sitemaps for rejected in part.rejected)[:10],
        rejected_count=sum(part.rejected_count for part in sitemaps),
        left_out=max(len(links) - MAX_LINKS, 0) + sum(part.left_out for part in sitemaps),
    )


def _response(fetched: Fetched, now: float) -> FeedResponse:
    return FeedResponse(
        http_status=fetched.status,
        etag=fetched.header("etag"),
        last_modified=fetched.header("last-modified"),
        validators_url=fetched.final_url,
        lifetime_seconds=http_headers.cache_lifetime_seconds(fetched.headers, now),
        moved_to=fetched.permanent_target,
    )
