"""The canonical fetcher on real parts: loopback HTTP, the embedded server, parse children."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core import ids
from core.registry.io import link_visits
from core.registry.io.article_store import ArticleStore
from core.runtime.context import Context
from core.settings import Settings
from core.urls.normalise import normalise_url
from tests import files
from tests.articles import add, article, failure, feed_with_text, run, stored
from tests.web import FakeWeb
from tests.web_replies import Document as Reply
from workers import canonical_fetcher

DAY = 86_400


@pytest.fixture
async def web() -> AsyncIterator[FakeWeb]:
    async with FakeWeb("127.0.0.1", "127.0.0.7") as running:
        yield running


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count and name not in {"found", "new"}}


# ── one article ─────────────────────────────────────────────────────────────────────────────────


async def test_link_becomes_an_article_in_every_key(context: Context, web: FakeWeb) -> None:
    """Hash with all fields and its life, categories, index, attempted, Item with its sets, event, counters."""
    web.page("/a", article(), etag='"1"', last_modified="Mon, 16 Nov 2026 05:00:00 GMT")
    url = web.url("/a")
    await add(context, url)
    counts = await run(context)
    uid, keys, client = ids.article_uid(url), context.keys, context.client
    found = await stored(context, url)

    assert nonzero(counts) == {"stored": 1}
    wanted = "uid url category categories raw_len text_len clean_text abstract image fetched_ts status markdown title"
    wanted += " author published_ts language final_url canonical_url item_id content_hash etag last_modified"
    assert set(found) >= {*wanted.split(), "extractor_version", "duplicate_of"}
    assert (found["uid"], found["url"], found["category"], found["status"]) == (uid, url, "world", "success")
    assert (found["title"], found["language"], found["etag"]) == ("Lock gates reopen", "en", '"1"')
    assert found["abstract"].startswith("The council voted")
    assert "Imprint" not in found["clean_text"]
    assert int(found["text_len"]) == len(found["clean_text"])
    assert 6 * DAY < await client.ttl(keys.article(uid)) <= 7 * DAY
    assert await client.smembers(keys.articles_by_category("world")) == {uid}
    assert 6 * DAY < await client.ttl(keys.articles_by_category("world")) <= 7 * DAY
    assert await client.zscore(keys.article_index, uid) == pytest.approx(float(found["fetched_ts"]), abs=0.01)
    assert await client.ttl(keys.article_index) == -1
    assert await client.smembers(keys.attempted) == {uid}
    assert 29 * DAY < await client.ttl(keys.attempted) <= 30 * DAY
    assert await client.zscore(keys.attempted_at, uid) is not None
    item = await client.hgetall(keys.item(found["item_id"]))
    assert found["item_id"] == ids.item_id("url", normalise_url(url)) == item["id"]
    assert (item["status"], item["articleUid"], item["httpEtag"], item["PartitionKey"]) == (
        "Crawled",
        uid,
        '"1"',
        "127.0.0.1",
    )
    for key in (keys.partition("127.0.0.1"), keys.status("Crawled")):
        assert await client.smembers(key) == {item["id"]}
    assert await client.zscore(keys.refs("rss"), item["id"]) == 0
    assert await client.zscore(keys.due("rss"), item["id"]) > float(found["fetched_ts"])
    assert [fields["type"] for _, fields in await client.xrange(keys.events)] == ["article.stored", "run.finished"]
    assert await client.keys("*lease*") == await client.keys("*crashes*") == []


async def test_second_run_fetches_nothing(context: Context, web: FakeWeb) -> None:
    """Uids are compared with uids: what was attempted is not asked again, stored or failed."""
    web.page("/a", article())
    await add(context, web.url("/a"), web.url("/missing"))
    await run(context)
    asked = len(web.requests)
    counts = await run(context)

    assert len(web.requests) == asked
    assert nonzero(counts) == {"known": 2}


async def test_link_in_two_categories_is_fetched_once(context: Context, web: FakeWeb) -> None:
    """One article, both categories; counted once in every run."""
    web.page("/a", article())
    for category in ("world", "tech"):
        await add(context, web.url("/a"), category=category)
    first, second = await run(context), await run(context)
    uid = ids.article_uid(web.url("/a"))

    assert web.paths == ["/a"]
    assert (first["found"], second["found"], second["known"]) == (1, 1, 1)
    assert (await stored(context, web.url("/a")))["categories"] == "tech,world"
    for category in ("world", "tech"):
        assert await context.client.smembers(context.keys.articles_by_category(category)) == {uid}


async def test_stored_article_enters_a_category_added_by_hand(context: Context, web: FakeWeb) -> None:
    """SADD of a known link into another category indexes its article there, without a fetch."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await run(context)
    await add(context, web.url("/a"), category="late")
    await run(context)

    assert web.paths == ["/a"]
    assert await context.client.smembers(context.keys.articles_by_category("late")) == {ids.article_uid(web.url("/a"))}
    assert (await stored(context, web.url("/a")))["categories"] == "world,late"


