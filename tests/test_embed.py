"""From a crawled site to an answer: chunks, vectors, swap and search, with the real model and the real replica."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_client

from core.keys import Keys
from core.registry.record import Item, Status
from core.runtime.context import Context
from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import NoEmbedder, open_embedder
from core.search.io.item_embedder import ItemEmbedder
from core.search.io.live_pages import LivePageReader
from core.search.io.searcher import GUESSED_BY_FEW, open_searcher
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.models import Filters, Query, SearchResponse
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.store.clock import ServerClock
from core.store.leases import Leases
from tests.crawled_site import SID, add_site, crawl_context, item, item_id
from tests.faults.crash import Crash, every_point
from tests.faults.state import let_leases_end
from tests.search_site import Library, open_library
from tests.site import Site
from tests.web import as_reply
from tests.web_replies import Exchange
from workers.embed_jobs import embed_items

STRIKE = "The dockers' ballot ended last night: seven in ten members voted for the walkout, the union said."
FOOTBALL = "United beat Rovers by two goals to one in the rain; both goals came after the break."


async def embed(context: Context) -> dict[str, int]:
    waiting = await context.client.zrange(context.keys.embed_due, 0, -1, desc=True)
    return dict(await embed_items(context.settings, list(waiting), time.monotonic() + 60))


async def ask(context: Context, text: str, **more: object) -> SearchResponse:
    async with open_searcher(context.settings, context.client, context.keys) as searcher:
        return await searcher.search(Query(text, **more), time.time())


async def test_question_finds_the_right_page_by_its_meaning(settings: Settings, site: Site) -> None:
    """Not one word of the question is in the answer."""
    site.page("/", links=["/a", "/b"])
    site.page("/a", STRIKE)
    site.page("/b", FOOTBALL)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        counts = await embed(context)

        found = await ask(context, "who won the strike vote")

        assert counts["indexed"] == 3
        assert found.results[0].page.url == site.url("/a")
        assert found.by == GUESSED_BY_FEW  # true of these words, and the right page comes first
        record = await item(context, site.url("/a"))
        assert (record["status"], record["indexedHash"]) == ("Indexed", record["contentHash"])
        assert await context.client.zcard(context.keys.embed_due) == 0


async def test_text_is_found_by_words_before_it_is_embedded(settings: Settings, site: Site) -> None:
    """As soon as it is stored."""
    site.page("/", "A page about sluice gates.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert [one.page.url for one in (await ask(context, "sluice gates")).results] == [site.url("/")]


async def test_gone_page_is_never_found(settings: Settings, site: Site) -> None:
    """From the moment of the commit, with its chunks and vectors; and the replica forgets it."""
    site.page("/", links=["/a"])
    site.page("/a", STRIKE)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await embed(context)
        assert len((await ask(context, "dockers ballot")).results) >= 1
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        found = await ask(context, "dockers ballot")

        assert site.url("/a") not in [one.page.url for one in found.results]
        assert await context.client.zcard(context.keys.chunks(item_id(site.url("/a")))) == 0


async def test_small_change_embeds_only_what_is_new(settings: Settings, site: Site) -> None:
    """Chunks that stay keep their vectors; a revert embeds nothing."""
    paragraphs = [
        f"Paragraph {n} speaks of gauge {n} at bridge {n}, which stands {n} metres above the river." for n in range(60)
    ]
    site.page("/", "</p><p>".join(paragraphs))
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        first = await embed(context)
        changed = [*paragraphs[:30], "A new sentence stands here.", *paragraphs[30:]]
        site.page("/", "</p><p>".join(changed))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        second = await embed(context)
        site.page("/", "</p><p>".join(paragraphs))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        third = await embed(context)

        assert first["embedded"] >= 4
        assert 1 <= second["embedded"] < first["embedded"] / 2
        assert third.get("embedded", 0) == 0


async def test_text_that_changes_meanwhile_is_superseded(settings: Settings, site: Site) -> None:
    """Nothing of the old text is committed; the new one is next."""
    site.page("/", "First text.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        waiting = await context.client.zrange(context.keys.embed_due, 0, -1)
        await context.client.hset(context.keys.item(waiting[0]), "contentHash", "another")

        await embed_items(context.settings, list(waiting), time.monotonic() + 60)

        assert (await item(context, site.url("/")))["status"] == "Crawled"
        assert await context.client.zcard(context.keys.chunks(waiting[0])) == 0


async def test_filters_and_duplicates(settings: Settings, site: Site) -> None:
    """Pages with one text are one result that names the other; a filter for another domain finds nothing."""
    site.page("/", links=["/a", "/b"])
    body = f"<html><head><title>Copy</title></head><body><main><h1>Copy</h1><p>{STRIKE}</p></main></body></html>"
    site.web.page("/a", body)
    site.web.page("/b", body)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await embed(context)

        found = await ask(context, "dockers ballot walkout")

        urls = {found.results[0].page.url, *found.results[0].duplicates}
        assert urls == {site.url("/a"), site.url("/b")}
        assert (await ask(context, "dockers ballot", filters=Filters(domains=("other",)))).results == ()
        assert (await ask(context, "dockers ballot", filters=Filters(domains=("docs",)))).results


async def test_aliases_are_named_in_the_one_result(settings: Settings, site: Site) -> None:
    """A page under two names is one result, and the other name stands in it."""
    site.page("/", links=["/old"])
    site.web.redirect("/old", "/new", 301)
    site.page("/new", STRIKE)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        found = await ask(context, "dockers ballot")

        assert [(one.page.url, one.aliases) for one in found.results[:1]] == [(site.url("/new"), (site.url("/old"),))]


# ── what is embedded, and what is not ──


async def test_changed_text_is_embedded_though_a_later_check_failed(settings: Settings) -> None:
    """Its text decides: search knows it, the page is still in trouble, and is Indexed with the next good answer."""
    async with open_library(settings, {"/a": "The weir as it was."}) as library:
        client, keys = library.context.client, library.context.keys
        await library.embed()
        library.site.page("/a", "The barrage that replaced it.")
        await library.crawl()
        library.site.remove("/a", 500)
        await library.crawl()
        failed = await library.record("/a")
        counts = await library.embed()
        known = await library.record("/a")

        assert (failed["status"], counts["indexed"]) == ("Error", 1)
        assert (known["status"], known["indexedHash"]) == ("Error", failed["contentHash"])
        assert failed["indexedHash"] != failed["contentHash"]
        assert await client.smismember(keys.status("Error"), [library.id("/a")]) == [1]
        assert await client.smismember(keys.status("Indexed"), [library.id("/a")]) == [0]
        assert (await library.urls("barrage"))[0] == "/a"
        assert await library.waiting() == []

        library.site.page("/a", "The barrage that replaced it.")
        await library.crawl()
        assert (await library.record("/a"))["status"] == "Indexed"
        assert await client.smismember(keys.status("Indexed"), [library.id("/a")]) == [1]
        assert await library.waiting() == []


async def test_failed_page_that_answers_again_waits_on(settings: Settings) -> None:
    """Not embedded before it was well again: Crawled, and then Indexed."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        library.site.remove("/a", 500)
        await library.crawl()
        failed = (await library.record("/a"))["status"]
        library.site.page("/a", "The weir.")
        await library.crawl()
        well = (await library.record("/a"))["status"]
        await library.embed()

        assert (failed, well, (await library.record("/a"))["status"]) == ("Error", "Crawled", "Indexed")


