"""Politeness that all processes share. Gaps are thousands of seconds here, so that no clock can blur the order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.keys import Keys
from core.models import Deferred
from core.net.rate_limit import Admission, Gate, GateReply
from core.store.connect import Client
from core.urls.pace import HostPace

GAP = 1_000.0
FOREVER = 1e6


class DomainGate:
    """A process whose settings give every domain this gap and this limit."""

    def __init__(self, redis: Any, keys: Keys, gap: float = GAP, parallel: int | None = 2) -> None:
        self._gate = Gate(redis, keys)
        self._gap = gap
        self._parallel = parallel
        self.leave = self._gate.leave
        self.close_for = self._gate.close_for
        self.run_unless_closed = self._gate.run_unless_closed

    def pace(self, domain: str, crawl_delay: float = 0.0) -> HostPace:
        return HostPace(domain, domain, self._gap, self._parallel).with_crawl_delay(crawl_delay)

    async def enter(self, domain: str, token: str, max_wait: float, crawl_delay: float = 0.0) -> GateReply:
        return await self._gate.enter(self.pace(domain, crawl_delay), token, max_wait)

    async def run_in_turn(self, domain: str, slots: asyncio.Semaphore, work: Any, *, max_wait_seconds: float) -> Any:
        return await self._gate.run_in_turn(self.pace(domain), slots, work, max_wait_seconds=max_wait_seconds)


gate = DomainGate


def place(reply: GateReply, gap: float = GAP) -> int:
    """Which place in line the wait stands for."""
    return round(reply.wait_seconds / gap)


async def test_the_first_goes_and_the_others_stand_in_line(redis: Client, keys: Keys) -> None:
    """Each gets the next place, one gap after the one before, whichever process asks."""
    one, two = gate(redis, keys), gate(redis, keys)

    replies = [await g.enter("a.example", token, FOREVER) for g, token in ((one, "t1"), (two, "t2"), (one, "t3"))]

    assert [reply.admission for reply in replies] == [Admission.GO, Admission.WAIT, Admission.WAIT]
    assert [place(reply) for reply in replies] == [0, 1, 2]


async def test_domains_do_not_wait_for_each_other(redis: Client, keys: Keys) -> None:
    """The gap is per domain."""
    g = gate(redis, keys)

    assert (await g.enter("a.example", "t1", 0)).admission is Admission.GO
    assert (await g.enter("b.example", "t2", 0)).admission is Admission.GO


async def test_who_cannot_wait_so_long_is_deferred_and_reserves_nothing(redis: Client, keys: Keys) -> None:
    """Being turned away does not make the line longer."""
    g = gate(redis, keys)
    await g.enter("a.example", "t1", 0)

    away = [await g.enter("a.example", f"no{i}", 10) for i in range(5)]
    waits = await g.enter("a.example", "t2", FOREVER)

    assert {reply.admission for reply in away} == {Admission.DEFER}
    assert {place(reply) for reply in away} == {1}
    assert {reply.reason for reply in away} == {"gap"}
    assert place(waits) == 1


async def test_the_same_token_gets_the_same_answer(redis: Client, keys: Keys) -> None:
    """A command that the client resends after a lost reply reserves no second place."""
    g = gate(redis, keys)

    first = [await g.enter("a.example", "t1", FOREVER) for _ in range(3)]
    second = [await g.enter("a.example", "t2", FOREVER) for _ in range(3)]
    third = await g.enter("a.example", "t3", FOREVER)

    assert {reply.admission for reply in first} == {Admission.GO}
    assert {(reply.admission, place(reply)) for reply in second} == {(Admission.WAIT, 1)}
    assert place(third) == 2


async def test_no_more_than_the_limit_at_a_time(redis: Client, keys: Keys) -> None:
    """Without a gap the limit on parallel requests still holds; leaving makes room."""
    g = gate(redis, keys, gap=0, parallel=2)

    replies = [await g.enter("a.example", f"t{i}", FOREVER) for i in range(3)]
    assert [reply.admission for reply in replies] == [Admission.GO, Admission.GO, Admission.BUSY]
    assert (await g.enter("a.example", "t9", 0)).admission is Admission.DEFER

    await g.leave("a.example", "t0")
    assert (await g.enter("a.example", "t2", FOREVER)).admission is Admission.GO


async def test_leaving_twice_does_no_harm(redis: Client, keys: Keys) -> None:
    """A resent leave frees nobody else's place."""
    g = gate(redis, keys, gap=0, parallel=1)
    await g.enter("a.example", "t1", 0)
    await g.leave("a.example", "t1")
    await g.enter("a.example", "t2", 0)

    await g.leave("a.example", "t1")

    assert (await g.enter("a.example", "t3", 0)).admission is Admission.DEFER


