"""The sources that a run or job works for, each opened when first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from core.errors import FreshetError
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Item
from core.runtime.context import Context
from core.sources.io import source_kinds
from core.sources.io.source import Source
from core.sources.source_record import DomainFileError, SourceRecord, SourceState

BUILT_IN = (ARTICLES_SOURCE, URLS_SOURCE)

log = logging.getLogger("refresh")


class OpenSources:
    def __init__(self, context: Context, now: float) -> None:
        self._context = context
        self._now = now
        self._open: dict[str, Source | None] = {}
        self._notes: dict[str, Mapping[str, str]] = {}
        self._opening = asyncio.Lock()
        self._intervals: dict[tuple[str, ...], float | None] = {}
        """By the sources of an item: asked for every visit, and the same for nearly all of them."""

    async def for_item(self, item: Item, via: str = "") -> Source | None:
        """Return the source through which an item is fetched; None if all of its sources are gone.

        A site first: only through it the links of a page are followed that a feed has listed as well. Then a source
        with a copy of its own, before others the one that is visited (`via`): the copies may differ.
        """
        opened = [source for sid in item.sources if (source := await self._readable(sid))]
        if len(opened) < 2:
            return opened[0] if opened else None
        if site := next((source for source in opened if source.follows_links), None):
            return site
        for source in sorted(opened, key=lambda one: one.sid != via):
            if await source.has_copy(item):
                return source
        return next((source for source in opened if source.sid == via and source.has_steps), opened[0])

    async def recheck_seconds(self, item: Item) -> float | None:
        """Return the shortest interval that a source of the item asks for; None if none does."""
        if item.sources not in self._intervals:
            opened = [source for sid in item.sources if (source := await self._readable(sid))]
            wanted = (seconds for source in opened if (seconds := source.recheck_seconds))
            self._intervals[item.sources] = min(wanted, default=None)
        return self._intervals[item.sources]

    async def _readable(self, sid: str) -> Source | None:
        """Open a source; one that is damaged is logged, and as good as none."""
        if sid in self._open:
            return self._open[sid]
        try:
            return await self.open(sid)
        except FreshetError as error:
            if not isinstance(error, DomainFileError):  # else its record was quarantined, and that was logged
                log.warning("⚠️ %s Its items are left alone → %s", error, sid)
            self._open[sid] = None
            return None

    async def open(self, sid: str) -> Source | None:
        if sid not in self._open:
            async with self._opening:  # the first hundred visits begin at once, and each would read it
                if sid not in self._open:
                    self._open[sid] = await self._read(sid)
        return self._open[sid]

    async def require(self, sid: str) -> Source:
        """Return a source of a domain; raise FreshetError if there is none of that id."""
        source = await self.open(sid)
        if source is None or source.is_built_in:
            raise FreshetError(f"There is no source {sid}. `python -m scripts.domain list` shows what there is.")
        return source

    async def _read(self, sid: str) -> Source | None:
        if sid in BUILT_IN:
            state: SourceState | None = SourceState(SourceRecord(sid, sid, "", {}))
        else:
            state = await self._context.sources.read(sid)
        if state is None:
            return None
        # The id it is stored under counts, whatever its record says.
        state = replace(state, record=replace(state.record, sid=sid))
        try:
            source = source_kinds.source_class(state.record.kind).open(state, self._context, self._now)
        except (ValueError, KeyError) as error:
            raise FreshetError(f"{sid} cannot be opened: {error}") from error
        self._notes[sid] = state.notes
        source.state = state
        return source

    async def keep_notes(self, source: Source) -> None:
        """Store what a source has learnt about itself since it was opened."""
        notes = source.notes
        if notes != self._notes[source.sid]:
            self._notes[source.sid] = notes
            await self._context.sources.keep_notes(source.sid, notes)
