"""List a source and register what it names: the first part of a pass, once per run."""

from __future__ import annotations

import logging
from collections.abc import Callable

from core.models import ListingBatch, ListingEnd
from core.registry.io.registrar import Listing
from core.runs.run import Run
from core.runtime.context import Context
from core.sources.io import crawl_result
from core.sources.io.source import Source
from core.sources.io.unlisted_items import UNLISTED
from core.store.clock import ServerClock
from core.value_class import value_class

log = logging.getLogger("refresh")


@value_class
class CrawlListing:
    context: Context
    source: Source
    clock: ServerClock
    run: Run
    should_stop: Callable[[], bool]

    @property
    def sid(self) -> str:
        return self.source.sid

    async def register_all(self) -> ListingEnd | None:
        """Register what the source lists; return how that ended, None if it was cut short.

        A listing of this run that came to its end is not made again.
        """
        oldest = self.clock.now() - self.source.interval_seconds(self.context.settings)
        end = await self.context.sources.kept_listing(self.sid, self.run.id, oldest)
        if end is not None or self.should_stop():
            return end
        source = self.source
        listing = Listing(
            self.sid,
            most=source.most_items,
            revives=source.is_listing_evidence,
            believes_versions=source.is_listing_evidence or source.state.lastmod_trust.is_trusted,
            must_exist=True,
        )
        async for part in source.list(source.state.memory):
            if self.should_stop():
                return None  # an end that comes now may be one that the stop has made
            if isinstance(part, ListingEnd):
                if not crawl_result.is_listing_incomplete(source, part):
                    await self.context.sources.keep_listing(self.sid, self.run.id, part, self.clock.now())
                return part
            await self._register(part, listing)
        return None

    async def _register(self, part: ListingBatch, listing: Listing) -> None:
        registered = await self.context.registrar.register(part.refs, listing, self.clock.now())
        await self.context.sources.add_refused(self.sid, part.refused)
        for refused in part.refused[:5]:
            log.warning("🚫 %s → %s", refused.reason, refused.url)
        if registered.left_out:
            await self.context.sources.mark_full(self.sid, listing.most)
        if self.source.follows_links and part.refs:
            named = [*registered.new, *registered.moved, *registered.known]
            await self.context.source_items.mark_listed(self.sid, named)
        await self.count_discovered()

    async def count_discovered(self) -> None:
        """Count what the source has, and what this run removed from it: that was known, and perhaps visited."""
        unlisted = int((await self.context.runs.fields(self.run.id)).get(UNLISTED, "0"))
        known = await self.context.source_items.count(self.sid) + unlisted
        await self.context.runs.update(self.run.id, {"discovered": str(known)})
