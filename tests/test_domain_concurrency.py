"""Room for bodies, and lanes with a limit over all of them."""

from __future__ import annotations

import asyncio

from core.net.fetcher import BodySlot
from core.runtime import domain_concurrency


async def test_room_is_taken_on_the_wire_and_given_back_at_the_end() -> None:
    """Two bodies fit; the third waits until one is done with. A redirect takes no second place."""
    places = asyncio.Semaphore(2)
    with BodySlot(places) as first, BodySlot(places) as second:
        await first.take()
        await first.take()
        await second.take()
        third = BodySlot(places)
        waiting = asyncio.create_task(third.take())
        await asyncio.sleep(0)

        assert not waiting.done()
    await waiting
    third.__exit__(None, None, None)

    assert places._value == 2


async def test_room_that_was_never_taken_gives_nothing_back() -> None:
    """A link that stood at the gate and was put off had no body."""
    places = asyncio.Semaphore(1)
    with BodySlot(places):
        pass

    assert places._value == 1


async def test_lanes_keep_their_width_and_the_limit_of_all() -> None:
    """At most two per lane and three together, and every item is worked on once."""
    busy: dict[str, int] = {}
    done: list[str] = []
    most = {"lane": 0, "all": 0}

    async def work(item: str) -> None:
        lane = item[0]
        busy[lane] = busy.get(lane, 0) + 1
        most["lane"], most["all"] = max(most["lane"], busy[lane]), max(most["all"], sum(busy.values()))
        await asyncio.sleep(0)
        busy[lane] -= 1
        done.append(item)

    items = [f"{lane}{n}" for lane in "ab" for n in range(10)]
    await domain_concurrency.run(
        domain_concurrency.group(items, lambda item: item[0]), work, lambda lane: 2, lambda: False, at_once=3
    )

    assert sorted(done) == sorted(items)
    assert most == {"lane": 2, "all": 3}


async def test_stopped_lanes_leave_the_rest() -> None:
    """When it is over, what is under way ends and nothing new begins."""
    done: list[int] = []

    async def work(item: int) -> None:
        done.append(item)

    queues = domain_concurrency.group(range(10), lambda _: "x")
    await domain_concurrency.run(queues, work, lambda lane: 1, lambda: len(done) >= 3)

    assert done == [0, 1, 2]
    assert len(queues["x"]) == 7


async def test_places_are_shared_among_the_domains() -> None:
    """Four places and three domains: none has all of them while another waits, however many items it has."""
    begun: list[str] = []
    are_full, may_end = asyncio.Event(), asyncio.Event()

    async def work(item: str) -> None:
        begun.append(item)
        if len(begun) == 4:
            are_full.set()
        await may_end.wait()

    lanes = domain_concurrency.group(["a1", "a2", "a3", "a4", "b1", "c1", "c2"], lambda item: item[0])
    running = asyncio.create_task(domain_concurrency.run(lanes, work, lambda _: 10, lambda: False, at_once=4))
    await are_full.wait()
    first = list(begun)
    may_end.set()
    await running

    assert first == ["a1", "b1", "c1", "a2"]
    assert sorted(begun) == ["a1", "a2", "a3", "a4", "b1", "c1", "c2"]
