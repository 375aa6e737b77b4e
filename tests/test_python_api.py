"""`core.api`, on the store itself and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core import api
from core.errors import FreshetError, NotFound, StoreUnreachable
from core.runs.io.run_control import RunControl
from core.runs.run import RunKind, RunStatus
from core.runtime.api_results import FoundPage
from core.settings import Settings
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_store import DomainStore
from tests import commands
from tests.api import api_server
from tests.articles import ArticlePage
from tests.crawled_site import SID
from tests.search_site import Library, open_library
from tests.web import FakeWeb

ROOT = Path(__file__).parents[1]
PAGES = {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}


@dataclass
class BothWays:
    """A store with two pages and an article, and an API that serves it."""

    library: Library
    paper: ArticlePage
    url: str
    monkeypatch: pytest.MonkeyPatch

    async def ask(self, call: Callable[[], Any]) -> tuple[Any, Any]:
        """Return what a call gives here and over HTTP; a FreshetError too is something that it gives."""
        self.monkeypatch.delenv("FRESHET_URL", raising=False)
        here = await asyncio.to_thread(_caught, call)
        self.monkeypatch.setenv("FRESHET_URL", self.url)
        return here, await asyncio.to_thread(_caught, call)


def _caught(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except FreshetError as error:
        return error


@pytest.fixture
async def both(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BothWays]:
    async with open_library(settings, PAGES) as library:
        paper = ArticlePage(library.context, library.site.web, "/story")
        paper.write("The dockers voted for a walkout in the old harbour. " * 20)
        await paper.store()
        await library.embed()
        model = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        commands.adopt(monkeypatch, library.settings, **model)
        async with api_server(library.settings) as server:
            yield BothWays(library, paper, server.url, monkeypatch)


# ── the same both ways ──


async def test_reading_gives_the_same_both_ways(both: BothWays) -> None:
    """Types, fields and values; what changes with time apart."""
    url, uid = both.paper.url, both.paper.uid
    found = await both.ask(lambda: api.search("weir repaired", nest_images=True))
    assert found[0] == found[1]
    assert isinstance(found[0].results[0], FoundPage)
    assert (found[0].results[0].url, found[0].results[0].verified_by) == (both.library.site.url("/weir"), "read")
    by_words = await both.ask(lambda: api.search("dockers", category=["world", "none"], words=True, since="2h"))
    assert [page.url for page in by_words[0].results] == [page.url for page in by_words[1].results] == [url]
    listed = await both.ask(lambda: api.articles(since=datetime(2026, 1, 1, tzinfo=UTC)))
    assert listed[0] == listed[1]
    assert [one.uid for one in listed[0]] == [uid]
    for name in (uid, url):
        text = await both.ask(lambda name=name: api.article(name))
        assert text[0] == text[1]
        assert "dockers" in text[0].text
    told = await both.ask(lambda: api.why(url))
    states = [[(one.name, one.state) for one in answer.stations] for answer in told]
    assert states[0] == states[1]
    assert replace(told[0], stations=()) == replace(told[1], stations=())  # "3 s ago" is in their sentences
    assert told[0].outcome == "found"
    seen = await both.ask(api.status)
    assert replace(seen[0], now_ts=0) == replace(seen[1], now_ts=0)
    assert (seen[0].items["Indexed"], seen[0].queues["reindex"]) == (4, 0)


async def test_changing_does_the_same_both_ways(both: BothWays) -> None:
    """Items become due, jobs are sent, a URL is registered, a run is paused."""
    context = both.library.context
    pages = [both.library.id("/weir"), both.library.site.url("/lock")]
    done = await both.ask(lambda: api.reindex(pages, force=True))
    assert replace(done[0], run_id="") == replace(done[1], run_id="")
    assert {(await context.runs.require(one.run_id, 1.0)).kind for one in done} == {RunKind.REINDEX}
    assert (done[0].items, done[0].jobs, done[0].queue_problem) == (2, 2, "")
    by_category = await both.ask(lambda: api.reindex(category="world"))
    assert replace(by_category[0], run_id="") == replace(by_category[1], run_id="")
    new = both.library.site.url("/new")
    added = await both.ask(lambda: api.register(new))
    assert (added[0].is_known, added[1].is_known) == (False, True)
    assert replace(added[1], is_known=False, next_step=added[0].next_step) == added[0]
    assert await context.client.exists(context.keys.item(added[0].id))
    site = f'{{"id": "docs", "web_sources": [{{"id": "site", "url": "{both.library.site.url("/")}"}}]}}'
    await DomainStore(context.client, context.keys).save(parse_domain(site, "/"), [SID], 1.0)
    control = RunControl(both.library.settings, context.client, context.keys)
    run = await control.start_crawl("docs", CrawlMode.INCREMENTAL, source=SID, started_by="test")
    listed = await both.ask(lambda: api.runs(5))
    assert [one.id for one in listed[0]][:1] == [one.id for one in listed[1]][:1] == [run.id]
    paused, resumed = await both.ask(lambda: api.pause(run.id)), await both.ask(lambda: api.resume(run.id))
    assert {one.status for one in paused} == {RunStatus.PAUSED}
    cancelled = await both.ask(lambda: api.cancel(run.id))
    assert {one.id for one in (*paused, *resumed, cancelled[0])} == {run.id}
    assert cancelled[0].status is RunStatus.CANCELLED
    assert isinstance(cancelled[1], FreshetError)  # it has ended


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: api.reindex("https://nobody.example/"), "is not in the registry"),
        (lambda: api.reindex(), "ame"),
        (lambda: api.reindex("https://a.example/", category="world"), "ame"),
        (lambda: api.reindex(category="wrold"), "no category wrold"),
        (lambda: api.register("ftp://a.example/"), "only http and https"),
        (lambda: api.search("..."), "Say what to look for"),
        (lambda: api.search("x", per_page=1000), "per_page"),
        (lambda: api.articles("wrold"), "no category wrold"),
        (lambda: api.articles(since="soon"), "is not a date"),
        (lambda: api.article("0" * 16), "There is no article"),
        (lambda: api.pause("jb_1_00000000"), "jb_1_00000000"),
    ],
)
async def test_errors_are_sentences_both_ways(both: BothWays, call: Callable[[], Any], words: str) -> None:
    """A FreshetError that says what is wrong; nothing is reindexed because nothing was named."""
    for error in await both.ask(call):
        assert isinstance(error, FreshetError), error
        assert words in str(error)
        assert str(error).endswith((".", "?", "ones")), str(error)


async def test_what_is_not_there_is_not_found_both_ways(both: BothWays) -> None:
    """So that a program need not compare sentences."""
    assert [type(error) for error in await both.ask(lambda: api.article("0" * 16))] == [NotFound, NotFound]


# ── where it runs ──


async def test_works_where_an_event_loop_runs(both: BothWays) -> None:
    """As in a notebook, where everything does."""
    assert api.articles("world")[0].uid == both.paper.uid


def test_a_server_that_is_away_is_a_sentence(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Redis, and of the API, with what to do about it."""
    commands.adopt(monkeypatch, settings, REDIS_URL="redis://127.0.0.1:1/0")
    monkeypatch.setattr("core.store.redis_health.ONCE_WAIT_SECONDS", 0.0)
    with pytest.raises(StoreUnreachable, match="does not answer"):
        api.status()
    monkeypatch.setenv("FRESHET_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreUnreachable, match=r"http://127.0.0.1:1 does not answer .* correct FRESHET_URL"):
        api.status()


async def test_the_token_is_sent_and_needed(settings: Settings, redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the API's own sentence; with it the answer."""
    commands.adopt(monkeypatch, settings, API_TOKEN="s3cret-s3cret-s3cret")
    monkeypatch.setenv("API_TOKEN", "s3cret-s3cret-s3cret")
    async with api_server(Settings(**dict(settings) | {"api_token": "s3cret-s3cret-s3cret"})) as server:
        monkeypatch.setenv("FRESHET_URL", server.url)
        assert await asyncio.to_thread(api.articles) == []
        monkeypatch.delenv("API_TOKEN")
        with pytest.raises(FreshetError, match="oken"):
            await asyncio.to_thread(api.articles)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<html>It works!</html>", "is no Freshet: it answers HTTP 200"),
        ('{"hello": "world"}', "Use the same version of Freshet on both sides"),
    ],
)
async def test_another_server_is_named(web: FakeWeb, monkeypatch: pytest.MonkeyPatch, body: str, words: str) -> None:
    """Whoever is at FRESHET_URL and is no Freshet of this version: a sentence, not a traceback of our own code."""
    web.page("/api/articles", body)
    monkeypatch.setenv("FRESHET_URL", web.url("").rstrip("/"))
    with pytest.raises(FreshetError, match=words):
        await asyncio.to_thread(api.articles)


# ── the documentation ──


async def test_documented_lines_work(both: BothWays, capsys: pytest.CaptureFixture[str]) -> None:
    """Every example of docs/python.md that uses core.api runs as it stands there, on URLs that exist."""
    text = (ROOT / "docs" / "python.md").read_text().partition("## RQ")[0]
    examples = re.findall(r"```python\n(.*?)```", text, re.S)
    place = {"https://example.org/news/flood-wall": both.paper.url, "https://example.org/press/": both.paper.url}

    assert len(examples) == 3
    for example in examples:
        for documented, real in place.items():
            example = example.replace(documented, real)
        exec(compile(example.replace('since="7d"', 'since="7d", words=True'), "docs/python.md", "exec"), {})
    assert "nobody-knows-it is not in the registry" in capsys.readouterr().out
