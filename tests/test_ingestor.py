"""The ingestor on real parts: loopback HTTP, the embedded server, parse children."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core import ids
from core.feeds.feed_state import FeedState
from core.feeds.io.poller import PollCycle
from core.keys import Keys
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.store.connect import Client
from tests.articles import rss
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange
from workers import ingestor

A, B = "https://news.example/a", "https://news.example/b"


async def subscribe(context: Context, *urls: str, category: str = "world") -> None:
    for url in urls:
        await context.client.sadd(context.keys.feeds(category), url)


async def poll(context: Context, url: str = "") -> PollCycle:
    """One cycle in which everything (or this feed) is due."""
    for fid in [ids.feed_id(url)] if url else await context.feeds.all_ids():
        await context.client.zadd(context.keys.feeds_due, {fid: 0})
    return await ingestor.run_cycle(context)


async def state(context: Context, url: str) -> FeedState:
    return (await context.feeds.states([url]))[0]


async def test_feed_added_by_hand_gives_clean_links(context: Context, web: FakeWeb) -> None:
    """SADD of a feed is all it takes: trackers gone, duplicates once, junk rejected with a reason."""
    web.page("/feed", rss(f"{A}?utm_source=x", A, B, "mailto:x@example.com"), etag='"1"')
    await subscribe(context, web.url("/feed"))
    cycle = await poll(context)

    assert await context.client.smembers(context.keys.category_links("world")) == {A, B}
    assert cycle.counts["links_new"] == 2
    seen = await state(context, web.url("/feed"))
    assert (seen.status, seen.title, seen.rejected, seen.last_status) == ("ok", "News", 1, 200)
    assert "mailto" in seen.rejected_example


async def test_second_poll_sends_validators_and_is_unchanged(context: Context, web: FakeWeb) -> None:
    """Validators go back byte for byte; no cookie, no referrer, no cache-buster."""
    etag = 'W/"abc--gzip"'
    web.page("/feed", rss(A), etag=etag, headers={"Set-Cookie": "a=b"})
    await subscribe(context, web.url("/feed"))
    await poll(context)
    for _ in range(5):
        await poll(context)
    conditional = [seen for seen in web.asked("/feed") if seen.headers.get("if-none-match") == etag]

    assert len(conditional) >= 4  # one poll in a hundred asks without
    assert all(not seen.query and "cookie" not in seen.headers for seen in web.requests)
    assert all("referer" not in seen.headers for seen in web.requests)
    assert (await state(context, web.url("/feed"))).polls_unchanged == 5


async def test_same_bytes_are_not_parsed_again(context: Context, web: FakeWeb) -> None:
    """A server whose ETag changes each time costs a body, not a parse."""
    web.changing_etag("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    cycle = await poll(context)

    assert (cycle.counts["unchanged"], cycle.counts["changed"]) == (1, 0)
    assert "200 same body" in (await state(context, web.url("/feed"))).events[-1]


async def test_header_names_in_any_case_are_seen(context: Context, web: FakeWeb) -> None:
    """Cache-Control and Retry-After count however they are spelt."""
    web.page("/a", rss(A), headers={"CACHE-CONTROL": "max-age=18000"})
    web.page("/b", "", status=503, headers={"rEtRy-AfTeR": "20000"})
    await subscribe(context, web.url("/a"))
    await poll(context)
    await subscribe(context, web.url("/b"))  # afterwards: its Retry-After shuts the whole domain
    cycle = await poll(context, web.url("/b"))
    now = cycle.clock.now()
    first, second = await state(context, web.url("/a")), await state(context, web.url("/b"))

    assert first.next_poll_reason == "Cache-Control"
    assert first.next_poll_ts - now > 17_900
    assert second.next_poll_reason == "Retry-After"
    assert second.next_poll_ts - now > 19_900


async def test_301_is_counted_through_the_redirect_and_followed_after_three(context: Context, web: FakeWeb) -> None:
    """The status before the redirect counts; from the fourth poll on the old address is left in peace."""
    web.redirect("/old", "/new", 301)
    web.page("/new", rss(A), etag='"1"')
    await subscribe(context, web.url("/old"))
    for _ in range(5):
        await poll(context)

    assert web.paths == ["/old", "/new"] * 3 + ["/new"] * 2
    assert (await state(context, web.url("/old"))).fetch_url == web.url("/new")


async def test_302_is_never_permanent(context: Context, web: FakeWeb) -> None:
    """A temporary redirect is asked again each time, and validators go to its target."""
    web.redirect("/old", "/new", 302)
    web.page("/new", rss(A), etag='"1"')
    await subscribe(context, web.url("/old"))
    for _ in range(6):
        await poll(context)

    assert len(web.asked("/old")) == 6
    assert all("if-none-match" not in seen.headers for seen in web.asked("/old"))
    assert sum("if-none-match" in seen.headers for seen in web.asked("/new")) >= 4


async def test_410_retires_and_adding_again_revives(context: Context, web: FakeWeb) -> None:
    """A retired feed is not asked again until a person adds it again."""
    web.page("/feed", rss(A)).then_gone().then(rss(B))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    await poll(context)
    await ingestor.run_cycle(context)
    retired = await state(context, web.url("/feed"))
    asked = len(web.requests)
    await context.subscriptions.add("world", web.url("/feed"))
    await ingestor.run_cycle(context)

    assert (retired.status, asked) == ("gone", 2)
    assert (await state(context, web.url("/feed"))).status == "ok"


@pytest.mark.parametrize(
    ("answer", "error_class", "told"),
    [
        (404, "hard", "HTTP 404"),
        (403, "hard", "HTTP 403"),
        (500, "soft", "HTTP 500"),
        (503, "temporary", "HTTP 503"),
        (206, "soft", "HTTP 206"),
        ("<html><body>Service unavailable</body></html>", "soft", "HTML"),
        ("", "soft", "empty"),
    ],
)
async def test_error_classes(context: Context, web: FakeWeb, answer: int | str, error_class: str, told: str) -> None:
    """Each kind of trouble has its class and a text; an HTML page is not an empty feed."""
    web.on("/feed", answer)
    await subscribe(context, web.url("/feed"))
    await poll(context)
    seen = await state(context, web.url("/feed"))

    assert (seen.status, seen.error_class) == ("error", error_class)
    assert told in seen.error_text


async def test_failed_parse_keeps_the_old_validators(context: Context, web: FakeWeb) -> None:
    """A broken body's ETag is not stored, or a later 304 would freeze the failure."""
    web.page("/feed", rss(A), etag='"good"').then("<html>oops</html>", etag='"bad"')
    await subscribe(context, web.url("/feed"))
    await poll(context)
    await poll(context)

    assert (await state(context, web.url("/feed"))).etag == '"good"'
    assert await context.client.smembers(context.keys.category_links("world")) == {A}


