"""Leases and the one commit script."""

from __future__ import annotations

from core.keys import Keys
from core.stores import commit
from core.stores.connect import Client

LEASE = "ingest:lease:x"


async def test_only_one_holder(any_redis: Client) -> None:
    """A lease is taken once; asking again with the same token is still ours, so a resend does no harm."""
    first = await commit.acquire(any_redis, LEASE, "a", 60)
    second = await commit.acquire(any_redis, LEASE, "b", 60)
    again = await commit.acquire(any_redis, LEASE, "a", 60)

    assert (first, second, again) == (True, False, True)
    assert 0 < await any_redis.pttl(LEASE) <= 60_000


async def test_commit_runs_all_and_drops_the_lease(any_redis: Client) -> None:
    """Every command runs, and the lease is gone in the same step."""
    await commit.acquire(any_redis, LEASE, "a", 60)
    done = await commit.commit(any_redis, LEASE, "a", [("SADD", "s", "x", "y"), ("HINCRBY", "h", "n", 2)])

    assert done
    assert (await any_redis.scard("s"), await any_redis.hget("h", "n"), await any_redis.exists(LEASE)) == (2, "2", 0)


async def test_late_writer_is_refused(any_redis: Client) -> None:
    """A worker whose lease went to another writes nothing."""
    await commit.acquire(any_redis, LEASE, "b", 60)
    done = await commit.commit(any_redis, LEASE, "a", [("SET", "k", "late")])

    assert (done, await any_redis.exists("k"), await any_redis.get(LEASE)) == (False, 0, "b")


async def test_resent_commit_counts_once(any_redis: Client) -> None:
    """redis-py resends after a lost reply; a counter in the commit still moves by one."""
    await commit.acquire(any_redis, LEASE, "a", 60)
    for _ in range(3):
        await commit.commit(any_redis, LEASE, "a", [("HINCRBY", "h", "n", 1)])

    assert await any_redis.hget("h", "n") == "1"


async def test_large_sets_are_cut(any_redis: Client) -> None:
    """Ten thousand members fit, though Lua unpacks at most about 8,000 words."""
    members = [str(i) for i in range(10_000)]
    pairs = [word for i in range(5_000) for word in (i, f"m{i}")]
    await commit.acquire(any_redis, LEASE, "a", 60)
    commands = commit.batched(("SADD", "s"), members) + commit.batched(("ZADD", "z", "GT"), pairs, words_per_member=2)
    await commit.commit(any_redis, LEASE, "a", commands)

    assert (await any_redis.scard("s"), await any_redis.zcard("z")) == (10_000, 5_000)


def test_lease_keys_carry_the_prefix() -> None:
    """Two deployments on one server do not share leases."""
    assert Keys("{a}:").lease("x") == "{a}:ingest:lease:x"
