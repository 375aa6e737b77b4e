"""What a process knows of the subscriptions: in a large store they are read again only if they may have changed."""

from __future__ import annotations

import pytest

from core import ids
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscribed_feeds import SubscribedFeeds
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.settings import Settings
from core.store import scanning
from core.store.connect import Client

A, B = "https://a.example/feed", "https://b.example/feed"
MANY = [f"https://many.example/{n}" for n in range(scanning.SMALL_STORE_KEYS)]


@pytest.fixture
async def subscribed(redis: Client, keys: Keys, settings: Settings) -> SubscribedFeeds:
    """One feed in a large store, read and not due."""
    await redis.sadd(keys.feeds("many"), *MANY)
    await redis.sadd(keys.categories, "many")
    subscriptions = Subscriptions(redis, keys)
    await subscriptions.add("world", A)
    made = SubscribedFeeds(redis, keys, subscriptions, FeedStore(redis, keys, Ttls.of(settings)))
    await made.read()
    assert set(await made.due(1.0)) == {A, *MANY}
    await redis.zadd(keys.feeds_due, dict.fromkeys(map(ids.feed_id, (A, *MANY)), 1e9))
    return made


async def test_nothing_is_read_again(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """A cycle with nothing new reads no set of feeds."""
    before = (await redis.info("commandstats"))["cmdstat_smembers"]["calls"]
    read, due = await subscribed.read(), await subscribed.due(1.0)
    after = (await redis.info("commandstats"))["cmdstat_smembers"]["calls"]

    assert (read[A], len(read), due) == (["world"], 1 + len(MANY), [])
    assert after - before == 1  # the names of the categories


async def test_feed_added_by_hand_is_due(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """SADD is enough."""
    await redis.sadd(keys.feeds("world"), B)

    assert (await subscribed.read())[B] == ["world"]
    assert await subscribed.due(1.0) == [B]


async def test_feed_exchanged_by_a_command_is_due(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """As many feeds as before, and another one among them; the old one has left the schedule."""
    subscriptions = Subscriptions(redis, keys)
    await subscriptions.remove(A)
    await subscriptions.add("world", B)
    await subscribed.read()

    assert await subscribed.due(1.0) == [B]
    assert {A, B} & subscribed.categories.keys() == {B}
    assert await redis.zmscore(keys.feeds_due, [ids.feed_id(A), ids.feed_id(B)]) == [None, 0]


async def test_feed_that_nobody_subscribes_to_leaves_the_schedule(
    redis: Client, keys: Keys, subscribed: SubscribedFeeds
) -> None:
    """Removed by hand from its only category."""
    await redis.srem(keys.feeds("world"), A)
    await subscribed.read()

    assert await subscribed.due(1.0) == []
    assert await redis.zscore(keys.feeds_due, ids.feed_id(A)) is None
