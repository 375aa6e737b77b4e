"""Options of feeds and hosts: by file and by command, and what they do to polling."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import ids
from core.errors import FeedFileError
from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.feed_toml import parse_toml
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.subscription_sync import import_feeds, read_feed_file
from core.feeds.poll_decision import PollingPolicy, decide
from core.feeds.poll_result import FeedResponse, FeedUnchanged
from core.models import PublisherHints
from core.runtime.context import Context, open_context
from core.store import connect
from core.urls.pace import COMMAND, PaceOption
from tests.articles import rss
from tests.web import FakeWeb
from workers import ingestor

URL = "https://docs.example.org/feed.xml"
FULL = f"""
[categories]
python = ["{URL}"]

[[feeds]]
url = "{URL}"
interval_seconds = 900
gap_seconds = 0

[hosts."docs.example.org"]
gap_seconds = 0
parallel = 8

[hosts."*.example.com"]
gap_seconds = 1.5
"""


# ── the file ────────────────────────────────────────────────────────────────────────────────────


def test_reads_options() -> None:
    """Options stand beside the categories, which are written as before."""
    read = parse_toml(FULL)

    assert read.categories == {"python": [URL]}
    assert read.feeds == {URL: PaceOption(interval_seconds=900, gap_seconds=0)}
    assert read.hosts == {
        "docs.example.org": PaceOption(gap_seconds=0, parallel=8),
        "*.example.com": PaceOption(gap_seconds=1.5),
    }


FEED = f'[[feeds]]\nurl = "{URL}"\n'


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("negative gap", f"{FEED}gap_seconds = -1", "Line 3: feeds[0].gap_seconds must be a number of seconds, 0 or"),
        ("no interval", f"{FEED}interval_seconds = 0", "Line 3: feeds[0].interval_seconds must be a number of seconds"),
        ("a word", f'{FEED}interval_seconds = "15m"', "Line 3: feeds[0].interval_seconds must be a number of seconds"),
        ("the second", f"{FEED}{FEED.replace('feed.xml', 'b')}gap_seconds = -1", "Line 5: feeds[1].gap_seconds must"),
        ("twice", f"{FEED}{FEED}", "Line 3: feeds[1].url: "),
        ("a misspelt key", f"{FEED}gap = 1", "Line 3: feeds[0].gap is not a key that Freshet knows"),
        ("of hosts only", f"{FEED}parallel = 2", "Line 3: feeds[0].parallel is not a key that Freshet knows"),
        ("no url", "[[feeds]]\ngap_seconds = 1", "Line 1: feeds[0] has no url"),
        ("no feed", '[[feeds]]\nurl = "docs.example.org"', "Line 2: feeds[0].url lists 'docs.example.org'"),
        ("one table", f'[feeds]\nurl = "{URL}"', "Line 1: feeds must be written as [[feeds]]"),
        ("no host", '[hosts."https://x.example/"]\ngap_seconds = 1', "Line 1: hosts: 'https://x.example/' is not a"),
        ("no quotes", "[hosts.docs.example.org]\ngap_seconds = 1", 'Line 1: hosts."docs": a name with dots is quoted'),
        ("no table", '[hosts]\n"x.example" = 5', 'hosts."x.example" is not a table'),
        ("parallel", '[hosts."x.example"]\nparallel = 0', 'Line 2: hosts."x.example".parallel must be a whole number'),
        ("no such table", '[categories]\n[host."x.example"]\nparallel = 1', "Line 2: host is not a table that Freshet"),
    ],
)
def test_names_the_line_and_the_key(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    """A bad file is refused whole, with a sentence that names file, line and key."""
    path = tmp_path / "feeds.toml"
    path.write_text(text)
    with pytest.raises(FeedFileError) as error:
        read_feed_file(path)

    assert str(error.value).startswith(f"{path}: ")
    assert sentence in str(error.value)


# ── stored ──────────────────────────────────────────────────────────────────────────────────────


async def fields(context: Context) -> dict[str, str]:
    return dict(await context.client.hgetall(context.keys.paces))


def options(context: Context) -> FeedOptions:
    return FeedOptions(context.client, context.keys, context.settings)


async def load(context: Context, text: str, path: str = "/srv/feeds.toml") -> tuple[int, int, int, int]:
    return await import_feeds(context.client, context.keys, context.settings, Path(path), parse_toml(text))


async def test_import_removes_only_what_it_set(context: Context) -> None:
    """What a command or another file set stays; what this file no longer says is gone, and the default holds again."""
    await options(context).set_for_host("by.command.example", {"gap_seconds": 3})
    other = '[hosts."other.example"]\ngap_seconds = 4\n'
    await load(context, other, "/srv/other.toml")
    first = await load(context, FULL)
    second = await load(context, FULL)
    there = await fields(context)
    third = await load(context, "[categories]\n")

    assert (first, second, third) == ((1, 0, 3, 0), (0, 0, 0, 0), (0, 1, 0, 3))
    assert there.keys() == {
        "host by.command.example command",
        "host other.example /srv/other.toml",
        "host docs.example.org /srv/feeds.toml",
        "host *.example.com /srv/feeds.toml",
        f"feed {ids.feed_id(URL)} /srv/feeds.toml",
    }
    assert (await fields(context)).keys() == {"host by.command.example command", "host other.example /srv/other.toml"}


async def test_command_wins_over_the_file_until_it_is_taken_back(context: Context) -> None:
    """Each option by itself; taking it back shows the file's again."""
    await load(context, FULL)
    changed = await options(context).set_for_feed(URL, {"interval_seconds": 60})
    again = await load(context, FULL)
    back = await options(context).set_for_feed(URL, {"interval_seconds": None})

    assert changed == PaceOption(interval_seconds=60, gap_seconds=0)
    assert again == (0, 0, 0, 0)
    assert back == PaceOption(interval_seconds=900, gap_seconds=0)
    assert not [name for name in await fields(context) if name.endswith(COMMAND)]


