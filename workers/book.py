"""The sources this process works for, opened when first needed and again when their configuration changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.errors import FreshetError
from core.models import SourceKind
from core.registry import ARTICLES_SOURCE, URLS_SOURCE, Item
from core.scope import Scope
from core.sources.folder import FolderSource
from core.sources.pages import PageSource
from core.sources.protocol import Source
from core.sources.web import WebSource
from core.stores.sources import SourceState
from workers.desk import Desk

BUILT_IN = (ARTICLES_SOURCE, URLS_SOURCE)


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source and what its items need to know of it."""

    sid: str
    kind: SourceKind
    source: Source
    state: SourceState | None = None
    """None for feeds and single URLs, which nobody lists."""
    scope: Scope | None = None
    """Of a web site: which links are followed."""

    @property
    def follows_links(self) -> bool:
        """Are pages of this source found by links?"""
        return self.scope is not None

    @property
    def is_listing_evidence(self) -> bool:
        """Is what a complete listing lacks gone, and what it names there?"""
        return self.kind in (SourceKind.FOLDER, SourceKind.GITHUB)


class Book:
    """Opens sources by id."""

    def __init__(self, desk: Desk, now: float) -> None:
        self._desk = desk
        self._now = now
        self._open: dict[str, OpenSource | None] = {}

    async def of(self, item: Item) -> OpenSource | None:
        """The source through which an item is fetched; None if all of its sources are gone.

        A site first: only through it the links of a page are followed that a feed has listed as well.
        """
        opened = [found for sid in item.sources if (found := await self.open(sid))]
        return next((found for found in opened if found.follows_links), opened[0] if opened else None)

    async def open(self, sid: str) -> OpenSource | None:
        """A source, or None if there is none of that id."""
        if sid not in self._open:
            self._open[sid] = await self._read(sid)
        return self._open[sid]

    async def reopen(self, sid: str) -> OpenSource | None:
        """The same, as it is stored now."""
        self._open.pop(sid, None)
        return await self.open(sid)

    async def _read(self, sid: str) -> OpenSource | None:
        if sid in BUILT_IN:
            return OpenSource(sid, SourceKind(sid), PageSource(self._desk.fetcher, self._desk.settings))
        state = await self._desk.sources.read(sid)
        if state is None:
            return None
        try:
            return self._opened(state)
        except ValueError as error:
            raise FreshetError(f"{sid} cannot be opened: {error}") from error

    def _opened(self, state: SourceState) -> OpenSource:
        desk, settings, config = self._desk, self._desk.settings, dict(state.config.config)
        include, exclude = config.get("include", ()), config.get("exclude", ())
        kind, scope = state.config.kind, None
        source: Source
        match kind:
            case SourceKind.WEB:
                scope = Scope(config["url"], config["scope"], include, exclude, config["max_depth"], now=self._now)
                source = WebSource(
                    desk.fetcher,
                    desk.pool,
                    scope,
                    max_pages=config["max_pages"],
                    sitemap=config["sitemap"],
                    named_sitemaps=desk.fetcher.sitemaps_of,
                    tracking_params=settings.tracking_param_prefixes,
                )
            case SourceKind.FOLDER:
                source = FolderSource(Path(config["path"]), include, exclude, max_bytes=settings.fetch_max_bytes)
            case SourceKind.GITHUB:
                from core.sources.github import GithubSource  # a site needs none of it

                source = GithubSource(settings, desk.fetcher, config["repo"], config["branch"], include, exclude)
            case _:
                raise ValueError(f"there is no source of the kind {kind}")
        return OpenSource(state.sid, kind, source, state, scope)

    def interval_seconds(self, found: OpenSource) -> float:
        """How often a source is listed."""
        settings = self._desk.settings
        stated = found.state.config.config.get("interval_seconds") if found.state else None
        by_kind = {SourceKind.FOLDER: settings.folder_list_seconds, SourceKind.GITHUB: settings.github_list_seconds}
        return float(stated or by_kind.get(found.kind, settings.crawl_base_interval_seconds))