async def test_page_that_fails_while_it_is_embedded_stays_in_trouble(settings: Settings) -> None:
    """The swap expects the status that was read; the next one takes the new one as it is."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        key, statuses = library.context.keys.item(library.id("/a")), library.context.keys.status

        def fail(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
            with redis_client.Redis.from_url(connect.url_of(library.settings)) as other:
                other.hset(key, "status", "Error")
                other.smove(statuses("Crawled"), statuses("Error"), library.id("/a"))
            return data

        library.server.then_data(lambda data: data).then_data(fail)
        await embed_items(library.settings, [library.id("/a")], time.monotonic() + 60)
        between = await library.record("/a")
        await library.embed()
        after = await library.record("/a")

        assert (between["status"], between["indexedHash"]) == ("Error", "")
        assert (after["status"], after["indexedHash"]) == ("Error", after["contentHash"])
        assert await library.context.client.smembers(statuses("Error")) == {library.id("/a")}
        assert await library.index_errors() == []


async def test_what_is_known_is_let_go_without_the_model(settings: Settings) -> None:
    """Unless its chunks are of another space than the live one."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys = library.context.client, library.context.keys
        await library.embed()
        await client.zadd(keys.embed_due, {library.id("/a"): 1})
        library.server.questions.clear()
        known = await library.embed()
        asked = list(library.server.texts)
        for name in await client.zrange(keys.chunks(library.id("/a")), 0, -1):
            await client.hset(keys.chunk(name), "space", "")
        await client.zadd(keys.embed_due, {library.id("/a"): 1})
        of_no_space = await library.embed()

        assert (known["indexed"], asked) == (0, ["."])
        assert of_no_space["indexed"] == 1
        assert await library.waiting() == []


