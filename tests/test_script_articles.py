"""`python -m scripts.articles`: headlines for people and programs."""

from __future__ import annotations

import json

import pytest

from core.keys import Keys
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from tests import commands
from tests.articles import put_article


@pytest.fixture
async def stored(redis: Client, keys: Keys) -> float:
    """Three articles in two categories, and the server's time."""
    now = await connect.now(redis)
    await redis.sadd(keys.categories, "world", "sport", "empty")
    await put_article(redis, keys, "old", now - 7_300, language="de", published_ts="1769860800")
    await put_article(redis, keys, "match", now - 90, category="sport", host="f.org")
    await put_article(redis, keys, "new\x1b[31m", now - 30)
    return now


async def test_headlines_for_people(stored: float, settings: Settings) -> None:
    """When it was stored and published, where it is from, its language, uid and headline; newest first."""
    done = await commands.run(settings, "scripts.articles")
    head, *lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]

    assert (done.returncode, done.stderr) == (0, "")
    assert head == ["STORED", "PUBLISHED         SOURCE  LANG  UID               HEADLINE"]
    assert [line.rsplit(maxsplit=1)[1] for _, line in lines] == ["new\\u001b[31m", "match", "old"]
    assert lines[2][1].split()[:6] == ["1m", "ago", "2026-01-31", "12:00", "e.org", "de"]
    assert lines[1][1].split()[1:4] == ["ago", "–", "f.org"]


async def test_headlines_for_programs(stored: float, settings: Settings) -> None:
    """A list of objects; with filters, only what was asked for."""
    done = await commands.run(settings, "scripts.articles", "--since", "2h", "--category", "world", "--json")
    (found,) = json.loads(done.stdout)

    assert (found["title"], found["host"], found["categories"], found["published_ts"]) == (
        "new\x1b[31m",
        "e.org",
        ["world"],
        None,
    )
    assert found["fetched_ts"] == pytest.approx(stored - 30, abs=0.01)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--category", "empty"], (0, "No articles.\n", "")),
        (["--language", "fr", "--json"], (0, "[]\n", "")),
        (["--category", "none"], (2, "", "There is no category none; there are: empty, sport, world.\n")),
        (["--limit", "0"], (2, "", "--limit is 1 or more.\n")),
        (["--since", "soon"], (2, "", "soon is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z. A length of")),
    ],
)
async def test_nothing_and_bad_arguments(
    stored: float, settings: Settings, words: list[str], expected: tuple[int, str, str]
) -> None:
    """No article is no error; a name that nothing has and a bad value are sentences."""
    done = await commands.run(settings, "scripts.articles", *words)

    assert (done.returncode, done.stdout, done.stderr[: len(expected[2])]) == expected
