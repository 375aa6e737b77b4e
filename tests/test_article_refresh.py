"""Articles are items too: checked within their life, corrected in place, hidden and removed with their pages."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from core import ids
from core.models import Ref
from core.registry.io.registrar import Listing, item_id_of
from core.runtime.context import Context
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.store import connect
from core.urls.normalise import normalise_url
from tests.articles import ArticlePage, article
from tests.web import FakeWeb
from workers import canonical_fetcher

DAY = 86_400


@pytest.fixture
async def paper(context: Context, web: FakeWeb) -> ArticlePage:
    made = ArticlePage(context, web)
    made.write("As first reported.")
    await made.store()
    return made


async def test_correction_arrives_in_place(paper: ArticlePage) -> None:
    """Same uid, first fetch kept, text and title new, validators new, told as `item.changed`, found where it was."""
    before = await paper.hash()
    paper.write("As corrected since.", "Lock gates reopen later", last_modified="Mon, 16 Nov 2026 07:00:00 GMT")

    assert await paper.visit() == 1

    after = await paper.hash()
    assert "As corrected since." in after["clean_text"]
    assert "As corrected since." in after["markdown"]
    assert "As first reported." not in after["clean_text"]
    assert after["title"] == "Lock gates reopen later"
    for name in ("uid", "url", "category", "categories", "fetched_ts", "item_id", "status"):
        assert after[name] == before[name], name
    assert float(after["updated_ts"]) > float(before["fetched_ts"])
    assert after["content_hash"] != before["content_hash"]
    assert (after["etag"], after["last_modified"]) == ('"2"', "Mon, 16 Nov 2026 07:00:00 GMT")
    assert set(after) >= set(before)
    item = await paper.item()
    assert (item["status"], item["httpEtag"], item["contentHash"]) == ("Crawled", '"2"', after["content_hash"])
    assert item["unchangedStreak"] == "0"
    assert await paper.events() == ["article.stored", "item.changed"]
    assert await paper.is_found() == (True, True)
    assert not await paper.context.client.exists(paper.context.keys.document(paper.id))


async def test_correction_does_not_prolong_a_life(paper: ArticlePage) -> None:
    """Only a sighting in its feed does; and no write ever takes the end away."""
    await paper.context.client.expire(paper.context.keys.article(paper.uid), 5_000)
    paper.write("As corrected since.")

    await paper.visit()

    assert 4_900 < await paper.life() <= 5_000


async def test_304_leaves_the_article_alone(paper: ArticlePage) -> None:
    """One conditional request; not a field, not the life, no event; the record knows that it was checked."""
    await paper.context.client.expire(paper.context.keys.article(paper.uid), 5_000)
    before, item = await paper.hash(), await paper.item()

    await paper.visit()

    assert [seen.headers.get("if-none-match") for seen in paper.web.asked("/a")] == ['"1"']
    assert await paper.hash() == before
    assert 4_900 < await paper.life() <= 5_000
    after = await paper.item()
    assert (after["httpStatusCode"], after["unchangedStreak"]) == ("304", "1")
    assert float(after["checkedTs"]) > float(item["checkedTs"])
    assert await paper.events() == ["article.stored"]


async def test_same_text_under_a_new_etag_is_no_change(paper: ArticlePage) -> None:
    """The hash of the text decides: new validators are kept, nobody is told."""
    before = await paper.hash()
    paper.write("As first reported.")

    await paper.visit()

    assert await paper.hash() == before
    assert (await paper.item())["httpEtag"] == '"2"'
    assert await paper.events() == ["article.stored"]


async def test_404_hides_and_a_return_shows_again(paper: ArticlePage) -> None:
    """Out of category and index at once, the text waits in its hash; the first good answer brings it back."""
    score = await paper.context.client.zscore(paper.context.keys.article_index, paper.uid)
    paper.web.on("/a", 404)
    await paper.visit()
    hidden, item = await paper.hash(), await paper.item()
    assert (hidden["status"], await paper.is_found()) == ("gone", (False, False))
    assert "As first reported." in hidden["clean_text"]
    assert 6 * DAY < await paper.life() <= 7 * DAY
    assert (item["status"], item["missingChecks"]) == ("Error", "1")
    assert (await paper.events())[-1] == "item.gone"
    paper.write("As first reported.")

    await paper.visit()

    back = await paper.hash()
    assert (back["status"], await paper.is_found()) == ("success", (True, True))
    again = await paper.context.client.zscore(paper.context.keys.article_index, paper.uid)
    assert again == pytest.approx(score, abs=0.01)
    assert (await paper.item())["missingChecks"] == "0"
    assert 6 * DAY < await paper.life() <= 7 * DAY


async def test_hidden_article_enters_no_category(paper: ArticlePage) -> None:
    """Sighted in another category while its page is missing: it is found there when it is back."""
    keys, client = paper.context.keys, paper.context.client
    paper.web.on("/a", 404)
    await paper.visit()
    await client.sadd(keys.category_links("local"), paper.url)
    await canonical_fetcher.run_once(paper.context, 60.0)
    assert await client.smembers(keys.articles_by_category("local")) == set()
    assert await paper.is_found() == (False, False)
    paper.write("As first reported.")

    await paper.visit()

    assert await client.smembers(keys.articles_by_category("local")) == {paper.uid}
    assert await paper.is_found() == (True, True)


async def test_404_for_a_day_is_gone_for_good(paper: ArticlePage) -> None:
    """Three checks over a day: the hash goes, the record is a tombstone, and its link does not bring it back."""
    paper.web.on("/a", 404)
    for _ in range(3):
        await paper.visit()
    assert (await paper.item())["status"] == "Error"  # three checks within a second prove little
    a_day_ago = float((await paper.item())["missingSinceTs"]) - DAY
    await paper.context.client.hset(paper.context.keys.item(paper.id), "missingSinceTs", f"{a_day_ago:.3f}")

    await paper.visit()

    assert (await paper.item())["status"] == "Gone"
    assert await paper.hash() == {}
    paper.web.requests.clear()
    await canonical_fetcher.run_once(paper.context, 60.0)
    assert paper.web.paths == []


async def test_410_deletes_at_once(paper: ArticlePage) -> None:
    """Said on purpose: article, category, index; one event with deleted; and the link is not fetched again."""
    paper.web.gone("/a")

    await paper.visit()

    assert await paper.hash() == {}
    assert await paper.is_found() == (False, False)
    assert (await paper.item())["status"] == "Gone"
    events = [fields for _, fields in await paper.context.client.xrange(paper.context.keys.events)]
    assert [told["deleted"] for told in events if told["type"] == "item.gone"] == ["true"]
    paper.web.requests.clear()
    await canonical_fetcher.run_once(paper.context, 60.0)
    assert paper.web.paths == []


@pytest.mark.parametrize("status", [500, 403, 429])
async def test_errors_keep_the_article(paper: ArticlePage, status: int) -> None:
    """Trouble is counted on the record alone."""
    before = await paper.hash()
    paper.web.on("/a", status)

    await paper.visit()

    assert await paper.hash() == before
    assert await paper.is_found() == (True, True)
    item = await paper.item()
    assert (item["status"], item["httpStatusCode"], item["consecutiveFailures"]) == ("Error", str(status), "1")


async def test_page_that_became_a_stub_keeps_the_article(paper: ArticlePage) -> None:
    """A page without a text says nothing about the text we have."""
    before = await paper.hash()
    paper.web.page("/a", "<html><body>Soon here.</body></html>" + " " * 300, etag='"9"')

    await paper.visit()

    assert await paper.hash() == before
    assert (await paper.item())["status"] == "Error"
    assert (await paper.item())["httpEtag"] == '"1"'  # its validators belong to the text we have


async def test_expired_article_is_not_fetched_again(paper: ArticlePage) -> None:
    """Its life is over: no request, not due any more, and no article comes back without a link."""
    await paper.context.client.delete(paper.context.keys.article(paper.uid))

    await paper.visit()

    assert paper.web.paths == []
    assert await paper.hash() == {}
    assert await paper.context.client.zscore(paper.context.keys.due("rss"), paper.id) is None
    assert (await paper.item())["lockedUntil"] == ""


async def test_article_that_ends_while_it_is_fetched_does_not_live_for_ever(
    paper: ArticlePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit finds no hash: what it writes has an end."""
    paper.write("As corrected since.")
    real = paper.context.leases.commit_many

    async def after_its_end(*given: Any) -> Any:
        await paper.context.client.delete(paper.context.keys.article(paper.uid))
        return await real(*given)

    monkeypatch.setattr(type(paper.context.leases), "commit_many", lambda _, *given: after_its_end(*given))
    await paper.visit()

    assert 0 < await paper.life() <= 7 * DAY