async def test_hidden_article_is_no_text(redis: connect.Client, keys: Keys) -> None:
    """It keeps its text for its return, and search must not know it meanwhile."""
    item = Item("url_a", article_uid="uid", content_hash="h", status=Status.ERROR)
    found = []
    for status in ("success", "gone"):
        await redis.hset(keys.article("uid"), mapping={"markdown": "Text.", "content_hash": "h", "status": status})
        found.append(await LivePageReader(redis, keys).read_texts([item]))

    assert [bool(text) for text in found] == [True, False]


async def test_damaged_vector_is_made_anew(settings: Settings) -> None:
    """Of the cache if that has it, else by the model; the text is written over as well."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys, raw = library.context.client, library.context.keys, connect.open_raw(settings)
        await library.embed()
        (name,) = await client.zrange(keys.chunks(library.id("/a")), 0, -1)
        whole = [await raw.get(keys.vector(name)), await raw.hget(keys.chunk(name), "text")]
        counts = []
        for has_cache in (True, False):
            if not has_cache:
                await client.delete(*[key async for key in client.scan_iter("embed:cache:*")])
            await client.set(keys.vector(name), "short")
            await client.hset(keys.chunk(name), "text", "Damaged.")
            await client.hset(keys.item(library.id("/a")), "indexedHash", "")
            await client.zadd(keys.embed_due, {library.id("/a"): 1})
            counts.append(await library.embed())
            assert [await raw.get(keys.vector(name)), await raw.hget(keys.chunk(name), "text")] == whole
        await raw.aclose()

        assert counts == [{"indexed": 1, "reused": 1}, {"indexed": 1, "reused": 0, "embedded": 1}]


# ── in groups ──


async def test_short_pages_reach_the_model_together(settings: Settings) -> None:
    """Many pages, one request after the question for the dimension; each has its own swap."""
    pages = {f"/{n}": f"Page {n} tells of gauge {n}." for n in range(12)}
    async with open_library(settings, pages) as library:
        counts = await library.embed()

        assert counts["indexed"] == 13
        assert library.server.batches == [1, counts["embedded"]]
        assert await library.waiting() == []
        assert await leases(library) == []


async def test_page_that_changes_does_not_hold_up_its_group(settings: Settings) -> None:
    """One of three is superseded, the others are indexed by the same commit."""
    async with open_library(settings, {"/a": "The weir.", "/b": "The sluice."}) as library:
        key = library.context.keys.item(library.id("/a"))

        def change(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
            with redis_client.Redis.from_url(connect.url_of(library.settings)) as other:
                other.hset(key, "contentHash", "another")
            return data

        library.server.then_data(lambda data: data).then_data(change)
        counts = await library.embed()

        assert (counts["indexed"], counts["superseded"]) == (2, 1)
        assert await library.waiting() == [library.id("/a")]
        assert await leases(library) == []
        assert await library.index_errors() == []


LONG = "</p><p>".join(f"Paragraph {n} speaks of gauge {n} at bridge {n}, above the river." for n in range(150))
SHORT_CHUNKS: dict[str, Any] = {"embed_most_tokens": 20}


async def test_long_text_that_is_broken_off_goes_on_where_it_stopped(settings: Settings) -> None:
    """The job's time is over in the middle: what is embedded is kept, nothing else has changed, the lease is free."""
    async with open_library(settings, {"/long": LONG}) as library:
        client, keys = library.context.client, library.context.keys
        late = await embed_items(library.with_(**SHORT_CHUNKS), [library.id("/long")], time.monotonic() - 1)
        raw, clock = connect.open_raw(settings), await ServerClock.ask(client)
        embedder = open_embedder(library.with_(**SHORT_CHUNKS))
        embedding = ItemEmbedder(client, keys, Leases(client, keys), ChunkStore(client, raw, keys), embedder, clock)
        looks = iter([False])
        await embedding.embed_many([library.id("/long")], lambda: next(looks, True))
        await embedder.close()
        await raw.aclose()
        between = (dict(embedding.counts), (await library.record("/long"))["status"], await leases(library))
        rest = await library.embed(**SHORT_CHUNKS)

        assert late == {}
        assert between == ({"embedded": 64, "reused": between[0]["reused"]}, "Crawled", [])
        assert rest["indexed"] == 2
        assert 150 <= rest["embedded"] + 64 <= 170
        assert (await library.record("/long"))["status"] == "Indexed"


