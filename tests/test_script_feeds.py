"""`python -m scripts.feeds`: what is added is what was asked for, and what comes back is told."""

from __future__ import annotations

import pytest

from core.errors import FeedFileError
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.settings import Settings
from core.store.connect import Client
from scripts import feeds
from tests import commands
from tests.articles import rss
from tests.web import FakeWeb

pytestmark = pytest.mark.usefixtures("adopted")

A = "https://news.example/a"


async def subscribed(redis: Client, keys: Keys) -> dict[str, list[str]]:
    return await Subscriptions(redis, keys).by_category()


@pytest.mark.parametrize("status", [404, 410, 403, 500])
async def test_dead_url_adds_nothing_and_names_the_others(
    web: FakeWeb, redis: Client, keys: Keys, settings: Settings, status: int
) -> None:
    """Another feed of the site is offered as a command, not taken; the exit code says that nothing was added."""
    link = '<link rel="alternate" type="application/rss+xml" href="/feed">'
    web.page("/dead.xml", f"<html><head>{link}</head><body>Not here</body></html>", status=status)
    web.page("/feed", rss(A))
    ended = await commands.run(settings, "scripts.feeds", "add", "world", web.url("/dead.xml"))

    assert ended.returncode != 0
    assert f"{web.url('/dead.xml')} answers HTTP {status}" in ended.stderr
    assert f"python -m scripts.feeds add world '{web.url('/feed')}'  # News" in ended.stderr
    assert await subscribed(redis, keys) == {}


async def test_dead_url_of_a_site_without_feeds_is_told(web: FakeWeb, redis: Client, keys: Keys) -> None:
    """Nothing is there, and nothing besides."""
    with pytest.raises(FeedFileError, match="answers HTTP 404: no feed is there, and nothing was added"):
        await feeds.add("world", web.url("/dead.xml"))

    assert await subscribed(redis, keys) == {}


async def test_feed_of_a_page_is_added_and_it_is_said_how(
    web: FakeWeb, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site whose page names its feed: the feed is added, and the sentence says which URL led to it."""
    web.page("/", '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>')
    web.page("/feed", rss(A))
    await feeds.add("world", web.url("/"))
    said = capsys.readouterr().out

    assert await subscribed(redis, keys) == {"world": [web.url("/feed")]}
    assert f"Added to world: {web.url('/feed')} (News)" in said
    assert f"found by way of {web.url('/')}" in said


async def test_feed_itself_is_added_without_more_words(
    web: FakeWeb, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """The URL is a feed: one line."""
    web.page("/feed", rss(A))
    await feeds.add("world", web.url("/feed"))

    assert capsys.readouterr().out == f"Added to world: {web.url('/feed')} (News)\n"


async def test_removing_says_that_the_file_still_lists_it(
    redis: Client, keys: Keys, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next start would bring it back without a word."""
    settings.feeds_file.write_text('[categories]\nworld = ["https://a.example/feed", "https://b.example/feed"]\n')
    await feeds.import_file(settings.feeds_file)
    await feeds.remove("https://a.example/feed")
    said = capsys.readouterr().out

    assert await subscribed(redis, keys) == {"world": ["https://b.example/feed"]}
    assert f"{settings.feeds_file} still lists it" in said


async def test_removing_what_no_file_lists_says_nothing_more(
    redis: Client, keys: Keys, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither with a file that lists others, nor with one that cannot be read, nor without one."""
    for text in ("[categories]\nworld = []\n", "][", None):
        if text is None:
            settings.feeds_file.unlink()
        else:
            settings.feeds_file.write_text(text)
        await Subscriptions(redis, keys).add("world", "https://a.example/feed")
        await feeds.remove("https://a.example/feed")

    assert capsys.readouterr().out == "Removed from world: https://a.example/feed\n" * 3