async def test_feed_in_two_categories_is_polled_once(context: Context, web: FakeWeb) -> None:
    """One request, both categories; a third one added later gets its links though the feed answers 304."""
    web.page("/feed", rss(A), etag='"1"')
    await subscribe(context, web.url("/feed"), category="world")
    await subscribe(context, web.url("/feed"), category="tech")
    await poll(context)
    asked = len(web.requests)
    await subscribe(context, web.url("/feed"), category="late")
    await poll(context)

    assert asked == 1
    for category in ("world", "tech", "late"):
        assert await context.client.smembers(context.keys.category_links(category)) == {A}


async def test_retry_after_gates_the_whole_domain(context: Context, web: FakeWeb) -> None:
    """429 on one feed keeps us away from its neighbours too, and waiting is not their error."""
    web.retry_after("/a", 429, "3600")
    web.page("/b", rss(B))
    await subscribe(context, web.url("/a"))
    await poll(context)
    await subscribe(context, web.url("/b"))
    await poll(context, web.url("/b"))
    neighbour = await state(context, web.url("/b"))

    assert web.paths == ["/a"]
    assert (neighbour.status, neighbour.error_weight) == ("waiting", 0.0)
    assert neighbour.next_poll_ts > 0


async def test_every_due_feed_is_polled_in_one_cycle(context: Context, web: FakeWeb) -> None:
    """No batch limit starves feeds: 300 due, 300 polled, and each exactly once."""
    for n in range(300):
        web.page(f"/feed/{n}", rss(f"https://news.example/{n}"))
    await subscribe(context, *(web.url(f"/feed/{n}") for n in range(300)))
    cycle = await poll(context)

    assert cycle.counts["polled"] == 300
    assert len(set(web.paths)) == len(web.paths) == 300
    assert await context.client.scard(context.keys.category_links("world")) == 300


