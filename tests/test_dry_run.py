"""What a pass would do, without doing it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import FreshetError
from core.keys import Keys
from core.models import Ref
from core.registry.io.registrar import Listing, item_id_of
from core.runtime.context import Context, build_context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain, parse_quick
from core.sources.io.dry_run import dry_run_source
from core.store import connect
from core.store.connect import Client
from tests import commands
from tests.github_server import GithubServer
from tests.site import FILLER, Site
from tests.web import FakeWeb


@pytest.fixture
async def context(settings: Settings, redis: Client, keys: Keys) -> AsyncIterator[Context]:
    opened = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})
    async with build_context(opened, redis, keys) as made:
        yield made


async def add(context: Context, what: str) -> str:
    (config,) = parse_quick(what, "/").sources()
    root = Ref(config.config["url"]) if "url" in config.config else None
    now = await connect.now(context.client)
    await context.sources.add(config, item_id_of(root) if root else "", now)
    if root:
        await context.registrar.register([root], Listing(config.sid), now)
    return config.sid


def sitemap(web: FakeWeb, *paths: str) -> None:
    entries = "".join(f"<url><loc>{web.url(path)}</loc></url>" for path in paths)
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    web.page("/sitemap.xml", body, media_type="application/xml")


def write(folder: Path, name: str, text: str = "") -> None:
    """A file that is old enough to be known by its time and size."""
    path = folder / name
    path.write_text(f"# {name}\n\n{FILLER}{text}")
    os.utime(path, (1_700_000_000, 1_700_000_000 + len(text)))


async def test_a_folder(context: Context, tmp_path: Path) -> None:
    """Adds, changes, losses and the rest; and not one request."""
    for name in ("a.md", "b.md", "c.md"):
        write(tmp_path, name)
    sid = await add(context, str(tmp_path))
    first = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)
    await crawl_source(context, sid, CrawlMode.INCREMENTAL)
    write(tmp_path, "b.md", "another text")
    write(tmp_path, "d.md")
    (tmp_path / "c.md").unlink()
    second = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)

    assert (first.added, first.changed, first.removed, first.unchanged) == (3, 0, 0, 0)
    assert (second.added, second.changed, second.removed, second.unchanged) == (1, 1, 1, 1)
    assert (second.requests, second.how, second.held) == (0, "complete", "")


async def test_a_folder_costs_no_write(context: Context, redis: Client, tmp_path: Path) -> None:
    """The store is the same to the byte."""
    write(tmp_path, "a.md")
    sid = await add(context, str(tmp_path))
    before = await commands.everything(redis)
    await dry_run_source(context, sid, CrawlMode.FULL)

    assert await commands.everything(redis) == before


async def test_a_loss_that_would_be_held_is_told(context: Context, redis: Client, keys: Keys, tmp_path: Path) -> None:
    """And the source itself is not marked as held."""
    write(tmp_path, "a.md")
    write(tmp_path, "b.md")
    sid = await add(context, str(tmp_path))
    await crawl_source(context, sid, CrawlMode.INCREMENTAL)
    (tmp_path / "a.md").unlink()
    (tmp_path / "b.md").unlink()
    made = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)

    assert (made.removed, "2 of 2 items" in made.held) == (2, True)
    assert await redis.hget(keys.source(sid), "held") is None


async def test_a_folder_that_cannot_be_listed_loses_nothing(context: Context, tmp_path: Path) -> None:
    """Absence proves nothing when the listing was cut short."""
    folder = tmp_path / "notes"
    folder.mkdir()
    write(folder, "a.md")
    sid = await add(context, str(folder))
    await crawl_source(context, sid, CrawlMode.INCREMENTAL)
    folder.rename(tmp_path / "moved")
    made = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)

    assert (made.removed, made.unchanged) == (0, 1)
    assert "cannot be read" in made.how


async def test_a_site(context: Context, redis: Client, keys: Keys) -> None:
    """Known pages, new ones of the sitemap, robots.txt, the sitemap: so many requests; a plan makes the last two."""
    async with FakeWeb() as web:
        site = Site(web)
        site.page("/", links=["/a"])
        site.page("/a")
        sid = await add(context, site.url())
        await crawl_source(context, sid, CrawlMode.INCREMENTAL)
        sitemap(web, "/", "/a", "/b", "/c")
        site.forget_requests()
        before = await redis.zcard(keys.refs(sid))
        made = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)

    assert (made.added, made.unchanged, made.removed) == (2, 2, 0)
    assert made.requests == 2 + 4
    assert web.paths == ["/sitemap.xml"]
    assert await redis.zcard(keys.refs(sid)) == before


async def test_a_root_that_nobody_has_read_is_an_addition(context: Context) -> None:
    """It is registered when the domain is added, and new all the same."""
    async with FakeWeb() as web:
        made = await dry_run_source(context, await add(context, web.url()), CrawlMode.INCREMENTAL)

    assert (made.added, made.unchanged) == (1, 0)


async def test_a_repository(settings: Settings, redis: Client, keys: Keys) -> None:
    """Its listing and the files that moved; unchanged, it costs the one question whether it is."""
    async with GithubServer("token") as hub:
        hub.repository("o/r")
        opened = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), **hub.settings()})
        async with build_context(opened, redis, keys) as context:
            sid = await add_repository(context)
            for name in ("a.md", "b.md"):
                hub.file(name, f"# {name}\n\n{FILLER}".encode())
            first = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)
            await crawl_source(context, sid, CrawlMode.INCREMENTAL)
            same = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)
            full = await dry_run_source(context, sid, CrawlMode.FULL)
            hub.file("b.md", f"# b\n\n{FILLER} changed".encode())
            moved = await dry_run_source(context, sid, CrawlMode.INCREMENTAL)

    assert (first.added, first.requests) == (2, 3 + 2)
    assert (same.unchanged, same.requests, same.how) == (2, 1, "unchanged")
    assert (full.unchanged, full.requests) == (2, 1 + 2)
    assert (moved.changed, moved.unchanged, moved.removed, moved.requests) == (1, 1, 0, 3 + 1)


async def add_repository(context: Context) -> str:
    (config,) = parse_domain(
        json.dumps({"id": "code", "github_sources": [{"id": "repo", "repo": "o/r"}]}), "/"
    ).sources()
    await context.sources.add(config, "", await connect.now(context.client))
    return config.sid


async def test_no_source_is_a_sentence(context: Context) -> None:
    """As for a crawl."""
    with pytest.raises(FreshetError, match=r"There is no source docs\.none"):
        await dry_run_source(context, "docs.none", CrawlMode.INCREMENTAL)
