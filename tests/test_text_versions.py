"""The history of a text: what is remembered when it changes, and for how long."""

from __future__ import annotations

import json

import pytest

from core.registry.io.version_store import VersionStore
from core.registry.text_versions import MOST_EARLIER, read_text, read_version, write_text
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import Client
from tests.api import ApiServer
from tests.articles import ArticlePage
from tests.crawled_site import SID, add_site, crawl_context, item_id
from tests.site import Site
from tests.web import FakeWeb


def history(context: Context) -> VersionStore:
    return VersionStore(context.client, context.keys)


async def test_unchanged_text_costs_nothing(context: Context, web: FakeWeb) -> None:
    """Stored, and checked again without a change: one version, and no key of its own."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    await paper.visit()

    [version] = (await history(context).history(paper.id)).versions
    stored = await paper.hash()
    assert (version.content_hash, version.title) == (stored["content_hash"], stored["title"])
    assert version.replaced_ts is None
    assert not await context.client.exists(context.keys.versions(paper.id), context.keys.version_texts(paper.id))


async def test_changes_of_text_and_title_are_versions(context: Context, web: FakeWeb, api: ApiServer) -> None:
    """Newest first, each with its hash and when it was read; the API tells the same; no text is kept."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    paper.write("As corrected.")
    await paper.visit()
    paper.write("As corrected.", title="Lock gates stay shut")
    await paper.visit()

    told = (await api.get(f"/api/items/{paper.uid}/versions")).json
    now, title, first = told["versions"]
    assert told["id"] == paper.id
    assert (now["title"], title["title"], first["title"]) == (
        "Lock gates stay shut",
        "Lock gates reopen",
        "Lock gates reopen",
    )
    assert now["content_hash"] == title["content_hash"] != first["content_hash"]
    assert now["changed_ts"] == title["replaced_ts"] > title["changed_ts"] == first["replaced_ts"]
    assert [one["has_text"] for one in told["versions"]] == [True, True, False]
    assert not await context.client.exists(context.keys.version_texts(paper.id))
    refused = await api.get(f"/api/items/{paper.id}/diff?older={first['content_hash']}")
    assert (refused.status, "SNAPSHOT_DAYS" in refused.error["hint"]) == (404, True)


async def test_ten_versions_are_remembered(context: Context, web: FakeWeb) -> None:
    """With the present one; older ones are dropped."""
    paper = ArticlePage(context, web)
    paper.write("Edition 0.")
    await paper.store()
    for number in range(1, 13):
        paper.write(f"Edition {number}.")
        await paper.visit()

    versions = (await history(context).history(paper.id)).versions
    assert len(versions) == MOST_EARLIER + 1 == 10
    assert len({one.content_hash for one in versions}) == 10
    times = [one.changed_ts for one in versions]
    assert times == sorted(times, reverse=True)


async def test_texts_are_kept_with_snapshots_and_compared(settings: Settings, site: Site, api: ApiServer) -> None:
    """SNAPSHOT_DAYS keeps what a page said before, compressed and with an end; the diff names the words."""
    site.page("/", links=["/a"])
    site.page("/a", "The weir was built in 1880.")
    async with crawl_context(settings, snapshot_days=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/a", "The weir was built in 1881.")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        name = item_id(site.url("/a"))
        ttl = await context.client.ttl(context.keys.version_texts(name))
        older = (await api.get(f"/api/items/{name}/versions")).json["versions"][1]["content_hash"]
        diff = (await api.get(f"/api/items/{name}/diff?older={older}")).json

    assert 2 * 86_400 - 60 < ttl <= 2 * 86_400
    changed = [(line["kind"], line["parts"]) for line in diff["lines"] if line["kind"] in ("added", "removed")]
    assert changed == [
        ("removed", [["The weir was built in ", False], ["1880", True], [".", False]]),
        ("added", [["The weir was built in ", False], ["1881", True], [".", False]]),
    ]


async def test_page_that_was_missing_keeps_its_history(settings: Settings, site: Site) -> None:
    """A 404 hides it; back with the same text, it has not changed; a 410 removes the history with the text."""
    site.page("/", links=["/a"])
    site.page("/a", "First.")
    async with crawl_context(settings, snapshot_days=1) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/a", "Second.")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        name = item_id(site.url("/a"))
        site.remove("/a")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        hidden = (await history(context).history(name)).versions
        site.page("/a", "Second.")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        back = (await history(context).history(name)).versions
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (len(hidden), len(back)) == (1, 2)
        assert not await context.client.exists(context.keys.versions(name), context.keys.version_texts(name))


async def test_damaged_entries_are_left_out(context: Context, redis: Client) -> None:
    """Whatever somebody wrote into the lists: what can be read is shown."""
    key, good = context.keys.versions("url_x"), json.dumps({"content_hash": "a" * 8, "changed_ts": "x"})
    await redis.rpush(key, "{", "[]", '{"title": "no hash"}', good)
    await redis.rpush(context.keys.version_texts("url_x"), "nonsense", "a !!!", write_text("b", "kept"))

    assert [one.content_hash for one in (await history(context).history("url_x")).versions] == ["a" * 8]
    assert await history(context).texts("url_x") == {"b": "kept"}


@pytest.mark.parametrize("text", ["", "plain", "ünï\U0001f6b0", "\udc80 no UTF-8", "x" * 100_000])
def test_text_comes_back_as_it_was(text: str) -> None:
    """Compressed and back; bytes that are no UTF-8 become question marks."""
    assert read_text(write_text("hash", text)) == (
        "hash",
        text.encode(errors="surrogateescape").decode(errors="replace"),
    )


def test_version_that_is_no_version() -> None:
    """None, and no exception."""
    assert read_version("null") is None
