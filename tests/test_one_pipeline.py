"""Pages that feeds and sites share, pages under several names, corrections without a new text: one visit for all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.registry.io.batch_visitor import Visitor
from core.runtime.context import Context, open_context
from core.search.models import Filters
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from tests.articles import ArticlePage, add, article, feed_with_text, run, stored
from tests.crawled_site import SID, add_site, counts, crawl_context, item, item_id, text
from tests.search_site import Library, open_library
from tests.site import Site
from tests.web import FakeWeb
from workers import canonical_fetcher


@pytest.fixture
async def web(redis: connect.Client) -> AsyncIterator[FakeWeb]:
    async with FakeWeb() as running:
        yield running


@pytest.fixture
async def site(web: FakeWeb) -> Site:
    return Site(web)


@pytest.fixture
async def context(settings: Settings, redis: connect.Client) -> AsyncIterator[Context]:
    changed = {"fetch_allowed_hosts": ("127.0.0.0/8",), "loss_limit_percent": 100.0, "snapshot_days": 1.0}
    async with open_context(settings.model_copy(update=changed)) as opened:
        yield opened


@pytest.fixture
async def paper(context: Context, web: FakeWeb) -> ArticlePage:
    made = ArticlePage(context, web)
    made.write("As first reported.")
    await made.store()
    return made


async def visit(context: Context, *urls: str, via: str = "") -> None:
    """Visit these in one batch."""
    clock = await ServerClock.ask(context.client)
    await Visitor(context, clock, OpenSources(context, clock.now())).visit_many([item_id(url) for url in urls], via=via)


async def events(context: Context, kind: str) -> list[dict[str, str]]:
    return [fields for _, fields in await context.client.xrange(context.keys.events) if fields["type"] == kind]


# ── pages that name each other canonical ────────────────────────────────────────────────────────


@pytest.mark.parametrize("paths", [("/a", "/b"), ("/a", "/b", "/c"), ("/a", "/b", "/c", "/d", "/e")])
@pytest.mark.parametrize("is_304", [True, False], ids=["304", "200"])
async def test_a_circle_of_canonicals_keeps_one_text(
    context: Context, site: Site, paths: tuple[str, ...], is_304: bool
) -> None:
    """All in one batch, and again and again: one page keeps its text, the others are its aliases, and it stays so."""
    site.page("/", links=paths)
    for path in paths:
        site.page(path)
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    for path, following in zip(paths, (*paths[1:], paths[0]), strict=True):
        site.page(path, head=f'<link rel=canonical href="{site.url(following)}">')
        if is_304:  # as a crawl leaves it that read all of them at the same moment
            known = {"httpCanonicalUrl": site.url(following), "httpEtag": site.etag(path)}
            await context.client.hset(context.keys.item(item_id(site.url(path))), mapping=known)
    await visit(context, *map(site.url, paths), via=SID)
    left = []
    for _ in range(3):
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        texts = [path for path in paths if await text(context, site.url(path))]
        left.append(texts)
        assert len(texts) == 1
        for path in set(paths) - set(texts):
            assert (await item(context, site.url(path)))["aliasOf"]

    assert left[0] == left[1] == left[2]


async def test_a_first_crawl_of_a_circle_keeps_one_text(context: Context, site: Site) -> None:
    """Canonicals that lead in a circle from the beginning."""
    paths = ("/a", "/b", "/c")
    site.page("/", links=paths)
    for path, following in zip(paths, (*paths[1:], paths[0]), strict=True):
        site.page(path, head=f'<link rel=canonical href="{site.url(following)}">')
    await add_site(context, site.url("/"))
    left = []
    for _ in range(3):
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        left.append([path for path in paths if await text(context, site.url(path))])

    assert left[0]
    assert len(left[1]) == 1
    assert left[1] == left[2]


# ── metadata ────────────────────────────────────────────────────────────────────────────────────

HEADS = [
    ("author", '<meta name="author" content="Ada Weir">', "Ada Weir"),
    ("image", '<meta property="og:image" content="https://img.example/new.jpg">', "https://img.example/new.jpg"),
    ("published_ts", '<meta property="article:published_time" content="2026-03-01T12:00:00Z">', "1772366400"),
]


@pytest.mark.parametrize(("field", "head", "value"), [*HEADS, ("title", "", "A new title")])
async def test_article_metadata_is_corrected_while_the_text_stays(
    paper: ArticlePage, field: str, head: str, value: str
) -> None:
    """Title, author, date or image: stored and told, without a new text to embed."""
    keys, client = paper.context.keys, paper.context.client
    paper.write("As first reported.", head='<meta property="og:title" content="Old">')
    await paper.visit()
    known = {"status": "Indexed", "indexedHash": (await paper.hash())["content_hash"]}
    await client.hset(keys.item(paper.id), mapping=known)
    await client.smove(keys.status("Crawled"), keys.status("Indexed"), paper.id)
    await client.delete(keys.embed_due)
    before = await paper.hash()
    title = value if field == "title" else "Old"
    paper.write("As first reported.", head=f'{head}<meta property="og:title" content="{title}">')

    await paper.visit()

    after, record = await paper.hash(), await paper.item()
    assert after[field] == value != before[field]
    assert after["content_hash"] == before["content_hash"]
    assert (await paper.events())[-1] == "item.changed"
    assert (record["status"], record["httpEtag"]) == ("Indexed", '"3"')
    assert not await client.exists(keys.embed_due)


@pytest.mark.parametrize(("field", "head", "value"), HEADS)
async def test_page_metadata_is_corrected_while_the_text_stays(
    context: Context, site: Site, field: str, head: str, value: str
) -> None:
    """The same for a page of a site; the crawl counts it as changed, and the next one as unchanged."""
    site.page("/", links=["/a"])
    site.page("/a")
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    await context.client.delete(context.keys.embed_due)
    site.page("/a", head=head)

    changed = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    again = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert counts(changed) == {"discovered": 2, "visited": 2, "changed": 1, "unchanged": 1}
    assert await context.client.hget(context.keys.document(item_id(site.url("/a"))), field) == value
    assert [told["id"] for told in await events(context, "item.changed")][-1] == item_id(site.url("/a"))
    assert counts(again) == {"discovered": 2, "visited": 2, "unchanged": 2}


async def test_full_mode_counts_what_differs(context: Context, site: Site) -> None:
    """Everything is read anew, and only what changed is counted so."""
    site.three_pages()
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    site.page("/b", "Rewritten.")

    assert counts(await crawl_source(context, SID, CrawlMode.FULL)) == {
        "discovered": 3,
        "visited": 3,
        "changed": 1,
        "unchanged": 2,
    }


# ── feeds and sites share a page ────────────────────────────────────────────────────────────────


async def test_a_feed_adds_itself_to_the_sources_of_a_page(context: Context, site: Site) -> None:
    """A page of a crawled site that a feed lists: both sources, images and outlinks kept, found by both."""
    picture = '<img src="/gauge.jpg" width=800 height=600 alt="The gauge">'
    site.page("/", links=["/a"])
    site.page("/a", f"About weirs. {picture}", links=["/b"])
    site.page("/b")
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    url, keys = site.url("/a"), context.keys
    before = await item(context, url)
    images = await context.client.smembers(keys.images(item_id(url)))
    await add(context, url)

    ended = await run(context)

    after = await item(context, url)
    assert ended["stored"] == 1
    assert after["sources"] == f"{SID},rss"
    assert after["firstSeen"] == before["firstSeen"]
    assert (after["contentHash"], after["articleUid"]) == (before["contentHash"], (await stored(context, url))["uid"])
    assert await context.client.smembers(keys.images(item_id(url))) == images != set()
    assert await context.client.smembers(keys.links(item_id(url))) == {site.url("/b")}
    assert "About weirs." in await text(context, url)
    for source in (SID, "rss"):
        assert await context.client.zscore(keys.refs(source), item_id(url)) is not None
        assert await context.client.zscore(keys.due(source), item_id(url)) is not None


async def test_a_site_that_lists_the_page_during_its_first_visit_is_not_lost(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered between fetch and commit: the record of the site stays, the article is stored in the next round."""
    site = Site(web)
    site.page("/a", "About weirs.")
    url, real = site.url("/a"), type(context.leases).commit_soon
    added: list[str] = []

    async def commit_soon(self: Any, *given: Any) -> Any:
        if not added:
            added.append(url)
            await add_site(context, url)
        return await real(self, *given)

    monkeypatch.setattr(type(context.leases), "commit_soon", commit_soon)
    await add(context, url)
    ended = await run(context)

    assert ended["stored"] == 1
    assert (await item(context, url))["sources"] == f"{SID},rss"