async def test_next_check_lies_within_its_life(paper: ArticlePage) -> None:
    """However long it has not changed: a correction is seen before the article ends."""
    await paper.context.client.hset(paper.context.keys.item(paper.id), "unchangedStreak", "50")

    await paper.visit()

    item = await paper.item()
    wait = datetime.fromisoformat(item["nextCrawlAt"]).timestamp() - float(item["checkedTs"])
    assert wait <= 7 * DAY * 3 / 7 * 1.1 + 1
    due = await paper.context.client.zscore(paper.context.keys.due("rss"), paper.id)
    assert due == pytest.approx(float(item["checkedTs"]) + wait, abs=2)


async def test_feed_text_is_not_replaced_by_less(context: Context, web: FakeWeb) -> None:
    """Stored from its feed, because the page was shut: a short page does not replace it, a longer one does."""
    paper = ArticlePage(context, web)
    paper.write("Short.")
    await paper.store()
    key = context.keys.article(paper.uid)
    long = "From the feed. " * 500
    await context.client.hset(key, mapping={"text_source": "feed", "clean_text": long, "text_len": len(long)})
    await context.client.hset(key, "content_hash", "of-the-feed")
    paper.write("Still short.")
    await paper.visit()
    kept = await paper.hash()
    assert (kept["clean_text"], kept["text_source"]) == (long, "feed")
    paper.write("Now the page has it all. " * 500)

    await paper.visit()

    now = await paper.hash()
    assert now["text_source"] == "page"
    assert "Now the page has it all." in now["clean_text"]


