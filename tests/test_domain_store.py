"""Domains in Redis."""

from __future__ import annotations

from core.keys import Keys
from core.sources.io.domain_file import parse_quick
from core.sources.io.domain_store import DomainStore
from core.store.connect import Client


async def test_what_is_saved_is_read(redis: Client, keys: Keys) -> None:
    """A domain keeps its name, its sources and its configuration."""
    store, domain = DomainStore(redis, keys), parse_quick("https://docs.example.org/guide/", "/")
    await store.save(domain, ["a.b", "a.c"], 1000.0)
    found = await store.read(domain.id)

    assert found is not None
    assert (found.id, found.sources) == ("docs-example-org-guide", ("a.b", "a.c"))
    assert '"https://docs.example.org/guide/"' in found.config
    assert await store.ids() == [domain.id]


async def test_saving_again_keeps_when_it_was_added(redis: Client, keys: Keys) -> None:
    """The first time counts as the time it was added."""
    store, domain = DomainStore(redis, keys), parse_quick("https://docs.example.org/", "/")
    await store.save(domain, ["a.b"], 1000.0)
    await store.save(domain, ["a.c"], 2000.0)

    assert await redis.hmget(keys.domain(domain.id), ["added_ts", "updated_ts"]) == ["1000.000", "2000.000"]
    assert (await store.read(domain.id)).sources == ("a.c",)  # type: ignore[union-attr]


async def test_a_removed_domain_is_none(redis: Client, keys: Keys) -> None:
    """Nothing is left of it, and removing it again changes nothing."""
    store, domain = DomainStore(redis, keys), parse_quick("/srv/docs", "/")
    await store.save(domain, [], 1000.0)
    await store.remove(domain.id)
    await store.remove(domain.id)

    assert await store.read(domain.id) is None
    assert await redis.keys("*") == []