async def test_first_visit_of_an_article_has_images_and_a_snapshot(context: Context, web: FakeWeb) -> None:
    """As every other page has: children with their parent, the page as it was served."""
    picture = '<img src="/gauge.jpg" width=800 height=600 alt="The gauge">'
    web.page("/a", article(text=picture))
    await add(context, web.url("/a"))
    await run(context)
    key = item_id(web.url("/a"))
    (image,) = await context.client.smembers(context.keys.images(key))

    assert await context.client.hget(context.keys.item(image), "parentPageId") == key
    assert (await item(context, web.url("/a")))["imageCount"] == "1"
    assert await context.client.hget(context.keys.snapshot(key), "url") == web.url("/a")


async def test_first_check_of_an_article_follows_the_settings(settings: Settings, web: FakeWeb) -> None:
    """`CRAWL_BASE_INTERVAL_SECONDS` holds from the beginning, and the record says the same as the due set."""
    async with crawl_context(settings, crawl_base_interval_seconds=3_600) as context:
        web.page("/a", article())
        await add(context, web.url("/a"))
        await run(context)
        record = await item(context, web.url("/a"))
        due = await context.client.zscore(context.keys.due("rss"), item_id(web.url("/a")))

        assert record["crawlIntervalSeconds"] == "3600"
        assert 0.9 * 3_600 <= due - float(record["checkedTs"]) <= 1.1 * 3_600


