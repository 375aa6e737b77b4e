"""When an article's TTL ends: a page that a site lists too stays what it is, any other item is Gone until it is pruned.

Expiry fires no event; in these tests the hash is deleted, which looks the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.models import Ref
from core.registry.io.article_end import ArticleEnd
from core.registry.io.periodic_cleanup import ArticleExpiry
from core.registry.io.registrar import Listing
from core.runtime.job_queues import JobQueues
from core.search.io.chunk_store import ChunkStore
from core.search.io.searcher import open_searcher
from core.settings import Settings
from core.store import connect
from core.store.commands import Command
from tests.articles import ArticlePage
from tests.crawled_site import SID
from tests.search_site import Library, open_library
from tests.site import FILLER
from workers.timer import Timer

TEXT = f"The dockers voted for a walkout in the old harbour. {FILLER}"


class Press:
    """A library, and an article in it."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.context = library.context
        self.client, self.keys = library.context.client, library.context.keys
        self.paper = ArticlePage(library.context, library.site.web, "/a")

    async def store(self, *, is_listed_by_site: bool) -> None:
        """The article, crawled and embedded."""
        self.paper.write(TEXT)
        await self.paper.store()
        if is_listed_by_site:
            await self.list_by_site()
        await self.library.embed()

    async def list_by_site(self) -> None:
        self.library.site.page("/", links=["/a", "/x"])
        await self.library.crawl()
        assert (await self.paper.item())["sources"] == f"rss,{SID}"

    async def end(self) -> None:
        await self.client.delete(self.keys.article(self.paper.uid))

    async def sweep(self, seconds: float = 0.0) -> int:
        now = await connect.now(self.client) + seconds
        return await ArticleExpiry(self.client, self.keys, Ttls.of(self.library.settings)).run(now)

    async def found(self, words: str = "dockers walkout") -> list[str]:
        return [path for path in await self.library.urls(words, lexical_weight=1.0) if path == "/a"]

    async def due(self, source: str) -> float | None:
        return await self.client.zscore(self.keys.due(source), self.paper.id)

    async def is_whole(self) -> bool:
        """No errors in the index, the replica as the store, the item in the one set of its status."""
        errors = await self.library.index_errors()
        async with self.searcher() as searcher:
            told = await searcher.follower.compare()
        places = [
            key.removeprefix(self.keys.status(""))
            for key in await self.client.keys(self.keys.status("*"))
            if await self.client.sismember(key, self.paper.id)
        ]
        status = (await self.paper.item())["status"]
        return (errors, told["missing"], told["extra"], places) == ([], 0, 0, [status])

    def searcher(self) -> Any:
        return open_searcher(self.library.settings, self.client, self.keys)


@pytest.fixture
async def press(settings: Settings) -> AsyncIterator[Press]:
    async with open_library(settings, {"/x": "Nothing of interest."}) as library:
        yield Press(library)


# ── a page that a site lists too ──


async def test_page_of_a_site_never_leaves_search(press: Press) -> None:
    """Its text is the site's as well: found before anybody has noticed the end, and after; one source less."""
    await press.store(is_listed_by_site=True)
    before, due = await press.paper.item(), await press.due(SID)
    chunks = await press.client.zrange(press.keys.chunks(press.paper.id), 0, -1)
    assert chunks
    await press.end()

    assert await press.found() == ["/a"]
    assert await press.sweep() == 1
    assert await press.found() == ["/a"]
    after = await press.paper.item()
    assert (after["articleUid"], after["sources"], after["status"]) == ("", SID, "Indexed")
    assert (after["contentHash"], after["httpEtag"]) == (before["contentHash"], before["httpEtag"])
    assert await press.client.zrange(press.keys.chunks(press.paper.id), 0, -1) == chunks
    assert (await press.due("rss"), await press.due(SID)) == (None, due)
    assert await press.client.zscore(press.keys.refs("rss"), press.paper.id) is None
    assert "item.gone" not in await press.paper.events()
    assert await press.is_whole()
    assert await press.sweep() == 0


async def test_corrections_reach_the_text_of_the_site(press: Press) -> None:
    """Also those that came while it was an article: what is fallen back to is the newest text."""
    await press.store(is_listed_by_site=True)
    press.paper.write(f"The dockers went back to work. {FILLER}")
    await press.paper.visit()
    await press.library.embed()
    await press.end()

    assert await press.found("dockers went back") == ["/a"]
    assert await press.sweep() == 1
    assert await press.found("dockers went back") == ["/a"]
    text = await press.client.hget(press.keys.document(press.paper.id), "markdown")
    assert "went back to work" in text
    assert await press.is_whole()


