"""The harness itself: a net with holes would catch nothing."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import BusyLoadingError, ConnectionError

from core import ids
from core.keys import Keys
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from tests.faults import crash, resp, state
from tests.faults.proxy import LOADING, Proxy

URL = "https://news.example/feed"
FEED = ids.feed_id(URL)


def through(settings: Settings, proxy: Proxy) -> Client:
    return connect.open_store(settings.model_copy(update={"redis_url": SecretStr(proxy.url)}))


@pytest.mark.parametrize(
    "frame",
    [
        *(b"+OK\r\n", b"-ERR no\r\n", b":1\r\n", b"$2\r\n\r\n\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"_\r\n"),
        *(b",1.5\r\n", b"#t\r\n", b"%1\r\n+a\r\n*2\r\n:1\r\n$1\r\nb\r\n", b"~1\r\n+a\r\n", b"=5\r\ntxt:a\r\n"),
        *(b">2\r\n+invalidate\r\n*0\r\n", b"|1\r\n+ttl\r\n:3\r\n+OK\r\n", b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
    ],
)
def test_frames_are_found_however_they_arrive(frame: bytes) -> None:
    """Byte by byte or all at once: one frame, and the next begins where it ends."""
    slowly = resp.Frames()
    pieces = [found for byte in frame + b":7\r\n" for found in slowly.feed(bytes([byte]))]

    assert pieces == resp.Frames().feed(frame + b":7\r\n") == [frame, b":7\r\n"]


async def test_proxy_counts_each_command_of_a_pipeline(redis: Client, settings: Settings, proxy: Proxy) -> None:
    """Plain, pipeline, MULTI and EVAL; what redis-py says on connecting is not counted."""
    async with through(settings, proxy) as client:
        await client.set("a", "1")
        await client.pipeline(transaction=False).get("a").get("b").execute()  # type: ignore[attr-defined]
        await client.pipeline(transaction=True).set("b", "2").execute()  # type: ignore[attr-defined]
        await client.eval("return KEYS[1]", 1, "a")

    assert proxy.commands == ["SET a", "GET a", "GET b", "MULTI", "SET b", "EXEC", "EVAL a"]


async def test_dropped_reply_means_done_twice(redis: Client, settings: Settings, proxy: Proxy) -> None:
    """INCR, its reply lost, is executed again: the fault is real, and it happens once."""
    async with through(settings, proxy) as client:
        proxy.drop_reply(1)
        answer = await client.incr("n")
        again = await client.incr("n")

    assert (answer, again, proxy.dropped) == (2, 3, ["INCRBY n"])


async def test_off_and_on_and_wrong_answers(redis: Client, settings: Settings, proxy: Proxy, at_once: None) -> None:
    """Gone is refused, back is as before; LOADING is what redis-py takes for it."""
    async with through(settings, proxy) as client:
        await client.set("a", "1")
        await proxy.off()
        with pytest.raises(ConnectionError):
            await client.get("a")
        await proxy.on()
        back = await client.get("a")
        proxy.answer(LOADING)
        with pytest.raises(BusyLoadingError):
            await client.get("a")
        proxy.forward()

        assert (back, await client.get("a")) == ("1", "1")


async def test_crash_is_before_the_command_and_for_good(redis: Client, settings: Settings) -> None:
    """At each point the commands before it were executed, no later one is, and nothing brings the process back."""
    ends = []
    for point in crash.every_point():
        await redis.flushall()
        with point:
            async with connect.open_store(settings) as client:
                try:
                    await client.set("a", "1")
                    await client.pipeline(transaction=False).set("b", "1").set("c", "1").execute()  # type: ignore[attr-defined]
                    await client.pipeline(transaction=True).set("d", "1").set("e", "1").execute()  # type: ignore[attr-defined]
                    await client.eval("return redis.call('SET', KEYS[1], 1)", 1, "f")
                finally:
                    await client.set("z", "from the grave") if point.is_dead else None
        ends.append("".join(sorted([key async for key in redis.scan_iter()])))

    assert ends == ["", "a", "ab", *["abc"] * 4, "abcde", "abcdef"]


async def test_crash_hides_no_other_error() -> None:
    """An error that is no crash comes out."""
    with pytest.raises(ZeroDivisionError), crash.Point(1):
        raise ZeroDivisionError


async def test_saved_is_restored(redis: Client, settings: Settings) -> None:
    """Types, members, scores and lives come back, and nothing else stays."""
    raw = AsyncRedis.from_url(connect.url_of(settings))
    await redis.zadd("z", {"a": 1.5})
    await redis.set("s", "1", ex=7200)
    before = await state.look(redis, Keys())
    saved = await state.save(raw)
    await redis.set("s", "2")
    await redis.set("t", "3")
    await state.restore(raw, saved)
    await raw.aclose()

    assert state.difference(state.dump(before), state.dump(await state.look(redis, Keys()))) == ""


async def sound_store(client: Client, keys: Keys, now: float) -> None:
    """A store with one polled feed."""
    await client.sadd(keys.categories, "world")
    await client.sadd(keys.feeds("world"), URL)
    feed = {"url": URL, "categories": "world", "status": "ok", "next_poll_ts": str(now + 60), "body_hash": "x"}
    await client.hset(
        keys.feed(FEED), mapping=feed | {"entries": "1", "rejected": "0", "renewed_ts": str(now), "polls": "1"}
    )
    await client.zadd(keys.feeds_due, {FEED: now + 60})
    await client.sadd(keys.feed_links(FEED), "a")
    await client.sadd(keys.category_links("world"), "a")
    await client.zadd(keys.category_links_seen("world"), {"a": now})
    await client.expire(keys.category_links("world"), 60)
    await client.expire(keys.category_links_seen("world"), 60)
    counts = {"polled": 1, "changed": 1, "unchanged": 0, "errors": 0, "gone": 0, "links_found": 1, "links_new": 1}
    await client.hset(keys.ingest_stats, mapping=counts | {"links_known": 0, "links_rejected": 0})


LAST_RUN = dict.fromkeys(("links_found", "links_new", "links_known", "links_rejected"), 0) | {
    **dict.fromkeys(("unchanged", "errors", "gone"), 0),
    **dict.fromkeys(("polled", "changed"), 9),
}
PLANTED = {
    "not declared": ("SET", "rss:nobody_knows", "1"),
    "declared as set": ("SET", "rss:categories", "1"),
    "has no life": ("PERSIST", "rss:category_links:world"),
    "ends in": ("EXPIRE", "rss:feeds_due", "60"),
    "no stamp": ("SADD", "rss:category_links:world", "b"),
    "a stamp and is no link": ("SREM", "rss:category_links:world", "a"),
    "not in the due set": ("DEL", "rss:feeds_due"),
    "its state says": ("ZADD", "rss:feeds_due", "9e9", FEED),
    "links are not there": ("DEL", f"rss:feed_links:{FEED}"),
    "links of a feed without state": ("SADD", "rss:feed_links:lonely", "a"),
    "was seen and is not in world": ("SADD", f"rss:feed_links:{FEED}", "b"),
    "every link is counted": ("HINCRBY", "rss:ingest_stats", "links_found", "1"),
    "every poll is counted": ("HINCRBY", "rss:ingest_stats", "polled", "1"),
    "above its total": ("HSET", "rss:ingest_stats:last_run", *(word for pair in LAST_RUN.items() for word in pair)),
    "has no state": ("SADD", "rss:feeds:world", "https://news.example/new"),
    "a lease after": ("SET", "ingest:lease:feed_x", "token", "EX", "60"),
    "a count of deaths after": ("SET", "ingest:crashes:feed_x", "1", "EX", "60"),
}


@pytest.mark.parametrize("sentence", PLANTED)
async def test_planted_problem_is_found(redis: Client, keys: Keys, sentence: str) -> None:
    """Each invariant, broken on purpose, is told; the sound store has nothing to tell."""
    await sound_store(redis, keys, await connect.now(redis))
    sound = state.problems(await state.look(redis, keys), is_settled=True)
    command = PLANTED[sentence]
    if command[0] == "SET" and command[1] == keys.categories:
        await redis.delete(keys.categories)
    await redis.execute_command(*command)
    found = state.problems(await state.look(redis, keys), is_settled=True)

    assert sound == []
    assert any(sentence in problem for problem in found), found