async def test_a_dead_process_gives_its_place_back(redis: Client, keys: Keys) -> None:
    """A token that was never returned stops counting when its time is over."""
    g = gate(redis, keys, gap=0, parallel=1)
    await g.enter("a.example", "dead", 0)
    assert (await g.enter("a.example", "t1", 0)).admission is Admission.DEFER

    await redis.zadd(keys.gate_busy("a.example"), {"dead": 1.0})

    assert (await g.enter("a.example", "t1", 0)).admission is Admission.GO


async def test_who_missed_its_moment_keeps_the_gap(redis: Client, keys: Keys) -> None:
    """A waiter that wakes late does not start right behind the one that has just started."""
    g = gate(redis, keys)
    line, now = keys.gate_line("a.example"), float((await redis.time())[0])
    await g.enter("a.example", "t1", 0)
    await redis.zadd(line, {"late": now - 30})

    reply = await g.enter("a.example", "late", FOREVER)

    assert (reply.admission, place(reply)) == (Admission.WAIT, 1)


async def test_retry_after_shuts_the_gate_for_all(redis: Client, keys: Keys) -> None:
    """What one process was told, every process obeys, those in line too."""
    one, two = gate(redis, keys, gap=10), gate(redis, keys, gap=10)
    await one.enter("a.example", "t1", 0)
    assert (await two.enter("a.example", "t2", 60)).admission is Admission.WAIT

    await one.close_for("a.example", 5_000, "Retry-After (429)")

    for token in ("t2", "t3"):
        reply = await two.enter("a.example", token, 60)
        assert (reply.admission, place(reply, 5_000), reply.reason) == (Admission.DEFER, 1, "Retry-After (429)")


async def test_punishment_never_shortens_and_never_exceeds_a_day(redis: Client, keys: Keys) -> None:
    """A later, smaller wish does not open the gate; a year is cut to a day."""
    g = gate(redis, keys)

    await g.close_for("a.example", 31_536_000, "year")
    await g.close_for("a.example", 5, "five")

    reply = await g.enter("a.example", "t", 0)
    assert (round(reply.wait_seconds, -3), reply.reason) == (86_000, "year")
    assert 0 < await redis.ttl(keys.gate("a.example")) <= 86_460


async def test_robots_may_lengthen_the_gap_but_not_shorten_it(redis: Client, keys: Keys) -> None:
    """The longer of our gap and the site's Crawl-delay counts."""
    g = gate(redis, keys)
    await g.enter("slow.example", "t1", 0, 5_000)
    await g.enter("quick.example", "t1", 0, 1)

    slow = await g.enter("slow.example", "t2", FOREVER, 5_000)
    quick = await g.enter("quick.example", "t2", FOREVER, 1)

    assert (place(slow, 5_000), place(quick)) == (1, 1)


async def test_every_key_has_an_end(redis: Client, keys: Keys) -> None:
    """A domain we never visit again leaves nothing behind, and what is there reads as words."""
    g = gate(redis, keys)
    await g.enter("a.example", "t1", FOREVER)
    await g.enter("a.example", "t2", FOREVER)

    found = [key async for key in redis.scan_iter("*")]
    names = ["fetch:busy:a.example", "fetch:gate:a.example", "fetch:line:a.example", "fetch:waiting"]
    assert sorted(found) == names
    assert all([await redis.ttl(key) > 0 for key in found])
    assert set(await redis.hgetall(keys.gate("a.example"))) == {"gap", "next_at", "last_at"}


# ── working in turn ─────────────────────────────────────────────────────────────────────────────


class Work:
    """Counts how many of it run at once; `finish` lets them end."""

    def __init__(self) -> None:
        self.running = self.most = self.done = 0

    async def __call__(self) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.done += 1
        return "done"


