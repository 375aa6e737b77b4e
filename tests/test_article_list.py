"""The list of articles: newest first, by pages, without texts."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from core import ids
from core.keys import Keys
from core.registry.io import article_list
from core.registry.io.article_list import ArticleFilter, ArticleList, InvalidCursor
from core.runtime.context import Context
from core.store.connect import Client
from tests import articles
from tests.articles import put_article
from tests.web import FakeWeb
from workers import ingestor

NOW = 1_800_000_000.0
EVERYTHING = ArticleFilter()


async def titles(redis: Client, keys: Keys, wanted: ArticleFilter = EVERYTHING, limit: int = 50) -> list[str]:
    return [one.title for one in (await ArticleList(redis, keys).page(wanted, limit)).articles]


async def test_an_article_of_a_feed(context: Context, web: FakeWeb) -> None:
    """Title, host, feed, category, language, times and proof of an article that was polled; JSON can hold it."""
    web.page("/a", articles.article("Lock gates reopen"))
    web.page("/feed", articles.rss(web.url("/a")))
    await context.client.sadd(context.keys.feeds("world"), web.url("/feed"))
    await ingestor.run_cycle(context)
    await articles.run(context)

    (found,) = (await ArticleList(context.client, context.keys).page(EVERYTHING)).articles

    assert (found.title, found.url, found.host) == ("Lock gates reopen", web.url("/a"), "127.0.0.1")
    assert (found.feed, found.category, found.categories) == (web.url("/feed"), "world", ("world",))
    assert (found.language, found.published_ts, found.uid) == ("en", None, ids.article_uid(web.url("/a")))
    assert found.fetched_ts > 0
    assert found.text_len > 100
    assert (found.verified_by, found.verified_ts) == ("read", found.checked_ts)
    assert json.loads(json.dumps(asdict(found)))["categories"] == ["world"]


async def test_newest_first_and_filters(redis: Client, keys: Keys) -> None:
    """Newest first; limited by category, host, language and the time it was stored."""
    await put_article(redis, keys, "old", NOW - 500, language="de-AT")
    await put_article(redis, keys, "middle", NOW - 300, category="sport")
    await put_article(redis, keys, "new", NOW - 100, host="f.org")

    assert await titles(redis, keys) == ["new", "middle", "old"]
    assert await titles(redis, keys, limit=1) == ["new"]
    assert await titles(redis, keys, ArticleFilter(category="world")) == ["new", "old"]
    assert await titles(redis, keys, ArticleFilter(category="none")) == []
    assert await titles(redis, keys, ArticleFilter(host="E.org")) == ["middle", "old"]
    assert await titles(redis, keys, ArticleFilter(language="de")) == ["old"]
    assert await titles(redis, keys, ArticleFilter(since_ts=NOW - 300)) == ["new", "middle"]
    assert await titles(redis, keys, ArticleFilter(until_ts=NOW - 300)) == ["middle", "old"]
    assert await titles(redis, keys, ArticleFilter("world", "e.org", "de", NOW - 600, NOW)) == ["old"]


async def test_only_what_is_there(redis: Client, keys: Keys) -> None:
    """An article that has expired, is hidden or is damaged is not listed, or listed with what can be read."""
    gone = await put_article(redis, keys, "expired")
    await redis.delete(keys.article(gone))
    await put_article(redis, keys, "hidden", status="gone")
    await put_article(redis, keys, "damaged", published_ts="soon", text_len="long", fetched_ts="x")

    (found,) = (await ArticleList(redis, keys).page(EVERYTHING)).articles

    assert (found.title, found.published_ts, found.text_len, found.fetched_ts) == ("damaged", None, 0, NOW)


async def test_pages_while_articles_come_and_go(redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each article is on exactly one page, also where many are of one moment, new ones arrive and read ones go."""
    monkeypatch.setattr(article_list, "_AT_ONCE", 3)
    names = [f"a{number}" for number in range(20)]
    for number, name in enumerate(names):
        await put_article(redis, keys, name, NOW - number // 8)
    articles_of, seen, cursor = ArticleList(redis, keys), [], ""
    for turn in range(99):
        page = await articles_of.page(EVERYTHING, 4, cursor)
        seen += [one.title for one in page.articles]
        cursor = page.cursor
        await put_article(redis, keys, f"new{turn}", NOW + turn + 1)
        await redis.zrem(keys.article_index, page.articles[0].uid, page.articles[-1].uid)
        if not cursor:
            break

    assert sorted(seen) == sorted(names)


async def test_rare_articles_of_many(redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page never reads more than its bound: it may be short, and its cursor leads to the rest."""
    monkeypatch.setattr(article_list, "_AT_ONCE", 3)
    monkeypatch.setattr(article_list, "MOST_READ", 6)
    for number in range(20):
        await put_article(redis, keys, f"a{number}", NOW - number, language="fr" if number in (2, 17) else "en")
    french, listed = ArticleFilter(language="fr"), ArticleList(redis, keys)
    first = await listed.page(french, 2)

    assert ([one.title for one in first.articles], bool(first.cursor)) == (["a2"], True)
    assert [one.title async for one in listed.walk(french)] == ["a2", "a17"]
    assert [one.title async for one in listed.walk(EVERYTHING, limit=3)] == ["a0", "a1", "a2"]


@pytest.mark.parametrize("most_sorted", [0, article_list.MOST_SORTED])
async def test_small_and_large_categories_are_listed_alike(
    redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch, most_sorted: int
) -> None:
    """A few articles are sorted, many are looked for in the index: the same pages in the same order, within times."""
    monkeypatch.setattr(article_list, "MOST_SORTED", most_sorted)
    for number in range(12):
        await put_article(redis, keys, f"a{number}", NOW - number // 3, category="world" if number % 2 else "sport")
    await redis.sadd(keys.articles_by_category("world"), "0123456789abcdef")  # its article is gone
    world, listed, seen, cursor = ArticleFilter("world"), ArticleList(redis, keys), [], ""
    while True:
        page = await listed.page(world, 2, cursor)
        seen += [(one.fetched_ts, one.uid) for one in page.articles]
        cursor = page.cursor
        if not cursor:
            break

    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == 6
    assert len(await titles(redis, keys, ArticleFilter("world", since_ts=NOW - 2, until_ts=NOW - 1))) == 3


@pytest.mark.parametrize("cursor", ["x", "12", "nan~0123456789abcdef", "~"])
async def test_cursors_of_others(redis: Client, keys: Keys, cursor: str) -> None:
    """A cursor that no list has returned is refused with a sentence."""
    with pytest.raises(InvalidCursor, match="leave it out"):
        await ArticleList(redis, keys).page(EVERYTHING, cursor=cursor)
