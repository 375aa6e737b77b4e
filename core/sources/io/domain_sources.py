"""Find the sources of a domain: that which takes a URL, and those that the parameters of a crawl name."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from core.errors import FreshetError
from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io import source_kinds
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError, SourceRecord
from core.store.connect import Client
from core.urls.secrets import redact

log = logging.getLogger("crawler")


class NoSourceTakesIt(FreshetError):
    """No source of a domain takes an address."""


async def source_taking(
    settings: Settings, client: Client, keys: Keys, domain_id: str, address: str, now: float
) -> str:
    """Return the first source of the domain that takes the address; raise NoSourceTakesIt with all reasons.

    Judged by the configuration of the sources; none of them is opened.
    """
    sources, reasons = SourceStore(client, keys), []
    for sid in (await DomainStore(client, keys).require(domain_id)).sources:
        reason = await _reason(settings, sources, sid, address, now)
        if not reason:
            return sid
        reasons.append(f"{sid}: {reason}")
    raise NoSourceTakesIt(
        f"No source of {domain_id} takes {redact(address)[:200]} ({'; '.join(reasons)}). "
        "Add a source that covers it to the domain, or add it without a domain."
    )


async def _reason(settings: Settings, sources: SourceStore, sid: str, address: str, now: float) -> str:
    """Return why a source does not take an address; empty if it does."""
    try:
        state = await sources.read(sid)
        if state is None:
            return "is not there any more"
        state = replace(state, record=replace(state.record, sid=sid))
        kind = source_kinds.source_class(state.record.kind)
        judgement = kind.judge(state, settings, address, 0, now)
    except (DomainFileError, ValueError, KeyError) as error:
        return f"cannot be read ({error})"
    if judgement is None or not kind.follows_links:
        return "is of another place"
    return judgement.reason + (f" by {judgement.rule}" if judgement.reason and judgement.rule else "")


# ── by the parameters of a crawl ──


async def select_sources(context: Context, domain: StoredDomain, asked: CrawlParameters) -> list[str]:
    """Return the ids of the sources that are meant, in order; raise NotFound if one is named that is not there."""
    sids = [domain.source_id(asked.source_id)] if asked.source_id else list(domain.sources)
    if asked.source_types is not None:
        sids = [record.sid for record in await _records(context, sids) if asked.takes(record)]
    if StepName.DOWNLOAD not in asked.steps:  # only a source with copies can go on with them
        sids = await with_steps(context, sids)
    return sids


async def with_steps(context: Context, sids: Iterable[str]) -> list[str]:
    return [record.sid for record in await _records(context, sids) if source_kinds.has_steps(record.kind)]


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