async def test_many_at_one_domain_all_get_their_turn(redis: Client, keys: Keys) -> None:
    """Fifty requests of two processes to one domain are done two at a time, and none is lost."""
    gates, work, slots = (gate(redis, keys, gap=0), gate(redis, keys, gap=0)), Work(), asyncio.Semaphore(100)

    results = await asyncio.gather(
        *(gates[i % 2].run_in_turn("a.example", slots, work, max_wait_seconds=FOREVER) for i in range(50))
    )

    assert results == ["done"] * 50
    assert work.most <= 2
    assert await redis.zcard(keys.gate_busy("a.example")) == 0
    assert await redis.zcard(keys.gate_line("a.example")) == 0


async def test_a_slot_is_not_held_in_line(redis: Client, keys: Keys) -> None:
    """Who waits at one domain does not keep the wire from another."""
    g, work, slots = gate(redis, keys), Work(), asyncio.Semaphore(1)
    await g.run_in_turn("a.example", slots, work, max_wait_seconds=0)
    waiting = asyncio.create_task(g.run_in_turn("a.example", slots, work, max_wait_seconds=FOREVER))
    while not await redis.zcard(keys.gate_line("a.example")):
        pass

    assert await g.run_in_turn("b.example", slots, work, max_wait_seconds=0) == "done"

    waiting.cancel()
    await asyncio.wait([waiting])
    assert await redis.zcard(keys.gate_line("a.example")) == 0


async def test_deferred_work_is_not_done(redis: Client, keys: Keys) -> None:
    """Too long a wait is told, with the reason, and nothing runs."""
    g, work, slots = gate(redis, keys), Work(), asyncio.Semaphore(1)
    await g.close_for("a.example", 500, "Retry-After (503)")

    result = await g.run_in_turn("a.example", slots, work, max_wait_seconds=10)

    assert isinstance(result, Deferred)
    assert (result.reason, work.done) == ("Retry-After (503)", 0)


async def test_work_that_fails_gives_its_place_back(redis: Client, keys: Keys) -> None:
    """An exception on the wire does not cost the domain a place."""
    g, slots = gate(redis, keys, gap=0, parallel=1), asyncio.Semaphore(1)

    async def broken() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await g.run_in_turn("a.example", slots, broken, max_wait_seconds=0)

    assert (await g.enter("a.example", "t", 0)).admission is Admission.GO


def test_only_the_named_port_is_exempt(keys: Keys) -> None:
    """Our own sample site needs no politeness; its neighbour does."""
    g = Gate(None, keys, exempt=("127.0.0.1:8800",))  # type: ignore[arg-type]

    assert g.is_exempt("127.0.0.1", 8800)
    assert not g.is_exempt("127.0.0.1", 8801)


async def test_open_gate_still_hears_retry_after(redis: Client, keys: Keys) -> None:
    """Without gap and limit nobody stands in line, but a server that shut us out is left in peace."""
    g = gate(redis, keys, 0.0, None)
    slots = asyncio.Semaphore(1)

    async def work() -> str:
        return "done"

    before = await g.run_in_turn("a.example", slots, work, max_wait_seconds=0)
    await g.close_for("a.example", 3600, "Retry-After (429)")
    shut = await g.run_in_turn("a.example", slots, work, max_wait_seconds=60)
    neighbour = await g.run_in_turn("b.example", slots, work, max_wait_seconds=0)

    assert (before, neighbour) == ("done", "done")
    assert isinstance(shut, Deferred)
    assert (shut.wait_seconds > 3000, shut.reason) == (True, "Retry-After (429)")


# ── nobody in line ──────────────────────────────────────────────────────────────────────────────


