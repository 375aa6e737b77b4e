"""One hash per feed, the due set, and polls committed in one step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import ids
from core.feeds import poll_decision
from core.feeds.feed_state import FeedState, FeedStatus, from_hash, to_hash
from core.feeds.io.feed_store import FeedStore, LeasedElsewhere, LeasedFeed
from core.feeds.io.link_store import Ttls
from core.feeds.poll_decision import PollDecision
from core.keys import Keys
from core.models import PublisherHints
from core.store.connect import Client

NOW = 1_800_000_000.0
URL = "https://news.example/feed"
FID = ids.feed_id(URL)
LINKS = ("https://news.example/1", "https://news.example/2")


@pytest.fixture
async def feeds(any_redis: Client, keys: Keys) -> FeedStore:
    for category in ("world", "tech"):
        await any_redis.sadd(keys.feeds(category), URL)
    return FeedStore(any_redis, keys, Ttls(100, 100, 100))


async def test_new_feeds_are_due_at_once_and_keep_their_time(feeds: FeedStore) -> None:
    """Enrolling again does not move a feed that has its next poll."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    await feeds.save(leased, PollDecision(replace(leased.state, next_poll_ts=NOW + 500)), ["world"], NOW)
    await feeds.add_to_schedule([URL, "https://other.example/"])

    assert await feeds.due(NOW) == [ids.feed_id("https://other.example/")]
    assert await feeds.due(NOW + 501) == [ids.feed_id("https://other.example/"), FID]


async def test_two_ingestors_poll_a_feed_once(feeds: FeedStore) -> None:
    """While one holds it the other gets nothing, and afterwards it is no longer due."""
    await feeds.add_to_schedule([URL])
    first = await feeds.lease(URL, ["world"], NOW)
    meanwhile = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(first, LeasedFeed)
    await feeds.save(first, PollDecision(replace(first.state, next_poll_ts=NOW + 500)), ["world"], NOW)
    afterwards = await feeds.lease(URL, ["world"], NOW)

    assert (meanwhile, afterwards) == (LeasedElsewhere(), None)


async def test_save_writes_everything_in_one_step(any_redis: Client, keys: Keys, feeds: FeedStore) -> None:
    """State, schedule, body links, link set and stamps; the lease is gone."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    state = replace(leased.state, status=FeedStatus.OK, next_poll_ts=NOW + 500, events=("one", "two"))
    saved = await feeds.save(leased, PollDecision(state, links=LINKS), ["world"], NOW)

    assert saved
    assert await any_redis.smembers(keys.feed_links(FID)) == set(LINKS)
    assert await any_redis.smembers(keys.category_links("world")) == set(LINKS)
    assert await any_redis.hmget(keys.feed(FID), ["status", "categories", "events"]) == ["ok", "world", "one\ntwo"]
    assert await any_redis.exists(keys.lease(f"feed_{FID}")) == 0


async def test_late_save_changes_nothing(any_redis: Client, keys: Keys, feeds: FeedStore) -> None:
    """An ingestor that slept past its lease cannot overwrite the one that took over."""
    await feeds.add_to_schedule([URL])
    late = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(late, LeasedFeed)
    await any_redis.delete(keys.lease(f"feed_{FID}"))

    assert not await feeds.save(late, PollDecision(late.state, links=LINKS), ["world"], NOW)
    assert await any_redis.exists(keys.category_links("world"), keys.feed(FID)) == 0


async def test_unchanged_poll_renews_the_last_body(any_redis: Client, keys: Keys, feeds: FeedStore) -> None:
    """A 304 stamps the links the feed listed last time, also into a category it was added to meanwhile."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    state = replace(leased.state, next_poll_ts=NOW, renewed_ts=NOW)
    await feeds.save(leased, PollDecision(state, links=LINKS), ["world"], NOW)
    again = await feeds.lease(URL, ["tech", "world"], NOW + 50)
    assert isinstance(again, LeasedFeed)
    await feeds.save(again, PollDecision(again.state, renew=True), ["tech", "world"], NOW + 50)

    assert (again.state.renewed_ts, again.is_poll_due) == (0.0, True)
    assert await any_redis.zscore(keys.category_links_seen("world"), LINKS[0]) == NOW + 50
    assert await any_redis.smembers(keys.category_links("tech")) == set(LINKS)


