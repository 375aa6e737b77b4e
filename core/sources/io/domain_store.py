"""Domains in Redis, with the ids of their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import NotFound
from core.keys import Keys
from core.sources.domain_schema import Domain
from core.store.connect import Client, HashFields, texts
from core.store.pipeline import read_many

FIELDS = ("name", "description", "sources", "config")


@dataclass(frozen=True, slots=True)
class StoredDomain:
    """A domain as it is stored."""

    id: str
    name: str = ""
    description: str = ""
    sources: tuple[str, ...] = ()
    """Ids of its sources; with those that are being removed, until they are."""
    config: str = ""

    def source_id(self, name: str) -> str:
        """Return the full id of a source of this domain, from that or from its own name; raise NotFound if none."""
        sid = name if name in self.sources else f"{self.id}.{name}"
        if sid not in self.sources:
            names = ", ".join(one.partition(".")[2] for one in self.sources)
            raise NotFound(f"{self.id} has no source {name}; it has {names}.")
        return sid


class DomainStore:
    """Reads and writes `kb:<id>`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def ids(self) -> list[str]:
        """Return the ids of all domains."""
        return sorted(texts(await self._client.smembers(self._keys.domains)))

    async def read(self, domain_id: str) -> StoredDomain | None:
        """Return a domain, or None."""
        found = await self.read_many([domain_id])
        return found[0] if found else None

    async def read_many(self, domain_ids: Sequence[str]) -> list[StoredDomain]:
        """Return those of these domains that are there, in one round trip."""
        rows = await read_many(self._client, [("HMGET", self._keys.domain(one), *FIELDS) for one in domain_ids])
        return [_stored(one, values) for one, values in zip(domain_ids, rows, strict=True) if any(values)]

    async def require(self, domain_id: str) -> StoredDomain:
        """Return a domain; raise NotFound if there is none of that id."""
        domain = await self.read(domain_id)
        if domain is None:
            raise NotFound(f"There is no domain {domain_id}. `python -m scripts.domain list` shows what there is.")
        return domain

    async def save(self, domain: Domain, sources: Sequence[str], now: float) -> None:
        """Store a domain with these sources, new or changed."""
        fields: HashFields = {
            "id": domain.id,
            "name": domain.name,
            "description": domain.description,
            "config": domain.model_dump_json(),
            "sources": ",".join(sources),
            "updated_ts": f"{now:.3f}",
        }
        key = self._keys.domain(domain.id)
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.hsetnx(key, "added_ts", f"{now:.3f}")
            pipe.sadd(self._keys.domains, domain.id)
            await pipe.execute()

    async def remove(self, domain_id: str) -> None:
        """Remove the domain itself and its state; its sources are the caller's to remove."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(self._keys.domain(domain_id), self._keys.kb_state(domain_id))
            pipe.srem(self._keys.domains, domain_id)
            await pipe.execute()


def _stored(domain_id: str, values: Sequence[str | None]) -> StoredDomain:
    name, description, sources, config = (value or "" for value in values)
    return StoredDomain(domain_id, name, description, tuple(filter(None, sources.split(","))), config)