class CountingRedis:
    """Counts round trips and reads of a real client; `before_reply` runs when a read is done and not yet told."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self.round_trips = 0
        self.reads = 0
        self.before_reply: Callable[[], Awaitable[None]] | None = None

    async def eval(self, script: str, count: int, *words: Any) -> Any:
        """A script that has a list of commands as its argument reads many keys in one round trip."""
        if isinstance(words[-1], bytes):
            self.round_trips += 1
            self.reads += len(json.loads(words[-1]))
        return await self._redis.eval(script, count, *words)

    def pipeline(self, transaction: bool) -> CountingPipeline:
        assert not transaction
        return CountingPipeline(self, self._redis.pipeline(transaction=False))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)


class CountingPipeline:
    """A pipeline of the client above."""

    def __init__(self, counting: CountingRedis, pipe: Any) -> None:
        self._counting = counting
        self._pipe = pipe

    def execute_command(self, *words: Any) -> None:
        self._counting.reads += 1
        self._pipe.execute_command(*words)

    async def execute(self) -> Any:
        self._counting.round_trips += 1
        found = await self._pipe.execute()
        if self._counting.before_reply:
            act, self._counting.before_reply = self._counting.before_reply, None
            await act()
        return found


async def test_an_open_gate_is_not_asked_for_every_request(redis: Client, keys: Keys) -> None:
    """Within a second Redis is read once for each domain, however many requests there are."""
    counting, work, slots = CountingRedis(redis), Work(), asyncio.Semaphore(10)
    g = gate(counting, keys, 0.0, None)

    for domain in ("a.example", "b.example"):
        for _ in range(20):
            assert await g.run_in_turn(domain, slots, work, max_wait_seconds=0) == "done"

    assert (work.done, counting.reads) == (40, 2)


async def test_gates_that_are_asked_together_are_read_together(redis: Client, keys: Keys) -> None:
    """The first pages of many hosts at one moment take one round trip, in which each domain is read once."""
    counting, work, slots = CountingRedis(redis), Work(), asyncio.Semaphore(100)
    g = gate(counting, keys, 0.0, None)
    await g.close_for("7.example", 500, "Retry-After (429)")
    domains = [f"{number}.example" for number in range(10)] * 3

    results = await asyncio.gather(*(g.run_in_turn(one, slots, work, max_wait_seconds=0) for one in domains))

    assert (counting.round_trips, counting.reads) == (1, 10)
    assert [isinstance(result, Deferred) for result in results] == [one == "7.example" for one in domains]


async def test_a_process_never_misses_what_it_shut_itself(redis: Client, keys: Keys) -> None:
    """Not even when it was just reading that all is open."""
    counting, work, slots = CountingRedis(redis), Work(), asyncio.Semaphore(10)
    g = gate(counting, keys, 0.0, None)
    counting.before_reply = lambda: g.close_for("a.example", 500, "Retry-After (429)")

    under_way = await g.run_in_turn("a.example", slots, work, max_wait_seconds=0)
    after = await g.run_in_turn("a.example", slots, work, max_wait_seconds=0)

    assert (under_way, isinstance(after, Deferred)) == ("done", True)


async def test_a_gate_opened_by_hand_is_open_at_once(redis: Client, keys: Keys) -> None:
    """That a domain is shut is never remembered, only that it is open."""
    g, work, slots = gate(redis, keys, 0.0, None), Work(), asyncio.Semaphore(1)
    await g.close_for("a.example", 500, "Retry-After (429)")
    assert isinstance(await g.run_in_turn("a.example", slots, work, max_wait_seconds=0), Deferred)

    await redis.delete(keys.gate("a.example"))

    assert await g.run_in_turn("a.example", slots, work, max_wait_seconds=0) == "done"


async def test_who_waits_for_the_wire_hears_of_a_shut_meanwhile(redis: Client, keys: Keys) -> None:
    """The first answer was 429: of those behind it nobody asks any more."""
    g, slots, asked = gate(redis, keys, 0.0, None), asyncio.Semaphore(1), []

    async def work() -> str:
        asked.append(1)
        await g.close_for("a.example", 500, "Retry-After (429)")
        return "429"

    results = await asyncio.gather(*(g.run_in_turn("a.example", slots, work, max_wait_seconds=0) for _ in range(5)))

    assert (len(asked), [type(result) for result in results[1:]]) == (1, [Deferred] * 4)


async def test_the_memory_of_open_gates_is_bounded(redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl of the whole web does not fill a process with domains."""
    monkeypatch.setattr("core.net.rate_limit.MEMORY_DOMAINS", 3)
    g, work, slots = gate(redis, keys, 0.0, None), Work(), asyncio.Semaphore(1)

    for number in range(10):
        await g.run_in_turn(f"{number}.example", slots, work, max_wait_seconds=0)

    assert len(g._gate._open_at) <= 3


async def test_what_counts_itself_stands_in_no_line(redis: Client, keys: Keys) -> None:
    """`unless_shut` knows no gap and no limit, and leaves no trace, but a shut gate holds."""
    g, work, slots = gate(redis, keys, parallel=1), Work(), asyncio.Semaphore(10)

    results = [await g.run_unless_closed("a.example", slots, work, max_wait_seconds=0) for _ in range(3)]
    assert (results, await redis.keys("*")) == (["done"] * 3, [])

    await g.close_for("a.example", 500, "limit")
    assert isinstance(await g.run_unless_closed("a.example", slots, work, max_wait_seconds=0), Deferred)