async def test_two_ingestors_at_once_poll_each_feed_once(context: Context, web: FakeWeb) -> None:
    """Leases, not luck, keep two processes apart; nothing strays from the due set."""
    for n in range(40):
        web.page(f"/feed/{n}", rss(f"https://news.example/{n}"))
    urls = [web.url(f"/feed/{n}") for n in range(40)]
    await subscribe(context, *urls)
    await asyncio.gather(ingestor.run_cycle(context), ingestor.run_cycle(context))

    assert sorted(web.paths) == sorted(set(web.paths))
    assert len(web.paths) == 40
    assert await context.client.zcard(context.keys.feeds_due) == 40


async def test_restart_does_not_hammer(context: Context, web: FakeWeb) -> None:
    """The next poll is kept in Redis: a new process asks nobody."""
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    await ingestor.run_cycle(context)
    async with open_context(context.settings) as another:
        await ingestor.run_cycle(another)

    assert len(web.requests) == 1


async def test_restart_in_mid_cycle_gives_feeds_back(context: Context, web: FakeWeb) -> None:
    """A stopped ingestor lets go of the feed it was polling; the next one polls it and loses nothing."""
    web.hang("/slow")
    web.page("/quick", rss(A))
    await subscribe(context, web.url("/slow"), web.url("/quick"))
    cycle = asyncio.create_task(ingestor.run_cycle(context))
    while not {"/slow", "/quick"} <= set(web.paths):  # noqa: ASYNC110 - the web has no event for this
        await asyncio.sleep(0.01)
    cycle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cycle
    leases = [key async for key in context.client.scan_iter("*lease*")]
    web.page("/slow", rss(B))
    await ingestor.run_cycle(context)

    assert leases == []
    assert await context.client.smembers(context.keys.category_links("world")) == {A, B}


async def test_killed_ingestor_costs_one_lease(context: Context, web: FakeWeb) -> None:
    """After kill -9 the lease stands; when it ends, the feed is due as before."""
    web.page("/feed", rss(A))
    url = web.url("/feed")
    await subscribe(context, url)
    lease_key = context.keys.lease(f"feed_{ids.feed_id(url)}")
    await context.client.set(lease_key, "dead worker", ex=60)
    cycle = await ingestor.run_cycle(context)
    while_held = len(web.requests)
    await context.client.pexpire(lease_key, 100)
    await ingestor.run_once(context)

    assert (while_held, cycle.counts["held"]) == (0, 1)
    assert len(web.requests) == 1  # `--once` waited for the lease of the dead worker


async def test_feed_that_kills_its_workers_is_put_aside(context: Context, web: FakeWeb) -> None:
    """After three deaths the fourth worker does not ask again: an error says so, and the others are polled."""
    web.page("/poison", rss(A))
    web.page("/good", rss(B))
    await subscribe(context, web.url("/poison"), web.url("/good"))
    await context.client.set(context.keys.crashes(f"feed_{ids.feed_id(web.url('/poison'))}"), 3)
    await poll(context)

    assert web.paths == ["/good"]
    assert "killed" in (await state(context, web.url("/poison"))).error_text
    assert await context.client.keys("*crashes*") == []


