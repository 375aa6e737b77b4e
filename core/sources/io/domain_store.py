"""Domains in Redis, with the ids of their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.errors import NotFound
from core.keys import Keys
from core.registry import field_parsing
from core.store.connect import Client, HashFields, texts
from core.store.pipeline import read_many
from core.value_class import value_class

if TYPE_CHECKING:
    from core.sources.domain_schema import Domain  # whose models take pydantic, which reading a domain does not

FIELDS = ("name", "description", "sources", "config", "file_digest", "configured_ts")


@value_class
class VectorStoreChoice:
    name: str
    id: str
    """Empty: there is none yet."""
    index: str
    """`redis` or `openai`."""


@value_class
class StoredDomain:
    id: str
    name: str = ""
    description: str = ""
    sources: tuple[str, ...] = ()
    """Ids of its sources; with those that are being removed, until they are."""
    config: str = ""
    file_digest: str = ""
    """Digest of the domain.json that it was read from or written to."""
    configured_ts: float = 0.0
    """When it got the configuration that it has."""

    @property
    def vector_store(self) -> VectorStoreChoice:
        read = field_parsing.mapping(self.config)
        name, store_id, index = (str(read.get(key, "")) for key in ("vector_store_name", "vector_store_id", "index"))
        return VectorStoreChoice(name or self.id, store_id, index or "redis")

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
        return sorted(texts(await self._client.smembers(self._keys.domains)))

    async def read(self, domain_id: str) -> StoredDomain | None:
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
            raise no_domain(domain_id)
        return domain

    async def save(self, domain: Domain, sources: Sequence[str], now: float, file_digest: str | None = None) -> None:
        """Store a domain with these sources, new or changed; `file_digest` at the end, when nothing is left to do."""
        fields: HashFields = {
            "id": domain.id,
            "name": domain.name,
            "description": domain.description,
            "config": domain.model_dump_json(),
            "sources": ",".join(sources),
            "updated_ts": f"{now:.3f}",
        }
        if file_digest is not None:
            fields |= {"file_digest": file_digest, "configured_ts": f"{now:.3f}"}
        key = self._keys.domain(domain.id)
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.hsetnx(key, "added_ts", f"{now:.3f}")
            pipe.sadd(self._keys.domains, domain.id)
            await pipe.execute()

    async def set_config(self, domain: Domain, file_digest: str) -> None:
        """Store what a domain.json of this digest says of the domain itself; its sources are as they were."""
        fields: HashFields = {"config": domain.model_dump_json(), "file_digest": file_digest}
        await self._client.hset(self._keys.domain(domain.id), mapping=fields)

    async def remove(self, domain_id: str) -> None:
        """Remove the domain itself and its state; its sources are the caller's to remove."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(self._keys.domain(domain_id), self._keys.kb_state(domain_id))
            pipe.srem(self._keys.domains, domain_id)
            await pipe.execute()


def no_domain(domain_id: str) -> NotFound:
    return NotFound(f"There is no domain {domain_id}. `python -m scripts.domain list` shows what there is.")


def _stored(domain_id: str, values: Sequence[str | None]) -> StoredDomain:
    name, description, sources, config, digest, configured = (value or "" for value in values)
    sids, configured_ts = tuple(filter(None, sources.split(","))), field_parsing.timestamp(configured)
    return StoredDomain(domain_id, name, description, sids, config, digest, configured_ts)
