"""`feeds poll`: feeds are polled now, beside the ingestor, and every one of them says what came of it."""

from __future__ import annotations

import asyncio

import pytest

from core import ids
from core.errors import FeedFileError
from core.feeds.io import manual_poll
from core.feeds.io.manual_poll import PollingPaused, choose_feeds, make_due, poll_now
from core.feeds.poll_result import PollEnd, PollReport
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.store import connect
from scripts.feeds_poll import sentence
from tests import commands
from tests.articles import rss
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange, raw
from workers import ingestor

A, B = "https://news.example/a", "https://news.example/b"


async def subscribe(context: Context, *urls: str, category: str = "world") -> None:
    for url in urls:
        await context.subscriptions.add(category, url)


async def poll(context: Context, url: str, **options: bool) -> PollReport:
    [report] = await poll_now(context, [url], **options)
    return report


async def test_poll_does_not_wait_for_the_schedule(context: Context, web: FakeWeb) -> None:
    """A feed that is not due for an hour is asked at once; new links and nothing new are told apart."""
    feed = web.url("/feed")
    web.page("/feed", rss(A)).then(rss(A, B))
    await subscribe(context, feed)
    first, second, third = [await poll(context, feed) for _ in range(3)]

    assert (first.end, first.new_links, first.known_links) == (PollEnd.CHANGED, 1, 0)
    assert (second.end, second.new_links, second.known_links) == (PollEnd.CHANGED, 1, 1)
    assert third.end is PollEnd.UNCHANGED
    assert await context.client.smembers(context.keys.category_links("world")) == {A, B}
    assert await context.client.zscore(context.keys.feeds_due, ids.feed_id(feed)) > await connect.now(context.client)


async def test_force_reads_an_unchanged_feed_again(context: Context, web: FakeWeb) -> None:
    """Without validators, and though the bytes are the same: so lost links come back."""
    feed = web.url("/feed")
    web.page("/feed", rss(A), etag='"1"')
    await subscribe(context, feed)
    await poll(context, feed)
    await context.client.delete(context.keys.category_links("world"), context.keys.feed_links(ids.feed_id(feed)))
    report = await poll(context, feed, force=True)

    assert (report.end, report.new_links) == (PollEnd.CHANGED, 1)
    assert ["if-none-match" in seen.headers for seen in web.asked("/feed")] == [False, False]


async def test_force_of_a_feed_that_was_never_polled(context: Context, web: FakeWeb) -> None:
    """There is nothing to forget about it."""
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"))

    assert (await poll(context, web.url("/feed"), force=True)).new_links == 1


async def test_failures_carry_their_reason(context: Context, web: FakeWeb) -> None:
    """Each feed has its own end; one that fails stops no other."""
    web.page("/good", rss(A))
    web.on("/missing", 404)
    web.gone("/gone")
    web.page("/page", "<html><body>no feed</body></html>")
    urls = [web.url(path) for path in ("/good", "/missing", "/gone", "/page")]
    await subscribe(context, *urls)
    reports = {report.url: report for report in await poll_now(context, urls)}
    good, missing, gone, page = (reports[url] for url in urls)

    assert [good.end, missing.end, gone.end, page.end] == [
        PollEnd.CHANGED,
        PollEnd.FAILED,
        PollEnd.RETIRED,
        PollEnd.FAILED,
    ]
    assert ("404" in missing.reason, bool(page.reason), good.is_failure, gone.is_failure) == (True, True, False, True)


@pytest.mark.parametrize("force", [False, True])
async def test_retry_after_is_not_overridden(context: Context, web: FakeWeb, force: bool) -> None:
    """A server that asked for two hours is not asked again, nor is a second feed of it; both say how long they wait."""
    busy, other = web.url("/busy"), web.url("/other")
    web.retry_after("/busy", 429, "7200")
    web.page("/other", rss(A))
    await subscribe(context, busy, other)
    first = await poll(context, busy)
    again, beside = await poll(context, busy, force=force), await poll(context, other, force=force)

    assert first.end is PollEnd.FAILED
    assert [again.end, beside.end] == [PollEnd.WAITS] * 2
    assert all(report.reason.startswith("Retry-After") and report.wait_seconds > 7_000 for report in (again, beside))
    assert web.paths == ["/busy"]


async def test_feed_that_another_process_polls_is_left_to_it(context: Context, web: FakeWeb) -> None:
    """The lease decides; nothing is asked twice."""
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    await context.leases.acquire(f"feed_{ids.feed_id(web.url('/feed'))}")

    assert (await poll(context, web.url("/feed"))).end is PollEnd.HELD
    assert web.requests == []


async def test_ingestor_and_a_poll_by_hand_at_once_ask_once(context: Context, web: FakeWeb) -> None:
    """Whoever comes second finds it held, or polled already."""
    web.page("/feed", rss(A))
    await subscribe(context, web.url("/feed"))
    reports, _ = await asyncio.gather(poll_now(context, [web.url("/feed")]), ingestor.run_cycle(context))

    assert len(web.asked("/feed")) == 1
    assert reports[0].end in (PollEnd.CHANGED, PollEnd.HELD, PollEnd.SKIPPED)


