"""Categories and feeds by file, by hand, by import; and the sample that steps aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import ids
from core.feeds.io.subscription_sync import SubscriptionSync
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.settings import Settings
from core.store.connect import Client

A, B, C = (f"https://{name}.example/feed" for name in "abc")


@pytest.fixture
def subscriptions(any_redis: Client, keys: Keys) -> Subscriptions:
    return Subscriptions(any_redis, keys)


@pytest.fixture
def sync(any_redis: Client, keys: Keys, subscriptions: Subscriptions, tmp_path: Path) -> SubscriptionSync:
    settings = Settings(feeds_file=tmp_path / "feeds.toml")
    return SubscriptionSync(any_redis, subscriptions, settings)


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "feeds.toml").write_text(text)


async def test_sync_adds_and_removes_only_its_own(subscriptions: Subscriptions) -> None:
    """What a person or another file added stays, also when this file listed it too for a while."""
    await subscriptions.add("world", A)
    await subscriptions.sync("other.opml", {"world": [C]})
    first = await subscriptions.sync("feeds.toml", {"world": [A, B]})
    second = await subscriptions.sync("feeds.toml", {})

    assert (first, second) == ((1, 0), (0, 1))
    assert await subscriptions.by_category() == {"world": [A, C]}


async def test_a_feed_is_found_by_its_id(subscriptions: Subscriptions, any_redis: Client, keys: Keys) -> None:
    """With its categories, polled or not, also where its record names a category that has lost it."""
    for category, url in (("world", A), ("sports", A), ("world", B)):
        await subscriptions.add(category, url)
    await any_redis.hset(keys.feed(ids.feed_id(A)), "categories", "sports,world")
    await any_redis.hset(keys.feed(ids.feed_id(B)), "categories", "sports")

    assert await subscriptions.by_id(ids.feed_id(A)) == (A, ["sports", "world"])
    assert await subscriptions.by_id(ids.feed_id(B)) == (B, ["world"])
    assert await subscriptions.by_id(ids.feed_id(C)) is None


async def test_sync_twice_changes_nothing(subscriptions: Subscriptions) -> None:
    """An import may run again at any time."""
    await subscriptions.sync("f", {"world": [A]})

    assert await subscriptions.sync("f", {"world": [A]}) == (0, 0)


async def test_feed_in_two_categories(subscriptions: Subscriptions) -> None:
    """One feed, two categories: known once, with both."""
    await subscriptions.sync("f", {"world": [A], "tech": [A]})

    assert await subscriptions.by_feed() == {A: ["tech", "world"]}


@pytest.mark.parametrize("category", ["world", "jobs report", "a:b", "päper"])
async def test_categories_made_by_hand_are_found(
    any_redis: Client, keys: Keys, subscriptions: Subscriptions, category: str
) -> None:
    """SADD of feeds or links under any name makes a category."""
    await any_redis.sadd(keys.feeds(category), A)
    await any_redis.sadd(keys.category_links("by_links"), A)
    await subscriptions.find_categories()

    assert await subscriptions.categories() == sorted(["by_links", category])


async def test_another_deployment_is_not_ours(any_redis: Client) -> None:
    """With a prefix, only its own keys are found, also when the prefix has glob characters."""
    await any_redis.sadd(Keys("").feeds("theirs"), A)
    await any_redis.sadd(Keys("[x]*:").feeds("ours"), A)
    ours = Subscriptions(any_redis, Keys("[x]*:"))
    await ours.find_categories()

    assert await ours.categories() == ["ours"]


async def test_remove_forgets_the_feed(any_redis: Client, keys: Keys, subscriptions: Subscriptions) -> None:
    """Unsubscribing takes state, links and due stamp along."""
    await subscriptions.add("world", A)
    await any_redis.hset(keys.feed(ids.feed_id(A)), "status", "ok")

    assert await subscriptions.remove(A) == ["world"]
    assert await any_redis.zcard(keys.feeds_due) == 0
    assert await any_redis.exists(keys.feed(ids.feed_id(A))) == 0


async def test_file_is_read_and_followed(subscriptions: Subscriptions, sync: SubscriptionSync, tmp_path: Path) -> None:
    """feeds.toml is read, read again when it changed, and a broken one changes nothing."""
    write(tmp_path, f'[categories]\nworld = ["{A}"]\n')
    await sync.refresh()
    write(tmp_path, f'[categories]\nworld = ["{A}", "{B}"]\n')
    await sync.refresh()
    grown = await subscriptions.by_category()
    write(tmp_path, "[categories\n")
    await sync.refresh()
    broken = await subscriptions.by_category()
    (tmp_path / "feeds.toml").unlink()
    await sync.refresh()

    assert grown == broken == await subscriptions.by_category() == {"world": [A, B]}


async def test_sample_steps_aside_for_own_feeds(
    any_redis: Client, keys: Keys, subscriptions: Subscriptions, sync: SubscriptionSync
) -> None:
    """While the sample is alone it stays; one feed by SADD, and it is gone with its links and state."""
    await subscriptions.sync("sample", {"sample_news": [B]})
    await any_redis.sadd(keys.category_links("sample_news"), B)
    await any_redis.hset(keys.feed(ids.feed_id(B)), "status", "ok")
    await sync.refresh()
    alone = await subscriptions.by_category()
    await any_redis.sadd(keys.feeds("world"), A)
    await sync.refresh()

    assert alone == {"sample_news": [B]}
    assert await subscriptions.by_category() == {"world": [A]}
    assert await subscriptions.categories() == ["world"]
    assert await any_redis.keys("*sample*") == []
    assert await any_redis.exists(keys.feed(ids.feed_id(B))) == 0