async def test_options_of_a_command_are_set_one_by_one(context: Context) -> None:
    """A gap does not remove the interval that was set before."""
    await options(context).set_for_feed(URL, {"interval_seconds": 60})
    both = await options(context).set_for_feed(URL, {"gap_seconds": 2})
    host = await options(context).set_for_host("docs.example.org", {"parallel": 4, "gap_seconds": 0})

    assert both == PaceOption(interval_seconds=60, gap_seconds=2)
    assert host == PaceOption(gap_seconds=0, parallel=4)


@pytest.mark.parametrize("changes", [{"gap_seconds": -1.0}, {"interval_seconds": 0.0}, {"parallel": 2}])
async def test_wrong_values_are_refused(context: Context, changes: dict[str, float | None]) -> None:
    """A sentence, and nothing is stored."""
    with pytest.raises(FeedFileError, match=next(iter(changes))):
        await options(context).set_for_feed(URL, changes)

    assert await fields(context) == {}


async def test_unsubscribed_feed_takes_its_options_along(context: Context, web: FakeWeb) -> None:
    """By command or by SREM: its host is not asked faster because of a feed that is gone."""
    web.page("/a", rss("https://news.example/a"))
    for url in (web.url("/a"), web.url("/b")):
        await context.subscriptions.add("world", url)
        await options(context).set_for_feed(url, {"gap_seconds": 0})
    there = len(await fields(context))
    await context.subscriptions.remove(web.url("/a"))
    await context.client.srem(context.keys.feeds("world"), web.url("/b"))
    await ingestor.run_cycle(context)

    assert (there, await fields(context)) == (2, {})


# ── polling ─────────────────────────────────────────────────────────────────────────────────────

NOW = 1_763_000_000.0


def test_set_interval_replaces_adapted_and_hinted_ones() -> None:
    """Below the shortest of the settings, against ttl and skipHours, and though the feed cannot answer 304."""
    hints = PublisherHints(ttl_seconds=7_200, skip_hours=tuple(range(24)))
    state = FeedState(URL, status=FeedStatus.OK, polls=5, hints=hints, interval_seconds=3_600)
    unchanged = FeedUnchanged(FeedResponse(lifetime_seconds=9_000))
    decided = decide(state, unchanged, NOW, 0.0, PollingPolicy(set_interval_seconds=20)).state
    default = decide(state, unchanged, NOW, 0.0, PollingPolicy()).state

    assert decided.next_poll_ts == NOW + 20
    assert decided.next_poll_reason == "interval 20 s, as set"
    assert decided.interval_seconds == default.interval_seconds  # goes on adapting, for when the option is removed
    assert default.next_poll_ts >= NOW + 9_000


async def state(context: Context, url: str) -> FeedState:
    return (await context.feeds.states([url]))[0]


async def test_interval_holds_at_once_and_at_every_poll(context: Context, web: FakeWeb) -> None:
    """The next poll is brought forward, the one after it keeps the interval; removed, the feed adapts again."""
    url = web.url("/feed")
    web.page("/feed", rss("https://news.example/a"), headers={"Cache-Control": "max-age=80000"})
    await context.subscriptions.add("world", url)
    await ingestor.run_cycle(context)
    before = await state(context, url)
    await options(context).set_for_feed(url, {"interval_seconds": 60})
    after = await state(context, url)
    await context.paces.read()
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(url): 0})
    await ingestor.run_cycle(context)
    polled = await state(context, url)
    await options(context).set_for_feed(url, {"interval_seconds": None})
    await context.paces.read()
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(url): 0})
    await ingestor.run_cycle(context)
    default = await state(context, url)

    assert before.next_poll_ts > before.last_poll_ts + 70_000
    assert after.next_poll_ts == pytest.approx(before.last_poll_ts + 60, abs=1)
    assert 60 <= polled.next_poll_ts - polled.last_poll_ts <= 67
    assert default.next_poll_reason == "Cache-Control"


async def test_interval_does_not_shorten_a_retry_after(context: Context, web: FakeWeb) -> None:
    """Nor does it when the option is set before the server asked for patience."""
    url = web.url("/feed")
    web.retry_after("/feed", 503, "7200")
    await context.subscriptions.add("world", url)
    await options(context).set_for_feed(url, {"interval_seconds": 1})
    await ingestor.run_cycle(context)
    await options(context).set_for_feed(url, {"interval_seconds": 2})
    waiting = await state(context, url)

    assert waiting.next_poll_ts - await connect.now(context.client) > 7_000
    assert len(web.requests) == 1


async def test_gap_of_a_feed_frees_the_feeds_of_its_host(context: Context, web: FakeWeb) -> None:
    """With a gap of a thousand seconds only one would be asked in a cycle; with its own of nothing all are."""
    urls = [web.url(f"/{n}") for n in range(3)]
    for url in urls:
        web.page(url.removeprefix(web.url("")), rss("https://news.example/a"))
        await context.subscriptions.add("world", url)
    changed = context.settings.model_copy(update={"fetch_host_gap_seconds": 1_000.0})
    async with open_context(changed) as polite:
        await options(polite).set_for_feed(urls[0], {"gap_seconds": 0})
        cycle = await ingestor.run_cycle(polite)

    assert (cycle.counts["polled"], cycle.counts["deferred"]) == (3, 0)
