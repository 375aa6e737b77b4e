"""The sources this process works for, opened when first needed and again when their configuration changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import FreshetError
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Item
from core.runtime.context import Context
from core.sources.domains import DomainFileError, SourceConfig
from core.sources.io import table
from core.sources.io.protocol import Source, Tools
from core.sources.io.source_store import SourceState
from core.urls.scope import Scope

BUILT_IN = (ARTICLES_SOURCE, URLS_SOURCE)

log = logging.getLogger("refresh")


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source and what its items need to know of it."""

    sid: str
    source: Source
    state: SourceState | None = None
    """None for feeds and single URLs, which nobody lists."""

    @property
    def follows_links(self) -> bool:
        """Are pages of this source found by links?"""
        return self.source.follows_links

    @property
    def is_listing_evidence(self) -> bool:
        """Is what a complete listing lacks gone, and what it names there?"""
        return self.source.is_listing_evidence

    @property
    def scope(self) -> Scope | None:
        """Which links are followed; None where none are."""
        return self.source.scope


class OpenSources:
    """Opens sources by id."""

    def __init__(self, context: Context, now: float) -> None:
        self._context = context
        self._now = now
        self._open: dict[str, OpenSource | None] = {}
        self._notes: dict[str, Mapping[str, str]] = {}

    async def of(self, item: Item) -> OpenSource | None:
        """The source through which an item is fetched; None if all of its sources are gone.

        A site first: only through it the links of a page are followed that a feed has listed as well.
        """
        opened = [found for sid in item.sources if (found := await self._readable(sid))]
        return next((found for found in opened if found.follows_links), opened[0] if opened else None)

    async def _readable(self, sid: str) -> OpenSource | None:
        """The same as `open`; a source that is damaged is as good as none, and is named."""
        try:
            return await self.open(sid)
        except DomainFileError:  # its record was put aside, and named then
            self._open[sid] = None
            return None
        except FreshetError as error:
            log.warning("⚠️ %s Its items are left alone → %s", error, sid)
            self._open[sid] = None
            return None

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
        tools = Tools(self._context.settings, self._context.fetcher, self._context.pool, self._now)
        if sid in BUILT_IN:
            return OpenSource(sid, table.source_class(sid).open(SourceConfig(sid, sid, "", {}), tools, {}))
        state = await self._context.sources.read(sid)
        if state is None:
            return None
        try:
            source = table.source_class(state.config.kind).open(state.config, tools, state.notes)
        except (ValueError, KeyError) as error:
            raise FreshetError(f"{sid} cannot be opened: {error}") from error
        self._notes[sid] = state.notes
        return OpenSource(sid, source, state)

    async def keep_notes(self, found: OpenSource) -> None:
        """Store what a source has learnt about itself since it was opened."""
        notes = found.source.notes
        if found.state is not None and notes != self._notes[found.sid]:
            self._notes[found.sid] = notes
            await self._context.sources.keep_notes(found.sid, notes)

    def interval_seconds(self, found: OpenSource) -> float:
        """How often a source is listed."""
        stated = found.state.config.config.get("interval_seconds") if found.state else None
        return float(stated or found.source.list_seconds(self._context.settings))