async def test_model_that_goes_away_in_a_group_keeps_what_is_whole(settings: Settings) -> None:
    """The short page has its vectors and is indexed; the long one waits with what it got, and its lease is free."""
    async with open_library(settings, {"/long": LONG}) as library:
        library.server.then_data(lambda data: data).then_data(lambda data: data).then_data(lambda data: data).then(503)
        first = await embed_items(
            library.with_(**SHORT_CHUNKS), [library.id("/"), library.id("/long")], time.monotonic() + 60
        )
        between = [(await library.record(path))["status"] for path in ("/", "/long")]
        free = await leases(library)
        second = await library.embed(**SHORT_CHUNKS)

        assert (first["indexed"], first["embedded"], between, free) == (1, 64, ["Indexed", "Crawled"], [])
        assert second["indexed"] == 1
        assert second["reused"] >= 50
        assert await library.index_errors() == []


async def leases(library: Library) -> list[str]:
    """What somebody still holds."""
    return [key async for key in library.context.client.scan_iter(library.context.keys.lease("*"))]


# ── vectors that are there ──


async def forget_cache(library: Library) -> None:
    """A month goes by."""
    names = [key async for key in library.context.client.scan_iter(library.context.keys.embed_cache("*", "*"))]
    if names:
        await library.context.client.delete(*names)


def below(heading: str) -> str:
    paragraphs = "</p><p>".join(f"Paragraph {n} speaks of gauge {n}. " + "The river rose. " * 30 for n in range(12))
    return (
        f"<html><head><title>Gauges</title></head><body><main><h1>Gauges</h1><h2>{heading}</h2>"
        f"<p>{paragraphs}</p></main></body></html>"
    )


async def test_new_heading_above_old_texts_embeds_nothing(settings: Settings) -> None:
    """All chunks have other ids, the cache forgot them long ago: the page's own vectors are used."""
    async with open_library(settings, {"/a": "Soon another."}) as library:
        client, keys = library.context.client, library.context.keys
        library.site.web.page("/a", below("In spring"))
        await library.crawl()
        await library.embed()
        before = await client.zrange(keys.chunks(library.id("/a")), 0, -1)
        library.site.web.page("/a", below("In autumn"))
        await library.crawl()
        await forget_cache(library)
        counts = await library.embed()
        after = await client.zrange(keys.chunks(library.id("/a")), 0, -1)

        assert counts == {"indexed": 1, "reused": len(after)}
        assert len(after) >= 3
        assert not set(before) & set(after)
        assert await vectors(library) == {64}
        assert await library.index_errors() == []


