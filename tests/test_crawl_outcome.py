"""What a pass says of itself adds up: counts, its end, and one sentence for whatever a person should know."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.keys import Keys
from core.registry.io.periodic_cleanup import Purger
from core.registry.record import Status
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.store.connect import Client
from scripts import domain, domain_crawl, domain_report, status
from tests import commands
from tests.crawled_site import SID, add_site, counts, crawl_context, item, item_id, text
from tests.site import FILLER, Site

PARTS = ("changed", "unchanged", "gone", "failed", "excluded")


@pytest.fixture
def adopted(monkeypatch: pytest.MonkeyPatch, settings: Settings, redis: Client) -> None:
    commands.adopt(monkeypatch, settings)


def adds_up(run: Mapping[str, str]) -> bool:
    return int(run["visited"]) == sum(int(run[name]) for name in PARTS)


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {path.stem}\n\n{FILLER} {path.stem}\n{text}")
    os.utime(path, (1_700_000_000, 1_700_000_000 + len(text)))


async def crawl_folder(context: Context, mode: CrawlMode = CrawlMode.INCREMENTAL) -> Mapping[str, str]:
    [sid] = await context.sources.ids()
    return await crawl_source(context, sid, mode)


# ── counts ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", [CrawlMode.INCREMENTAL, CrawlMode.FULL])
async def test_counts_of_a_folder_add_up(settings: Settings, adopted: None, tmp_path: Path, mode: CrawlMode) -> None:
    """Every file counts once: changed, as it was, new, and gone."""
    folder = tmp_path / "notes"
    for name in ("a", "b", "c"):
        write(folder / f"{name}.md")
    await domain.add(str(folder), None)
    async with crawl_context(settings) as context:
        first = await crawl_folder(context)
        (folder / "a.md").unlink()
        write(folder / "b.md", "Corrected.")
        write(folder / "d.md")

        run = await crawl_folder(context, mode)

    assert counts(first) == {"discovered": 3, "visited": 3, "changed": 3}
    assert adds_up(run), run
    assert (run["visited"], run["gone"]) == ("4", "1")


async def test_counts_of_orphans_add_up(settings: Settings, site: Site) -> None:
    """A page that answered and that nothing leads to any more was known, is gone, and is counted once."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=["/a"])

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert counts(run) == {"discovered": 3, "visited": 3, "unchanged": 2, "gone": 1}


async def test_counts_of_failing_orphans_add_up(settings: Settings, site: Site) -> None:
    """The same for one that failed in the very run that found nothing leading to it: no count is below zero."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=["/a"])
        site.remove("/b", 500)

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert adds_up(run), run
    assert (run["unchanged"], run["gone"], run["failed"]) == ("2", "1", "0")


# ── the loss guard ──────────────────────────────────────────────────────────────────────────────


async def test_run_that_the_guard_stopped_says_so(settings: Settings, adopted: None, tmp_path: Path) -> None:
    """Its end is `held`, and what the listing lacks does not count as unchanged."""
    folder = tmp_path / "notes"
    for n in range(6):
        write(folder / f"{n}.md")
    await domain.add(str(folder), None)
    async with crawl_context(settings) as context:
        await crawl_folder(context)
        for n in range(6):
            (folder / f"{n}.md").unlink()

        run = await crawl_folder(context)

    assert (run["problem"], run["unchanged"], run["gone"]) == ("held", "0", "0")
    assert "6 of 6 items would be gone within a day" in run["message"]


async def test_guard_speaks_once(
    settings: Settings,
    adopted: None,
    site: Site,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sentence is on the terminal once after a crawl, and once in a report."""
    caplog.set_level(logging.INFO)
    commands.adopt(monkeypatch, settings, LOSS_LIMIT_ITEMS="1", LOSS_LIMIT_PERCENT="1")
    site.page("/", links=[f"/{n}" for n in range(6)])
    for n in range(6):
        site.page(f"/{n}")
    await domain.add(site.url(), "docs")
    await domain_crawl.crawl("docs")
    site.page("/", links=["/0"])
    for n in range(1, 4):
        site.remove(f"/{n}", 410)
    capsys.readouterr()
    caplog.clear()

    assert await domain_crawl.crawl("docs") == 1
    said = capsys.readouterr()
    assert (said.out + said.err + caplog.text).count("would be gone within a day") == 1
    await domain_report.report("docs")
    assert capsys.readouterr().out.count("would be gone within a day") == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_guard_counts_a_loss_once(settings: Settings, site: Site, status: int) -> None:
    """Pages that were counted when they stopped answering are not counted again when nothing links to them."""
    pages = [f"/{n}" for n in range(40)]
    for page in pages:
        site.page(page)
    site.page("/", links=pages)
    async with crawl_context(settings, loss_limit_percent=20.0) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        for page in pages[:12]:
            site.remove(page, status)
        lost = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=pages[12:])

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (lost["gone"], run["status"], run["message"]) == ("12", "succeeded", "")
        site.page("/", links=pages[24:])
        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert run["problem"] == "held"  # 12 more are a loss indeed
        assert "24 of 41 items would be gone" in run["message"]