# ── gone and ended articles come back when somebody asks ────────────────────────────────────────


@pytest.mark.parametrize("how", ["gone", "ended", "hidden"])
async def test_a_forced_article_comes_back(paper: ArticlePage, how: str) -> None:
    """After a 410, after its TTL, after a 404: one forced visit stores it again, and the force is used up."""
    if how == "ended":
        await paper.context.client.delete(paper.context.keys.article(paper.uid))
        await canonical_fetcher.run_once(paper.context, 60.0)  # prunes
    else:
        paper.web.on("/a", 410 if how == "gone" else 404)
        await paper.visit()
    paper.write("Back again.")

    await paper.visit(force=True, token="t")

    found, record = await paper.hash(), await paper.item()
    assert (found["status"], found["category"], found["url"]) == ("success", "world", paper.url)
    assert "Back again." in found["clean_text"]
    assert await paper.is_found() == (True, True)
    assert 0 < await paper.life() <= 7 * 86_400
    assert (record["status"], record["reindexRequested"], record["processedGeneration"]) == ("Crawled", "false", "1")


async def test_a_forced_article_that_is_still_gone_uses_up_its_force(paper: ArticlePage) -> None:
    """410 again: the tombstone stays, nobody waits for ever."""
    paper.web.on("/a", 410)
    await paper.visit()
    await paper.visit(force=True, token="t")

    record = await paper.item()
    assert (record["status"], record["reindexRequested"]) == ("Gone", "false")
    assert await paper.hash() == {}


async def test_forced_wall_keeps_the_text_of_the_feed(context: Context, web: FakeWeb) -> None:
    """A page that hides its text behind a wall or a closed door: what the feed published stays, without an error."""
    wall = "<html><head><title>Before you continue</title></head><body><p>Accept cookies.</p></body></html>" + " " * 300
    web.on("/a", 403)
    url = await feed_with_text(context, web)
    await run(context)
    before = await stored(context, url)
    for reply in (403, wall):
        web.on("/a", reply)
        await context.due.make_due([item_id(url)], await connect.now(context.client), force=True, token=str(reply)[:9])
        await visit(context, url)
        record = await item(context, url)

        assert await stored(context, url) == before
        assert (record["status"], record["reindexRequested"], record["errorMessage"]) == ("Crawled", "false", "")


# ── redirects ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [302, 303, 307])
async def test_temporary_redirects_move_nothing(context: Context, web: FakeWeb, status: int) -> None:
    """The link is asked again, not the target: when that is gone and the link leads elsewhere, the article lives on."""
    web.page("/signed-1", article("The report", text="First edition."))
    web.redirect("/report", "/signed-1", status)
    url = web.url("/report")
    await add(context, url)
    await run(context)
    record = await item(context, url)
    web.on("/signed-1", 410)
    web.page("/signed-2", article("The report", text="Second edition."))
    web.redirect("/report", "/signed-2", status)

    await context.due.make_due([item_id(url)], await connect.now(context.client))
    await visit(context, url)

    assert (record["normalizedSource"], record["fetchUrl"]) == (url, url)
    assert json.loads(record["httpRedirectChain"]) == [url]
    assert "Second edition." in (await stored(context, url))["clean_text"]


