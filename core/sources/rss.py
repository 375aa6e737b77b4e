"""Poll one feed: fetch it, see whether it changed, read it in a parse child.

Returns what happened as a value; writes nothing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from core import http_headers, ids, polling
from core.errors import FailCode, FailDetail
from core.feed_state import Answer, Broken, Changed, ErrorClass, FeedState, Gone, PollResult, Unchanged
from core.models import PERMANENT_REDIRECTS, Deferred, Failed, FeedKind, Fetched, FetchResult, Harvest, Request
from core.parsing.tasks import FeedRequest

ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8"
MOST_CHILD_SITEMAPS = 10
MOST_LINKS = 50_000
"""Of all sitemaps of an index together: as many as one sitemap may list."""

TEMPORARY_STATUSES = {408, 425, 429, 502, 503, 504}
TEMPORARY_DETAILS = {FailDetail.REFUSED, FailDetail.RESET, FailDetail.TRUNCATED}
SOFT_DETAILS = {FailDetail.DNS, FailDetail.TLS, FailDetail.PROTOCOL}
CONNECT_DETAILS = {FailDetail.CONNECT, FailDetail.DNS, FailDetail.REFUSED}


class Fetches(Protocol):
    """The guarded fetcher, as far as we need it."""

    async def fetch(self, request: Request) -> FetchResult:
        """Fetch, with everything that can go wrong as a value."""


class Parses(Protocol):
    """The parse pool, as far as we need it."""

    async def run(self, task: str, request: object) -> Any:
        """Run a task in a child: its result, or `Failed`."""


class FeedSource:
    """Polls feeds through the guarded fetcher and the parse pool."""

    def __init__(
        self, fetcher: Fetches, pool: Parses, tracking_params: tuple[str, ...], allowed_hosts: tuple[str, ...]
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._tracking_params = tracking_params
        self._allowed_hosts = allowed_hosts

    async def poll(self, state: FeedState, now: float, chance: float, max_wait_seconds: float) -> PollResult:
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
        match answer:
            case Deferred():
                return answer
            case Failed():
                return _broken(answer)
            case Fetched(status=304) if conditional:
                return Unchanged(_said(answer, now))
            case Fetched(status=200 | 203):
                return await self._read(state, answer, now)
            case Fetched(status=410):
                return Gone()
            case Fetched():
                return _refused(answer, now)

    async def _read(self, state: FeedState, answer: Fetched, now: float) -> PollResult:
        if not answer.body.strip():
            return Broken(ErrorClass.SOFT, "The answer is empty.", answer.status)
        fingerprint = ids.body_hash(answer.body)
        if fingerprint == state.body_hash:
            return Unchanged(_said(answer, now))
        harvest = await self._parse(answer)
        if isinstance(harvest, Failed):
            return Broken(ErrorClass.SOFT, harvest.text, answer.status)
        if harvest.kind is FeedKind.SITEMAP_INDEX:
            return await self._read_children(state, answer, harvest, now)
        return Changed(_said(answer, now), harvest, fingerprint)

    async def _parse(self, answer: Fetched) -> Harvest | Failed:
        harvest: Harvest | Failed = await self._pool.run(
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

    async def _read_children(self, state: FeedState, answer: Fetched, index: Harvest, now: float) -> PollResult:
        """An index changes when its sitemaps do, so its fingerprint is theirs and it has no validators of its own."""
        fingerprint = hashlib.sha256(answer.body)
        parts: list[Harvest] = []
        for url in index.children[:MOST_CHILD_SITEMAPS]:
            child = await self._fetcher.fetch(Request(url=url, headers={"Accept": ACCEPT}))
            harvest = await self._parse(child) if isinstance(child, Fetched) and child.status == 200 else None
            if isinstance(child, Fetched) and isinstance(harvest, Harvest):
                fingerprint.update(child.body)
                parts.append(harvest)
        named = len(index.children[:MOST_CHILD_SITEMAPS])
        if not parts:
            return Broken(ErrorClass.SOFT, "None of the sitemaps in this index could be read.", answer.status)
        said = replace(_said(answer, now), etag="", last_modified="", validators_url="")
        if fingerprint.hexdigest() == state.body_hash:
            return Unchanged(said)
        trouble = "" if len(parts) == named else f"{named - len(parts)} of {named} sitemaps could not be read"
        listed = len(index.children)
        remark = f"only the newest {named} of {listed} sitemaps are read" if listed > named else ""
        return Changed(said, _merged(index, parts), fingerprint.hexdigest(), trouble=trouble, remark=remark)


def _merged(index: Harvest, parts: Sequence[Harvest]) -> Harvest:
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


def _said(answer: Fetched, now: float) -> Answer:
    return Answer(
        http_status=answer.status,
        etag=answer.header("etag"),
        last_modified=answer.header("last-modified"),
        validators_url=answer.final_url,
        lifetime_seconds=http_headers.cache_lifetime_seconds(answer.headers, now),
        moved_to=permanent_target(answer),
    )


def permanent_target(answer: Fetched) -> str:
    """Where a chain of 301 and 308 leads; empty when its first hop is temporary or there is none (trap R2).

    A target with credentials is empty too: it is stored nowhere, so it could not be asked.
    """
    if answer.is_signed:
        return ""
    permanent = sum(1 for _ in itertools.takewhile(lambda hop: hop.status in PERMANENT_REDIRECTS, answer.hops))
    visited = [*(hop.url for hop in answer.hops), answer.final_url]
    return visited[permanent] if permanent else ""


def _broken(failure: Failed) -> Broken:
    if failure.code is FailCode.TIMEOUT or failure.detail in TEMPORARY_DETAILS:
        error_class = ErrorClass.TEMPORARY
    elif failure.detail in SOFT_DETAILS:
        error_class = ErrorClass.SOFT
    else:
        error_class = ErrorClass.HARD
    return Broken(
        error_class,
        failure.text,
        failure.http_status,
        failure.retry_after_seconds,
        is_connect_failure=failure.detail in CONNECT_DETAILS,
    )


def _refused(answer: Fetched, now: float) -> Broken:
    if answer.status in TEMPORARY_STATUSES:
        error_class = ErrorClass.TEMPORARY
    elif 400 <= answer.status < 500:
        error_class = ErrorClass.HARD
    else:
        error_class = ErrorClass.SOFT
    asked = http_headers.retry_after_seconds(answer.header("retry-after"), now)
    return Broken(error_class, f"HTTP {answer.status}", answer.status, asked)
