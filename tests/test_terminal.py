"""No output of ours lets what others wrote act on a terminal."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path

import pytest

from core.pages.text_cleaning import printable, printable_line
from core.runtime import logs, progress
from core.runtime.terminal import Styled, bold, echo
from core.settings import Settings
from core.store.connect import Client
from scripts import search
from tests import commands
from tests.site import html
from tests.web import FakeWeb

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\x7f\r"
"""A new window title, a cleared screen, colour by C1, a reversed name, an isolate, DEL, a carriage return."""
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Grüße 日本語 🚣‍♀️ עברית", "Grüße 日本語 🚣‍♀️ עברית"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x07", "\\u001b[31mred\\u0007"),
        ("\x9b31m\x85\x7f", "\\u009b31m\\u0085\\u007f"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("over\rwritten", "over\\u000dwritten"),
        ("bytes \udcff", "bytes \\udcff"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    """What a terminal would act on is written out; everything that people read stays."""
    assert printable(text) == expected
    assert printable(expected) == expected


def test_a_name_makes_no_lines() -> None:
    """Line breaks of every kind become a space."""
    assert printable_line("a\r\nb\x85c\u2028d\te") == "a b c d e"


def test_json_stays_json() -> None:
    """What is written out is what JSON means by it: a program reads the name as it is."""
    told = printable(json.dumps({"title": EVIL}, ensure_ascii=False))

    assert not RAW.search(told)
    assert json.loads(told) == {"title": EVIL}


def test_say_lets_only_our_own_style_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """A styled line is printed as it is, and what it was made of is not."""
    echo("name", EVIL, Styled(bold("x\x1b[5m")))

    assert capsys.readouterr().out == f"name {printable(EVIL)} \x1b[1mx\\u001b[5m\x1b[0m\n"


def test_found_words_are_bold_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the passage has our marks; escapes of the page are written out."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    assert search._highlighted("a weir\x1b[2J b", ((2, 6),)) == "     a \x1b[1mweir\x1b[0m\\u001b[2J b"


def test_no_log_line_has_an_escape(settings: Settings) -> None:
    """Neither in its message nor in its traceback."""
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure(settings, stream)
    try:
        raise ValueError(EVIL)
    except ValueError:
        logging.getLogger("canon").exception("Stored → %s", EVIL)
    root.handlers[:], root.level = before

    assert not RAW.search(stream.getvalue())
    assert "owned" in stream.getvalue()


def test_no_bar_has_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its name nor in what it waits for."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.bar(2, EVIL) as bar:
        bar.set_description(EVIL)
        bar.set_postfix_str(EVIL)
        bar.update()

    shown = stream.getvalue().replace("\r", "")
    assert "owned" in shown
    assert not RAW.search(re.sub("\x1b\\[[AK]", "", shown))


# ── every script, every worker ──────────────────────────────────────────────────────────────────


@pytest.fixture
async def web(redis: Client) -> AsyncIterator[FakeWeb]:
    async with FakeWeb() as running:
        yield running


def references(text: str) -> str:
    """The text as XML or HTML can carry it: what is no character of XML stays as it is."""
    return escape(text)


async def hostile_store(settings: Settings, redis: Client, web: FakeWeb, folder: Path) -> None:
    """A feed, a site, a folder and a category whose every name is hostile."""
    evil = EVIL.replace("\r", "")
    title = references(f"Title {evil}")
    link = web.url("/story%1B%5D0;x")
    web.page("/feed", json.dumps({
        "version": "https://jsonfeed.org/version/1.1", "title": f"Feed {evil}",
        "items": [
            {"id": "1", "url": link, "title": f"Story {evil}", "content_text": evil},
            {"id": "2", "url": f"javascript:{evil}", "title": evil},
        ],
    }), media_type="application/feed+json")  # fmt: skip
    web.page("/broken", "no feed", status=404)
    web.page("/story%1B%5D0;x", html(title, f"A weir {evil}."), headers={"ETag": '"1"'})
    web.page(
        "/site/",
        html(title, f"A lock {evil}.", [f"/site/{evil}", "/site/no"], "<meta name=author content=x>"),
    )
    await redis.sadd(f"rss:feeds:cat{evil}", web.url("/feed"), web.url(f"/broken?{evil}"))
    await redis.sadd(f"rss:category_links:cat{evil}", f"http://127.0.0.1:{web.port}/x{evil}", f"no link {evil}")
    (folder / f"note{evil.replace('/', '')}.md").write_text(f"# Note {evil}\n\n" + "A gauge. " * 40)
    (folder / f"bad{evil.replace('/', '')}.pdf").write_bytes(b"\0\1\2")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("workers.ingestor", "--once"),
    ("workers.canonical_fetcher",),
    ("scripts.domain", "add", "SITE"),
    ("scripts.domain", "add", "FOLDER"),
    ("scripts.domain", "crawl", "docs", "--dry-run"),
    ("scripts.domain", "crawl", "docs"),
    ("scripts.domain", "crawl", "notes"),
    ("workers.timer", "--once"),
    ("workers", "refresh", "reindex", "embed", "--burst"),
    ("scripts.domain", "list"),
    ("scripts.domain", "report", "docs"),
    ("scripts.domain", "report", "notes"),
    ("scripts.domain", "report", EVIL),
    ("scripts.status",),
    ("scripts.status", "--json"),
    ("scripts.webhooks", "add", "https://example.org/hook", "--search", EVIL),
    ("scripts.webhooks", "list"),
    ("scripts.webhooks", "show", EVIL),
    ("workers.webhooks", "--once"),
    ("scripts.feeds", "list"),
    ("scripts.feeds", "health"),
    ("scripts.feeds", "health", "FEED"),
    ("scripts.feeds", "health", EVIL),
    ("scripts.feeds", "add", "cat", EVIL),
    ("scripts.feeds", "remove", EVIL),
    ("scripts.feeds", "export"),
    ("scripts.search", "weir", "--explain", "--images"),
    ("scripts.search", "lock", "--json"),
    ("scripts.search", "gauge", "--category", EVIL),
    ("scripts.search", "nothing-at-all", "--category", EVIL),
    ("scripts.reindex", "--category", EVIL),
    ("scripts.reindex", EVIL),
    ("scripts.reindex", "--all", "--dry-run"),
    ("scripts.doctor",),
    ("scripts.doctor", "--json"),
    ("scripts.forget", EVIL),
    ("scripts.forget", "--feed", EVIL, "--dry-run"),
    ("scripts.forget", "--domain", "docs", "--dry-run"),
    ("scripts.domain", "remove", "notes"),
)  # fmt: skip


@pytest.mark.long
async def test_every_output_is_printable(settings: Settings, redis: Client, web: FakeWeb, tmp_path: Path) -> None:
    """Hostile titles, names, categories, URLs and arguments: no script and no worker lets them through."""
    folder = tmp_path / "notes"
    folder.mkdir()
    await hostile_store(settings, redis, web, folder)
    words = {"SITE": web.url("/site/"), "FOLDER": str(folder), "FEED": web.url("/feed")}
    names = {"SITE": "docs", "FOLDER": "notes"}
    raw, said = {}, ""
    for command in COMMANDS:
        words_given = [words.get(word, word) for word in command]
        more = ["--id", names[command[-1]]] if command[-1] in names else []
        done = await commands.run(settings, *words_given, *more, EMBEDDER="none", LOG_LEVEL="DEBUG")
        told = done.stdout + done.stderr
        assert "Traceback" not in told, told
        said += told
        found = RAW.findall(told)
        if found:
            raw[command] = found
    assert raw == {}
    assert said.count("\\u001b") > 20  # they were there to be shown
