"""Snapshots: a better extractor reads what was served, without asking anybody for it again."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator

import pytest

from core.pages.extraction_result import EXTRACTOR_VERSION
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.crawled_site import SID, add_site, counts, crawl_context, item, item_id, text
from tests.site import Site
from tests.web import FakeWeb

DAY = 86_400


@pytest.fixture
async def site(redis: connect.Client) -> AsyncIterator[Site]:
    async with FakeWeb() as web:
        made = Site(web)
        made.page("/", links=["/a"])
        made.page("/a", "About weirs.")
        yield made


async def age(context: Context, *urls: str) -> None:
    """As if an older extractor had read these, and worse."""
    for url in urls:
        await context.client.hset(context.keys.item(item_id(url)), "extractorVersion", "ancient")
        await context.client.hset(context.keys.document(item_id(url)), "markdown", "Read badly.")


def bodies(site: Site, path: str) -> list[bool]:
    """For each request for a path: was it conditional, so that its answer had no body?"""
    return ["if-none-match" in seen.headers for seen in site.web.asked(path)]


async def test_body_is_kept_compressed_with_an_end(settings: Settings, site: Site) -> None:
    """The bytes as served, smaller than they were, for SNAPSHOT_DAYS."""
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        key = context.keys.snapshot(item_id(site.url("/a")))
        kept = await context.client.hgetall(key)
        body = zlib.decompress(base64.b64decode(kept["body"]))
        assert b"About weirs." in body
        assert len(kept["body"]) < len(body)
        assert kept["url"] == site.url("/a")
        assert kept["body_hash"] == (await item(context, site.url("/a")))["bodyHash"]
        assert 2 * DAY - 60 < await context.client.ttl(key) <= 2 * DAY


async def test_no_snapshot_unless_asked_for(settings: Settings, site: Site) -> None:
    """SNAPSHOT_DAYS is 0 by default: nothing is kept."""
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await context.client.keys(context.keys.snapshot("*")) == []


async def test_new_extractor_reads_the_snapshot_behind_a_304(settings: Settings, site: Site) -> None:
    """One tiny request per page, no body on the wire, the text is read anew; no event, for nothing changed there."""
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        events = await context.client.xlen(context.keys.events)
        before = await item(context, site.url("/a"))
        await age(context, site.url("/"), site.url("/a"))
        site.forget_requests()

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert counts(run) == {"discovered": 2, "visited": 2, "unchanged": 2}
        assert bodies(site, "/a") == bodies(site, "/") == [True]
        assert "About weirs." in await text(context, site.url("/a"))
        after = await item(context, site.url("/a"))
        assert after["extractorVersion"] == EXTRACTOR_VERSION
        for name in ("httpEtag", "bodyHash", "contentHash", "lastChanged", "validatorsUrl"):
            assert after[name] == before[name], name
        assert await context.client.xlen(context.keys.events) == events + 1  # run.finished
        site.forget_requests()
        assert counts(await crawl_source(context, SID, CrawlMode.INCREMENTAL)) == {
            "discovered": 2,
            "visited": 2,
            "unchanged": 2,
        }
        assert bodies(site, "/a") == [True]


async def test_without_a_snapshot_the_page_is_fetched_whole(settings: Settings, site: Site) -> None:
    """A 304 would keep the old text for ever, so no validator is sent."""
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await age(context, site.url("/a"))
        site.forget_requests()

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert bodies(site, "/a") == [False]
        assert "About weirs." in await text(context, site.url("/a"))
        assert (await item(context, site.url("/a")))["extractorVersion"] == EXTRACTOR_VERSION


async def test_changed_page_is_read_from_the_wire(settings: Settings, site: Site) -> None:
    """The snapshot is for the page we have; a 200 brings the one there is, and its snapshot."""
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await age(context, site.url("/a"))
        site.page("/a", "About sluices.")

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert "About sluices." in await text(context, site.url("/a"))
        kept = await context.client.hget(context.keys.snapshot(item_id(site.url("/a"))), "body")
        assert b"About sluices." in zlib.decompress(base64.b64decode(kept))


async def test_snapshot_of_another_version_is_not_believed(settings: Settings, site: Site) -> None:
    """What does not belong to the stored text is not read; the page is had the next time."""
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await age(context, site.url("/a"))
        key = context.keys.snapshot(item_id(site.url("/a")))
        await context.client.hset(key, "body_hash", "of another page")

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await context.client.delete(key)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert "About weirs." in await text(context, site.url("/a"))


async def test_page_behind_a_temporary_redirect_keeps_its_name(settings: Settings, site: Site) -> None:
    """Read from a snapshot, which knows no redirects, it is no alias of where it was served from."""
    site.page("/", links=["/a", "/now"])
    site.web.redirect("/a", "/now", 302)
    site.page("/now", "For the moment.")
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await age(context, site.url("/a"))

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (await item(context, site.url("/a")))["aliasOf"] == ""
        assert "For the moment." in await text(context, site.url("/a"))


async def test_snapshot_goes_with_the_page(settings: Settings, site: Site) -> None:
    """410: the bytes are no longer kept either."""
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a", 410)

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert not await context.client.exists(context.keys.snapshot(item_id(site.url("/a"))))
