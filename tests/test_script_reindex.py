"""`python -m scripts.reindex`: who is chosen, what is marked, who is woken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.errors import FailCode, FreshetError
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.models import Failed, Link
from core.registry.io.article_store import ArticleStore
from core.registry.io.reindex import ReindexRequest
from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases
from core.urls.normalise import normalise_url
from scripts import domain, domain_crawl, reindex
from tests import commands
from tests.articles import article
from tests.site import Site
from tests.web import FakeWeb

pytestmark = pytest.mark.usefixtures("adopted")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A crawled site with a root and two pages."""
    async with FakeWeb() as web:
        made = Site(web)
        made.three_pages()
        await domain.add(made.url(), "docs")
        await domain_crawl.crawl("docs")
        made.forget_requests()
        yield made


def item_of(url: str) -> str:
    return ids.item_id("url", normalise_url(url))


async def due_now(redis: Client, keys: Keys) -> int:
    (sid,) = await redis.smembers(keys.sources)
    return await redis.zcount(keys.due(sid), "-inf", await connect.now(redis))


def waiting(settings: Settings) -> int:
    queues = JobQueues(settings)
    count = queues.count_waiting(QueueName.REINDEX)
    queues.close()
    return count


async def test_one_item_by_its_url(
    site: Site, settings: Settings, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is due at once, one job is sent, its generation stays: validators decide."""
    capsys.readouterr()
    assert await reindex.reindex(ReindexRequest(site.url("/a"))) == 0
    generation = await redis.hget(keys.item(item_of(site.url("/a"))), "reindexGeneration")

    assert (await due_now(redis, keys), waiting(settings), generation) == (1, 1, "0")
    assert capsys.readouterr().out.startswith("Due now: 1 item, to be checked by validators.\nSent: 1 job.")


async def test_a_woken_worker_checks_by_validators(site: Site, settings: Settings) -> None:
    """Without --force the page answers 304."""
    await reindex.reindex(ReindexRequest(site.url("/a")))
    done = await commands.run(settings, "workers", "reindex", "--burst")

    assert done.returncode == 0, done.stderr
    assert [("if-none-match" in seen.headers) for seen in site.web.asked("/a")] == [True]


async def test_a_forced_item_is_read_anew(site: Site, settings: Settings, redis: Client, keys: Keys) -> None:
    """No validators, and the generation is worked off."""
    await reindex.reindex(ReindexRequest(site.url("/a"), force=True))
    key = keys.item(item_of(site.url("/a")))
    asked = await redis.hmget(key, ["reindexGeneration", "processedGeneration", "reindexRequested"])
    done = await commands.run(settings, "workers", "reindex", "--burst")

    assert done.returncode == 0, done.stderr
    assert asked == ["1", "0", "true"]
    assert [("if-none-match" in seen.headers) for seen in site.web.asked("/a")] == [False]
    assert await redis.hmget(key, ["processedGeneration", "reindexRequested"]) == ["1", "false"]


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (ReindexRequest(domain="docs"), 3),
        (ReindexRequest(host="127.0.0.1"), 3),
        (ReindexRequest(status="crawled"), 3),
        (ReindexRequest(status="Gone"), 0),
        (ReindexRequest(all=True), 3),
        (ReindexRequest(stale=True), 0),
        (ReindexRequest(host="example.org"), 0),
    ],
)
async def test_many_at_once(site: Site, redis: Client, keys: Keys, asked: ReindexRequest, count: int) -> None:
    """By domain, host, status, age or all."""
    await reindex.reindex(asked)

    assert await due_now(redis, keys) == count


async def test_a_source(site: Site, redis: Client, keys: Keys) -> None:
    """By the id that the list shows."""
    (sid,) = await redis.smembers(keys.sources)
    await reindex.reindex(ReindexRequest(source=sid))

    assert await due_now(redis, keys) == 3


async def test_what_an_older_extractor_read(site: Site, redis: Client, keys: Keys) -> None:
    """--stale takes it, and nothing else."""
    await redis.hset(keys.item(item_of(site.url("/b"))), "extractorVersion", "0")
    await reindex.reindex(ReindexRequest(stale=True))

    assert await due_now(redis, keys) == 1


async def test_only_the_first_batches_become_jobs(
    site: Site, settings: Settings, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer brings the rest: all are due."""
    monkeypatch.setenv("REFRESH_BATCH_ITEMS", "1")
    monkeypatch.setattr("core.registry.io.reindex.MOST_JOBS", 2)
    await reindex.reindex(ReindexRequest(all=True))

    assert (await due_now(redis, keys), waiting(settings)) == (3, 2)


async def test_a_queue_that_is_away_loses_nothing(
    site: Site, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The registry is marked first; the timer brings it later."""
    monkeypatch.setenv("QUEUE_REDIS_URL", "redis://127.0.0.1:1/0")

    assert await reindex.reindex(ReindexRequest(all=True)) == 0
    assert await due_now(redis, keys) == 3
    assert "The queue's server does not answer" in capsys.readouterr().out


async def test_a_dry_run_counts_and_writes_nothing(
    site: Site, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Items, requests, hosts and statuses."""
    before = await commands.everything(redis)
    capsys.readouterr()
    await reindex.reindex(ReindexRequest(all=True, force=True), dry_run=True)
    told = capsys.readouterr().out

    assert await commands.everything(redis) == before
    assert told.startswith("3 items would be read anew: at most 3 requests. Nothing was changed.")
    assert "Crawled  3" in told
    assert "127.0.0.1  3" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("https://example.org/x",),
            "https://example.org/x is not in the registry. `python -m scripts.domain add URL`",
        ),
        (("url_nothing",), "url_nothing is not in the registry."),
        (("/no/such/file",), "/no/such/file is not in the registry."),
        (("0123456789abcdef",), "0123456789abcdef is not in the registry."),
        (("--domain", "nobody"), "There is no domain nobody."),
        (("--source", "nobody.none"), "There is no source nobody.none."),
        (("--category", "none"), "There is no category none."),
        (("--status", "Lost"), "There is no status Lost; an item is one of Pending, Crawled"),
    ],
)
async def test_what_is_not_known_is_a_sentence(words: tuple[str, ...], sentence: str, settings: Settings) -> None:
    """Exit code 2, one line."""
    await commands.refused(settings, sentence, "scripts.reindex", *words)


