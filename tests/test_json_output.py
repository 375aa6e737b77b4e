"""`--json`: every list and every answer of every command, for programs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from core.runtime.context import Context
from core.settings import Settings
from core.store.connect import Client
from scripts import command_line, domain, domain_crawl
from scripts.command_names import COMMANDS, module_of
from tests import articles, commands
from tests.articles import ArticlePage
from tests.site import FILLER
from tests.web import FakeWeb

NOT_FOR_PROGRAMS = {"sample-sharepoint", "export", "mcp", "redis-cli", "sample-site"}
"""Prints JSON Lines; is a server; prints what Redis answers; is a server."""
COUNTS = {"name", "dry_run", "sources", "items", "kept", "texts", "images", "articles", "aliases", "links", "runs"}

OBJECTS: dict[str, set[str]] = {
    "status": {"redis", "categories", "feeds", "articles", "registry"},
    "read {uid}": {"kind", "id", "title", "text", "markdown", "verified_by"},
    "search gates --words": {"query", "total", "results"},
    "feeds health {feed}": {"url", "categories", "status", "next_poll_ts", "events"},
    "feeds set {feed} --interval 15m": {"name", "interval_seconds"},
    "domain report notes": {"id", "name", "sources", "items", "runs", "refused", "errors"},
    "domain remove notes --dry-run": {*COUNTS, "comes_back_by"},
    "forget {uid} --dry-run": {*COUNTS, "comes_back_by"},
    "forget --feed {feed} --dry-run": {*COUNTS, "comes_back_by"},
    "forget --domain notes --dry-run": {*COUNTS, "comes_back_by"},
    "reindex --all --dry-run": {"items", "links", "requests", "statuses", "hosts"},
    "reindex {uid}": {"items", "links", "jobs", "queue_problem"},
    "reindex --rebuild due --dry-run": {"sources", "items", "added", "moved", "removed"},
    "reindex --rebuild due": {"id", "kind", "status", "parameters"},
    "runs show last": {"id", "kind", "status", "counts", "failed_items", "left_urls", "log"},
    "doctor": {"findings", "notes", "replica", "left"},
    "webhooks add http://127.0.0.1:9/hook": {"id", "url", "secret", "types", "waiting"},
    "why {url}": {"url", "verdict", "outcome"},
}
LISTS: dict[str, set[str]] = {
    "articles": {"uid", "url", "title", "host", "language", "fetched_ts"},
    "feeds list": {"url", "categories"},
    "feeds health": {"url", "categories", "status", "next_poll_ts", "events"},
    "feeds poll {feed}": {"url", "end", "new_links", "reason"},
    "feeds set": {"name", "option"},
    "domain list": {"id", "name", "sources"},
    "domain crawl notes --dry-run": {"source", "added", "removed", "listing"},
    "webhooks list": {"id", "url", "status", "waiting", "dead"},
    "runs list": {"id", "kind", "status", "progress", "counts"},
    "domain crawl notes": {"source", "run", "status", "counts"},
    "migrate-to-unified-state notes --back --dry-run": {"kb_id", "end", "new_bytes", "notes"},
}


@pytest.fixture
async def article(adopted: None, context: Context, web: FakeWeb, redis: Client, tmp_path: Path) -> ArticlePage:
    """A feed, an article and a crawled folder."""
    page = ArticlePage(context, web)
    page.write("")
    await page.store()
    await redis.sadd(context.keys.categories, "world")
    web.page("/feed", articles.rss(page.url))
    await redis.sadd(context.keys.feeds("world"), web.url("/feed"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(f"# A\n\n{FILLER}")
    await domain.add(str(tmp_path / "notes"), "notes")
    await domain_crawl.crawl("notes")
    return page


def test_every_command_is_here() -> None:
    """A new command joins the tables of this file."""
    assert {words.split()[0] for words in (*OBJECTS, *LISTS)} == set(COMMANDS) - NOT_FOR_PROGRAMS


async def test_every_answer_is_json(article: ArticlePage, settings: Settings) -> None:
    """Standard output is one JSON value with the documented names, standard error is empty."""
    for line, names in (OBJECTS | LISTS).items():
        name, *words = line.format(uid=article.uid, url=article.url, feed=article.web.url("/feed")).split()
        done = await commands.run(settings, module_of(name), *words, "--json", EMBEDDER="none")
        assert (done.returncode, done.stderr) == (0, ""), line
        told = json.loads(done.stdout)

        assert isinstance(told, list if line in LISTS else dict), line
        for one in told if isinstance(told, list) else [told]:
            assert names - set(one) == set(), line
        assert told, line


def test_letters_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Letters stay what they are, what a terminal would act on is escaped, and infinity is null."""
    value = {"name": "Zürich \x9b31m \u2028", "numbers": (1.5, math.inf, math.nan), "inner": [{"x": -math.inf}]}
    command_line.print_json(value)
    told = capsys.readouterr().out

    assert "Zürich \\u009b31m \\u2028" in told
    assert json.loads(told) == {"name": value["name"], "numbers": [1.5, None, None], "inner": [{"x": None}]}
