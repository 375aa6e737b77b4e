"""A record says when and how its text was last proved to be the current one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from core import ids
from core.registry import verification
from core.registry.io.due import DueItems
from core.registry.verification import Verification
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store import connect
from core.urls.file_paths import file_identity
from tests.crawled_site import SID, add_site, crawl_context, item, item_id
from tests.site import Site

OLD = 1_600_000_000


async def crawl_again(context: Context, url: str) -> dict[str, str]:
    await DueItems(context.client, context.keys).make_due([item_id(url)], await connect.now(context.client))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    return await item(context, url)


async def test_read_then_304_then_hash_then_failure(settings: Settings, site: Site) -> None:
    """Each visit that proves the text says how; one that fails leaves the last proof, though it was a check."""
    site.page("/", links=["/a"])
    site.page("/a", "About weirs.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        read = await item(context, site.url("/a"))
        same = await crawl_again(context, site.url("/a"))
        etag = "httpEtag", "httpLastModified", "bodyHash"
        await context.client.hset(context.keys.item(item_id(site.url("/a"))), mapping=dict.fromkeys(etag, ""))
        again = await crawl_again(context, site.url("/a"))
        site.web.on("/a", 503)
        failed = await crawl_again(context, site.url("/a"))

    assert [one["verifiedBy"] for one in (read, same, again, failed)] == ["read", "304", "hash", "hash"]
    assert read["verifiedTs"] == read["checkedTs"] < same["verifiedTs"] < again["verifiedTs"] == failed["verifiedTs"]
    assert failed["checkedTs"] > failed["verifiedTs"]


async def test_listing_proves_what_it_lists(settings: Settings, redis: connect.Client, tmp_path: Path) -> None:
    """A listing with the version that was read is a proof without a visit; one with another version is none."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nAbout weirs and the height of the river at the gauge.")
    os.utime(folder / "a.md", (OLD, OLD))
    domain = parse_domain(json.dumps({"id": "papers", "folder_sources": [{"id": "shelf", "path": str(folder)}]}), "/")
    name = ids.item_id("file", file_identity(str(folder / "a.md")).normalised)
    async with crawl_context(settings) as context:
        await add_domain(context.settings, redis, context.keys, domain)
        records = []
        for _ in range(2):
            await crawl_source(context, "papers.shelf", CrawlMode.INCREMENTAL)
            records.append(await redis.hgetall(context.keys.item(name)))
        os.utime(folder / "a.md", (OLD, OLD + 5))
        await crawl_source(context, "papers.shelf", CrawlMode.INCREMENTAL)
        records.append(await redis.hgetall(context.keys.item(name)))

    assert [record["verifiedBy"] for record in records] == ["read", "listing", "hash"]
    assert records[0]["checkedTs"] == records[1]["checkedTs"]
    assert float(records[0]["verifiedTs"]) < float(records[1]["verifiedTs"])


def test_older_records_were_verified_when_they_were_read() -> None:
    """A record from before the field was there, and one that was never visited."""
    assert verification.parse({"changedTs": "5", "checkedTs": "9"}) == Verification(5.0, "read", 9.0)
    assert verification.parse({"verifiedTs": "", "checkedTs": None}) == Verification()
