"""The event stream over HTTP: nothing twice, nothing lost, and one reader of Redis for all clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from core.keys import Keys
from core.store import connect
from core.store.event_stream import EventStream, order
from tests.api import ApiServer
from workers.web import events, sse
from workers.web.routes import stream

EVENTS = Keys().events
PATIENCE_SECONDS = 30.0


@dataclass
class Client:
    """Reads one event stream."""

    reply: aiohttp.ClientResponse
    text: str = ""
    got: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, count: int) -> list[dict[str, Any]]:
        """Read until there are so many events; return them."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.got) < count:
                chunk = await self.reply.content.readany()
                if not chunk:
                    break
                *whole, self.text = (self.text + chunk.decode()).split("\n\n")
                self.got += [_fields(one) for one in whole if "data: " in one]
        return self.got


def _fields(text: str) -> dict[str, Any]:
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    return {"id": lines.get("id", ""), "event": lines["event"], "data": json.loads(lines["data"])}


@contextlib.asynccontextmanager
async def listening(api: ApiServer, after: str | None = None, query: str = "") -> AsyncIterator[Client]:
    headers = {"Last-Event-ID": after} if after else {}
    async with api.session.get(f"{api.url}/stream{query}", headers=headers) as reply:
        assert reply.status == 200, await reply.text()
        client = Client(reply)
        await reply.content.readuntil(b"\n\n")  # the first line: it is subscribed
        yield client


async def add(redis: connect.Client, first: int, count: int, kind: str = "item.changed") -> list[str]:
    return [
        str(await redis.xadd(EVENTS, {"type": kind, "number": str(number)})) for number in range(first, first + count)
    ]


# ── every event once ──


async def test_reconnecting_client_gets_every_event_once(api: ApiServer, redis: connect.Client) -> None:
    """Whatever happens between two connections comes with the second; nothing comes twice."""
    ids: list[str] = []
    got: list[dict[str, Any]] = []
    async with listening(api) as client:
        ids += await add(redis, 0, 3)
        got += await client.until(3)
    for turn in range(3):
        ids += await add(redis, len(ids), 700 if turn == 1 else 5)  # more than one batch
        async with listening(api, after=got[-1]["id"]) as client:
            ids += await add(redis, len(ids), 4)
            got += await client.until(len(ids) - len(got))

    assert [one["id"] for one in got] == ids
    assert [int(one["data"]["number"]) for one in got] == list(range(len(ids)))
    assert got[0] == {
        "id": ids[0],
        "event": "item.changed",
        "data": {"type": "item.changed", "number": "0"},
    }


async def test_reconnecting_while_events_are_added_loses_nothing(api: ApiServer, redis: connect.Client) -> None:
    """A client that comes and goes beside a writer that never stops."""
    ids: list[str] = []

    async def write() -> None:
        for number in range(150):
            ids.extend(await add(redis, number, 1))
            await asyncio.sleep(0)

    async with listening(api) as first:
        writing = asyncio.create_task(write())
        got = list(await first.until(10))
    while len(got) < 150:
        async with listening(api, after=got[-1]["id"]) as again:
            got += await again.until(min(40, 150 - len(got)))
    await writing

    assert [one["id"] for one in got] == ids


async def test_only_wanted_types_are_sent(api: ApiServer, redis: connect.Client) -> None:
    """`type=` leaves out the others, live and when it catches up."""
    await add(redis, 0, 2, "item.gone")
    await add(redis, 2, 2, "item.changed")
    async with listening(api, after="0-0", query="?type=item.gone,run.finished") as client:
        await add(redis, 4, 2, "item.changed")
        await add(redis, 6, 1, "run.finished")
        got = await client.until(3)

    assert [one["event"] for one in got] == ["item.gone", "item.gone", "run.finished"]


async def test_query_is_an_id_too(api: ApiServer, redis: connect.Client) -> None:
    """`after=` does what Last-Event-ID does, for clients that cannot set headers; the header wins."""
    ids = await add(redis, 0, 3)
    async with listening(api, query=f"?after={ids[0]}") as client:
        assert [one["id"] for one in await client.until(2)] == ids[1:]
    async with listening(api, after=ids[1], query=f"?after={ids[0]}") as client:
        assert [one["id"] for one in await client.until(1)] == ids[2:]


@pytest.mark.parametrize("wrong", ["x", "1", "1-", "-1", "1-1-1", "99999999999999999999-0", "１-１"])
async def test_wrong_id_is_a_sentence(api: ApiServer, wrong: str) -> None:
    """An id that no event has is refused."""
    answer = await api.get("/stream", headers={"Last-Event-ID": wrong})

    assert (answer.status, answer.error["code"]) == (422, "invalid")


# ── gaps ──