async def test_page_without_a_text_of_its_own_is_due_at_once(press: Press) -> None:
    """The site had no time to visit it: out of search, Pending, due now, read whole at the next pass."""
    await press.store(is_listed_by_site=True)
    live = await press.client.hget(press.keys.document(press.paper.id), "live")
    await press.client.delete(press.keys.document(press.paper.id))
    await press.client.hset(press.keys.document(press.paper.id), "live", live)
    await press.end()

    assert await press.sweep() == 1
    record = await press.paper.item()
    assert (record["status"], record["articleUid"], record["sources"]) == ("Pending", "", SID)
    assert (record["httpEtag"], record["contentHash"], record["indexedHash"]) == ("", "", "")
    assert await press.due(SID) <= await connect.now(press.client)
    assert await press.found() == []
    assert await press.is_whole()
    press.paper.web.requests.clear()
    await press.library.crawl()
    assert "if-none-match" not in press.paper.web.asked("/a")[-1].headers
    assert await press.found() == ["/a"]
    await press.library.embed()
    assert await press.is_whole()


async def test_another_text_of_its_own_is_swapped_in(press: Press) -> None:
    """Older than the article's: search answers from it at once, the page is due without validators."""
    await press.store(is_listed_by_site=True)
    key = press.keys.document(press.paper.id)
    await press.client.hset(key, mapping={"markdown": f"Herons nest by the weir. {FILLER}", "content_hash": "older"})
    await press.end()

    assert await press.sweep() == 1
    record = await press.paper.item()
    assert (record["status"], record["contentHash"], record["httpEtag"]) == ("Crawled", "older", "")
    assert await press.due(SID) <= await connect.now(press.client)
    assert (await press.paper.events())[-1] == "item.changed"
    assert (await press.found("herons"), await press.found("walkout")) == (["/a"], [])
    await press.library.embed()
    assert (await press.paper.item())["status"] == "Indexed"
    assert (await press.found("herons"), await press.found("walkout")) == (["/a"], [])
    assert await press.is_whole()


async def test_page_in_trouble_keeps_its_next_check(press: Press) -> None:
    """Its host asked for patience: the end of an article is no reason to ask earlier."""
    await press.store(is_listed_by_site=True)
    press.paper.web.retry_after("/a", 429, "7200")
    await press.paper.visit()
    due = await press.due(SID)
    await press.end()

    assert await press.sweep() == 1
    record = await press.paper.item()
    assert (record["status"], record["articleUid"], await press.due(SID)) == ("Error", "", due)
    assert await press.found() == ["/a"]


async def test_gone_page_stays_gone(press: Press) -> None:
    """A 410 took article and text: the article's end brings nothing back, and only the feed's claim goes."""
    await press.store(is_listed_by_site=True)
    press.paper.web.gone("/a")
    await press.paper.visit()
    before = await press.paper.item()

    assert await press.sweep() == 1
    after = await press.paper.item()
    assert (after["status"], after["errorMessage"], after["goneTs"]) == ("Gone", "HTTP 410", before["goneTs"])
    assert (after["sources"], after["articleUid"]) == (SID, "")
    assert await press.is_whole()


async def test_dropped_category_leaves_the_page_its_text(press: Press) -> None:
    """`feeds drop` ends the article in the same way."""
    await press.store(is_listed_by_site=True)
    changes = CategoryChanges(press.client, press.keys, Ttls.of(press.context.settings))
    await changes.remove("world")

    assert (await press.paper.item())["sources"] == SID
    assert changes.counts.forgotten.kept == 1
    assert await press.found() == ["/a"]
    assert await press.is_whole()


# ── an article alone ──


async def test_ended_article_is_gone(press: Press) -> None:
    """Gone, and why; out of search and not due; no 404, no loss, and its links are known still."""
    await press.store(is_listed_by_site=False)
    before = await press.paper.item()
    await press.end()

    assert await press.found() == []
    assert await press.sweep() == 1
    after = await press.paper.item()
    assert (after["status"], after["errorMessage"]) == ("Gone", "The article's TTL ended.")
    assert (after["nextCrawlAt"], after["lockedUntil"], after["indexedHash"]) == ("", "", "")
    assert float(after["goneTs"]) > 0
    for name in ("httpStatusCode", "missingChecks", "consecutiveFailures", "firstSeen", "articleUid"):
        assert after[name] == before[name], name
    assert await press.due("rss") is None
    assert await press.client.exists(press.keys.lost("rss")) == 0
    assert await press.client.sismember(press.keys.attempted, press.paper.uid)
    assert await press.paper.is_found() == (False, False)
    assert (await press.paper.events())[-1] == "item.gone"
    assert await press.is_whole()
    assert await press.sweep() == 0


async def test_ended_article_comes_back_by_force(press: Press) -> None:
    """Somebody asks for it by name: read anew, an article again, in its category and in search."""
    await press.store(is_listed_by_site=False)
    await press.end()
    await press.sweep()
    await press.paper.visit(force=True, token="t")

    record = await press.paper.item()
    assert (record["status"], record["goneTs"], record["errorMessage"]) == ("Crawled", "", "")
    assert await press.paper.is_found() == (True, True)
    assert await press.found() == ["/a"]
    assert await press.sweep() == 0
    assert await press.due("rss") is not None


