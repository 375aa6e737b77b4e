"""From a crawled site to an answer: chunks, vectors, swap and search, with the real model and the real replica."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from core.indexes.opening import open_searcher
from core.indexes.protocols import Filters
from core.indexes.searcher import Found, Query
from core.settings import Settings
from core.stores import connect
from tests.site import Site
from tests.test_crawl import SID, add_site, item, item_id, office
from tests.web import FakeWeb
from workers.crawl import Mode, crawl
from workers.desk import Desk
from workers.embed_jobs import embed_items

STRIKE = "The dockers' ballot ended last night: seven in ten members voted for the walkout, the union said."
FOOTBALL = "United beat Rovers by two goals to one in the rain; both goals came after the break."


@pytest.fixture
async def site(redis: connect.Client) -> AsyncIterator[Site]:
    async with FakeWeb() as web:
        yield Site(web)


async def embed(desk: Desk) -> dict[str, int]:
    waiting = await desk.client.zrange(desk.keys.embed_due, 0, -1, desc=True)
    return dict(await embed_items(desk.settings, list(waiting), time.monotonic() + 60))


async def ask(desk: Desk, text: str, **more: object) -> Found:
    async with open_searcher(desk.settings, desk.client, desk.keys) as searcher:
        return await searcher.search(Query(text, **more), time.time())


async def test_question_finds_the_right_page_by_its_meaning(settings: Settings, site: Site) -> None:
    """Not one word of the question is in the answer."""
    site.page("/", links=["/a", "/b"])
    site.page("/a", STRIKE)
    site.page("/b", FOOTBALL)
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)
        counts = await embed(desk)

        found = await ask(desk, "who won the strike vote")

        assert counts["indexed"] == 3
        assert found.results[0].page.url == site.url("/a")
        assert found.by == "words and meaning"
        record = await item(desk, site.url("/a"))
        assert (record["status"], record["indexedHash"]) == ("Indexed", record["contentHash"])
        assert await desk.client.zcard(desk.keys.embed_due) == 0


async def test_text_is_found_by_words_before_it_is_embedded(settings: Settings, site: Site) -> None:
    """As soon as it is stored."""
    site.page("/", "A page about sluice gates.")
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)

        assert [one.page.url for one in (await ask(desk, "sluice gates")).results] == [site.url("/")]


async def test_gone_page_is_never_found(settings: Settings, site: Site) -> None:
    """From the moment of the commit, with its chunks and vectors; and the replica forgets it."""
    site.page("/", links=["/a"])
    site.page("/a", STRIKE)
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)
        await embed(desk)
        assert len((await ask(desk, "dockers ballot")).results) >= 1
        site.remove("/a", 410)
        await crawl(desk, SID, Mode.INCREMENTAL)

        found = await ask(desk, "dockers ballot")

        assert site.url("/a") not in [one.page.url for one in found.results]
        assert await desk.client.zcard(desk.keys.chunks(item_id(site.url("/a")))) == 0


async def test_small_change_embeds_only_what_is_new(settings: Settings, site: Site) -> None:
    """Chunks that stay keep their vectors; a revert embeds nothing."""
    paragraphs = [
        f"Paragraph {n} speaks of gauge {n} at bridge {n}, which stands {n} metres above the river." for n in range(60)
    ]
    site.page("/", "</p><p>".join(paragraphs))
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)
        first = await embed(desk)
        changed = [*paragraphs[:30], "A new sentence stands here.", *paragraphs[30:]]
        site.page("/", "</p><p>".join(changed))
        await crawl(desk, SID, Mode.INCREMENTAL)
        second = await embed(desk)
        site.page("/", "</p><p>".join(paragraphs))
        await crawl(desk, SID, Mode.INCREMENTAL)
        third = await embed(desk)

        assert first["embedded"] >= 4
        assert 1 <= second["embedded"] < first["embedded"] / 2
        assert third.get("embedded", 0) == 0


async def test_text_that_changes_meanwhile_is_superseded(settings: Settings, site: Site) -> None:
    """Nothing of the old text is committed; the new one is next."""
    site.page("/", "First text.")
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)
        waiting = await desk.client.zrange(desk.keys.embed_due, 0, -1)
        await desk.client.hset(desk.keys.item(waiting[0]), "contentHash", "another")

        await embed_items(desk.settings, list(waiting), time.monotonic() + 60)

        assert (await item(desk, site.url("/")))["status"] == "Crawled"
        assert await desk.client.zcard(desk.keys.chunks(waiting[0])) == 0


async def test_filters_and_duplicates(settings: Settings, site: Site) -> None:
    """Pages with one text are one result that names the other; a filter for another domain finds nothing."""
    site.page("/", links=["/a", "/b"])
    body = f"<html><head><title>Copy</title></head><body><main><h1>Copy</h1><p>{STRIKE}</p></main></body></html>"
    site.web.page("/a", body)
    site.web.page("/b", body)
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)
        await embed(desk)

        found = await ask(desk, "dockers ballot walkout")

        urls = {found.results[0].page.url, *found.results[0].duplicates}
        assert urls == {site.url("/a"), site.url("/b")}
        assert (await ask(desk, "dockers ballot", filters=Filters(domains=("other",)))).results == ()
        assert (await ask(desk, "dockers ballot", filters=Filters(domains=("docs",)))).results


async def test_aliases_are_named_in_the_one_result(settings: Settings, site: Site) -> None:
    """A page under two names is one result, and the other name stands in it."""
    site.page("/", links=["/old"])
    site.web.redirect("/old", "/new", 301)
    site.page("/new", STRIKE)
    async with office(settings) as desk:
        await add_site(desk, site.url("/"))
        await crawl(desk, SID, Mode.INCREMENTAL)

        found = await ask(desk, "dockers ballot")

        assert [(one.page.url, one.aliases) for one in found.results[:1]] == [(site.url("/new"), (site.url("/old"),))]
