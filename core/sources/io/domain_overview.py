"""All domains with their sources and how much is in them: what `freshet domain list` and the API show."""

from __future__ import annotations

from dataclasses import dataclass

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import DueItems
from core.sources.domain_schema import DomainFileError, SourceRecord
from core.sources.io import source_kinds
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.urls.secrets import redact


@dataclass(frozen=True, slots=True)
class SourceOverview:
    """A source of a domain. Every value can be written as JSON."""

    id: str
    """`<domain>.<name>`."""
    kind: str
    location: str
    """Its URL, folder or repository."""
    items: int
    due: int
    """Items that are to be checked now."""
    last_listed_ts: float | None
    last_listing: str
    """How its last listing ended; empty: it was never listed."""
    held: str
    """Why it removes nothing until a person has looked; empty: it is not held."""
    full: str
    """That it has as many items as it may have; empty: it has fewer."""
    interval_seconds: float | None
    """How often it is listed, if that was set."""
    gap_seconds: float | None
    """The gap between requests to its host, if that was set."""


@dataclass(frozen=True, slots=True)
class DomainOverview:
    """A domain with its sources."""

    id: str
    name: str
    description: str
    sources: tuple[SourceOverview, ...]


async def read_domains(client: Client, keys: Keys) -> list[DomainOverview]:
    """Return every domain, by id."""
    domains = DomainStore(client, keys)
    found = [await domains.read(domain_id) for domain_id in await domains.ids()]
    return [await read_domain(client, keys, domain) for domain in found if domain]


async def read_domain(client: Client, keys: Keys, domain: StoredDomain) -> DomainOverview:
    """Return one domain."""
    now = await connect.now(client)
    sources = [await _source(client, keys, sid, now) for sid in domain.sources]
    return DomainOverview(domain.id, domain.name, domain.description, tuple(sources))


async def _source(client: Client, keys: Keys, sid: str, now: float) -> SourceOverview:
    details = await SourceStore(client, keys).details(sid)
    record = _record(details.get("config", ""))
    return SourceOverview(
        id=sid,
        kind=details.get("kind", ""),
        location=redact(source_kinds.location(record)) if record else "",
        items=await SourceItems(client, keys).count(sid),
        due=await DueItems(client, keys).count(sid, now),
        last_listed_ts=field_parsing.timestamp(details.get("last_listed_ts")) or None,
        last_listing=details.get("last_listing", ""),
        held=details.get("held", ""),
        full=details.get("full", ""),
        interval_seconds=record.config.get("interval_seconds") if record else None,
        gap_seconds=record.gap_seconds if record else None,
    )


def _record(text: str) -> SourceRecord | None:
    """Return a source of a kind that this version knows; None for any other."""
    try:
        record = SourceRecord.from_json(text)
        source_kinds.source_class(record.kind)
    except (DomainFileError, ValueError):
        return None
    return record
