"""What has been gone for long is forgotten, everywhere."""

from __future__ import annotations

from core.keys import Keys
from core.models import Ref
from core.registry.io.periodic_cleanup import PURGE_BATCH, Purger
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.crawled_site import SID, add_site, crawl_context, item, item_id
from tests.site import Site

LIFE = 1_000
NOW = 1_763_000_000.0


async def gone(redis: connect.Client, keys: Keys, many: int, ts: float) -> list[str]:
    """So many tombstones since then."""
    registrar, names = Registrar(redis, keys, "host"), []
    refs = [Ref(f"https://gone.example/{n}") for n in range(many)]
    for start in range(0, many, 500):
        await registrar.register(refs[start : start + 500], Listing("s"), ts)
    pipe = redis.pipeline(transaction=False)
    for name in map(item_id_of, refs):
        names.append(name)
        pipe.hset(keys.item(name), mapping={"status": "Gone", "goneTs": f"{ts:.3f}"})
        pipe.smove(keys.status("Pending"), keys.status("Gone"), name)
    await pipe.execute()
    return names


async def test_tombstone_is_kept_for_its_life(redis: connect.Client, keys: Keys) -> None:
    """Restorable until GONE_TTL_SECONDS are over, then gone itself."""
    (name,) = await gone(redis, keys, 1, NOW)
    purging = Purger(redis, keys, LIFE)

    assert await purging.run(NOW + LIFE) == 0
    assert await redis.exists(keys.item(name))
    assert await purging.run(NOW + LIFE + 1) == 1
    kept = (keys.prune_cursors, keys.events, keys.done(""))
    assert [key for key in await redis.keys("*") if not key.startswith(kept)] == []


async def test_only_the_gone_are_purged(redis: connect.Client, keys: Keys) -> None:
    """A record that came back, or never was gone, stays, however old."""
    await Registrar(redis, keys, "host").register([Ref("https://a.example/")], Listing("s"), 1.0)

    assert await Purger(redis, keys, LIFE).run(NOW) == 0
    assert await redis.exists(keys.item(item_id_of(Ref("https://a.example/"))))


async def test_damaged_time_stops_nobody(redis: connect.Client, keys: Keys) -> None:
    """A tombstone whose time is no number stays; the others go."""
    first, second = await gone(redis, keys, 2, NOW)
    await redis.hset(keys.item(first), "goneTs", "abc")

    assert await Purger(redis, keys, LIFE).run(NOW + 2 * LIFE) == 1
    assert (await redis.exists(keys.item(first)), await redis.exists(keys.item(second))) == (1, 0)


async def test_many_go_in_pieces(redis: connect.Client, keys: Keys) -> None:
    """A tick never stops for a mass of them, and the round comes to its end."""
    names = await gone(redis, keys, 3 * PURGE_BATCH, NOW)
    purging, rounds, most = Purger(redis, keys, LIFE), 0, 0

    while await redis.exists(keys.status("Gone")):
        most = max(most, await purging.run(NOW + 2 * LIFE))
        rounds += 1
        assert rounds < 100

    assert rounds >= 2
    assert most < 3 * PURGE_BATCH
    assert await redis.exists(*(keys.item(name) for name in names)) == 0


async def test_page_that_is_gone_for_long_vanishes_everywhere(settings: Settings, site: Site) -> None:
    """Record, links, images, snapshot, partition, status, source: no key names it any more."""
    site.page("/", links=["/a"])
    site.page("/a", links=["/"], head='<meta property="og:image" content="/weir.jpg">')
    async with crawl_context(settings, snapshot_days=1) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        name = item_id(site.url("/a"))
        site.page("/", "No link any more.")
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert (await item(context, site.url("/a")))["status"] == "Gone"
        later = await connect.now(context.client) + settings.gone_ttl_seconds + 10

        purged = await Purger(context.client, context.keys, settings.gone_ttl_seconds).run(later)

        assert purged == 1
        assert await context.client.keys(f"*{name}*") == []
        for key in await context.client.keys("*"):
            kind = await context.client.type(key)
            if kind == "set":
                assert name not in await context.client.smembers(key), key
            elif kind == "zset" and key != context.keys.lost(SID):  # forgets by itself within a day
                assert await context.client.zscore(key, name) is None, key


async def test_purged_page_that_is_found_again_is_new(settings: Settings, site: Site) -> None:
    """Nothing of its past keeps it out."""
    site.page("/", links=["/a"])
    site.page("/a")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        later = await connect.now(context.client) + settings.gone_ttl_seconds + 10
        await Purger(context.client, context.keys, settings.gone_ttl_seconds).run(later)
        site.page("/a", "Back after years.")
        site.page("/", "With a new menu.", links=["/a"])

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (await item(context, site.url("/a")))["status"] == "Crawled"


async def test_purged_page_is_found_again_by_links_that_did_not_change(settings: Settings, site: Site) -> None:
    """The page that links to it answers 304: what it links to was stored, and is looked at once more."""
    site.page("/", links=["/a"])
    site.page("/a", "First.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        later = await connect.now(context.client) + settings.gone_ttl_seconds + 10
        assert await Purger(context.client, context.keys, settings.gone_ttl_seconds).run(later) == 1
        site.page("/a", "Back after years.")
        site.forget_requests()

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert "if-none-match" in site.web.asked("/")[-1].headers
        assert (await item(context, site.url("/a")))["status"] == "Crawled"
