"""Articles, aliases and failures as the store writes them, and how sightings keep them alive."""

from __future__ import annotations

import pytest

from core import ids
from core.feeds.io.link_store import LinkStore, Ttls
from core.keys import Keys
from core.registry.io.article_store import ArticleStore
from core.store.commands import Command
from core.store.connect import Client
from core.store.leases import Leases

DAY = 86_400
NOW = 1_800_000_000.0
LIVES = Ttls(link=2 * DAY, attempted=30 * DAY, article=7 * DAY)
A, B, C = (f"https://news.example/{name}" for name in "abc")
UID = ids.article_uid(A)


@pytest.fixture
def articles(any_redis: Client, keys: Keys) -> ArticleStore:
    return ArticleStore(any_redis, keys, LIVES)


@pytest.fixture
def links(any_redis: Client, keys: Keys) -> LinkStore:
    return LinkStore(any_redis, keys, LIVES)


async def run(client: Client, commands: list[Command]) -> None:
    leases = Leases(client, Keys())
    acquired = await leases.acquire("x")
    assert acquired
    assert await leases.commit(acquired[0], commands)


async def store_article(client: Client, keys: Keys, uid: str, at: float) -> None:
    await client.hset(keys.article(uid), mapping={"uid": uid, "categories": "world"})
    await client.expire(keys.article(uid), 100)
    await client.sadd(keys.attempted, uid)
    await client.zadd(keys.attempted_at, {uid: at})


async def test_sighting_renews_a_success(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """An article whose feed still lists it keeps its life and its place in memory."""
    await store_article(any_redis, keys, UID, NOW)
    await run(any_redis, await articles.renewal(["world"], [A], NOW + DAY))

    assert await any_redis.zscore(keys.attempted_at, UID) == NOW + DAY
    assert await any_redis.ttl(keys.article(UID)) > 6 * DAY


async def test_sighting_renews_through_an_alias(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """The listed URL is only another name of the article: article, alias and both memories live on."""
    target = ids.article_uid(B)
    await store_article(any_redis, keys, target, NOW)
    await any_redis.set(keys.alias(UID), target, ex=100)
    await any_redis.sadd(keys.attempted, UID)
    await any_redis.zadd(keys.attempted_at, {UID: NOW})
    await run(any_redis, await articles.renewal(["world"], [A], NOW + DAY))

    assert await any_redis.ttl(keys.article(target)) > 6 * DAY
    assert await any_redis.ttl(keys.alias(UID)) > 6 * DAY
    assert await any_redis.zmscore(keys.attempted_at, [UID, target]) == [NOW + DAY, NOW + DAY]


async def test_sighting_does_not_renew_a_failure(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """A failure ages from its attempt, so that it is tried again after 30 days."""
    await any_redis.sadd(keys.attempted, UID)
    await any_redis.zadd(keys.attempted_at, {UID: NOW})

    assert await articles.renewal(["world"], [A], NOW + DAY) == []


async def test_day_31(any_redis: Client, keys: Keys, articles: ArticleStore, links: LinkStore) -> None:
    """An entry still in its feed after 30 days is not new; one that left does not linger."""
    stays, left = UID, ids.article_uid(B)
    for uid in (stays, left):
        await store_article(any_redis, keys, uid, NOW)
        await any_redis.persist(keys.article(uid))  # the server's own clock does not move in this test
    for day in range(32):
        now = NOW + day * DAY
        seen = [A, B] if day == 0 else [A]
        await run(any_redis, links.mark_seen(["world"], seen, now) + await articles.renewal(["world"], seen, now))
        await links.prune("world", now)
        await links.prune_attempted(now)

    assert await links.known(["world"], "last_body", [A, B]) == {A}
    assert await any_redis.smembers(keys.attempted) == {stays}
    assert await any_redis.smembers(keys.category_links("world")) == {A}


async def test_sighting_in_another_category_enters_it(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """A stored article listed by a feed of a second category is found there too."""
    await store_article(any_redis, keys, UID, NOW)
    await articles.renewal(["tech", "world"], [A], NOW)

    assert await any_redis.smembers(keys.articles_by_category("tech")) == {UID}
    assert await any_redis.hget(keys.article(UID), "categories") == "world,tech"


async def test_new_category_is_told_once(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """Search follows the events, and its filters are those of now."""
    await store_article(any_redis, keys, UID, NOW)
    await any_redis.hset(keys.article(UID), "item_id", "url_a")
    for _ in range(2):
        assert await articles.enter_categories(UID, ["world", "sports"])
    told = [fields for _, fields in await any_redis.xrange(keys.events)]

    assert told == [{"type": "item.listed", "id": "url_a"}]


async def test_gone_article_enters_nothing(any_redis: Client, keys: Keys, articles: ArticleStore) -> None:
    """An article that expired meanwhile does not come back as a hash with one field."""
    assert not await articles.enter_categories(UID, ["world"])
    assert await any_redis.exists(keys.article(UID), keys.articles_by_category("world")) == 0