async def test_numbers_add_up(context: Context, web: FakeWeb) -> None:
    """found = new + known + rejected and new = the sum of its ends, in the last run and over all."""
    web.page("/a", article())
    web.page("/b", article("Other", text="Something else entirely happened here."))
    web.page("/same", article())
    web.redirect("/moved", "/a", 301)
    web.page("/down", "later", status=503)
    await add(context, *map(web.url, ("/a", "/b", "/same", "/moved", "/down", "/missing")), "mailto:x@example.com")
    first = await run(context)
    await run(context)
    totals = {
        k: int(v) for k, v in (await context.client.hgetall(context.keys.canonical_stats)).items() if "cursor" not in k
    }
    last = await context.client.hgetall(context.keys.canonical_last_run)

    assert first == {
        "found": 7,
        "new": 6,
        "known": 0,
        "rejected": 1,
        "stored": 2,
        "failed": 1,
        "retry": 1,
        "alias": 1,
        "duplicate": 1,
        "deferred": 0,
    }
    for counts in (first, totals, {k: int(v) for k, v in last.items() if k not in {"ts", "seconds"}}):
        assert counts["found"] == counts["new"] + counts.get("known", 0) + counts.get("rejected", 0)
        ends = ("stored", "failed", "retry", "alias", "duplicate", "deferred")
        assert counts["new"] == sum(counts.get(end, 0) for end in ends)
    assert totals["known"] == 7


# ── the same page under other names ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("slash", ("/a", "/a/")),
        ("query order", ("/a?x=1&y=2", "/a?y=2&x=1")),
        ("redirect", ("/a", "/go")),
        ("canonical", ("/a", "/print")),
        ("amp", ("/a", "/a/amp")),
    ],
)
async def test_names_of_one_page_share_one_article(
    context: Context, web: FakeWeb, name: str, links: tuple[str, str]
) -> None:
    """One article, the others are aliases of it, and all categories are indexed."""
    own = f"<link rel=canonical href='{web.url('/a')}'>"
    for path in ("/a", "/a/", "/a?x=1&y=2", "/a?y=2&x=1"):
        web.page(path, article())
    web.redirect("/go", "/a", 302)
    web.page("/print", article(head=own, text=" (print)"))
    web.page("/a/amp", article(head=own, text=" (amp)").replace("<html", "<html amp"))
    await add(context, web.url(links[0]), category="world")
    await add(context, web.url(links[1]), category="tech")
    counts = await run(context)
    first, second = (ids.article_uid(web.url(link)) for link in links)
    aliases = {uid: await context.client.get(context.keys.alias(uid)) for uid in (first, second)}
    [(alias, target)] = [(uid, to) for uid, to in aliases.items() if to]

    assert nonzero(counts) == {"stored": 1, "alias": 1}
    assert {alias, target} == {first, second}
    assert await context.client.zrange(context.keys.article_index, 0, -1) == [target]
    assert 0 < await context.client.ttl(context.keys.alias(alias)) <= 7 * DAY
    for category in ("world", "tech"):
        assert await context.client.smembers(context.keys.articles_by_category(category)) == {target}
    assert await context.client.scard(context.keys.attempted) == 2