@pytest.mark.parametrize("status", [301, 308])
async def test_permanent_redirects_name_the_page(context: Context, web: FakeWeb, status: int) -> None:
    """The target is identity, canonical address and what is asked next time."""
    web.page("/new", article())
    web.redirect("/old", "/new", status)
    await add(context, web.url("/old"))
    await run(context)
    record = await item(context, web.url("/new"))

    assert (record["normalizedSource"], record["fetchUrl"]) == (web.url("/new"), web.url("/new"))
    assert record["httpCanonicalUrl"] == web.url("/new")
    assert await item(context, web.url("/old")) == {}


async def test_alias_of_a_gone_article_is_fetched_again(context: Context, web: FakeWeb) -> None:
    """A link that was another name of an article: when that is gone, the link gets its own chance."""
    own = f"<link rel=canonical href='{web.url('/a')}'>"
    web.page("/a", article())
    web.page("/print", article(head=own))
    await add(context, web.url("/a"))
    await run(context)
    await add(context, web.url("/print"))
    assert (await run(context))["alias"] == 1
    web.on("/a", 410)
    web.page("/print", article())
    await context.due.make_due([item_id(web.url("/a"))], await connect.now(context.client))
    await visit(context, web.url("/a"))

    ended = await run(context)

    assert ended["stored"] == 1
    assert (await stored(context, web.url("/print")))["status"] == "success"


async def test_article_behind_a_token_is_not_asked_again_without_it(context: Context, web: FakeWeb) -> None:
    """The token of a link is stored nowhere, so a refresh could only be refused: the article lives out its TTL."""
    path = "/a?access_token=s3cr3tS3cr3t"
    web.page(path, article())
    await add(context, web.url(path))
    await run(context)
    record = await item(context, web.url("/a"))

    assert (await stored(context, web.url(path)))["status"] == "success"
    assert (record["status"], record["nextCrawlAt"]) == ("Crawled", "")
    assert await context.client.zscore(context.keys.due("rss"), record["id"]) is None


# ── smaller ─────────────────────────────────────────────────────────────────────────────────────


async def test_unchanged_page_behind_a_new_redirect_tells_it(context: Context, web: FakeWeb) -> None:
    """A registered URL that moves: the chain and the canonical address are in the record, though the text is equal."""
    web.page("/a", article())
    url = web.url("/a")
    await context.registrar.add(url, "url", await connect.now(context.client))
    await visit(context, url)
    web.page("/b", article())
    web.redirect("/a", "/b", 301)
    await visit(context, url)
    record = await item(context, url)

    assert json.loads(record["httpRedirectChain"]) == [url]
    assert record["httpCanonicalUrl"] == web.url("/b")


async def test_robots_allow_again(settings: Settings, site: Site) -> None:
    """`httpRobotsAllowed` follows robots.txt in both directions, also when the page answers 304."""
    site.page("/", links=["/a"])
    site.page("/a")
    allowed = []
    for rules in ("User-agent: *\nDisallow:", "User-agent: *\nDisallow: /a", "User-agent: *\nDisallow:"):
        site.web.robots(rules)
        async with crawl_context(
            settings
        ) as context:  # a process of its own each time: robots.txt is remembered for a day
            for key in await context.client.keys("fetch:robots*"):
                await context.client.delete(key)
            await add_site(context, site.url("/"))
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)
            allowed.append((await item(context, site.url("/a")))["httpRobotsAllowed"])

    assert allowed == ["true", "false", "true"]


async def test_broken_link_on_a_first_crawl_is_a_failure(context: Context, site: Site) -> None:
    """Nothing was there, so nothing is gone."""
    site.page("/", links=["/nowhere"])
    await add_site(context, site.url("/"))

    ended = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert counts(ended) == {"discovered": 2, "visited": 2, "changed": 1, "failed": 1}
    assert (await item(context, site.url("/nowhere")))["errorMessage"].startswith("HTTP 404")