async def test_own_network_down_blames_nobody(settings: Settings, redis: Client, keys: Keys) -> None:
    """When nearly no host answers, no error is counted and no interval grows."""
    hosts = [f"127.0.9.{n}" for n in range(1, 8)]
    async with FakeWeb(*hosts) as web:
        port = web.port
    urls = [f"http://{host}:{port}/feed" for host in hosts]
    async with open_context(settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})) as context:
        await subscribe(context, *urls)
        await ingestor.run_cycle(context)
        states = await context.feeds.states(urls)

    assert {seen.error_weight for seen in states} == {0.0}
    assert {seen.error_class for seen in states} == {""}
    assert any("network" in seen.next_poll_reason for seen in states)


async def test_a_few_dead_hosts_are_told(context: Context, web: FakeWeb) -> None:
    """Two hosts down among many is their trouble: a temporary error each."""
    dead = [f"http://127.0.9.{n}:{web.port}/feed" for n in (1, 2)]
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"), *dead)
    await poll(context)

    assert {(await state(context, url)).error_class for url in dead} == {"temporary"}


async def test_bug_in_one_feed_does_not_stop_the_others(
    context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception nobody foresaw is an error on that feed, with a traceback in the log."""
    web.page("/good", rss(A))

    class Buggy:
        async def fetch(self, state: FeedState, *rest: object) -> object:
            if state.url.endswith("/bad"):
                raise ZeroDivisionError
            return await context.feed_fetcher.fetch(state, *rest)  # type: ignore[arg-type]

    await subscribe(context, web.url("/bad"), web.url("/good"))
    await ingestor.run_cycle(replace(context, feed_fetcher=Buggy()))  # type: ignore[arg-type]

    assert "ZeroDivisionError" in (await state(context, web.url("/bad"))).error_text
    assert await context.client.smembers(context.keys.category_links("world")) == {A}


async def test_google_news_is_rejected_with_a_reason(context: Context, web: FakeWeb) -> None:
    """Ids that cannot be decoded offline are turned away, told in the feed's health, and nobody is asked."""
    opaque = "https://news.google.com/rss/articles/CBMiX2h0dHBz?oc=5"
    web.page("/feed", rss(opaque, "https://www.google.co.uk/url?sa=t&amp;url=https%3A%2F%2Fnews.example%2Fa"))
    await subscribe(context, web.url("/feed"))
    await poll(context)

    assert await context.client.smembers(context.keys.category_links("world")) == {A}
    assert "aggregator_opaque" in (await state(context, web.url("/feed"))).rejected_example


async def test_same_story_under_two_links_is_one_link(context: Context, web: FakeWeb) -> None:
    """Two feeds with their own trackers give one member, and which one does not flip."""
    web.page("/one", rss(f"{A}?utm_source=one"))
    web.page("/two", rss(f"{A}?fbclid=two"))
    await subscribe(context, web.url("/one"), web.url("/two"))
    for _ in range(3):
        await poll(context)

    assert await context.client.smembers(context.keys.category_links("world")) == {A}


async def test_sitemap_index_follows_its_sitemaps(context: Context, web: FakeWeb) -> None:
    """An index is read through to its sitemaps, and noticed when only a child changed."""
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

    def urlset(link: str) -> str:
        return f"<urlset {namespace}><url><loc>{link}</loc></url></urlset>"

    web.page(
        "/sitemap.xml", f"<sitemapindex {namespace}><sitemap><loc>{web.url('/s1.xml')}</loc></sitemap></sitemapindex>"
    )
    web.page("/s1.xml", urlset(A)).then(urlset(A)).then(urlset(B))
    await subscribe(context, web.url("/sitemap.xml"))
    kinds = [list((await poll(context)).counts) for _ in range(3)]

    assert ["unchanged" in kind for kind in kinds] == [False, True, False]
    assert await context.client.smembers(context.keys.category_links("world")) == {A, B}


async def test_sitemap_that_fails_for_a_while_takes_no_links_along(context: Context, web: FakeWeb) -> None:
    """One of two sitemaps answers 503: its links stay, and an event says so."""
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    children = "".join(f"<sitemap><loc>{web.url(path)}</loc></sitemap>" for path in ("/s1.xml", "/s2.xml"))
    web.page("/sitemap.xml", f"<sitemapindex {namespace}>{children}</sitemapindex>")
    web.page("/s1.xml", f"<urlset {namespace}><url><loc>{A}</loc></url></urlset>")
    web.page("/s2.xml", f"<urlset {namespace}><url><loc>{B}</loc></url></urlset>").then(503)
    await subscribe(context, web.url("/sitemap.xml"))
    await poll(context)
    await poll(context)

    assert await context.client.smembers(context.keys.feed_links(ids.feed_id(web.url("/sitemap.xml")))) == {A, B}
    assert "1 of 2 sitemaps could not be read" in (await state(context, web.url("/sitemap.xml"))).events[-1]


async def test_feed_that_is_cut_says_so(context: Context, web: FakeWeb, caplog: pytest.LogCaptureFixture) -> None:
    """Of 2,300 entries 2,000 are read: the feed's hash, its event and the log tell how many were left out."""
    web.page("/feed", rss(*(f"https://news.example/{n}" for n in range(2_300))))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    seen = await state(context, web.url("/feed"))

    assert (seen.entries, seen.entries_left_out) == (2_000, 300)
    assert "300 more entries left out" in seen.events[-1]
    assert any("Only 2000 of 2300 entries are read" in record.getMessage() for record in caplog.records)


async def test_sitemap_of_a_whole_site_is_read_in_full(context: Context, web: FakeWeb) -> None:
    """A sitemap is no feed: 5,000 pages are 5,000 links, and nothing is left out."""
    pages = "".join(f"<url><loc>https://news.example/{n}</loc></url>" for n in range(5_000))
    web.page("/sitemap.xml", f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{pages}</urlset>')
    await subscribe(context, web.url("/sitemap.xml"))
    await poll(context)

    assert await context.client.scard(context.keys.category_links("world")) == 5_000
    assert (await state(context, web.url("/sitemap.xml"))).entries_left_out == 0


async def test_index_of_many_sitemaps_says_what_it_leaves_out(context: Context, web: FakeWeb) -> None:
    """An index names twelve sitemaps, ten are read: and the event says so."""
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    children = "".join(f"<sitemap><loc>{web.url(f'/s{n}.xml')}</loc></sitemap>" for n in range(12))
    web.page("/sitemap.xml", f"<sitemapindex {namespace}>{children}</sitemapindex>")
    for n in range(12):
        web.page(f"/s{n}.xml", f"<urlset {namespace}><url><loc>https://news.example/{n}</loc></url></urlset>")
    await subscribe(context, web.url("/sitemap.xml"))
    await poll(context)

    assert await context.client.scard(context.keys.category_links("world")) == 10
    assert "only the newest 10 of 12 sitemaps are read" in (await state(context, web.url("/sitemap.xml"))).events[-1]


async def test_cycle_prunes_links_that_nobody_lists(context: Context, web: FakeWeb) -> None:
    """A link not seen for 48 hours goes with the next cycle."""
    await context.client.sadd(context.keys.category_links("world"), A, B)
    await context.client.zadd(context.keys.category_links_seen("world"), {A: 1, B: (await context.client.time())[0]})
    cycle = await ingestor.run_cycle(context)

    assert cycle.counts["links_expired"] == 1
    assert await context.client.smembers(context.keys.category_links("world")) == {B}


async def test_a_304_refills_a_link_set_within_its_life(settings: Settings, redis: Client, web: FakeWeb) -> None:
    """With a short LINK_TTL_SECONDS stamps are renewed accordingly: what the feed lists does not vanish."""
    web.page("/feed", rss(A), etag='"1"')
    short = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), "link_ttl_seconds": 4})
    async with open_context(short) as context:
        await subscribe(context, web.url("/feed"))
        await poll(context)
        await context.client.delete(context.keys.category_links("world"), context.keys.category_links_seen("world"))
        await context.client.hincrbyfloat(context.keys.feed(ids.feed_id(web.url("/feed"))), "renewed_ts", -2)
        await poll(context)

        assert await context.client.smembers(context.keys.category_links("world")) == {A}