async def test_the_date_of_the_feed_outlives_guesses_but_no_statement(context: Context, web: FakeWeb) -> None:
    """A page whose address names another day keeps its feed's date through corrections, until it states one itself."""
    paper = ArticlePage(context, web, "/2025/01/06/a")
    in_feed, stated = 1_736_240_400, 1_736_154_000  # the next morning, and the morning of that day
    await context.client.hset(context.keys.entry(paper.uid), mapping={"title": "t", "published_ts": f"{in_feed}.0"})
    paper.write("As first reported.")
    await paper.store()
    first = await paper.hash()
    assert (first["published_ts"], first["published_source"]) == (str(in_feed), "feed")
    paper.write("As corrected since.")
    await paper.visit()
    corrected = await paper.hash()
    assert "As corrected since." in corrected["clean_text"]
    assert (corrected["published_ts"], corrected["published_source"]) == (str(in_feed), "feed")
    paper.write("As corrected since.", head='<meta name="date" content="2025-01-06T09:00:00Z">')

    await paper.visit()

    now = await paper.hash()
    assert (now["published_ts"], now["published_source"]) == (str(stated), "page")


async def test_force_reads_the_article_anew(paper: ArticlePage) -> None:
    """No validators, past all caches; equal text is no event; the force is used up."""
    await paper.visit(force=True, token="t")

    seen = paper.web.asked("/a")[-1].headers
    assert "if-none-match" not in seen
    assert seen["cache-control"] == "no-cache"
    item = await paper.item()
    assert (item["reindexGeneration"], item["processedGeneration"], item["reindexRequested"]) == ("1", "1", "false")
    assert await paper.events() == ["article.stored"]


async def test_page_of_a_site_and_a_feed_is_followed_and_outlives_its_article(paper: ArticlePage) -> None:
    """Its links are the site's; corrected it stays an article; when that ends, the site keeps it as a document."""
    paper.web.page("/", article("Home", text='<a href="/a">a</a>'), etag='"h"')
    paper.web.page("/b", article("B", text="Only linked from the article."), etag='"b"')
    source = {"id": "site", "url": paper.web.url("/"), "sitemap": False}
    for config in parse_domain(json.dumps({"id": "docs", "web_sources": [source]}), "/").sources():
        root = Ref(config.config["url"])
        now = await connect.now(paper.context.client)
        await paper.context.sources.add(config, item_id_of(root), now)
        await paper.context.registrar.register([root], Listing(config.sid), now)
    paper.write('Corrected, with a <a href="/b">link</a>.')

    await crawl_source(paper.context, "docs.site", CrawlMode.INCREMENTAL)

    assert "Corrected, with a" in (await paper.hash())["clean_text"]
    assert (await paper.item())["sources"] == "rss,docs.site"
    b = ids.item_id("url", normalise_url(paper.web.url("/b")))
    assert await paper.context.client.exists(paper.context.keys.document(b))
    await paper.context.client.delete(paper.context.keys.article(paper.uid))
    await crawl_source(paper.context, "docs.site", CrawlMode.INCREMENTAL)
    assert "Corrected, with a" in await paper.context.client.hget(paper.context.keys.document(paper.id), "markdown")
    paper.web.requests.clear()
    run = await crawl_source(paper.context, "docs.site", CrawlMode.INCREMENTAL)
    assert (run["unchanged"], run["changed"]) == ("3", "0")
    assert "if-none-match" in paper.web.asked("/a")[-1].headers