def embedded(library: Library) -> int:
    """How often a text about weirs was sent to the model."""
    return sum("weirs" in text for question in library.server.questions for text in question["input"])


async def test_shared_page_is_found_by_its_domain_and_its_category(settings: Settings) -> None:
    """Crawled and embedded first, listed by a feed later: both filters find it, nothing is embedded again."""
    async with open_library(settings, {"/a": "About weirs.", "/b": "About sluices."}) as library:
        await library.embed()
        asked = embedded(library)
        await add(library.context, library.site.url("/a"))
        await run(library.context)
        await library.embed()
        asked_again = embedded(library)

        for filters in (Filters(domains=("docs",)), Filters(categories=("world",))):
            assert "/a" in await library.urls("weirs", filters=filters)
        assert await library.urls("sluices", filters=Filters(categories=("world",))) in ([], ["/a"])
        assert asked_again == asked
        assert (await library.record("/a"))["status"] == "Indexed"


async def test_new_date_is_shown_without_new_vectors(settings: Settings) -> None:
    """Metadata alone: search shows it at once, nothing is embedded."""
    async with open_library(settings, {"/a": "About weirs."}) as library:
        await library.embed()
        asked = embedded(library)
        stated = '<meta property="article:published_time" content="2026-03-01T12:00:00Z">'
        library.site.page("/a", "About weirs.", head=stated)
        await library.crawl()
        await library.embed()
        asked_again = embedded(library)
        (found,) = (one for one in (await library.ask("weirs")).results if one.page.url.endswith("/a"))

        assert found.page.published_ts == 1_772_366_400
        assert asked_again == asked


async def test_force_accuses_nobody_of_lying(context: Context, site: Site) -> None:
    """Four true 304s, then a forced visit of the same bytes: the host's 304 is believed as before."""
    site.page("/", links=["/a"])
    site.page("/a")
    await add_site(context, site.url("/"))
    for mode in (*[CrawlMode.INCREMENTAL] * 5, CrawlMode.FULL):
        await crawl_source(context, SID, mode)
    site.forget_requests()
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert not [key async for key in context.client.scan_iter(context.keys.trust("*"))]
    assert "if-none-match" in site.web.asked("/a")[-1].headers


async def test_equal_text_read_anew_is_not_updated(context: Context, site: Site) -> None:
    """Forced, or by another canonical: without news the document keeps its time, so search needs not be told."""
    site.page("/", links=["/a"])
    site.page("/a", head=f'<link rel=canonical href="{site.url("/a")}">')
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    key = context.keys.document(item_id(site.url("/a")))
    before = await context.client.hgetall(key)
    await crawl_source(context, SID, CrawlMode.FULL)
    forced = await context.client.hgetall(key)
    site.page("/a", head='<link rel=canonical href="https://elsewhere.example/a">')
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert before == forced == await context.client.hgetall(key)


async def test_alias_that_leads_elsewhere_is_no_name_of_its_old_page(context: Context, site: Site) -> None:
    """`/latest` moves from one version to the next, and is a page of its own at last."""
    site.page("/", links=["/latest", "/v1", "/v2"])
    site.page("/v1")
    site.page("/v2")
    site.web.redirect("/latest", "/v1", 301)
    await add_site(context, site.url("/"))
    names = []
    for change in (lambda: None, lambda: site.web.redirect("/latest", "/v2", 301), lambda: site.page("/latest")):
        change()
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        known = [
            await context.client.smembers(context.keys.aliases(item_id(site.url(path)))) for path in ("/v1", "/v2")
        ]
        names.append([len(found) for found in known])

    assert names == [[1, 0], [0, 1], [0, 0]]


async def test_deferral_is_told_once_and_in_the_record(
    context: Context, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that asks to wait: one line for all of its pages, and each record says how long it waits."""
    paths = [f"/{number}" for number in range(5)]
    site.page("/", links=paths)
    for path in paths:
        site.page(path)
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    for path in ("/", *paths):
        site.web.retry_after(path, 503, "5000")
    await visit(context, site.url("/0"))
    caplog.clear()
    await visit(context, *map(site.url, paths[1:]))
    record = await item(context, site.url("/1"))
    due = await context.client.zscore(context.keys.due(SID), record["id"])

    assert len([one for one in caplog.messages if "put off" in one]) == 1
    assert abs(float(record["crawlIntervalSeconds"]) - (due - await connect.now(context.client))) < 60
