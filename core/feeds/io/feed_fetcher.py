"""Poll one feed: fetch it, see whether it changed, read it in a parse child.

Returns what happened as a value; writes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from core import ids
from core.errors import FailCode, FailDetail
from core.feeds import polling
from core.feeds.feed_state import FeedChanged, FeedResponse, FeedState, FeedUnchanged, PollResult
from core.models import Deferred, Failed, FeedKind, FeedLinks, Fetched, FetchResult, Request
from core.registry import classify, http_headers, outcomes
from core.registry.classify import ResponseKind
from core.registry.outcomes import Broken, Missing
from core.registry.page_url import permanent_target
from core.runtime.parse_tasks import FeedRequest

ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8"
MOST_CHILD_SITEMAPS = 10
MOST_LINKS = 50_000
"""Of all sitemaps of an index together: as many as one sitemap may list."""


class Fetches(Protocol):
    """The guarded fetcher, as far as we need it."""

    async def fetch(self, request: Request) -> FetchResult:
        """Fetch, with everything that can go wrong as a value."""


class Parses(Protocol):
    """The parse pool, as far as we need it."""

    async def run(self, task: str, request: object) -> Any:
        """Run a task in a child: its result, or `Failed`."""


class FeedFetcher:
    """Polls feeds through the guarded fetcher and the parse pool."""

    def __init__(
        self, fetcher: Fetches, pool: Parses, tracking_params: tuple[str, ...], allowed_hosts: tuple[str, ...]
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._tracking_params = tracking_params
        self._allowed_hosts = allowed_hosts

    async def fetch(self, state: FeedState, now: float, chance: float, max_wait_seconds: float) -> PollResult:
        """What the feed has to say; which of its links are new, only the store knows."""
        conditional = polling.conditional_headers(state, chance)
        answer = await self._fetcher.fetch(
            Request(
                url=state.address,
                headers={"Accept": ACCEPT},
                conditional=conditional,
                conditional_url=state.validators_url,
                respect_robots=False,  # a person subscribed to this URL; robots.txt speaks to crawlers
                max_wait_seconds=max_wait_seconds,
            )
        )
        if isinstance(answer, Deferred):
            return answer
        if isinstance(answer, Failed):
            return Broken(answer)
        match classify.status(answer.status).kind:
            case ResponseKind.UNCHANGED if conditional:
                return FeedUnchanged(_said(answer, now))
            case ResponseKind.OK:
                return await self._read(state, answer, now)
            case ResponseKind.MISSING | ResponseKind.GONE:
                return Missing(answer.status)
        refused = outcomes.refusal(answer, now)
        assert refused is not None  # a 304 nobody asked for, or no status of a feed
        return Broken(refused)

    async def _read(self, state: FeedState, answer: Fetched, now: float) -> PollResult:
        if not answer.body.strip():
            return Broken(Failed(FailCode.EMPTY, text="The answer is empty.", http_status=answer.status))
        fingerprint = ids.body_hash(answer.body)
        if fingerprint == state.body_hash:
            return FeedUnchanged(_said(answer, now))
        harvest = await self._parse(answer)
        if isinstance(harvest, Failed):
            # No feed today may be one tomorrow; only a killed parse child says nothing about it at all.
            detail = harvest.detail if classify.is_transient(harvest) else FailDetail.NONE
            return Broken(replace(harvest, detail=detail, http_status=answer.status))
        if harvest.kind is FeedKind.SITEMAP_INDEX:
            return await self._read_children(state, answer, harvest, now)
        return FeedChanged(_said(answer, now), harvest, fingerprint)

    async def _parse(self, answer: Fetched) -> FeedLinks | Failed:
        harvest: FeedLinks | Failed = await self._pool.run(
            "feed",
            FeedRequest(
                body=answer.body,
                url=answer.final_url,
                content_type=answer.header("content-type"),
                tracking_params=self._tracking_params,
                allowed_hosts=self._allowed_hosts,
            ),
        )
        return harvest

    async def _read_children(self, state: FeedState, answer: Fetched, index: FeedLinks, now: float) -> PollResult:
        """An index changes when its sitemaps do, so its fingerprint is theirs and it has no validators of its own."""
        fingerprint = hashlib.sha256(answer.body)
        parts: list[FeedLinks] = []
        for url in index.children[:MOST_CHILD_SITEMAPS]:
            child = await self._fetcher.fetch(Request(url=url, headers={"Accept": ACCEPT}))
            if not isinstance(child, Fetched) or classify.status(child.status).kind is not ResponseKind.OK:
                continue
            harvest = await self._parse(child)
            if isinstance(harvest, FeedLinks):
                fingerprint.update(child.body)
                parts.append(harvest)
        named = len(index.children[:MOST_CHILD_SITEMAPS])
        if not parts:
            text = "None of the sitemaps in this index could be read."
            return Broken(Failed(FailCode.PARSE, text=text, http_status=answer.status))
        said = replace(_said(answer, now), etag="", last_modified="", validators_url="")
        if fingerprint.hexdigest() == state.body_hash:
            return FeedUnchanged(said)
        trouble = "" if len(parts) == named else f"{named - len(parts)} of {named} sitemaps could not be read"
        listed = len(index.children)
        remark = f"only the newest {named} of {listed} sitemaps are read" if listed > named else ""
        return FeedChanged(said, _merged(index, parts), fingerprint.hexdigest(), trouble=trouble, remark=remark)


def _merged(index: FeedLinks, parts: Sequence[FeedLinks]) -> FeedLinks:
    texts = {url: text for part in reversed(parts) for url, text in zip(part.links, part.texts, strict=True)}
    links = tuple(dict.fromkeys(url for part in parts for url in part.links))
    return replace(
        index,
        links=links[:MOST_LINKS],
        texts=tuple(texts[url] for url in links[:MOST_LINKS]),
        rejected=tuple(r for part in parts for r in part.rejected)[:10],
        rejected_count=sum(part.rejected_count for part in parts),
        left_out=max(len(links) - MOST_LINKS, 0) + sum(part.left_out for part in parts),
    )


def _said(answer: Fetched, now: float) -> FeedResponse:
    return FeedResponse(
        http_status=answer.status,
        etag=answer.header("etag"),
        last_modified=answer.header("last-modified"),
        validators_url=answer.final_url,
        lifetime_seconds=http_headers.cache_lifetime_seconds(answer.headers, now),
        moved_to=permanent_target(answer),
    )