async def test_guard_does_not_count_what_has_no_text(settings: Settings, site: Site) -> None:
    """Links that never worked and other names of a page are no loss, however many go with a text or two."""
    dead, names, pages = ([f"/{kind}/{n}" for n in range(25)] for kind in ("dead", "name", "page"))
    for page, name in zip(pages, names, strict=True):
        site.page(page)
        site.web.redirect(name, page, 301)
    for path in dead:
        site.remove(path)
    site.page("/", links=[*dead, *names, *pages])
    async with crawl_context(settings, loss_limit_percent=20.0) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=pages[2:])

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert (run["status"], run["message"], run["gone"]) == ("succeeded", "", "2")


# ── max_pages ───────────────────────────────────────────────────────────────────────────────────


async def test_full_source_is_told(
    adopted: None, site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """That pages were left out stands in the run, in the report and in the status."""
    site.page("/", links=[f"/{n}" for n in range(6)])
    for n in range(6):
        site.page(f"/{n}")
    path = tmp_path / "domain.json"
    path.write_text(f'{{"id": "docs", "web_sources": [{{"id": "site", "url": "{site.url()}", "max_pages": 3}}]}}')
    await domain.add(str(path), None)

    assert await domain_crawl.crawl("docs") == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("max_pages (3) is reached") == 1
    assert "max_pages (3) is reached" in said.out
    await domain_report.report("docs")
    assert capsys.readouterr().out.count("max_pages (3) is reached") == 1
    await domain.list_domains()
    assert "max_pages (3) is reached" in capsys.readouterr().out
    await status.status(as_json=False)
    assert "max_pages (3) is reached" in capsys.readouterr().out


async def test_tombstones_take_no_place(settings: Settings, site: Site) -> None:
    """A page that is gone makes room for a new one."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"), max_pages=3)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a", 410)
        site.page("/", links=["/a", "/b", "/c", "/d"])
        site.page("/c")
        site.page("/d")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert [bool(await text(context, site.url(path))) for path in ("/b", "/c", "/d")] == [True, True, False]
        assert "max_pages (3) is reached" in run["message"]
        site.remove("/c", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert await text(context, site.url("/d"))  # a place was free, though the page that links to it answered 304


# ── what the configuration shuts out ────────────────────────────────────────────────────────────


async def test_excluded_page_is_out_of_scope_and_not_gone(
    settings: Settings, site: Site, redis: Client, keys: Keys
) -> None:
    """A page that a new `exclude` shuts out says so, leaves search, is never due again, and is forgotten in the end."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await add_site(context, site.url("/"), exclude=["/b"])

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        record = await item(context, site.url("/b"))
        assert counts(run) == {"discovered": 3, "visited": 3, "unchanged": 2, "excluded": 1}
        assert (record["status"], record["sources"], record["nextCrawlAt"]) == ("OutOfScope", "", "")
        assert "does not want it (excluded)" in record["errorMessage"]
        assert await text(context, site.url("/b")) == ""
        assert await redis.zscore(keys.due(SID), item_id(site.url("/b"))) is None
        now = await connect.now(redis)
        assert await Purger(redis, keys, 100).run(now + 50) == 0
        assert await Purger(redis, keys, 100).run(now + 200) == 1
        assert await redis.smembers(keys.status(str(Status.OUT_OF_SCOPE))) == set()


async def test_excluded_file_is_out_of_scope_and_not_gone(
    settings: Settings, adopted: None, tmp_path: Path, redis: Client, keys: Keys
) -> None:
    """The same for a file that is there and that new patterns do not take."""
    write(tmp_path / "notes" / "a.md")
    write(tmp_path / "notes" / "b.md")
    config = tmp_path / "domain.json"
    config.write_text('{"id": "d", "folder_sources": [{"id": "f", "path": "notes"}]}')
    await domain.add(str(config), None)
    async with crawl_context(settings) as context:
        await crawl_folder(context)
        config.write_text('{"id": "d", "folder_sources": [{"id": "f", "path": "notes", "exclude": ["b.md"]}]}')
        await domain.add(str(config), None)

        run = await crawl_folder(context)

    assert (run["excluded"], run["gone"]) == ("1", "0")
    assert await redis.scard(keys.status(str(Status.OUT_OF_SCOPE))) == 1


# ── a site that cannot be asked ─────────────────────────────────────────────────────────────────


async def test_name_that_does_not_resolve_is_a_failure_that_names_dns(
    adopted: None, redis: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a finished run with an unreadable robots.txt: it failed, and says that the name does not resolve."""

    def resolve(host: str, *_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    await domain.add("https://docs.example.org/", "docs")
    for _ in range(2):  # also while robots.txt is remembered as unreadable
        assert await domain_crawl.crawl("docs") == 1
        said = capsys.readouterr()
        assert "DNS" in said.err
        assert "failed" in said.out


# ── everything anew ─────────────────────────────────────────────────────────────────────────────


async def test_full_mode_counts_as_changed_what_differs(
    settings: Settings, adopted: None, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is read anew, and the table says of what is equal that it is unchanged."""
    site.three_pages()
    await domain.add(site.url(), "docs")
    await domain_crawl.crawl("docs")
    site.page("/b", "Corrected.")
    capsys.readouterr()

    await domain_crawl.crawl("docs", CrawlMode.FULL)

    head, row = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    said = dict(zip(head[1:7], row[1:7], strict=True))
    assert said == {"END": "succeeded", "KNOWN": "3", "VISITED": "3", "CHANGED": "1", "UNCHANGED": "2", "GONE": "0"}


async def test_run_without_trouble_says_nothing(settings: Settings, site: Site) -> None:
    """No sentence where there is nothing to tell."""
    site.page("/")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert (run["status"], run["message"]) == ("succeeded", "")
