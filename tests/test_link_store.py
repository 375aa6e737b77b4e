"""Link sets age member by member; sightings keep alive what a feed still lists."""

from __future__ import annotations

import pytest

from core import ids
from core.feeds.io.link_store import LinkStore, Ttls
from core.keys import Keys
from core.store.commands import Command
from core.store.connect import Client
from core.store.leases import Leases

DAY = 86_400
NOW = 1_800_000_000.0
LIVES = Ttls(link=2 * DAY, attempted=30 * DAY, article=7 * DAY)
A, B, C = (f"https://news.example/{name}" for name in "abc")
UID = ids.article_uid(A)


@pytest.fixture
def links(any_redis: Client, keys: Keys) -> LinkStore:
    return LinkStore(any_redis, keys, LIVES)


async def run(client: Client, commands: list[Command]) -> None:
    leases = Leases(client, Keys())
    acquired = await leases.acquire("x")
    assert acquired
    assert await leases.commit(acquired[0], commands)


async def test_sighting_fills_set_and_stamps_with_a_life(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """Members, stamps and EXPIRE on both, in every category."""
    await run(any_redis, links.mark_seen(["world", "tech"], [A, B], NOW))

    for category in ("world", "tech"):
        assert await any_redis.smembers(keys.category_links(category)) == {A, B}
        assert await any_redis.zscore(keys.category_links_seen(category), A) == NOW
        assert 0 < await any_redis.ttl(keys.category_links(category)) <= 2 * DAY
        assert 0 < await any_redis.ttl(keys.category_links_seen(category)) <= 2 * DAY


async def test_links_age_one_by_one(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """A link not seen for 48 h goes; its neighbours stay."""
    await run(any_redis, links.mark_seen(["world"], [A], NOW))
    await run(any_redis, links.mark_seen(["world"], [B], NOW + DAY))
    removed = await links.prune("world", NOW + 2 * DAY + 1)

    assert removed == 1
    assert await any_redis.smembers(keys.category_links("world")) == {B}
    assert await any_redis.zrange(keys.category_links_seen("world"), 0, -1) == [B]


async def test_stamp_never_moves_back(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """A late writer with an old clock does not age a link."""
    await run(any_redis, links.mark_seen(["world"], [A], NOW))
    await run(any_redis, links.mark_seen(["world"], [A], NOW - DAY))

    assert await any_redis.zscore(keys.category_links_seen("world"), A) == NOW


async def test_link_added_by_hand_gets_a_stamp_and_a_life(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """SADD from redis-cli is enough: the next run stamps it, and it lives as long as others."""
    await any_redis.sadd(keys.category_links("world"), A)
    await links.prune("world", NOW)
    removed_early = await links.prune("world", NOW + DAY)
    removed_late = await links.prune("world", NOW + 2 * DAY + 1)

    assert (removed_early, removed_late) == (0, 1)


async def test_known_looks_everywhere(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """Known: listed by this feed before, in a link set, or attempted."""
    await any_redis.sadd("last_body", A)
    await any_redis.sadd(keys.category_links("tech"), B)
    await any_redis.sadd(keys.attempted, ids.article_uid(C))
    fresh = "https://news.example/fresh"

    assert await links.known(["world", "tech"], "last_body", [A, B, C, fresh]) == {A, B, C}


async def test_pruning_takes_all_in_batches(any_redis: Client, keys: Keys, links: LinkStore) -> None:
    """Thousands of stale links go in one call, a thousand per step."""
    await run(any_redis, links.mark_seen(["world"], [f"https://news.example/{i}" for i in range(2_500)], NOW))

    assert await links.prune("world", NOW + 3 * DAY) == 2_500
    assert await any_redis.exists(keys.category_links("world"), keys.category_links_seen("world")) == 0
