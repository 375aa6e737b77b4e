"""List all domains with their sources and counts, for `freshet domain list` and the API."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.registry import field_parsing
from core.runs.run import domain_scope
from core.sources.io import source_kinds
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.source_record import DomainFileError, SourceRecord
from core.store import connect
from core.store.commands import Command
from core.store.connect import Client
from core.store.pipeline import read_many
from core.urls.secrets import redact
from core.value_class import value_class

_FIELDS = ("kind", "config", "last_listed_ts", "last_listing", "held", "full")


@value_class
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
    """A sentence if it has as many items as it may have; empty: it has fewer."""
    interval_seconds: float | None
    """How often it is listed, if that was set."""
    gap_seconds: float | None
    """The gap between requests to its host, if that was set."""


@value_class
class DomainOverview:
    """A domain with its sources."""

    id: str
    name: str
    description: str
    sources: tuple[SourceOverview, ...]
    paused_since: str
    """Since when everything of it is paused; empty: it is not."""


async def read_domains(client: Client, keys: Keys, offset: int = 0, limit: int | None = None) -> list[DomainOverview]:
    """Return every domain, or a page of them, by id."""
    store = DomainStore(client, keys)
    domain_ids = (await store.ids())[offset : None if limit is None else offset + limit]
    return await _overviews(client, keys, await store.read_many(domain_ids))


async def read_domain(client: Client, keys: Keys, domain: StoredDomain) -> DomainOverview:
    return (await _overviews(client, keys, [domain]))[0]


async def _overviews(client: Client, keys: Keys, domains: Sequence[StoredDomain]) -> list[DomainOverview]:
    """Read all sources of these domains in one round trip."""
    now = await connect.now(client)
    sids = [sid for domain in domains for sid in domain.sources]
    commands: list[Command] = []
    for sid in sids:
        commands += [("HMGET", keys.source(sid), *_FIELDS), ("ZCARD", keys.refs(sid))]
        commands += [("ZCOUNT", keys.due(sid), "-inf", now)]
    *replies, paused = await read_many(client, [*commands, ("HGETALL", keys.runs_paused)])
    rows = zip(sids, replies[::3], replies[1::3], replies[2::3], strict=True)
    sources = {sid: _source(sid, details, int(items), int(due)) for sid, details, items, due in rows}
    return [
        DomainOverview(
            domain.id,
            domain.name,
            domain.description,
            tuple(sources[sid] for sid in domain.sources),
            str(paused.get(domain_scope(domain.id), "")),
        )
        for domain in domains
    ]


def _source(sid: str, details: Sequence[str | None], items: int, due: int) -> SourceOverview:
    kind, config, listed, listing, held, full = (value or "" for value in details)
    record = _record(config)
    return SourceOverview(
        id=sid,
        kind=kind,
        location=redact(source_kinds.location(record)) if record else "",
        items=items,
        due=due,
        last_listed_ts=field_parsing.timestamp(listed) or None,
        last_listing=listing,
        held=held,
        full=full,
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