async def test_client_too_far_behind_is_told(api: ApiServer, redis: connect.Client) -> None:
    """If events it has not seen were trimmed, it gets `gap` first, then what is still there."""
    ids = await add(redis, 0, 20)
    await redis.xtrim(EVENTS, maxlen=5, approximate=False)
    async with listening(api, after=ids[3]) as client:
        got = await client.until(6)

    assert [one["event"] for one in got] == ["gap"] + ["item.changed"] * 5
    assert got[0]["data"]["after"] == ids[3]
    assert [one["id"] for one in got[1:]] == ids[-5:]


async def test_client_of_an_emptied_store_is_told(api: ApiServer, redis: connect.Client) -> None:
    """An id later than anything in the stream comes from another store: gap, then what comes."""
    await add(redis, 0, 1)
    async with listening(api, after="99999999999999-0") as client:
        await add(redis, 1, 1)
        got = await client.until(2)

    assert [one["event"] for one in got] == ["gap", "item.changed"]


# ── many clients, slow clients ──


async def test_two_hundred_clients_have_one_reader(api: ApiServer, redis: connect.Client) -> None:
    """Two hundred clients get every event, and Redis answers a few reads."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, contextlib.AsyncExitStack() as stack:
        many = ApiServer(api.url, session, api.opener)
        clients = [await stack.enter_async_context(listening(many)) for _ in range(200)]
        before = await _reads(redis)
        ids = await add(redis, 0, 20)
        got = await asyncio.gather(*(client.until(20) for client in clients))
        reads = await _reads(redis) - before

    assert all([one["id"] for one in events_of_one] == ids for events_of_one in got)
    assert reads <= 25


async def test_too_many_clients_are_refused(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of clients the next one is told so."""
    monkeypatch.setattr(stream, "MOST_CLIENTS", 1)
    async with listening(api):
        answer = await api.get("/stream")

    assert (answer.status, answer.error["code"]) == (503, "too_many_clients")


async def _reads(redis: connect.Client) -> int:
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("xread", "xrange", "xrevrange"))


async def test_slow_client_is_disconnected_and_comes_back(
    api: ApiServer, redis: connect.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads nothing does not make the server keep everything for it; what it missed it gets later."""
    monkeypatch.setattr(events, "MOST_WAITING_EVENTS", 200)
    feed = api.opener.require().events
    text = "x" * 20_000
    async with listening(api) as slow, listening(api) as quick:
        for number in range(40):
            async with redis.pipeline(transaction=False) as pipe:
                for _ in range(50):
                    pipe.xadd(EVENTS, {"type": "item.changed", "text": text})
                await pipe.execute()
            await quick.until(50 * (number + 1))
            if feed.count_clients == 1:
                break
        assert feed.count_clients == 1
        with contextlib.suppress(aiohttp.ClientError):
            await slow.until(10**9)

    ends = await EventStream(redis, Keys()).ends()
    first = slow.got[-1]["id"] if slow.got else "0-0"
    assert len(slow.got) < len(quick.got)
    async with listening(api, after=first) as again:
        await again.until(len(quick.got) - len(slow.got))
    assert [one["id"] for one in slow.got + again.got] == [one["id"] for one in quick.got]
    assert again.got[-1]["id"] == ends.last_id


async def _until_nobody_listens(feed: events.EventFeed) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while feed.count_clients:  # noqa: ASYNC110 - the server has no event for a client that left
            await asyncio.sleep(0.01)


async def test_heartbeats_tell_that_it_is_alive(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing happens a comment is sent, and a client that left is noticed by it."""
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.05)
    feed = api.opener.require().events
    async with listening(api) as client:
        assert await client.reply.content.readuntil(b"\n\n") == b": heartbeat\n\n"
        assert feed.count_clients == 1
    await _until_nobody_listens(feed)


async def test_stream_outlives_a_server_that_is_away(api: ApiServer, redis: connect.Client) -> None:
    """A reader whose connection breaks goes on where it was."""
    async with listening(api) as client:
        ids = await add(redis, 0, 2)
        await client.until(2)
        await redis.client_kill_filter(_type="normal", skipme=True)
        ids += await add(redis, 2, 2)
        got = await client.until(4)

    assert [one["id"] for one in got] == ids


async def test_nobody_listens_nobody_reads(api: ApiServer, redis: connect.Client) -> None:
    """Without a client the stream is not read at all."""
    async with listening(api):
        pass
    feed = api.opener.require().events
    await add(redis, 0, 1)  # by which the server notices that it has gone
    await _until_nobody_listens(feed)
    before = await _reads(redis)
    await add(redis, 0, 3)
    await asyncio.sleep(0)

    assert await _reads(redis) - before <= 1  # the read that was waiting


@pytest.mark.parametrize(
    ("smaller", "larger"), [("0-0", "0-1"), ("9-9", "10-0"), ("9-9", "9-10"), ("1794955425744-0", "1794955425744-1")]
)
def test_ids_are_ordered_by_number(smaller: str, larger: str) -> None:
    """Not by their letters."""
    assert order(smaller) < order(larger)
