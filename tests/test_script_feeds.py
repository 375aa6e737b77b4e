"""`python -m scripts.feeds`: what is added is what was asked for, and what comes back is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core import ids
from core.errors import FeedFileError, FreshetError
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.store.connect import Client
from scripts import feeds
from scripts.feeds import preview
from scripts.feeds_health import health, list_feeds
from scripts.feeds_set import set_options
from tests import commands
from tests.articles import article, rss, run
from tests.web import FakeWeb
from workers import ingestor

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


async def test_preview_says_what_would_come(
    web: FakeWeb, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """New and refused links with the reason; nothing is subscribed."""
    web.page("/feed", rss(A, "mailto:someone@example.org"))
    await preview("Our World", web.url("/feed"))
    told = capsys.readouterr().out

    assert "In our_world: 1 new link, 0 known, 1 refused." in told
    assert A in told
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


# ── options ──


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


async def test_options_are_set_shown_and_taken_back(
    redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """`set`, `list` and `health` say the same; `default` leaves nothing behind."""
    feed = "https://docs.example.org/feed"
    await Subscriptions(redis, keys).add("world", feed)
    await set_options(feed, "15m", "0", None)
    said = printed(capsys)
    await list_feeds()
    listed = printed(capsys)
    await health(feed)
    healthy = printed(capsys)
    await set_options("", None, None, None)
    everything = printed(capsys)
    await set_options(feed, "default", "default", None)

    assert said.splitlines() == [
        f"{feed}: every 15m, gap 0 s",
        "Requests to docs.example.org: gap 0 s (set for a feed), any number at once",
    ]
    assert f"    {feed}  (every 15m, gap 0 s)" in listed
    assert "  options     every 15m, gap 0 s" in healthy
    assert "  its host    gap 0 s (set for a feed), any number at once" in healthy
    assert ["feed", feed, "command"] == [everything.splitlines()[1].split()[0], feed, everything.split()[-1]]
    assert printed(capsys).startswith(f"{feed}: nothing is set\n")
    assert await redis.exists(keys.paces) == 0


async def test_options_of_a_host_and_json(redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    """A word without a scheme is a host; programs get numbers."""
    feed = "https://docs.example.org/feed"
    await Subscriptions(redis, keys).add("world", feed)
    await set_options("Docs.example.org", None, "0.5", "8", as_json=True)
    host = json.loads(printed(capsys))
    await list_feeds(as_json=True)
    [row] = json.loads(printed(capsys))
    await health(None, as_json=True)
    [told] = json.loads(printed(capsys))

    assert host == {"name": "docs.example.org", "interval_seconds": None, "gap_seconds": 0.5, "parallel": 8}
    assert row == {
        "url": feed,
        "categories": ["world"],
        "set_interval_seconds": None,
        "set_gap_seconds": None,
        "gap_seconds": 0.5,
        "gap_set_for": "host",
        "parallel": 8,
    }
    assert (told["url"], told["status"], told["gap_seconds"]) == (feed, "new", 0.5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("https://unknown.example/feed", "15m", None, None), "is in no category"),
        (("docs.example.org", "15m", None, None), "interval_seconds is not a key"),
        (("https://a.example/feed", None, None, "2"), "parallel is not a key"),
        (("https://a.example/feed", "soon", None, None), "soon is not a length of time"),
        (("https://a.example/feed", None, "-1", None), "-1 is not a length of time"),
        (("docs.example.org", None, None, "many"), "--parallel is a whole number"),
        (("no host", None, "1", None), "'no host' is not a host"),
    ],
)
async def test_wrong_options_are_sentences(
    redis: Client, keys: Keys, words: tuple[str, str | None, str | None, str | None], sentence: str
) -> None:
    """Nothing is stored."""
    await Subscriptions(redis, keys).add("world", "https://a.example/feed")
    with pytest.raises(FreshetError, match=sentence):
        await set_options(*words)

    assert await redis.exists(keys.paces) == 0


async def test_health_names_failed_entries_and_how_to_ask_why(
    context: Context, web: FakeWeb, keys: Keys, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each entry that gave no article stands there with its code and the command that tells its trail."""
    web.page("/ok", article())
    web.on("/odd?a=1&b=2", 500)
    web.page("/feed", rss(web.url("/ok"), web.url("/missing"), web.url("/odd?a=1&amp;b=2")))
    await redis.sadd(keys.feeds("world"), web.url("/feed"))
    await ingestor.run_cycle(context)
    await run(context)
    web.page("/feed", rss(web.url("/ok")))
    await redis.zadd(keys.feeds_due, {ids.feed_id(web.url("/feed")): 0})
    await ingestor.run_cycle(context)
    capsys.readouterr()
    await health(web.url("/feed"))
    lines = capsys.readouterr().out.splitlines()
    await health(web.url("/feed"), as_json=True)
    told = json.loads(capsys.readouterr().out)

    assert f"        python -m scripts.why {web.url('/missing')}" in lines
    assert f"        python -m scripts.why '{web.url('/odd?a=1&b=2')}'" in lines
    assert any("HTTP 500, again in 9m" in line for line in lines)
    assert not any("/ok" in line for line in lines if "scripts.why" in line)
    assert [(entry["http_status"], bool(entry["retry_ts"])) for entry in told["failed_entries"]] in (
        [(404, False), (500, True)],
        [(500, True), (404, False)],
    )


def opml(*urls: str) -> str:
    feeds_in = "".join(f'<outline xmlUrl="{url}"/>' for url in urls)
    return f'<opml><body><outline text="News"><outline text="World">{feeds_in}</outline></outline></body></opml>'


async def test_opml_file_is_imported(
    redis: Client, keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nested outlines become categories, an entry that is no URL is named and left out, and the next import of the same
    file removes what it no longer has."""
    file = tmp_path / "mine.opml"
    file.write_text(opml("https://a.example/1", "https://a.example/2", "ftp:x"))
    await feeds.import_file(file)
    first = await subscribed(redis, keys)
    file.write_text(opml("https://a.example/2"))
    await feeds.import_file(file)

    assert first == {"news_world": ["https://a.example/1", "https://a.example/2"]}
    assert "1 entries of" in caplog.text
    assert "are skipped: ftp:x" in caplog.text
    assert await subscribed(redis, keys) == {"news_world": ["https://a.example/2"]}


async def test_file_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    """Not a traceback of its first odd byte."""
    file = tmp_path / "feeds.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(FeedFileError, match=r"feeds.toml is not UTF-8 text\."):
        await feeds.import_file(file)


async def test_health_of_broken_feeds_only(
    context: Context, web: FakeWeb, keys: Keys, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those whose last poll failed; a sentence where there is none."""
    web.page("/fine", rss(web.url("/ok")))
    web.on("/broken", 500)
    await health(None, only_broken=True)
    none = capsys.readouterr().out
    await redis.sadd(keys.feeds("world"), web.url("/fine"), web.url("/broken"))
    await ingestor.run_cycle(context)
    capsys.readouterr()
    await health(None, only_broken=True, as_json=True)
    told = json.loads(capsys.readouterr().out)

    assert none == "No feed is broken.\n"
    assert [feed["url"] for feed in told] == [web.url("/broken")]