async def test_vector_in_use_stays_in_the_cache(settings: Settings) -> None:
    """Whoever writes a chunk with the same text renews it, so that the next copy embeds nothing either."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys = library.context.client, library.context.keys
        await library.embed()
        cached = [key async for key in client.scan_iter(keys.embed_cache("*", "*"))]
        for key in cached:
            await client.expire(key, 100)
        await client.hset(keys.item(library.id("/a")), "indexedHash", "")
        await client.zadd(keys.embed_due, {library.id("/a"): 1})
        await library.embed()
        lives = sorted([await client.ttl(key) for key in cached])

        assert lives[0] <= 100
        assert lives[-1] > 29 * 86_400


# ── from no vectors to the first ones ──


async def vectors(library: Library) -> set[int]:
    """Bytes of the vectors of all live chunks; 0: there is none."""
    client, keys = library.context.client, library.context.keys
    names = [
        name async for key in client.scan_iter(keys.pattern(keys.chunks)) for name in await client.zrange(key, 0, -1)
    ]
    return {await client.strlen(keys.vector(name)) for name in names}


async def test_first_model_of_a_store_embeds_what_is_there(settings: Settings) -> None:
    """Indexed by words alone at first; the first worker with a model makes all of it due, search goes on meanwhile."""
    async with open_library(settings, {"/a": "The weir.", "/b": "The sluice."}, embedder="none") as library:
        with_model = library.with_(embedder="openai")
        await library.embed()
        library.site.remove("/b", 500)
        await library.crawl()
        before = [(await library.record(path))["status"] for path in ("/", "/a", "/b")]
        lengths = await vectors(library)
        await library.embed(embedder="openai")  # nothing waits: it only claims the store
        waiting = await library.waiting()
        meanwhile = await library.ask("weir", with_model)
        await library.embed(embedder="openai")
        after = [(await library.record(path))["status"] for path in ("/", "/a", "/b")]

        assert (before, lengths) == (["Indexed", "Indexed", "Error"], {0})
        assert sorted(waiting) == sorted(map(library.id, ("/", "/a", "/b")))
        assert meanwhile.results[0].page.url.endswith("/a")
        assert (after, await vectors(library)) == (["Indexed", "Indexed", "Error"], {64})
        assert await library.waiting() == []
        assert (await library.ask("weir", with_model)).by == "words and meaning"


async def test_first_worker_that_dies_is_followed_by_one_who_ends_it(settings: Settings) -> None:
    """Whatever the command before which it died: no page is left without a vector."""
    async with open_library(settings, {"/a": "The weir."}, embedder="none") as library:
        client, keys = library.context.client, library.context.keys
        ids, points = [library.id(path) for path in ("/", "/a")], 0
        for point in every_point():
            await client.hdel(keys.version, "space")
            await VectorSpaceStore(client, keys).make_due(ids, 0, known=["another"])
            await library.embed()
            assert await vectors(library) == {0}, point
            try:
                with point:
                    await library.embed(embedder="openai")
            except Crash:
                pass
            points += point.is_dead
            await let_leases_end(client, keys)
            await library.embed(embedder="openai")
            await library.embed(embedder="openai")
            assert await vectors(library) == {64}, point

        assert points > 10


async def test_worker_without_a_model_is_refused_where_there_are_vectors(settings: Settings) -> None:
    """With a sentence that says what to do; nothing is indexed without vectors, and search without one goes on."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys = library.context.client, library.context.keys
        await library.embed()
        library.site.page("/a", "The weir as it is now.")
        await library.crawl()
        counts = await library.embed(embedder="none")
        said = str(await client.get(keys.embed_away))

        assert (counts, (await library.record("/a"))["status"]) == ({}, "Crawled")
        assert said.startswith("This store's vectors are of first-16-c1, and EMBEDDER is none")
        assert "`EMBEDDER=none python -m scripts.reindex --embeddings`" in said
        assert len(await library.waiting()) == 1
        assert (await library.urls("weir", library.with_(embedder="none")))[0] == "/a"