async def test_feed_that_waits_long_comes_up_for_its_links(any_redis: Client, keys: Keys, feeds: FeedStore) -> None:
    """skipDays may keep us away longer than links live: in between only their stamps are renewed."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    state = replace(leased.state, status=FeedStatus.OK, next_poll_ts=NOW + 500)
    await feeds.save(leased, PollDecision(state, links=LINKS), ["world"], NOW)
    between = await feeds.lease(URL, ["world"], NOW + 51)
    assert isinstance(between, LeasedFeed)
    await feeds.save(between, poll_decision.renewal(between.state, NOW + 51), ["world"], NOW + 51)

    assert not between.is_poll_due
    assert await any_redis.zscore(keys.category_links_seen("world"), LINKS[0]) == NOW + 51
    assert await feeds.due(NOW + 100) == []
    assert await feeds.due(NOW + 101.5) == [FID]


async def test_score_of_zero_wants_a_poll_now(any_redis: Client, keys: Keys, feeds: FeedStore) -> None:
    """`ZADD rss:feeds_due 0 <fid>` from redis-cli polls a feed whatever its state says."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    await feeds.save(leased, PollDecision(replace(leased.state, next_poll_ts=NOW + 500)), ["world"], NOW)
    await any_redis.zadd(keys.feeds_due, {FID: 0})
    again = await feeds.lease(URL, ["world"], NOW + 1)

    assert isinstance(again, LeasedFeed)
    assert again.is_poll_due


async def test_retired_feed_is_never_due(feeds: FeedStore) -> None:
    """Infinity is a time that does not come."""
    await feeds.add_to_schedule([URL])
    leased = await feeds.lease(URL, ["world"], NOW)
    assert isinstance(leased, LeasedFeed)
    await feeds.save(leased, PollDecision(replace(leased.state, next_poll_ts=float("inf"))), ["world"], NOW)
    await feeds.add_to_schedule([URL])

    assert await feeds.due(1e18) == []


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
times = st.integers(0, 10**10).map(lambda n: n / 1000)


@given(
    st.builds(
        FeedState,
        url=st.just(URL),
        status=st.sampled_from(FeedStatus),
        title=words,
        etag=words,
        polls=st.integers(0, 10**6),
        next_poll_ts=times | st.just(float("inf")),
        error_weight=times,
        hints=st.builds(
            PublisherHints,
            ttl_seconds=st.none() | st.integers(1, 10**6).map(float),
            skip_hours=st.lists(st.integers(0, 23), unique=True).map(tuple),
        ),
        events=st.lists(words.filter(bool), max_size=3).map(tuple),
    )
)
def test_state_survives_the_hash(state: FeedState) -> None:
    """What is written is what is read."""
    assert from_hash(URL, to_hash(state, ["world"])) == state


def test_unreadable_fields_take_their_default() -> None:
    """Somebody's HSET of nonsense does not stop the ingestor."""
    state = from_hash(URL, {"status": "?", "polls": "many", "next_poll_ts": "soon", "hint_skip_hours": "x,3"})

    assert (state.status, state.polls, state.next_poll_ts, state.hints.skip_hours) == (FeedStatus.NEW, 0, 0.0, (3,))


async def test_feed_that_left_a_category_meanwhile_is_not_put_back(
    any_redis: Client, keys: Keys, feeds: FeedStore
) -> None:
    """A cycle knows the categories of its beginning; what was renamed or dropped since is not written to."""
    await feeds.add_to_schedule([URL])
    await any_redis.srem(keys.feeds("world"), URL)
    in_tech = await feeds.lease(URL, ["tech", "world"], NOW)
    assert isinstance(in_tech, LeasedFeed)
    await feeds.release(in_tech)
    await any_redis.srem(keys.feeds("tech"), URL)

    assert in_tech.categories == ("tech",)
    assert await feeds.lease(URL, ["tech", "world"], NOW) is None
    assert await any_redis.exists(keys.lease(f"feed_{FID}")) == 0