async def test_paused_polling_is_left_paused(context: Context, web: FakeWeb) -> None:
    """Nothing is asked and nothing is made due while someone has paused it."""
    await subscribe(context, web.url("/feed"))
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(web.url("/feed")): 4e9})
    await context.client.hset(context.keys.runs_paused, "ingest", "2026-11-17T12:00:00Z")
    with pytest.raises(PollingPaused, match="paused since 2026-11-17T12:00:00Z"):
        await poll_now(context, [web.url("/feed")])

    assert web.requests == []
    assert await context.feeds.count_requested() == 0


async def test_pause_meanwhile_leaves_the_rest(context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed under way is finished; those behind it are told to wait, and stay due."""
    paused = asyncio.Event()

    async def wait_for_pause(_: Context) -> None:
        await paused.wait()

    async def paused_by_someone(exchange: Exchange) -> None:
        paused.set()
        for _ in range(3):
            await asyncio.sleep(0)
        await Document(raw(rss(A)))(exchange)

    monkeypatch.setattr(manual_poll, "_wait_for_pause", wait_for_pause)
    urls = [web.url(f"/{n}") for n in range(3)]
    await subscribe(context, *urls)
    for n in range(3):
        web.on(f"/{n}", paused_by_someone)
    async with open_context(context.settings.model_copy(update={"fetch_host_parallel": 1})) as one_by_one:
        reports = await poll_now(one_by_one, urls)

    assert [report.end for report in reports] == [PollEnd.CHANGED, PollEnd.WAITS, PollEnd.WAITS]
    assert reports[1].reason == "polling was paused meanwhile"
    assert (len(web.requests), await context.feeds.count_requested()) == (1, 2)


async def test_pause_is_seen(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pauses the ingestor pauses this poll as well."""
    monkeypatch.setattr(manual_poll, "PAUSE_CHECK_SECONDS", 0.01)
    waiting = asyncio.create_task(manual_poll._wait_for_pause(context))
    await asyncio.wait([waiting], timeout=0.05)
    before = waiting.done()
    await context.client.hset(context.keys.runs_paused, "ingest", "2026-11-17T12:00:00Z")
    await asyncio.wait_for(waiting, 10)

    assert not before


async def test_made_due_wakes_the_ingestor(context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP API only makes feeds due: the pause between two cycles of the ingestor ends."""
    monkeypatch.setattr(ingestor, "REQUEST_CHECK_SECONDS", 0.01)
    await subscribe(context, web.url("/feed"))
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(web.url("/feed")): 4e9})
    sleeping = asyncio.create_task(ingestor._sleep(context))  # half a minute, if nobody asks
    await asyncio.sleep(0.05)
    still_asleep = not sleeping.done()
    waiting = await make_due(context.feeds, [web.url("/feed")], await connect.now(context.client))
    await asyncio.wait_for(sleeping, 10)

    assert (still_asleep, waiting) == (True, [])


async def test_feeds_are_chosen_by_url_or_category(context: Context) -> None:
    """A URL may be written as people copy it; a category by its name or slug."""
    one, two = "https://a.example/feed?x=1", "https://b.example/feed"
    await subscribe(context, one, two, category="world_news")

    assert await choose_feeds(context.subscriptions, url="HTTPS://A.example/feed?x=1&utm_source=y") == [one]
    assert await choose_feeds(context.subscriptions, category="World News") == [one, two]


async def test_unknown_feed_names_its_neighbours(context: Context) -> None:
    """The nearest known feeds, and how to subscribe; a wrong category likewise."""
    await subscribe(context, "https://www.news.example/world/rss.xml", "https://other.example/feed")
    with pytest.raises(FeedFileError) as feed:
        await choose_feeds(context.subscriptions, url="http://news.example/word/rss.xml")
    with pytest.raises(FeedFileError) as category:
        await choose_feeds(context.subscriptions, category="word")

    assert "https://www.news.example/world/rss.xml" in str(feed.value)
    assert "other.example" not in str(feed.value)
    assert "scripts.feeds add CATEGORY 'http://news.example/word/rss.xml'" in str(feed.value)
    assert "Did you mean world?" in str(category.value)


async def test_command_tells_the_result_and_what_comes_next(context: Context, web: FakeWeb, settings: Settings) -> None:
    """One line per feed, a sum, the canonical fetcher as the next step; exit code 1 because one failed."""
    web.page("/feed", rss(A, B))
    web.on("/missing", 404)
    await subscribe(context, web.url("/feed"), web.url("/missing"))
    ended = await commands.run(settings, "scripts.feeds", "poll", "--category", "world")
    unknown = await commands.run(settings, "scripts.feeds", "poll", web.url("/fed"))

    assert ended.returncode == 1
    assert f"{web.url('/feed')}: 2 new links, 0 known" in ended.stdout
    assert f"{web.url('/missing')}: failed: " in ended.stdout
    assert "2 feeds: 2 new links, 1 failed." in ended.stdout
    assert "python -m workers.canonical_fetcher" in ended.stdout
    assert (unknown.returncode, web.url("/feed") in unknown.stderr) == (2, True)


def test_every_end_has_a_sentence() -> None:
    """No end of a poll is without words."""
    said = {end: sentence(PollReport("https://a.example/feed", end, reason="why")) for end in PollEnd}

    assert len(set(said.values())) == len(PollEnd)
