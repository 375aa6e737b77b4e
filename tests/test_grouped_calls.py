"""Calls that are made together."""

from __future__ import annotations

import asyncio

import pytest

from core.store.grouped_calls import GroupedCalls


class Server:
    """Answers groups of numbers with their doubles, when it is allowed to."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.has_called = asyncio.Event()

    async def double(self, numbers):
        self.groups.append(list(numbers))
        self.has_called.set()
        await self.may_answer.wait()
        if 13 in numbers:
            raise ValueError("thirteen")
        return [2 * number for number in numbers]


async def test_calls_of_one_moment_are_one_group_and_each_gets_its_answer():
    """Ten calls at once are one call, and the answers come back in place."""
    server = Server()
    calls = GroupedCalls(server.double, 50)
    assert await asyncio.gather(*map(calls.call, range(10))) == [2 * number for number in range(10)]
    assert server.groups == [list(range(10))]


async def test_a_group_has_a_limit():
    """More calls than fit are made in groups of the limit."""
    server = Server()
    calls = GroupedCalls(server.double, 4)
    assert await asyncio.gather(*map(calls.call, range(10))) == [2 * number for number in range(10)]
    assert [len(group) for group in server.groups] == [4, 4, 2]


@pytest.mark.parametrize(("at_once", "expected"), [(True, [[9, 10]]), (False, [[9], [10]])])
async def test_a_group_waits_longer_where_calls_are_many(at_once, expected, monkeypatch):
    """After calls that overlapped, a call waits for the next one; after the same calls in turn, it does not."""
    monkeypatch.setattr("core.store.grouped_calls.LINGER_SECONDS", 0.0)
    monkeypatch.setattr("core.store.grouped_calls.BUSY_LINGER_SECONDS", 3_600.0)
    monkeypatch.setattr("core.store.grouped_calls.BUSY_SECONDS", 3_600.0)
    server = Server()
    calls = GroupedCalls(server.double, 2)
    if at_once:
        await asyncio.gather(*map(calls.call, range(8)))
    else:
        for number in range(8):
            await calls.call(number)
    before = len(server.groups)
    first = asyncio.create_task(calls.call(9))
    for _ in range(20):
        await asyncio.sleep(0.001)
    answers = [await calls.call(10), await first]

    assert answers == [20, 18]
    assert server.groups[before:] == expected


async def test_an_error_is_raised_for_all_of_its_group_and_the_next_group_goes_on():
    """Whoever is in a group that failed gets its error; later calls are made."""
    server = Server()
    calls = GroupedCalls(server.double, 2)
    answers = await asyncio.gather(*map(calls.call, (1, 13, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, ValueError, int, int]


async def test_what_is_cancelled_before_it_was_sent_is_not_sent():
    """A call given up in time never reaches the server, and the others do."""
    server = Server()
    calls = GroupedCalls(server.double, 50)
    given_up, kept = (asyncio.create_task(calls.call(number)) for number in (1, 2))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await kept == 4
    assert server.groups == [[2]]


async def test_settled_waits_for_the_group_that_is_under_way():
    """After `settled`, what was cancelled on its way has been answered."""
    server = Server()
    server.may_answer.clear()
    calls = GroupedCalls(server.double, 1)
    call = asyncio.create_task(calls.call(1))
    await server.has_called.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    settled = asyncio.create_task(calls.settled())
    await asyncio.sleep(0)
    assert not settled.done()
    server.may_answer.set()
    await settled