async def test_nothing_asked_is_refused(settings: Settings) -> None:
    """A bare command never reindexes everything."""
    done = await commands.run(settings, "scripts.reindex", "--force")

    assert done.returncode == 2
    assert "is required" in done.stderr


# ── articles and links ──────────────────────────────────────────────────────────────────────────


async def failed_link(redis: Client, keys: Keys, settings: Settings, url: str) -> str:
    link = Link(url, ids.article_uid(url), ("world",))
    await redis.sadd(keys.categories, "world")
    await redis.sadd(keys.category_links("world"), url)
    commands_ = ArticleStore(redis, keys, Ttls.of(settings)).fail(link, Failed(FailCode.EMPTY), 1, None, 1000.0)
    await Leases(redis, keys).run(commands_)
    return link.uid


async def test_force_tries_the_failed_links_of_a_category_again(
    redis: Client, keys: Keys, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """They leave the memory of what was attempted; without --force they stay in it."""
    uid = await failed_link(redis, keys, settings, "https://example.org/a")
    await reindex.reindex(ReindexRequest(category="world"))
    before = await redis.sismember(keys.attempted, uid)
    await reindex.reindex(ReindexRequest(category="world", force=True))

    assert (before, await redis.sismember(keys.attempted, uid)) == (1, 0)
    assert "Without an article so far: 1 link;" in capsys.readouterr().out


async def test_a_failed_link_by_its_url(redis: Client, keys: Keys, settings: Settings) -> None:
    """It is no item yet, so that a sentence says what --force does; and --force does it."""
    uid = await failed_link(redis, keys, settings, "https://example.org/a")
    with pytest.raises(FreshetError, match=r"is a link that was tried \(FAIL_EMPTY\); --force tries it again"):
        await reindex.reindex(ReindexRequest("https://example.org/a"))
    await reindex.reindex(ReindexRequest("https://example.org/a", force=True))

    assert not await redis.sismember(keys.attempted, uid)


async def test_an_item_that_no_source_lists_cannot_be_asked_for(site: Site, redis: Client, keys: Keys) -> None:
    """A tombstone says that it is one."""
    await redis.hset(keys.item(item_of(site.url("/a"))), "sources", "")
    with pytest.raises(FreshetError, match="no source lists it any more"):
        await reindex.reindex(ReindexRequest(site.url("/a")))


async def test_a_record_from_before_there_were_sources(site: Site, redis: Client, keys: Keys) -> None:
    """It is an article's, so that the feeds' source asks for it."""
    item_id = item_of(site.url("/a"))
    await redis.hdel(keys.item(item_id), "sources")
    await reindex.reindex(ReindexRequest(item_id))

    assert await redis.zrange(keys.due("rss"), 0, -1) == [item_id]


async def test_a_gone_article_comes_back_by_force(settings: Settings, redis: Client, keys: Keys) -> None:
    """Its page said 410, and is there again: one forced job stores the article, and nothing is left requested."""
    async with FakeWeb() as web:
        web.page("/a", article())
        url = web.url("/a")
        await redis.sadd(keys.category_links("world"), url)
        assert (await commands.run(settings, "workers.canonical_fetcher")).returncode == 0
        web.gone("/a")
        await reindex.reindex(ReindexRequest(url))
        await commands.run(settings, "workers", "reindex", "--burst")
        gone = await redis.exists(keys.article(ids.article_uid(url)))
        web.page("/a", article(text="Back again."))
        await reindex.reindex(ReindexRequest(url, force=True))
        done = await commands.run(settings, "workers", "reindex", "--burst")
        found = await redis.hgetall(keys.article(ids.article_uid(url)))

    assert done.returncode == 0, done.stderr
    assert gone == 0
    assert "Back again." in found["clean_text"]
    assert await redis.hmget(keys.item(item_of(url)), ["status", "reindexRequested"]) == ["Crawled", "false"]