async def test_readded_feed_is_not_retired_any_more(context: Context, web: FakeWeb) -> None:
    """SREM, a cycle, SADD: a feed that answered 410 is asked again."""
    web.on("/feed", 410).then(rss(A))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    await context.client.srem(context.keys.feeds("world"), web.url("/feed"))
    await ingestor.run_cycle(context)
    await subscribe(context, web.url("/feed"))
    await ingestor.run_cycle(context)

    assert (await state(context, web.url("/feed"))).status == "ok"


async def test_key_of_another_type_is_told_and_skipped(
    context: Context, web: FakeWeb, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody's SET where a set belongs stops nobody else."""
    web.page("/feed", rss(A))
    await context.client.sadd(context.keys.categories, "bad")
    await context.client.set(context.keys.category_links("bad"), "x")
    await subscribe(context, web.url("/feed"))
    await poll(context)
    await poll(context)

    assert await context.client.smembers(context.keys.category_links("world")) == {A}
    named = [
        record.getMessage() for record in caplog.records if context.keys.category_links("bad") in record.getMessage()
    ]
    assert len(named) == 1


async def test_same_link_in_two_feeds_of_one_cycle_is_new_once(context: Context, web: FakeWeb) -> None:
    """Counters do not depend on who comes first."""
    for name in ("/one", "/two", "/three"):
        web.page(name, rss(A, B))
    await subscribe(context, *map(web.url, ("/one", "/two", "/three")))
    cycle = await poll(context)

    assert (cycle.counts["links_new"], cycle.counts["links_known"]) == (2, 4)


async def test_hostile_body_is_an_error_and_the_next_feed_is_unharmed(context: Context, web: FakeWeb) -> None:
    """A decompression bomb, a cut body and an endless redirect each end as an error on their own feed."""
    web.bomb("/bomb", "gzip", 100)
    web.cut("/cut", rss(A), 10_000)
    web.redirect_loop("/x", "/y")
    web.page("/good", rss(B))
    await subscribe(context, *map(web.url, ("/bomb", "/cut", "/x", "/good")))
    await poll(context)

    assert "error" == (await state(context, web.url("/bomb"))).status == (await state(context, web.url("/cut"))).status
    assert "redirect" in (await state(context, web.url("/x"))).error_text
    assert await context.client.smembers(context.keys.category_links("world")) == {B}


async def test_lying_etag_is_found_out(context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers 304 for ever is asked without validators now and then."""
    web.lying_etag("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    web.lying_etag("/feed", rss(A, B))
    await poll(context)
    monkeypatch.setattr("random.random", lambda: 0.001)
    await poll(context)

    assert await context.client.smembers(context.keys.category_links("world")) == {A, B}


async def test_unsubscribed_feed_is_struck_off(context: Context, web: FakeWeb) -> None:
    """SREM from redis-cli ends the polling and takes the state along; its links age out as any."""
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    await poll(context)
    await context.client.srem(context.keys.feeds("world"), web.url("/feed"))
    await poll(context)

    assert len(web.requests) == 1
    assert await context.client.exists(context.keys.feed(ids.feed_id(web.url("/feed")))) == 0
    assert await context.client.smembers(context.keys.category_links("world")) == {A}


async def test_charset_of_the_header_counts(context: Context, web: FakeWeb) -> None:
    """A feed in windows-1251 by its header alone is read right."""
    body = rss(A).replace("News", "Новости").replace('<?xml version="1.0"?>', "").encode("windows-1251")

    async def reply(exchange: Exchange) -> None:
        await Document(body, media_type="application/rss+xml; charset=windows-1251")(exchange)

    web.on("/feed", reply)
    await subscribe(context, web.url("/feed"))
    await poll(context)

    assert (await state(context, web.url("/feed"))).title == "Новости"