async def test_page_that_is_listed_while_its_article_ends(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site finds the page in that very moment: it is a page of the site, not a tombstone."""
    await press.store(is_listed_by_site=False)
    await press.end()
    commands = ArticleEnd.commands

    async def and_list(self: ArticleEnd, *given: Any) -> list[Command]:
        written = await commands(self, *given)
        await press.context.registrar.register([Ref(press.paper.url)], Listing(SID), await connect.now(press.client))
        return written

    with monkeypatch.context() as patched:
        patched.setattr(ArticleEnd, "commands", and_list)
        assert await press.sweep() == 0
    assert await press.sweep() == 1

    record = await press.paper.item()
    assert (record["status"], record["sources"], record["lockedUntil"]) == ("Pending", SID, "")
    assert await press.is_whole()


async def test_damaged_record_does_not_keep_others_from_their_end(press: Press) -> None:
    """A key of another type, a status that nobody knows, a name that is no text: left to the doctor."""
    await press.store(is_listed_by_site=False)
    await press.end()
    await press.client.rpush(press.keys.item("url_list"), "x")
    await press.client.hset(press.keys.item("url_bogus"), mapping={"status": "Bogus", "articleUid": "0" * 16})
    await press.client.zadd(press.keys.refs("rss"), {"url_list": 0, "url_bogus": 0, b"\xff\xfe": 0})

    assert await press.sweep() == 1
    assert (await press.paper.item())["status"] == "Gone"
    assert await press.client.exists(press.keys.item("url_list"), press.keys.item("url_bogus")) == 2


async def test_damaged_record_ends_with_the_others(press: Press) -> None:
    """A record that lost its URL is removed when its time is over, as a whole one is, and nothing of it is left."""
    await press.store(is_listed_by_site=False)
    await press.end()
    await press.sweep()
    await press.client.hdel(press.keys.item(press.paper.id), "normalizedSource")
    ttls = Ttls.of(press.library.settings)

    assert await press.sweep(ttls.attempted - 60) == 0
    assert await press.sweep(ttls.attempted + 60) == 1
    assert await press.client.exists(press.keys.item(press.paper.id)) == 0
    assert await press.client.zscore(press.keys.refs("rss"), press.paper.id) is None
    assert await press.sweep(ttls.attempted + 60) == 0


async def test_item_that_never_had_an_article_is_left_alone(press: Press) -> None:
    """A feed's link whose first visit failed has none to end."""
    await press.store(is_listed_by_site=False)
    await press.client.hset(press.keys.item(press.paper.id), "articleUid", "")

    assert await press.sweep() == 0
    assert (await press.paper.item())["status"] == "Indexed"


async def test_article_that_came_back_is_not_ended(press: Press) -> None:
    """A worker has the item, or its record is not as it was read: the next round looks again."""
    await press.store(is_listed_by_site=False)
    await press.end()
    taken = await press.context.leases.acquire(press.paper.id)
    assert taken

    assert await press.sweep() == 0
    assert (await press.paper.item())["status"] == "Indexed"
    await press.context.leases.release(taken[0])
    assert await press.sweep() == 1


@pytest.mark.parametrize("is_listed_by_site", [True, False])
async def test_end_while_its_chunks_are_made(
    press: Press, monkeypatch: pytest.MonkeyPatch, is_listed_by_site: bool
) -> None:
    """An embed worker that is just at it leaves no chunk behind."""
    await press.store(is_listed_by_site=is_listed_by_site)
    press.paper.write(f"The dockers went back to work. {FILLER}")
    await press.paper.visit()
    write = ChunkStore.write

    async def and_end(self: ChunkStore, *given: Any) -> None:
        await write(self, *given)
        await press.end()
        await press.client.hdel(press.keys.document(press.paper.id), "content_hash", "markdown")
        await press.sweep()

    monkeypatch.setattr(ChunkStore, "write", and_end)
    await press.library.embed()

    assert (await press.paper.item())["status"] == ("Pending" if is_listed_by_site else "Gone")
    assert await press.client.zcard(press.keys.chunks(press.paper.id)) == 0
    assert await press.is_whole()


async def test_timer_notices_the_end(press: Press) -> None:
    """With every tick, before it picks what is due; no fetcher has to run."""
    await press.store(is_listed_by_site=True)
    await press.client.delete(press.keys.document(press.paper.id))
    await press.end()
    queues = JobQueues(press.library.settings)
    try:
        await Timer(press.library.settings, press.client, press.keys, queues).tick()
    finally:
        queues.close()

    record = await press.paper.item()
    assert (record["status"], record["articleUid"]) == ("Pending", "")
    assert await press.due(SID) > await connect.now(press.client)  # picked, and held for its visit
