"""What is due: oldest first, each host its share, nothing twice."""

from __future__ import annotations

import asyncio
import time

import pytest

from core.keys import Keys
from core.models import Ref
from core.registry.io.due import LOOK, DueItems, HostShares
from core.registry.io.registrar import Listing, Registrar
from core.store.connect import Client

NOW = 1_763_000_000.0
HOLD = 900.0


@pytest.fixture
def due(redis: Client, keys: Keys) -> DueItems:
    return DueItems(redis, keys)


async def fill(redis: Client, keys: Keys, stamps: dict[str, float], source: str = "s") -> None:
    await redis.zadd(keys.due(source), stamps)


async def test_oldest_first_and_no_more_than_wanted(redis: Client, keys: Keys, due: DueItems) -> None:
    """In the order of their stamps; what is due later is not touched."""
    await fill(redis, keys, {f"i{n}": NOW - n for n in range(10)} | {"later": NOW + 1})

    assert await due.pick("s", NOW, 3, HOLD) == ["i9", "i8", "i7"]
    assert await due.pick("s", NOW, 100, HOLD) == [f"i{n}" for n in reversed(range(7))]
    assert await due.pick("s", NOW, 100, HOLD) == []
    assert await redis.zscore(keys.due("s"), "later") == NOW + 1


async def test_picked_items_are_held_and_come_back(redis: Client, keys: Keys, due: DueItems) -> None:
    """A job that is lost costs its items the hold and no more."""
    await fill(redis, keys, {"a": NOW - 5})

    assert await due.pick("s", NOW, 10, HOLD) == ["a"]
    assert await due.pick("s", NOW + HOLD - 1, 10, HOLD) == []
    assert await due.pick("s", NOW + HOLD, 10, HOLD) == ["a"]


async def test_counting_and_looking_ahead(redis: Client, keys: Keys, due: DueItems) -> None:
    """How many are due, and when the next one is."""
    assert (await due.count("s", NOW), await due.next_at("s")) == (0, None)
    await fill(redis, keys, {"a": NOW - 5, "b": NOW + 7})

    assert (await due.count("s", NOW), await due.next_at("s")) == (1, NOW - 5)
    await due.pick("s", NOW, 10, HOLD)
    assert (await due.count("s", NOW), await due.next_at("s")) == (0, NOW + 7)


async def test_two_pickers_never_pick_the_same(redis: Client, keys: Keys, due: DueItems) -> None:
    """Twenty at once take all of it, each item once."""
    await fill(redis, keys, {f"i{n}": NOW - n for n in range(1_000)})

    picked = await asyncio.gather(*(due.pick("s", NOW, 70, HOLD) for _ in range(20)))

    everything = [item for some in picked for item in some]
    assert len(everything) == len(set(everything)) == 1_000


async def test_each_host_has_its_share(redis: Client, keys: Keys, due: DueItems) -> None:
    """A host with much to do does not fill the batch: the next ones get their turn, oldest first within each."""
    registrar = Registrar(redis, keys, "host")
    addresses = [f"https://big.example/{n}" for n in range(50)] + [f"https://small{n}.example/" for n in range(5)]
    for at, address in enumerate(addresses):
        await registrar.register([Ref(address)], Listing("s"), NOW - 1_000 + at)

    picked = await due.pick("s", NOW, 20, HOLD, shares=HostShares(3))

    hosts = [await redis.hget(keys.item(item), "sourceHost") for item in picked]
    assert hosts == ["big.example"] * 3 + [f"small{n}.example" for n in range(5)]
    assert len(await due.pick("s", NOW, 20, HOLD, shares=HostShares(3))) == 3
    assert await due.count("s", NOW) == 55 - 8 - 3


async def test_host_with_a_long_line_does_not_hide_the_others(redis: Client, keys: Keys, due: DueItems) -> None:
    """Thousands of one host are older than the one item of another: it is picked by the second pick, at the latest."""
    big = {f"big{n:05}": NOW - 10_000 + n for n in range(LOOK + 1_000)}
    await fill(redis, keys, {**big, "other": NOW - 1})
    await redis.hset(keys.item("other"), "sourceHost", "other.example")

    first = await due.pick("s", NOW, 100, HOLD, shares=HostShares(10))
    second = await due.pick("s", NOW + 1, 100, HOLD, shares=HostShares(10))

    assert first == [f"big{n:05}" for n in range(10)]
    assert "other" in second
    assert await due.count("s", NOW + 1) == len(big) + 1 - len(first) - len(second)
    third = await due.pick("s", NOW + 2, 100, HOLD, shares=HostShares(10))
    assert third == sorted(third)


async def test_million_due_items_cost_the_picker_little(
    redis: Client, keys: Keys, due: DueItems, full: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Picking is by index, not by scan: told, with its client CPU, for a million (`--full`) or fifty thousand."""
    many = 1_000_000 if full else 50_000
    for start in range(0, many, 10_000):
        pipe = redis.pipeline(transaction=False)
        pipe.zadd(keys.due("s"), {f"url_{n:026}": NOW - many + n for n in range(start, start + 10_000)})
        await pipe.execute()
    for share in (1_000_000, 48):
        cpu, wall, picked = time.process_time(), time.perf_counter(), 0
        for _ in range(10):
            picked += len(await due.pick("s", NOW, 2_000, HOLD, HostShares(share)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        with capsys.disabled():
            what = "no share" if share > 48 else f"share of {share}"
            took = f"client CPU {cpu * 1e3:.1f} ms, {wall * 1e3:.0f} ms in all"
            print(f"\n[due] {many:,} due, {what}: {picked} in 10 picks, {took}")  # noqa: T201 - the number is the point
        assert picked == (20_000 if share > 48 else 480)
