"""`python -m scripts.export`: every text once, line by line."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from core.keys import Keys
from core.runtime.context import Context
from core.search.io import export
from core.search.io.export import ExportFilter, export_lines
from core.search.io.stored_texts import StoredText, StoredTextReader
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from scripts import domain, domain_crawl
from tests import articles, commands
from tests.articles import ArticlePage
from tests.site import Site
from tests.web import FakeWeb

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("adopted")


@pytest.fixture
async def news(context: Context, web: FakeWeb) -> ArticlePage:
    """An article of a feed that is also a page of a crawled site, and two more pages."""
    page = ArticlePage(context, web)
    page.write("first")
    await page.store()
    site = Site(web)
    site.page("/", links=["/a", "/c"])
    site.page("/c")
    await domain.add(web.url("/"), "docs")
    await domain_crawl.crawl("docs")
    return page


async def exported(redis: Client, keys: Keys, **wanted: Any) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in export_lines(redis, keys, ExportFilter(**wanted))]


def paths(found: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{one['kind']} {re.sub('^http://[^/]*', '', one['url'])}" for one in found)


async def test_every_text_once(news: ArticlePage, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Articles first, then pages; what is both is an article; by category articles alone, by domain what it lists."""
    monkeypatch.setattr(export, "_TEXTS_AT_ONCE", 1)
    everything = await exported(redis, keys)

    assert everything[0]["kind"] == "article"
    assert paths(everything) == ["article /a", "page /", "page /c"]
    assert paths(await exported(redis, keys, category="world")) == ["article /a"]
    assert paths(await exported(redis, keys, domain="docs")) == ["article /a", "page /", "page /c"]


async def test_what_has_changed(news: ArticlePage, redis: Client, keys: Keys) -> None:
    """Since and until count by the last change of a text, so that a program can fetch what is new to it."""
    between = await connect.now(redis)
    news.write("second")
    await news.visit()
    changed = await exported(redis, keys, since_ts=between)

    assert paths(changed) == ["article /a"]
    assert "second" in changed[0]["text"]
    assert changed[0]["updated_ts"] > between > changed[0]["fetched_ts"]
    assert paths(await exported(redis, keys, until_ts=between)) == ["page /", "page /c"]
    assert paths(await exported(redis, keys, domain="docs", since_ts=between)) == ["article /a"]


async def test_schema_is_documented(news: ArticlePage, redis: Client, keys: Keys) -> None:
    """Each line has every field of docs/export.md, in its order, and no other."""
    documented = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "export.md").read_text(), re.M)

    assert documented == [field.name for field in fields(StoredText)]
    assert [list(line) for line in await exported(redis, keys)] == [documented] * 3


async def test_lines_are_lines(news: ArticlePage, redis: Client, settings: Settings) -> None:
    """The command prints one object per line, whatever a program takes for the end of a line."""
    await redis.hset(news.context.keys.article(news.uid), "author", "A\u2028B")
    done = await commands.run(settings, "scripts.export", "--category", "world", "--since", "1h", "--format", "jsonl")
    (line,) = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(line)["author"] == "A\u2028B"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--category", "none"], "There is no category none. `python -m scripts.status` shows what there is."),
        (["--domain", "none"], "There is no domain none. `python -m scripts.domain list` shows what there is."),
        (["--category", "a", "--domain", "b"], "Export a category or a domain, not both"),
        (["--until", "x"], "x is not a date"),
    ],
)
async def test_bad_arguments_are_sentences(settings: Settings, words: list[str], sentence: str) -> None:
    """On standard error, exit code 2, and no line."""
    done = await commands.run(settings, "scripts.export", *words)

    assert (done.returncode, done.stdout, done.stderr[: len(sentence)]) == (2, "", sentence)


async def test_head_has_seen_enough(redis: Client, keys: Keys, settings: Settings) -> None:
    """`export | head -1` prints one line and no error, however much there would be."""
    text = "x" * 50_000
    for number in range(40):
        uid = await articles.put_article(redis, keys, f"a{number}", item_id=f"url_{number}", clean_text=text)
        await redis.hset(keys.article(uid), mapping={"markdown": text, "content_hash": "h"})
        await redis.hset(keys.item(f"url_{number}"), mapping={"type": "url", "status": "Crawled", "articleUid": uid})
    environment = commands.environment(settings) | {"PATH": "/usr/bin:/bin"}
    line = f"{sys.executable} -m scripts.export | head -1 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", line],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert (done.stdout.split(), done.stderr) == (["1", "0"], "")


async def test_bounded_memory(redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more texts than one batch are read before the first line is taken."""
    for number in range(10):
        uid = await articles.put_article(redis, keys, f"a{number}", item_id=f"url_{number}", content_hash="h")
        await redis.hset(keys.item(f"url_{number}"), mapping={"type": "url", "status": "Crawled", "articleUid": uid})
    monkeypatch.setattr(export, "_TEXTS_AT_ONCE", 3)
    reads: list[int] = []
    read = StoredTextReader.read

    async def counted(self: StoredTextReader, item_ids: list[str]) -> list[StoredText]:
        reads.append(len(item_ids))
        return await read(self, item_ids)

    monkeypatch.setattr(StoredTextReader, "read", counted)
    lines: AsyncIterator[str] = export_lines(redis, keys, ExportFilter())
    await anext(lines)
    after_first = list(reads)
    rest = [line async for line in lines]

    assert (after_first, reads, len(rest)) == ([3], [3, 3, 3, 1], 9)
