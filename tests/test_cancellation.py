"""A cancellation that gets lost on the way is sent again, until the task has really ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from core.keys import Keys
from core.runtime import domain_concurrency, signals
from core.store import cancellation
from core.store.connect import Client
from core.store.leases import Leases

ENDS = 30.0
"""Far more than any of these take; one that hangs fails instead of stopping the suite."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "REPEAT_SECONDS", 0.001)


async def deaf(times: int, began: asyncio.Event) -> None:
    """Work that loses so many cancellations, as redis-py does with one that comes together with an answer."""
    lost = 0
    began.set()
    while True:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            lost += 1
            if lost > times:
                raise


async def begun(times: int) -> asyncio.Task[None]:
    began = asyncio.Event()
    task = asyncio.create_task(deaf(times, began))
    await began.wait()
    return task


async def test_lost_cancellation_is_sent_again() -> None:
    """However often it is lost, the task is over when `end` returns."""
    task = await begun(5)
    async with asyncio.timeout(ENDS):
        await cancellation.cancel_and_wait(task)

    assert task.cancelled()


async def test_task_that_has_ended_is_left_alone() -> None:
    """Its exception is its own: whoever ends it is not hit by it."""

    async def fail() -> None:
        raise ValueError

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    await cancellation.cancel_and_wait(task)

    assert isinstance(task.exception(), ValueError)


async def test_whoever_is_cancelled_while_ending_a_task_ends_it_first() -> None:
    """A stop in the middle of a stop leaves no task behind, and is still a stop."""
    inner = await begun(50)
    outer = asyncio.create_task(cancellation.cancel_and_wait(inner))
    await asyncio.sleep(0)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer

    assert inner.done()


async def test_lanes_are_ended_though_their_work_loses_cancellations() -> None:
    """One item fails: the work of the others has really ended when the failure is told."""
    began, ended = asyncio.Event(), []

    async def work(item: str) -> None:
        if item == "bad":
            await began.wait()
            raise ValueError(item)
        try:
            await deaf(3, began)
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="bad"):
        async with asyncio.timeout(ENDS):
            await domain_concurrency.run(
                domain_concurrency.group(["deaf", "bad"], str), work, lambda lane: 1, lambda: False
            )

    assert ended == ["deaf"]


async def test_signal_ends_a_process_that_loses_cancellations(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM reaches work that lost the first three."""
    handlers: list[Callable[[], None]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", lambda number, handler: handlers.append(handler))
    began = asyncio.Event()

    def start() -> Coroutine[object, object, None]:
        return deaf(3, began)

    process = asyncio.create_task(signals.until_signal(start))
    await began.wait()
    handlers[0]()
    async with asyncio.timeout(ENDS):
        assert await process == signals.EXIT_OK


class LosesCancellations:
    """A client whose first cancelled call comes back as if nothing had been: redis-py on Python 3.11."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls = 0
        self.lost = 0
        self.in_call = asyncio.Event()

    async def eval(self, *words: object) -> object:
        self.calls += 1
        answer = await self._client.eval(*words)  # type: ignore[arg-type]
        self.in_call.set()
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.lost += 1
            if self.lost > 1:
                raise
        return answer


async def test_leaving_keep_alive_during_a_renewal_ends(
    any_redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal loses the cancellation; the process ends all the same."""
    monkeypatch.setattr("core.store.leases.RENEW_EVERY_SECONDS", 0.0)
    leases = Leases(any_redis, keys)
    for n in range(3):
        assert await leases.acquire(f"x{n}")
    client = LosesCancellations(any_redis)
    leases._client = client  # type: ignore[assignment]
    async with asyncio.timeout(ENDS):
        async with leases.keep_alive():
            await client.in_call.wait()

    assert client.lost == 1


async def test_processes_with_many_leases_always_end(
    redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred leases on the real server, left at any moment of their renewal: none of the runs hangs."""
    monkeypatch.setattr("core.store.leases.RENEW_EVERY_SECONDS", 0.0)
    leases = Leases(redis, keys)
    for n in range(200):
        assert await leases.acquire(f"x{n}")
    for pauses in range(30):
        async with asyncio.timeout(ENDS):
            async with leases.keep_alive():
                for _ in range(pauses):
                    await asyncio.sleep(0)


async def test_everything_held_is_renewed_in_one_call(any_redis: Client, keys: Keys) -> None:
    """Three hundred leases of as many tokens cost one round trip, and all live on."""
    leases = Leases(any_redis, keys)
    for n in range(300):
        assert await leases.acquire(f"x{n}")
        await any_redis.pexpire(keys.lease(f"x{n}"), 30_000)
    client = LosesCancellations(any_redis)
    leases._client = client  # type: ignore[assignment]
    await leases.renew()

    assert client.calls == 1
    lives = [await any_redis.pttl(keys.lease(f"x{n}")) for n in range(300)]
    assert min(lives) > 30_000


async def test_lease_that_went_to_another_is_not_renewed_for_ever(any_redis: Client, keys: Keys) -> None:
    """What was lost is let go: neither this renewal nor the next touches the new holder's lease."""
    leases = Leases(any_redis, keys)
    assert await leases.acquire("x")
    await any_redis.set(keys.lease("x"), "another", px=5_000)
    await leases.renew()
    await leases.renew()

    assert await any_redis.pttl(keys.lease("x")) <= 5_000
    assert leases.held == 0
