"""The list of broken feeds agrees with the feeds, whatever happens to them."""

from __future__ import annotations

from core import ids
from core.feeds.io.broken_feeds import BrokenFeeds
from core.keys import Keys
from core.runtime.context import Context
from core.store import connect
from core.store.connect import Client
from core.store.embedded import EmbeddedServer
from tests.articles import rss
from tests.faults.process import Worker, until
from tests.pipeline_scene import broken_feed
from tests.web import FakeWeb
from workers.ingestor import run_cycle


async def on_list(context: Context) -> dict[str, float]:
    rows = await context.client.zrange(context.keys.feeds_broken, 0, -1, withscores=True)
    return {str(fid): float(since) for fid, since in rows}


async def poll(context: Context, url: str) -> None:
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(url): 0})
    await run_cycle(context)


async def test_a_feed_breaks_and_recovers(context: Context, web: FakeWeb) -> None:
    """On the list with its first failure, whose time it keeps; off it with the next success."""
    url = web.url("/feed")
    web.on("/feed", 500)
    await context.subscriptions.add("world", url)
    await poll(context, url)
    first = await on_list(context)
    await poll(context, url)
    again = await on_list(context)
    newest = await BrokenFeeds(context.client, context.keys).newest(5)
    web.page("/feed", rss(web.url("/a")))
    await poll(context, url)

    assert list(first) == [ids.feed_id(url)]
    assert again == first
    assert [(one.fid, one.state.url, one.categories) for one in newest] == [(ids.feed_id(url), url, ("world",))]
    assert await on_list(context) == {}


async def test_a_feed_that_nobody_wants_is_not_on_the_list(context: Context, web: FakeWeb) -> None:
    """Unsubscribed by a person, or out of every category: gone with its state."""
    urls = [web.url(f"/{name}") for name in "abc"]
    for path in "abc":
        web.on(f"/{path}", 410)
    for url in urls:
        await context.subscriptions.add("world", url)
    await run_cycle(context)
    all_broken = await on_list(context)
    await context.subscriptions.remove(urls[0])
    by_person = await on_list(context)
    await context.client.srem(context.keys.feeds("world"), urls[1])
    await run_cycle(context)

    assert set(all_broken) == {ids.feed_id(url) for url in urls}
    assert set(by_person) == {ids.feed_id(url) for url in urls[1:]}
    assert set(await on_list(context)) == {ids.feed_id(urls[2])}


async def test_a_store_of_before_gets_its_list(redis: Client, keys: Keys, context: Context) -> None:
    """What the feeds say is what is listed, by their last poll; a time that is known stays."""
    now = await connect.now(redis)
    old = await broken_feed(redis, keys, "https://old.example/", now - 500)
    known = await broken_feed(redis, keys, "https://known.example/", now - 900)
    await redis.zrem(keys.feeds_broken, old)
    await redis.zadd(keys.feeds_broken, {known: now - 5_000, "feedcafe": now})
    changed = await BrokenFeeds(redis, keys).rebuild()

    assert changed == 2
    assert await on_list(context) == {old: round(now - 500, 3), known: now - 5_000}


async def test_the_ingestor_makes_the_list_at_its_start(
    redis: Client, keys: Keys, context: Context, server: EmbeddedServer
) -> None:
    """The real process, on a store that an earlier version wrote."""
    fid = await broken_feed(redis, keys, "https://old.example/", await connect.now(redis))
    await redis.delete(keys.feeds_broken)
    client = connect.open_queue(context.settings)
    with Worker(context.settings.persistent_storage_path, server.url, "workers.ingestor", "--once") as ingestor:
        await until(lambda: client.zscore(keys.feeds_broken, fid) is not None, lambda: ingestor.log)
    client.close()
