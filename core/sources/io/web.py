"""A web site as a source: its root and its sitemaps are listed, all else is found by the links of its pages.

A sitemap only adds: absence from it proves nothing, so a listing is never complete. Writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from core.models import Fetched, FetchResult, ListingBatch, ListingEnd, Ref, RejectedUrl
from core.pages.canonical_link import is_login_or_error_url
from core.registry.record import Item
from core.runtime.parse_pool import ParsePool
from core.settings import Settings
from core.sources.io.page_fetch import look_and_fetch, page_request
from core.sources.io.sitemap_walk import SitemapWalk, lastmod_versions
from core.sources.io.source import LINKS_DECIDE, Source, late_model
from core.sources.sitemap_pages import Listed
from core.sources.source_record import SourceState
from core.urls.normalise import display_url, origin_of
from core.urls.scope import OUT_OF_SCOPE, Judgement, Scope

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher
    from core.runtime.context import Context

log = logging.getLogger("refresh")

BATCH_REFS = 500
MOST_REFUSED = 1_000
"""Examples in one listing; a hostile sitemap could name millions."""
NOT_FOLLOWED = "nothing there is followed unless it is given as url"
STAY = "stay while they answer (crawl --yes lets go of those that nothing leads to)"
_SCOPE = "scope"
_ROOT, _LANDINGS = "root", "landings"


NamedSitemaps = Callable[[str], Awaitable[Sequence[str]]]
"""The sitemaps that the robots.txt of an origin names."""


class WebSource(Source):
    config_model = late_model("core.sources.web_config WebConfig")
    follows_links = True

    def __init__(
        self,
        fetcher: Fetcher,
        pool: ParsePool,
        scope: Scope,
        *,
        max_pages: int,
        sitemap: bool = True,
        named_sitemaps: NamedSitemaps | None = None,
        tracking_params: tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._scope = scope
        self._max_pages = max_pages
        self._sitemap = sitemap
        self._named_sitemaps = named_sitemaps
        self._tracking_params = tracking_params
        self._clock = clock
        self._warned: set[str] = set()

    @classmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        config = state.record.config
        return cls(
            context.fetcher,
            context.pool,
            _scope_of(state, now),
            max_pages=config["max_pages"],
            sitemap=config["sitemap"],
            named_sitemaps=context.fetcher.sitemaps_of,
            tracking_params=context.settings.tracking_param_prefixes,
        )

    @classmethod
    def judge(cls, state: SourceState, settings: Settings, address: str, depth: int, now: float) -> Judgement | None:
        return _scope_of(state, now).judge(address, depth)

    @classmethod
    def root(cls, config: Mapping[str, Any]) -> Ref | None:
        return Ref(config["url"])

    @property
    def scope(self) -> Scope:
        """Return what it covers; it follows its root where redirects lead."""
        return self._scope

    @property
    def notes(self) -> Mapping[str, str]:
        """Return where its root has led so far."""
        landings = self._scope.landings
        return {_ROOT: self._scope.root, _LANDINGS: " ".join(landings)} if landings else {}

    # ── listing ──

    async def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List the root, then the pages of every sitemap that changed; the listing is never complete."""
        yield ListingBatch((Ref(self._scope.root),))
        if not self._sitemap:
            yield ListingEnd(is_complete=False, reason=LINKS_DECIDE, memory=dict(memory))
            return
        # Another scope admits other pages: then everything is read again.
        remembered = memory if memory.get(_SCOPE) == self._scope.version else {}
        walk = SitemapWalk(self._fetcher, self._pool, remembered, self._tracking_params, self._clock)
        sitemap_filter = _SitemapFilter(self._scope, self._max_pages, {self._scope.root})
        origin = origin_of(self._scope.landing)
        first = await self._named_sitemaps(origin) if self._named_sitemaps else ()
        async with contextlib.aclosing(walk.pages(first or (f"{origin}/sitemap.xml",))) as sitemaps:
            async for pages in sitemaps:
                for batch in sitemap_filter.batches(pages, self._clock()):
                    if batch.refs or batch.refused:
                        yield batch
                    await asyncio.sleep(0)  # 50,000 addresses take a second; others want to work too
                if sitemap_filter.is_full:
                    break
        reason = "; ".join((LINKS_DECIDE, *walk.notes, *sitemap_filter.notes))
        yield ListingEnd(is_complete=False, reason=reason, memory={_SCOPE: self._scope.version, **walk.memory})

    def exclusion_reason(self, address: str) -> str:
        reason = self._scope.rejection_reason(address, 0)
        return reason if reason in OUT_OF_SCOPE else ""

    # ── fetching ──

    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Fetch one page; robots.txt and politeness are the fetcher's."""
        answer = await look_and_fetch(self._fetcher, item, page_request(item, conditional), slot)
        if isinstance(answer, Fetched) and answer.status < 400 and self._scope.is_root(item.fetch_url):
            self._check_root(answer.final_url)
        return answer

    def _check_root(self, url: str) -> None:
        """Note what the address alone tells: the root is back, or leads where no scope follows."""
        if self._scope.is_in_landing(url):
            return
        refusal = self._scope.landing_rejection_reason(url)
        if refusal:
            self._warn(f"the root leads to {display_url(url)}, {refusal}: {NOT_FOLLOWED}")
        elif self._scope.is_root(url):
            before = display_url(self._scope.landing)
            self._scope = self._scope.with_landing(self._scope.root)
            self._warn(f"the root answers at its own address again; pages of {before} {STAY}")

    def land(self, item: Item, answer: Fetched, links: Sequence[str]) -> str:
        """Follow the root to where it leads now; return why not, where the redirect is only temporary."""
        url = answer.final_url.partition("?")[0]
        is_elsewhere = self._scope.is_root(item.fetch_url) and not self._scope.is_in_landing(url)
        if not is_elsewhere or self._scope.is_root(url):
            return ""
        is_like_root = not is_login_or_error_url(url) and (
            answer.is_moved_for_good or self._scope.resembles_root(url, links)
        )
        is_refused = bool(self._scope.landing_rejection_reason(url))
        if is_refused or not is_like_root:
            shown = display_url(url)
            if not is_refused:  # else it was told when it answered
                self._warn(f"the root leads to {shown}, which does not look like the place itself: {NOT_FOLLOWED}")
            return "" if answer.is_moved_for_good else f"It leads to {shown} for now; what was there before is kept."
        before = display_url(self._scope.landing)
        self._scope = self._scope.with_landing(url)
        had_pages = item.has_text or bool(item.alias_of)
        stay = f"; pages of {before} {STAY}" if had_pages else ""
        self._warn(f"the root leads to {display_url(url)} now, and the scope follows it{stay}")
        return ""

    def _warn(self, news: str) -> None:
        self.news = news
        if news not in self._warned:
            self._warned.add(news)
            log.warning("↪️ %s: %s", display_url(self._scope.root), news)