async def test_same_text_on_another_page_is_a_duplicate(context: Context, web: FakeWeb) -> None:
    """Both are kept; the later one names the first, and that does not flip."""
    web.page("127.0.0.1/a", article())
    web.page("127.0.0.7/syndicated", article(head="<meta name=x content=y>"))
    first, second = web.url("/a"), web.url("/syndicated", "127.0.0.7")
    await add(context, first)
    await run(context)
    await add(context, second)
    counts = await run(context)

    assert nonzero(counts) == {"duplicate": 1, "known": 1}
    assert (await stored(context, first))["duplicate_of"] == ""
    assert (await stored(context, second))["duplicate_of"] == ids.article_uid(first)


async def test_many_pages_with_one_text_are_stored_in_one_run(context: Context, web: FakeWeb) -> None:
    """One of them is the original, and none waits so long for it that it is put off."""
    urls = [web.url(f"/wall/{number}") for number in range(60)]
    web.fallback = Reply(article().encode())
    await add(context, *urls)

    assert nonzero(await run(context)) == {"stored": 1, "duplicate": 59}


async def test_copy_of_a_stored_text_waits_for_nobody(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text has its first article: whoever leases it, such as another copy, decides nothing any more."""
    for path in ("/a", "/copy"):
        web.page(path, article())
    first, second = web.url("/a"), web.url("/copy")
    await add(context, first)
    await run(context)
    lease = context.keys.lease(f"text_{(await stored(context, first))['content_hash']}")
    await context.client.set(lease, "another worker's")
    monkeypatch.setattr(link_visits, "LEASE_TRIES", 1)
    await add(context, second)

    assert nonzero(await run(context)) == {"duplicate": 1, "known": 1}
    assert await context.client.get(lease) == "another worker's"


async def test_alias_of_a_stored_article_waits_for_nobody(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has its article: whoever visits it, such as another alias, decides nothing about this link."""
    lease = await one_article_and_its_alias(context, web)
    await context.client.set(lease, "another worker's")
    monkeypatch.setattr(link_visits, "LEASE_TRIES", 1)

    assert nonzero(await run(context)) == {"alias": 1, "known": 1}
    assert await context.client.get(lease) == "another worker's"


async def test_article_that_is_removed_gets_no_alias_at_that_moment(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link would be known for a month as an alias of nothing: it is visited again, and stored."""
    await one_article_and_its_alias(context, web)
    enter = ArticleStore.enter_categories

    async def remove(articles: ArticleStore, uid: str, categories: Sequence[str]) -> bool:
        await context.client.delete(context.keys.article(uid))
        return await enter(articles, uid, categories)

    monkeypatch.setattr(ArticleStore, "enter_categories", remove)

    assert nonzero(await run(context)) == {"stored": 1, "known": 1}
    assert await context.client.get(context.keys.alias(ids.article_uid(web.url("/print")))) is None


async def one_article_and_its_alias(context: Context, web: FakeWeb) -> str:
    """Store an article, add a link to the same page under another address, and return the lease of the page."""
    web.page("/a", article())
    web.page("/print", article(head=f"<link rel=canonical href='{web.url('/a')}'>", text=" (print)"))
    await add(context, web.url("/a"))
    await run(context)
    await add(context, web.url("/print"))
    return context.keys.lease((await stored(context, web.url("/a")))["item_id"])


async def test_text_that_another_worker_leases_is_not_stored_meanwhile(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leases a text is deciding which of its pages is the original: nobody else stores one as that."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await run(context)
    content_hash = (await stored(context, web.url("/a")))["content_hash"]
    await context.client.flushdb()
    monkeypatch.setattr(link_visits, "LEASE_TRIES", 1)
    await context.client.set(context.keys.lease(f"text_{content_hash}"), "another worker's")
    await add(context, web.url("/a"))
    held_up = nonzero(await run(context))
    await context.client.delete(context.keys.lease(f"text_{content_hash}"))

    assert held_up == {"deferred": 1}
    assert nonzero(await run(context)) == {"stored": 1}


async def test_pdf_becomes_an_article(context: Context, web: FakeWeb) -> None:
    """A PDF that a feed lists is read like any document."""
    lines = [
        "The lock gates reopen in May,",
        "the council of the town says,",
        "after a winter of repairs and of waiting boats.",
    ]
    body = files.pdf(lines, info="/Title (Lock gates reopen)")
    web.on("/report.pdf", Reply(body, media_type="application/pdf"))
    await add(context, web.url("/report.pdf"))
    assert nonzero(await run(context)) == {"stored": 1}
    found = await stored(context, web.url("/report.pdf"))
    assert found["title"] == "Lock gates reopen"
    assert "after a winter of repairs" in found["clean_text"]


# ── failures ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "reply", "code", "detail", "is_transient"),
    [
        ("404", 404, "FAIL_HTTP", "status", False),
        ("410", 410, "FAIL_HTTP", "status", False),
        ("403", 403, "FAIL_HTTP", "status", False),
        ("204", 204, "FAIL_HTTP", "status", False),
        ("206", 206, "FAIL_HTTP", "status", False),
        ("429", 429, "FAIL_HTTP", "status", True),
        ("503", 503, "FAIL_HTTP", "status", True),
        ("short", "<html><body>hello</body></html>", "FAIL_BAD_HTML", "", False),
        ("no text", "<html><body>" + "<div></div>" * 50 + "</body></html>", "FAIL_EMPTY", "", False),
        ("pdf", Reply(b"%PDF-1.7" * 100, media_type="application/pdf"), "FAIL_PARSE", "type", False),
    ],
)
async def test_failures_say_why(
    context: Context, web: FakeWeb, name: str, reply: Any, code: str, detail: str, is_transient: bool
) -> None:
    """Code, detail, status, tries and times in the story; indexed by time; tried again or remembered."""
    web.on("/a", reply)
    url, uid = web.url("/a"), ids.article_uid(web.url("/a"))
    await add(context, url)
    counts = await run(context)
    told, keys, client = await failure(context, url), context.keys, context.client

    assert nonzero(counts) == ({"retry": 1} if is_transient else {"failed": 1})
    assert (told["code"], told["detail"], told["url"], told["category"]) == (code, detail, url, "world")
    assert told["tries"] == "1"
    assert told["first_ts"] == told["last_ts"]
    assert await client.zrange(keys.failures, 0, -1) == [f"{uid}:{code}"]
    assert 29 * DAY < await client.ttl(keys.failure(uid)) <= 30 * DAY
    assert await client.sismember(keys.attempted, uid) == (not is_transient)
    assert (await client.zscore(keys.retry, uid) is not None) is is_transient
    assert await client.exists(keys.article(uid)) == 0


@pytest.mark.parametrize(
    ("name", "code", "detail"),
    [
        ("hang", "FAIL_TIMEOUT", ""),
        ("reset", "FAIL_HTTP", "reset"),
        ("loop", "FAIL_HTTP", "redirects"),
        ("bomb", "FAIL_HTTP", "too_large"),
        ("robots", "FAIL_HTTP", "robots"),
        ("refused", "FAIL_HTTP", "refused"),
        ("blocked", "FAIL_HTTP", "blocked"),
        ("home", "FAIL_HTTP", "redirects"),
    ],
)
async def test_details(context: Context, web: FakeWeb, settings: Settings, name: str, code: str, detail: str) -> None:
    """Each way to fail has its name."""
    web.hang("/hang")
    web.reset("/reset")
    web.redirect_loop("/loop", "/pool")
    web.bomb("/bomb", "gzip", 50)
    web.redirect("/home", "/", 301)
    web.page("/", article())
    if name == "robots":
        web.robots("User-agent: *\nDisallow: /robots")
    elsewhere = {"refused": "http://127.0.0.7:9/x", "blocked": "http://10.0.0.1:8080/x"}
    url = elsewhere.get(name, web.url(f"/{name}"))
    await add(context, url)
    await run(context)
    told = await failure(context, url)

    assert (told["code"], told["detail"]) == (code, detail)


async def test_transient_failure_is_tried_three_times_more_and_then_remembered(context: Context, web: FakeWeb) -> None:
    """10 minutes, an hour, six hours; in between it is not asked; the fourth failure is for 30 days."""
    web.page("/a", "later", status=503)
    url, uid, keys = web.url("/a"), ids.article_uid(web.url("/a")), context.keys
    await add(context, url)
    waits = []
    for _ in range(4):
        started = (await context.client.time())[0]
        await run(context)
        await run(context)
        at = await context.client.zscore(keys.retry, uid)
        waits.append(round((at - started) / 600) * 600 if at else None)
        await context.client.zadd(keys.retry, {uid: 0}, xx=True)

    assert len(web.paths) == 4
    assert waits == [600, 3600, 21600, None]
    assert (await failure(context, url))["tries"] == "4"
    assert await context.client.sismember(keys.attempted, uid)


async def test_retry_works_after_the_link_left_its_set_and_cleans_up(context: Context, web: FakeWeb) -> None:
    """A link that aged out is still tried again; success removes every trace of the failure."""
    web.page("/a", "later", status=503).then(article())
    url, uid, keys = web.url("/a"), ids.article_uid(web.url("/a")), context.keys
    await add(context, url)
    await run(context)
    await context.client.delete(keys.category_links("world"), keys.category_links_seen("world"))
    await context.client.zadd(keys.retry, {uid: 0})
    counts = await run(context)

    assert nonzero(counts) == {"stored": 1}
    assert (await stored(context, url))["category"] == "world"
    assert await context.client.exists(keys.failure(uid), keys.failures, keys.retry) == 0


async def test_own_network_down_marks_nothing(context: Context, web: FakeWeb) -> None:
    """When nearly no host answers, nothing is attempted, nothing fails; later everything is fetched."""
    dead = [f"http://127.0.9.{n}:{web.port}/a" for n in range(1, 8)]
    await add(context, *dead)
    counts = await run(context)
    marked = await context.client.exists(context.keys.attempted, context.keys.failures, context.keys.retry)
    leases = await context.client.keys("*lease*")
    async with FakeWeb(*(f"127.0.9.{n}" for n in range(1, 8))) as back:
        await context.client.delete(context.keys.category_links("world"))
        await add(context, *(f"http://127.0.9.{n}:{back.port}/a" for n in range(1, 8)))
        for n in range(1, 8):
            back.page(f"127.0.9.{n}/a", article(f"Title {n}", text=f"Number {n}."))
        healed = await run(context)

    assert nonzero(counts) == {"deferred": 7}
    assert (marked, leases) == (0, [])
    assert healed["stored"] == 7


async def test_page_that_kills_its_readers_is_put_aside(context: Context, web: FakeWeb) -> None:
    """After three worker deaths the link is a FAIL_PARSE and is not fetched again."""
    web.page("/a", article())
    url = web.url("/a")
    await add(context, url)
    await context.client.set(context.keys.crashes(ids.item_id("url", normalise_url(url))), 3)
    await run(context)

    assert web.paths == []
    assert (await failure(context, url))["code"] == "FAIL_PARSE"


# ── the feed's own text ─────────────────────────────────────────────────────────────────────────

WALL = "<html><head><title>Before you continue</title></head><body><h1>We value your privacy</h1><p>" + (
    "We and our partners use cookies. Accept all or manage your choices. </p></body></html>" + " " * 200
)


@pytest.mark.parametrize(
    ("name", "reply"),
    [("closed door", 403), ("consent wall", WALL), ("empty page", "<html><body>" + "<div></div>" * 50)],
)
async def test_feed_text_instead_of_a_wall(context: Context, web: FakeWeb, name: str, reply: Any) -> None:
    """Never an empty article when the feed had the text."""
    web.on("/a", reply)
    url = await feed_with_text(context, web)
    counts = await run(context)
    found = await stored(context, url)

    assert nonzero(counts) == {"stored": 1}
    assert "The council voted on Tuesday" in found["clean_text"]
    assert (found["title"], found["text_source"]) == ("From the feed", "feed")
    assert await context.client.exists(context.keys.entry(ids.article_uid(url))) == 0


async def test_failure_names_its_feed(context: Context, web: FakeWeb) -> None:
    """Failures help to curate feeds."""
    web.on("/a", 404)
    url = await feed_with_text(context, web)
    await run(context)

    assert (await failure(context, url))["feed"] == web.url("/feed")


# ── two at once, budgets, restarts ──────────────────────────────────────────────────────────────


async def test_two_fetchers_at_once_fetch_once(context: Context, web: FakeWeb) -> None:
    """Leases keep them apart, and neither waits for ever."""
    for n in range(30):
        web.page(f"/{n}", article(f"Title {n}", text=f"Number {n}."))
    await add(context, *(web.url(f"/{n}") for n in range(30)))
    first, second = await asyncio.gather(run(context), run(context))

    assert sorted(web.paths) == sorted(set(web.paths))
    assert first["stored"] + second["stored"] == 30
    assert await context.client.zcard(context.keys.article_index) == 30


async def test_time_over_leaves_the_rest(context: Context, web: FakeWeb) -> None:
    """A run without time fetches nothing and says so; the next one does it all."""
    for n in range(5):
        web.page(f"/{n}", article(f"Title {n}", text=f"Number {n}."))
    await add(context, *(web.url(f"/{n}") for n in range(5)))
    first, second = await run(context, budget=0.0), await run(context)

    assert (nonzero(first), nonzero(second)) == ({"deferred": 5}, {"stored": 5})


async def test_stopped_run_gives_its_links_back(context: Context, web: FakeWeb) -> None:
    """Cancelled in the middle of a fetch: no lease stays, the next run fetches it."""
    web.hang("/a")
    await add(context, web.url("/a"))
    task = asyncio.create_task(run(context))
    while not web.paths:  # noqa: ASYNC110 - the web has no event for this
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    leases = await context.client.keys("*lease*")
    web.page("/a", article())

    assert leases == []
    assert nonzero(await run(context)) == {"stored": 1}


async def test_log_lines(context: Context, web: FakeWeb, caplog: pytest.LogCaptureFixture) -> None:
    """One line when a link is fetched and one when it ends; people search for these words."""
    web.page("/good", article())
    web.page("/short", "<html><body>hello</body></html>")
    good, short = web.url("/good"), web.url("/short")
    await add(context, good, short)
    with caplog.at_level(logging.INFO, "canon"):
        await run(context)

    lines = {record.getMessage() for record in caplog.records if record.name == "canon"}
    assert {f"🌐 Fetching → {good}", f"🌐 Fetching → {short}"} < lines
    assert f"✅ Stored canonical → {ids.article_uid(good)}  Lock gates reopen" in lines
    assert f"⚠️ Bad HTML → skip  {short}" in lines


async def test_quiet_without_new_links(context: Context, web: FakeWeb, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing new, nothing said."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await run(context)
    caplog.clear()
    await run(context)

    assert [record for record in caplog.records if record.name == "canon"] == []


# ── growing old ─────────────────────────────────────────────────────────────────────────────────


async def test_expired_articles_leave_the_indexes(context: Context, web: FakeWeb) -> None:
    """An article that expired takes its uid out of category and global index in the next runs."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await run(context)
    await context.client.delete(context.keys.article(ids.article_uid(web.url("/a"))))
    await run(context)

    assert await context.client.exists(context.keys.article_index, context.keys.articles_by_category("world")) == 0


async def test_old_failures_and_items_are_forgotten(context: Context, web: FakeWeb) -> None:
    """Failures after 30 days; the registry record 30 days after its article."""
    web.page("/a", article())
    await add(context, web.url("/a"), web.url("/missing"))
    await run(context)
    item_id = (await stored(context, web.url("/a")))["item_id"]
    await context.client.delete(context.keys.article(ids.article_uid(web.url("/a"))))
    clock = (await canonical_fetcher.find_links(context.client, context.keys, context.settings)).clock
    later = dataclasses.replace(clock, server_ts=clock.server_ts + 38 * DAY)
    from core.feeds.io.link_store import Ttls
    from core.registry.io.periodic_cleanup import Pruner

    pruning = Pruner(context.client, context.keys, Ttls.of(context.settings))
    await pruning.forget_old_attempts(later.now())
    await pruning.run(["world"], later.now())

    assert await context.client.exists(context.keys.failures, context.keys.item(item_id), context.keys.due("rss")) == 0
    assert await context.client.exists(context.keys.attempted, context.keys.partition("127.0.0.1")) == 0


async def test_failure_of_31_days_ago_is_new_in_the_same_run(context: Context, web: FakeWeb) -> None:
    """Old attempts are forgotten before the run looks, not after."""
    web.on("/a", 404).then(article())
    url, uid = web.url("/a"), ids.article_uid(web.url("/a"))
    await add(context, url)
    await run(context)
    await context.client.zadd(context.keys.attempted_at, {uid: 1})

    assert nonzero(await run(context)) == {"stored": 1}


async def test_dangling_uids_leave_a_category(context: Context) -> None:
    """Also those that the global index never knew."""
    await context.client.sadd(context.keys.categories, "world")
    await context.client.sadd(context.keys.articles_by_category("world"), "deadbeefdeadbeef")
    await run(context)

    assert await context.client.exists(context.keys.articles_by_category("world")) == 0


# ── what people do by hand ──────────────────────────────────────────────────────────────────────


async def test_article_that_is_there_is_not_fetched_again(context: Context, web: FakeWeb) -> None:
    """Memory lost, article alive: it is remembered and indexed again, and no alias of itself."""
    web.page("/a", article())
    url, uid, keys = web.url("/a"), ids.article_uid(web.url("/a")), context.keys
    await add(context, url)
    await run(context)
    await context.client.delete(
        keys.attempted, keys.attempted_at, keys.article_index, keys.articles_by_category("world")
    )
    counts = await run(context)

    assert (nonzero(counts), web.paths) == ({"known": 1}, ["/a"])
    assert await context.client.zrange(keys.article_index, 0, -1) == [uid]
    assert await context.client.smembers(keys.articles_by_category("world")) == {uid}
    assert await context.client.sismember(keys.attempted, uid)
    assert await context.client.exists(keys.alias(uid)) == 0


async def test_member_that_is_no_utf_8_stops_nobody(context: Context, web: FakeWeb) -> None:
    """Bytes from somewhere in a link set are rejected; everything else is fetched."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await context.client.execute_command("SADD", context.keys.category_links("world"), b"http://h/\xff\xfe")
    first, second = await run(context), await run(context)

    assert (nonzero(first), nonzero(second)) == ({"stored": 1, "rejected": 1}, {"known": 2})


async def test_link_moved_by_hand_enters_its_new_category(context: Context, web: FakeWeb) -> None:
    """SREM of one and SADD of another leave the counts equal; the new one is noticed all the same."""
    web.page("/a", article())
    web.page("/b", article("B", text="Another thing."))
    await add(context, web.url("/a"), category="x")
    await add(context, web.url("/b"), category="y")
    await run(context)
    await context.client.srem(context.keys.category_links("y"), web.url("/b"))
    await add(context, web.url("/a"), category="y")
    await run(context)

    assert ids.article_uid(web.url("/a")) in await context.client.smembers(context.keys.articles_by_category("y"))
    assert await context.client.zrange(context.keys.category_links_seen("y"), 0, -1) == [web.url("/a")]


async def test_alias_whose_article_is_gone_becomes_an_article(context: Context, web: FakeWeb) -> None:
    """Fetched anew under its own uid, and no longer a name of something dead."""
    web.page("/a", article())
    web.redirect("/go", "/a", 302)
    await add(context, web.url("/a"))
    await run(context)
    await add(context, web.url("/go"))
    await run(context)
    uid, target = (ids.article_uid(web.url(path)) for path in ("/go", "/a"))
    was_alias = await context.client.get(context.keys.alias(uid))
    await context.client.delete(context.keys.article(target))
    await context.client.srem(context.keys.attempted, uid)
    await run(context)

    assert was_alias == target
    assert await context.client.exists(context.keys.article(uid)) == 1
    assert await context.client.exists(context.keys.alias(uid)) == 0


async def test_stored_anew_keeps_its_history(context: Context, web: FakeWeb) -> None:
    """firstSeen and the generations stay, and an item is in one status set only."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    await run(context)
    found = await stored(context, web.url("/a"))
    key = context.keys.item(found["item_id"])
    await context.client.hset(key, mapping={"firstSeen": "2020-01-01T00:00:00Z", "reindexGeneration": "3"})
    await context.client.sadd(context.keys.status("Indexed"), found["item_id"])
    await context.client.delete(context.keys.article(found["uid"]), context.keys.attempted, context.keys.attempted_at)
    await run(context)

    assert await context.client.hmget(key, ["firstSeen", "reindexGeneration"]) == ["2020-01-01T00:00:00Z", "3"]
    assert await context.client.exists(context.keys.status("Indexed")) == 0


@pytest.mark.parse_children
async def test_stop_ends_within_moments_and_leaves_no_lease(context: Context, web: FakeWeb) -> None:
    """Cancelled again and again as a signal does: nothing new begins, and everything is given back."""
    for n in range(200):
        web.page(f"/{n}", article(f"Title {n}", text=f"Number {n}."))
    await add(context, *(web.url(f"/{n}") for n in range(200)))
    task = asyncio.create_task(run(context))
    while len(web.paths) < 5:  # noqa: ASYNC110 - the web has no event for this
        await asyncio.sleep(0.01)
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=0.2)
    async with asyncio.timeout(20):  # a release outlives the task that asked for it; an expired lease would take longer
        while await context.client.keys("*lease*"):  # noqa: ASYNC110 - the store has no event for this
            await asyncio.sleep(0.01)

    assert await context.client.keys("*crashes*") == []
    assert await context.client.zcard(context.keys.article_index) < 200


# ── the start ───────────────────────────────────────────────────────────────────────────────────


async def test_a_run_loads_only_what_it_needs(context: Context, web: FakeWeb, tmp_path: Path) -> None:
    """A run that stores an article loads neither RQ nor Pydantic nor a parser: they would be half of its start."""
    web.page("/a", article())
    await add(context, web.url("/a"))
    settings = context.settings
    assert settings.redis_url is not None
    environment = {
        "PATH": os.environ["PATH"],
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "KEY_PREFIX": settings.key_prefix,
        "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        "PERSISTENT_STORAGE_PATH": str(tmp_path),
    }
    code = "import sys; from workers import canonical_fetcher; canonical_fetcher.main(); print(*sys.modules)"
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=Path(__file__).parents[1], env=environment, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await running.communicate()

    assert await stored(context, web.url("/a"))
    assert {"rq", "pydantic", "lxml", "selectolax", "numpy"}.isdisjoint(told.decode().split())


# ── charsets ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "encoding", "media_type", "head", "bom"),
    [
        ("header", "windows-1251", "text/html; charset=windows-1251", "", b""),
        ("meta", "koi8-r", "text/html", "<meta charset=koi8-r>", b""),
        ("bom", "utf-16-le", "text/html", "", b"\xff\xfe"),
        ("utf-8 by nature", "utf-8", "text/html", "", b""),
    ],
)
async def test_charsets(
    context: Context, web: FakeWeb, name: str, encoding: str, media_type: str, head: str, bom: bytes
) -> None:
    """Header, BOM, meta or the bytes themselves tell the charset."""
    text = "Совет проголосовал во вторник за открытие старых шлюзов до весеннего паводка в долине. " * 5
    page = f"<html><head><title>Шлюзы</title>{head}</head><body><article><p>{text}</p></article></body></html>"
    web.page("/a", bom + page.encode(encoding), media_type=media_type)
    await add(context, web.url("/a"))
    await run(context)
    found = await stored(context, web.url("/a"))

    assert (found["title"], found["language"]) == ("Шлюзы", "ru")
    assert "Совет проголосовал" in found["clean_text"]
