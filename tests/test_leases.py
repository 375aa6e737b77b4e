"""Leases and the one commit script."""

from __future__ import annotations

import asyncio

import pytest

from core.keys import Keys
from core.store.commands import batched
from core.store.connect import Client
from core.store.leases import Commit, CommitResult, Lease, Leases

KEY = "ingest:lease:x"
COUNTER = "ingest:crashes:x"


@pytest.fixture
def leases(any_redis: Client, keys: Keys) -> Leases:
    return Leases(any_redis, keys)


async def test_only_one_holder(any_redis: Client, leases: Leases) -> None:
    """A lease is taken once; asking again with the same token is still ours, so a resend does no harm."""
    first = await leases.acquire("x", "a")
    second = await leases.acquire("x", "b")
    again = await leases.acquire("x", "a")

    assert (first, second, again) == ((Lease((KEY,), "a"), 1), None, (Lease((KEY,), "a"), 1))
    assert 0 < await any_redis.pttl(KEY) <= 60_000


async def test_what_is_read_comes_with_the_lease(any_redis: Client, leases: Leases) -> None:
    """Several acquire in one call: each gets its own replies, as the client gives them, also where it gets no lease."""
    await any_redis.hset("h", mapping={"a": "1", "b": "2"})
    await any_redis.set("ingest:lease:z", "someone")
    read = [("HGETALL", "h"), ("HGETALL", "none"), ("GET", "none"), ("EXISTS", "h")]
    x, y, z = await asyncio.gather(
        leases.acquire_and("x", "t", read), leases.acquire_and("y", "t"), leases.acquire_and("z", "t", read[2:])
    )

    assert x == ((Lease((KEY,), "t"), 1), [{"a": "1", "b": "2"}, {}, None, 1])
    assert y == ((Lease(("ingest:lease:y",), "t"), 1), [])
    assert z == (None, [None, 1])
    assert await any_redis.get("ingest:lease:z") == "someone"


async def test_commit_runs_all_and_drops_the_lease(any_redis: Client, leases: Leases) -> None:
    """Every command runs; lease and crash counter are gone in the same step."""
    await leases.acquire("x", "a")
    done = await leases.commit(Lease((KEY,), "a"), [("SADD", "s", "x", "y"), ("HINCRBY", "h", "n", 2)])

    assert done
    assert (await any_redis.scard("s"), await any_redis.hget("h", "n")) == (2, "2")
    assert await any_redis.exists(KEY, COUNTER) == 0


async def test_late_writer_is_refused(any_redis: Client, leases: Leases) -> None:
    """A worker whose lease went to another writes nothing."""
    await leases.acquire("x", "b")
    done = await leases.commit(Lease((KEY,), "a"), [("SET", "k", "late")])

    assert (done, await any_redis.exists("k"), await any_redis.get(KEY)) == (False, 0, "b")


async def test_two_leases_are_one_right(any_redis: Client, leases: Leases) -> None:
    """A commit under two leases needs both, and drops both."""
    acquired = await leases.acquire("x")
    assert acquired
    both = acquired[0].with_key("ingest:lease:y")
    without = await leases.commit(both, [("SET", "k", "1")])
    await leases.acquire("y", both.token)
    with_both = await leases.commit(both, [("SET", "k", "2")])

    assert (without, with_both, await any_redis.get("k")) == (False, True, "2")
    assert await any_redis.keys("ingest:[lc]*") == []


async def test_resent_commit_counts_once(any_redis: Client, leases: Leases) -> None:
    """redis-py resends after a lost reply; a counter in the commit still moves by one."""
    await leases.acquire("x", "a")
    for _ in range(3):
        await leases.commit(Lease((KEY,), "a"), [("HINCRBY", "h", "n", 1)])

    assert await any_redis.hget("h", "n") == "1"


async def test_deaths_are_counted_before_the_work(any_redis: Client, leases: Leases) -> None:
    """Each worker that takes it without an end counts; a release or commit starts anew."""
    counts = []
    for token in ("a", "b", "c"):
        acquired = await leases.acquire("x", token)
        assert acquired
        counts.append(acquired[1])
        await any_redis.delete(KEY)  # as if the lease of a dead worker had ended
    acquired = await leases.acquire("x", "d")
    assert acquired
    await leases.release(acquired[0])
    anew = await leases.acquire("x", "e")
    assert anew

    assert (counts, acquired[1], anew[1]) == ([1, 2, 3], 4, 1)


async def test_living_worker_renews_what_it_holds(any_redis: Client, leases: Leases) -> None:
    """A lease is short so that a dead worker's work comes back soon; a living one keeps it, and only its own."""
    await leases.acquire("x", "a")
    await any_redis.pexpire(KEY, 5_000)
    await any_redis.set("ingest:lease:other", "b", px=5_000)
    await leases.renew()
    renewed = await any_redis.pttl(KEY)
    await leases.release(Lease((KEY,), "a"))
    await leases.renew()

    assert renewed > 50_000
    assert await any_redis.pttl("ingest:lease:other") <= 5_000
    assert await any_redis.exists(KEY) == 0


async def test_large_sets_are_cut(any_redis: Client, leases: Leases) -> None:
    """Ten thousand members fit, though Lua unpacks at most about 8,000 words."""
    members = [str(i) for i in range(10_000)]
    pairs = [word for i in range(5_000) for word in (i, f"m{i}")]
    await leases.acquire("x", "a")
    commands = batched(("SADD", "s"), members) + batched(("ZADD", "z", "GT"), pairs, words_per_member=2)
    await leases.commit(Lease((KEY,), "a"), commands)

    assert (await any_redis.scard("s"), await any_redis.zcard("z")) == (10_000, 5_000)


def test_lease_keys_carry_the_prefix() -> None:
    """Two deployments on one server do not share leases, and a counter belongs to its lease."""
    keys = Keys("{a}:")

    assert keys.lease("x") == "{a}:ingest:lease:x"
    assert keys.crashes_of(keys.lease("x")) == keys.crashes("x")


async def test_commit_expects_what_a_string_says(any_redis: Client, leases: Leases) -> None:
    """An empty field names a string; a missing one counts as `0`. What is refused keeps its lease."""
    await leases.acquire("x", "a")
    lease = Lease((KEY,), "a")
    other = await leases.commit_many([Commit(lease, [("SET", "k", "1")], ("k", "", "other"))])
    missing = await leases.commit_many([Commit(lease, [("SET", "k", "1")], ("k", "", "0"))])
    await leases.acquire("x", "a")
    again = await leases.commit_many([Commit(lease, [("SET", "k", "2")], ("k", "", "0"))])

    assert [*other, *missing, *again] == [CommitResult.OUTDATED, CommitResult.WRITTEN, CommitResult.OUTDATED]
    assert (await any_redis.get("k"), await any_redis.get(KEY), leases.holds(lease)) == ("1", "a", True)