def _scope_of(state: SourceState, now: float) -> Scope:
    config = state.record.config
    include, exclude = config.get("include", ()), config.get("exclude", ())
    landings = state.notes.get(_LANDINGS, "").split() if state.notes.get(_ROOT) == config["url"] else ()
    return Scope(config["url"], config["scope"], include, exclude, config["max_depth"], now=now, landings=landings)


@dataclass(slots=True)
class _SitemapFilter:
    """Sorts the pages of sitemaps into refs and refusals, and counts those out of scope."""

    scope: Scope
    max_pages: int
    taken: set[str]
    refused: int = 0
    outside: int = 0
    is_full: bool = False

    @property
    def notes(self) -> Sequence[str]:
        """Return what a person should know, as phrases."""
        outside = [f"{self.outside:,} pages of the sitemaps are out of scope"] if self.outside else []
        return [*outside, f"stopped at {self.max_pages:,} pages"] if self.is_full else outside

    def batches(self, pages: Sequence[Listed], fetched_ts: float) -> Iterator[ListingBatch]:
        """Yield the pages of one sitemap in batches; a batch may be empty."""
        versions = lastmod_versions([moment for _, moment in pages], fetched_ts)
        for start in range(0, len(pages), BATCH_REFS):
            some = slice(start, start + BATCH_REFS)
            yield self._batch([url for url, _ in pages[some]], versions[some])
            if self.is_full:
                return

    def _batch(self, addresses: Sequence[str], versions: Sequence[str]) -> ListingBatch:
        refs: list[Ref] = []
        refused: list[RejectedUrl] = []
        for address, version in zip(addresses, versions, strict=True):
            if address in self.taken:
                continue
            reason = self.scope.rejection_reason(address, depth=1)
            if reason in OUT_OF_SCOPE:
                self.outside += 1
            elif reason:
                refused += [RejectedUrl(address, reason)] if self.refused + len(refused) < MOST_REFUSED else []
            elif len(self.taken) >= self.max_pages:
                self.is_full = True
                break
            else:
                self.taken.add(address)
                refs.append(Ref(address, depth=1, version=version))
        self.refused += len(refused)
        return ListingBatch(tuple(refs), tuple(refused))
