"""Select the sources of a domain that a crawl's parameters name."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from core.runtime.context import Context
from core.sources.crawl_parameters import CrawlParameters
from core.sources.io.domain_store import StoredDomain
from core.sources.io.source_kinds import has_steps
from core.sources.sharepoint.step_names import StepName
from core.sources.source_record import DomainFileError, SourceRecord

log = logging.getLogger("crawler")


async def select_sources(context: Context, domain: StoredDomain, asked: CrawlParameters) -> list[str]:
    """Return the ids of the sources that are meant, in order; raise NotFound if one is named that is not there."""
    sids = [domain.source_id(asked.source_id)] if asked.source_id else list(domain.sources)
    if asked.source_types is not None:
        sids = [record.sid for record in await _records(context, sids) if asked.takes(record)]
    if StepName.DOWNLOAD not in asked.steps:  # only a source with copies can go on with them
        sids = await with_steps(context, sids)
    return sids


async def with_steps(context: Context, sids: Iterable[str]) -> list[str]:
    return [record.sid for record in await _records(context, sids) if has_steps(record.kind)]


async def _records(context: Context, sids: Iterable[str]) -> list[SourceRecord]:
    """Return what is stored of these sources; one that cannot be read is named and left out."""
    found = []
    for sid in sids:
        try:
            state = await context.sources.read(sid)
        except DomainFileError as error:
            log.error("❌ Skipped %s → %s", sid, error)
            continue
        found += [state.record] if state else []
    return found
