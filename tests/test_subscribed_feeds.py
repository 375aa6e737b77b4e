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


@pytest.fixture
async def subscribed(redis: Client, keys: Keys, settings: Settings) -> SubscribedFeeds:
    """One feed in a large store, read and not due."""
    await redis.mset({f"filler:{n}": "" for n in range(scanning.SMALL_STORE_KEYS)})
    subscriptions = Subscriptions(redis, keys)
    await subscriptions.add("world", A)
    made = SubscribedFeeds(redis, keys, subscriptions, FeedStore(redis, keys, Ttls.of(settings)))
    await made.read()
    assert await made.due(1.0) == [A]
    await redis.zadd(keys.feeds_due, {ids.feed_id(A): 1e9})
    return made


async def test_nothing_is_read_again(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """A cycle with nothing new reads no set of feeds."""
    before = (await redis.info("commandstats"))["cmdstat_smembers"]["calls"]
    read, due = await subscribed.read(), await subscribed.due(1.0)
    after = (await redis.info("commandstats"))["cmdstat_smembers"]["calls"]

    assert (read, due) == ({A: ["world"]}, [])
    assert after - before == 1  # the names of the categories


async def test_feed_added_by_hand_is_due(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """SADD is enough."""
    await redis.sadd(keys.feeds("world"), B)

    assert (await subscribed.read(), await subscribed.due(1.0)) == ({A: ["world"], B: ["world"]}, [B])


async def test_feed_exchanged_by_a_command_is_due(redis: Client, keys: Keys, subscribed: SubscribedFeeds) -> None:
    """As many feeds as before, and another one among them; the old one has left the schedule."""
    subscriptions = Subscriptions(redis, keys)
    await subscriptions.remove(A)
    await subscriptions.add("world", B)
    await subscribed.read()

    assert await subscribed.due(1.0) == [B]
    assert subscribed.categories == {B: ["world"]}
    assert await redis.zrange(keys.feeds_due, 0, -1) == [ids.feed_id(B)]


async def test_feed_that_nobody_subscribes_to_leaves_the_schedule(
    redis: Client, keys: Keys, subscribed: SubscribedFeeds
) -> None:
    """Removed by hand from its only category."""
    await redis.srem(keys.feeds("world"), A)
    await subscribed.read()

    assert await subscribed.due(1.0) == []
    assert await redis.zcard(keys.feeds_due) == 0