async def test_late_worker_without_a_model_is_refused(settings: Settings) -> None:
    """It began on a store without vectors; before its swap somebody brought the first ones."""
    async with open_library(settings, {"/a": "The weir."}, embedder="none") as library:
        client, keys = library.context.client, library.context.keys

        class Late(NoEmbedder):
            def count_tokens(self, text: str) -> int:
                with redis_client.Redis.from_url(connect.url_of(library.settings)) as other:
                    other.hset(keys.version, "space", "first-16-c1")
                return super().count_tokens(text)

        raw, leases, clock = connect.open_raw(settings), Leases(client, keys), await ServerClock.ask(client)
        embedding = ItemEmbedder(client, keys, leases, ChunkStore(client, raw, keys), Late(), clock)
        await embedding.embed_many([library.id("/a")], lambda: False)
        await raw.aclose()

        assert embedding.counts == {"superseded": 1}
        assert (await library.record("/a"))["status"] == "Crawled"
        assert library.id("/a") in await library.waiting()


async def test_page_of_a_site_outlives_its_article(settings: Settings) -> None:
    """The same page was in a feed, and the article has ended: what the site has of it is embedded and found."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys = library.context.client, library.context.keys
        await client.hset(keys.item(library.id("/a")), mapping={"articleUid": "ended", "sources": "docs.site,rss"})
        library.site.page("/a", "The weir again.")
        await library.crawl()
        await library.embed()

        assert (await library.record("/a"))["status"] == "Indexed"
        assert (await library.urls("weir"))[0] == "/a"


@pytest.mark.parametrize("answer", [200, 500])
async def test_swap_in_the_middle_of_a_visit(settings: Settings, answer: int) -> None:
    """A worker makes the page known to search while a visit is under way: the visit's commit knows of it."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        client, keys = library.context.client, library.context.keys
        page = library.site.web._pages["/a"].next_reply()

        async def embedded_first(exchange: Exchange) -> None:
            await library.embed()
            await (page if answer == 200 else as_reply(answer))(exchange)

        library.site.web.on("/a", embedded_first)
        await library.crawl()
        record = await library.record("/a")
        sets = {name for name in Status if await client.sismember(keys.status(str(name)), library.id("/a"))}

        assert record["status"] == ("Indexed" if answer == 200 else "Error")
        assert sets == {record["status"]}
        assert record["indexedHash"] == record["contentHash"]
        assert await client.zscore(keys.embed_due, library.id("/a")) is None


# ── what a person sees ──


async def test_job_sums_up(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for all pages of a job, single pages for whoever looks closely, and nothing if nothing was done."""
    async with open_library(settings, {"/a": "The weir.", "/b": "The lock."}) as library:
        await library.embed()
        await library.embed()
        library.site.page("/a", "The weir is new.")
        await library.crawl()
        await library.embed()

    assert [line[20:] for line in capsys.readouterr().err.splitlines() if " INFO [embed] 🧭" in line] == [
        "INFO [embed] 🧭 Indexed 3 pages: 3 chunks embedded, 0 as they were",
        "INFO [embed] 🧭 Indexed 1 pages: 1 chunks embedded, 0 as they were",
    ]


async def test_bar_counts_the_pages(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar goes from 0 to all pages of the job."""
    steps: list[int] = []

    def bar(total: int, what: str) -> contextlib.nullcontext[SimpleNamespace]:
        steps.append(total)
        assert what == "Embedding"
        return contextlib.nullcontext(SimpleNamespace(update=steps.append))

    async with open_library(settings, {"/a": "The weir.", "/b": "The lock."}) as library:
        monkeypatch.setattr("core.runtime.progress.bar", bar)
        await library.embed()

    assert steps[0] == 3
    assert sum(steps[1:]) == 3
