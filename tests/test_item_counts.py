"""How many items of a source have each status, without reading them all."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.registry.record import Status
from core.sources.io import item_counts
from core.sources.io.item_counts import ItemCounts
from core.store.connect import Client

SID = "docs.site"


async def add(redis: Client, keys: Keys, status: Status, ids: list[str], sid: str = SID) -> None:
    await redis.sadd(keys.status(str(status)), *ids)
    await redis.zadd(keys.refs(sid), dict.fromkeys(ids, 0))
    for item_id in ids:
        fields = {"status": str(status), "displaySource": f"http://e.org/{item_id}", "errorMessage": "It broke."}
        await redis.hset(keys.item(item_id), mapping=fields)


async def test_items_are_counted_by_status(redis: Client, keys: Keys) -> None:
    """Only those of the source, in the order of their life; a status without items is left out."""
    await add(redis, keys, Status.INDEXED, [f"url_{number}" for number in range(5)])
    await add(redis, keys, Status.ERROR, ["url_bad", "url_worse"])
    await add(redis, keys, Status.ERROR, ["url_else"], "other.site")
    found = await ItemCounts(redis, keys).by_status(SID)
    troubled = await ItemCounts(redis, keys).in_trouble(SID, Status.ERROR, 5)

    assert (dict(found.counts), found.is_estimate) == ({"Indexed": 5, "Error": 2}, False)
    assert sorted(troubled) == [("http://e.org/url_bad", "It broke."), ("http://e.org/url_worse", "It broke.")]


@pytest.mark.parametrize(("indexed", "pending", "is_estimate"), [(40, 3, False), (40, 40, True)])
async def test_large_sources_are_not_compared_whole(
    redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch, indexed: int, pending: int, is_estimate: bool
) -> None:
    """One large status is what the small ones leave; of two, a sample tells the shares."""
    monkeypatch.setattr(item_counts, "MOST_COMPARED", 10)
    await add(redis, keys, Status.INDEXED, [f"url_i{number}" for number in range(indexed)])
    await add(redis, keys, Status.PENDING, [f"url_p{number}" for number in range(pending)])
    await add(redis, keys, Status.GONE, ["url_gone"])
    found = await ItemCounts(redis, keys).by_status(SID)

    assert dict(found.counts) == {"Pending": pending, "Indexed": indexed, "Gone": 1}
    assert found.is_estimate is is_estimate


async def test_nothing_is_there(redis: Client, keys: Keys) -> None:
    """A source without items has no counts."""
    found = await ItemCounts(redis, keys).by_status(SID)

    assert dict(found.counts) == {}
    assert await ItemCounts(redis, keys).in_trouble(SID, Status.ERROR, 5) == []
