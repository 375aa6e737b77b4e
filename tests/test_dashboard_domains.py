"""The pages of domains, over real HTTP: list, add, look, crawl, dry run, approve, remove."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store import connect
from core.store.connect import Client
from tests.api import ApiServer, api_server
from tests.crawled_site import crawl_context
from tests.form_client import PAGE, FormClient
from tests.site import Site

SID = "shelf.notes"
HOSTILE = "<script>alert(1)</script>"
COUNT, NAME = 5, "file{}.md"


@pytest.fixture
async def shelf(settings: Settings, redis: Client, tmp_path: Path) -> Path:
    """A folder of five files, added as the domain `shelf` with the source `notes`."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(COUNT):
        path = folder / NAME.format(number)
        path.write_text(f"# File {number}\n\nA text about the number {number}.\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))  # old enough to be known by its time and size
    config = {"id": "shelf", "name": "My shelf", "folder_sources": [{"id": "notes", "path": str(folder)}]}
    await add_domain(settings, redis, Keys(), parse_domain(json.dumps(config), str(tmp_path)))
    return folder


async def emptied(context: Context, folder: Path) -> None:
    """Crawl the folder, take all files away, and crawl again: the loss guard stops it."""
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    for number in range(COUNT):
        (folder / NAME.format(number)).unlink()
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)


# ── list and add ──


async def test_list_shows_state_and_numbers(api: ApiServer, context: Context, shelf: Path) -> None:
    """A domain has its sources, items and state; pausing is a button, and the state says so."""
    before = (await api.get("/domains", headers=PAGE)).text
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    after = (await api.get("/domains", headers=PAGE)).text
    async with FormClient(api) as person:
        _, path, paused = await person.submit("/domains", "/domains/shelf/pause", back="/domains")
        _, _, resumed = await person.submit("/domains", "/domains/shelf/resume", back="/domains")

    assert ("not listed yet" in before, "listed</span>" in after, "My shelf" in after) == (True, True, True)
    assert 'data-label="Items" class="number">5<' in after
    assert (path, "paused</span>" in paused, "/domains/shelf/resume" in paused) == ("/domains", True, True)
    assert ("paused</span>" in resumed, "shelf goes on." in resumed) == (False, True)


async def test_long_list_is_paged(api: ApiServer, settings: Settings, redis: Client, keys: Keys) -> None:
    """Fifty on a page, by id."""
    for number in range(51):
        config = {"id": f"d{number:02}", "web_sources": [{"url": f"https://d{number}.example.org/"}]}
        await add_domain(settings, redis, keys, parse_domain(json.dumps(config), "/"))
    first = (await api.get("/domains", headers=PAGE)).text
    second = (await api.get("/domains?offset=50", headers=PAGE)).text

    assert ("/domains/d49" in first, '"/domains/d50"' in first, "/domains?offset=50" in first) == (True, False, True)
    assert ('"/domains/d50"' in second, '"/domains/d49"' in second, "Previous" in second) == (True, False, True)


@pytest.mark.parametrize(
    ("fields", "at", "part"),
    [
        (
            {"what": "https://docs.example.org/guide/"},
            "/domains/docs-example-org-guide",
            "Added docs-example-org-guide",
        ),
        ({"what": "https://docs.example.org/", "id": "manual"}, "/domains/manual", "Added manual: manual."),
        ({"what": "https://github.com/owner/name", "id": "repo"}, "/domains/repo", "Added repo"),
        ({"what": "/etc"}, "/domains/add", "may not be read: it is not below FOLDER_ROOTS"),
        ({"what": "/no/such/folder"}, "/domains/add", "may not be read: it is not below FOLDER_ROOTS"),
        ({"what": "ftp://e.org/"}, "/domains/add", "notice failed"),
        ({"what": "https://e.org/", "id": "No Name"}, "/domains/add", "id: String should match pattern"),
        ({}, "/domains/add", "what: Field required"),
    ],
)
async def test_domain_is_added_by_an_address(api: ApiServer, fields: dict[str, str], at: str, part: str) -> None:
    """A site and a repository are added; a folder only below FOLDER_ROOTS, and nothing is told about others."""
    async with FormClient(api) as person:
        _, path, text = await person.submit("/domains/add", "/domains/add", back="/domains/add", **fields)

    assert (path, part in text) == (at, True), text


async def test_folder_below_the_roots_is_added(api: ApiServer, tmp_path: Path) -> None:
    """One that is there is taken; one that is not is a sentence; no file is ever read as a domain.json."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "domain.json").write_text('{"id": "sly", "web_sources": [{"url": "https://e.org/"}]}')
    async with FormClient(api) as person:
        results = [
            await person.submit("/domains/add", "/domains/add", back="/domains/add", what=str(tmp_path / name))
            for name in ("papers", "missing", "domain.json")
        ]

    assert [path for _, path, _ in results] == ["/domains/papers", "/domains/add", "/domains/add"]
    assert "There is no file or folder" in results[1][2]


async def test_known_domain_is_not_replaced_by_accident(api: ApiServer, shelf: Path, redis: Client, keys: Keys) -> None:
    """The same id is refused, by an address and by a domain.json, until the box is ticked."""
    text = json.dumps({"id": "shelf", "web_sources": [{"id": "site", "url": "https://e.org/"}]})
    async with FormClient(api) as person:
        quick = await person.submit("/domains/add", "/domains/add", what="https://e.org/", id="shelf")
        refused = await person.submit("/domains/add", "/domains/paste", text=text)
        sources_before = await redis.smembers(keys.sources)
        replaced = await person.submit("/domains/add", "/domains/paste", text=text, replace="true")
        broken = await person.submit("/domains/add", "/domains/paste", text='{"id": ', back="/domains/add")

    assert "There is a domain shelf already." in quick[2]
    assert "There is a domain shelf already." in refused[2]
    assert sources_before == {SID}
    assert (replaced[1], "Changed shelf: shelf.site." in replaced[2], SID in replaced[2]) == (
        "/domains/shelf",
        True,
        True,
    )
    assert (broken[0], "This is not JSON" in broken[2]) == (422, True)
    assert "{&#34;id&#34;: </textarea>" in broken[2]


async def test_refused_form_comes_back_as_it_was(settings: Settings, redis: Client) -> None:
    """What was typed is still there beside the reason, which says what to do about a folder."""
    async with api_server(settings.model_copy(update={"folder_roots": ()})) as api, FormClient(api) as person:
        status, path, text = await person.submit("/domains/add", "/domains/add", what="/etc/<b>", id="mine")

    assert (status, path) == (422, "/domains/add")
    assert ('value="/etc/&lt;b&gt;"' in text, 'value="mine"' in text) == (True, True)
    assert "it is not below FOLDER_ROOTS, which is empty." in text
    assert "Set FOLDER_ROOTS, or run: freshet domain add /etc/&lt;b&gt; --id mine." in text
    assert "signed" not in text


# ── one domain ──


async def test_domain_is_shown_whole(api: ApiServer, context: Context, redis: Client, keys: Keys, shelf: Path) -> None:
    """Sources, items by status, what is in error, what was refused and why, its runs and its configuration."""
    (shelf / "movie.mp4").write_bytes(b"\x00" * 10)
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    await redis.hset(keys.refused(SID), mapping={"http://e.org/out": "outside the scope", HOSTILE: HOSTILE})
    page = (await api.get("/domains/shelf", headers=PAGE)).text

    for part in ("My shelf", "notes", str(shelf), "<b>5</b> read", "outside the scope", "Last runs", "folder_sources"):
        assert part in page, part
    assert "http://e.org/out" in page
    assert HOSTILE not in page


async def test_domain_is_crawled_and_paused(api: ApiServer, shelf: Path) -> None:
    """Crawl leads to its run; pause, resume and cancel lead back with a sentence."""
    async with FormClient(api) as person:
        _, run_path, run = await person.submit("/domains/shelf", "/domains/shelf/crawl", mode="full", back="/domains")
        for act, sentence in (
            ("pause", "shelf is paused, also after a restart, until you resume it. shelf is paused."),
            ("resume", "shelf goes on. shelf is queued."),
            ("cancel", "Cancelled; what is done stays. shelf is cancelled."),
        ):
            _, at, page = await person.submit("/domains/shelf", f"/domains/shelf/{act}", back="/domains/shelf")

            assert (at, sentence in page) == ("/domains/shelf", True), act
        _, one_path, one = await person.submit("/domains/shelf", "/domains/shelf/crawl", source=SID)

    assert (run_path.startswith("/runs/jb_"), "The crawl of shelf is queued." in run) == (True, True)
    assert (one_path.startswith("/runs/jb_"), "The crawl of shelf.notes is queued." in one) == (True, True)


async def test_dry_run_is_a_page(api: ApiServer, context: Context, shelf: Path) -> None:
    """The page comes at once; the result names what would be added, changed and removed, and changes nothing."""
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)
    (shelf / "file0.md").unlink()
    (shelf / "new.md").write_text("# New\n\nA text that is new.\n")
    at_once = (await api.get("/domains/shelf/dry-run", headers=PAGE)).text
    result = (await api.get("/domains/shelf/dry-run?source=&mode=incremental&now=true", headers=PAGE)).text

    assert ("Listing the sources" in at_once, "Would be added" in at_once) == (True, False)
    assert 'hx-get="/domains/shelf/dry-run?mode=incremental&amp;now=true"' in at_once.replace("&now", "&amp;now")
    assert ("new.md" in result, "file0.md" in result, "file1.md" in result) == (True, True, False)
    assert "<b>1</b> added" in result
    assert "<b>1</b> removed" in result
    assert "Approve" not in result
    assert (await api.get("/domains/nothing/dry-run?now=true", headers=PAGE)).status == 404


async def test_dry_run_that_fails_is_a_sentence(api: ApiServer, shelf: Path) -> None:
    """A source that is not there, or cannot be listed, is told on the page."""
    unknown = await api.get("/domains/shelf/dry-run?source=other&now=true", headers=PAGE)

    assert (unknown.status, "shelf has no source other" in unknown.text) == (200, True)


async def test_stopped_removal_is_approved(
    api: ApiServer, context: Context, redis: Client, keys: Keys, shelf: Path
) -> None:
    """The page says what the loss guard stopped, without a command to type; after Approve the next crawl removes it."""
    await emptied(context, shelf)
    page = (await api.get("/domains/shelf", headers=PAGE)).text
    dry = (await api.get("/domains/shelf/dry-run?now=true", headers=PAGE)).text
    async with FormClient(api) as person:
        _, at, approved = await person.submit(
            "/domains/shelf", "/domains/shelf/approve", source_id=SID, back="/domains/shelf"
        )
    run_id = (await redis.hgetall(keys.runs_open))[f"source:{SID}"]
    await crawl_source(context, SID, CrawlMode.INCREMENTAL, run_id=run_id)
    after = (await api.get("/domains/shelf", headers=PAGE)).text

    assert "5 of 5 items would be gone within a day" in page
    assert "python -m" not in page
    assert "Approve and crawl" in dry
    assert (at, f"Approved for a day: {SID}." in approved) == ("/domains/shelf", True)
    assert ("stopped by the loss guard" in page, "stopped by the loss guard" in after) == (True, False)
    assert await redis.zcard(keys.refs(SID)) == 0


async def test_review_names_what_a_site_lost(
    api: ApiServer, settings: Settings, redis: Client, keys: Keys, site: Site
) -> None:
    """No listing of a site says what is gone; the review names what was found missing and kept, and can approve it."""
    pages = [f"/{number}" for number in range(31)]
    for page in pages:
        site.page(page)
    site.page("/", links=pages)
    config = {"id": "docs", "name": site.url("/"), "web_sources": [{"id": "site", "url": site.url("/")}]}
    await add_domain(settings, redis, keys, parse_domain(json.dumps(config), "/"))
    async with crawl_context(settings, loss_limit_items=3, loss_limit_percent=10.0) as crawler:
        await crawl_source(crawler, "docs.site", CrawlMode.INCREMENTAL)
        for page in pages[:25]:
            site.remove(page, 410)
        run = await crawl_source(crawler, "docs.site", CrawlMode.FULL)
    review = (await api.get("/domains/docs/dry-run?source=docs.site", headers=PAGE)).text
    rows = (await api.get("/domains", headers=PAGE)).text

    assert (run["gone"], run["failed"]) == ("3", "22")
    assert "25 of 32 items would be gone within a day" in review
    assert "3 of them are out of search already, 22 held back" in review
    assert ("22 missing and kept" in review, "and 2 more" in review) == (True, True)
    assert review.partition('class="plain-list small kept"')[2].partition("</ul>")[0].count("<li") == 20
    assert 'action="/domains/docs/approve"' in review
    assert '<a href="/domains/docs/dry-run?source=docs.site" role="button">Review</a>' in rows
    assert '<code class="small">docs</code>' in rows
    assert rows.count(site.url("/").rstrip("/")) == 1


async def test_approval_is_a_route(api: ApiServer, context: Context, redis: Client, keys: Keys, shelf: Path) -> None:
    """Over HTTP for programs: the whole domain or one source; what is not there is a 404."""
    whole = await api.post("/v2/domains/shelf/approve")
    one = await api.post("/v2/domains/shelf/approve?source_id=notes")
    until = float(await redis.hget(keys.source(SID), "loss_allowed_until"))

    assert (whole.json["sources"], whole.json["job"]["kind"]) == ([SID], "domain")
    assert (one.json["sources"], one.json["job"]["kind"]) == ([SID], "crawl")
    assert until > await connect.now(redis)
    for path in ("nowhere/approve", "shelf/approve?source_id=nothing"):
        assert (await api.post(f"/v2/domains/{path}")).status == 404


async def test_domain_is_removed_after_a_question(api: ApiServer, redis: Client, keys: Keys, shelf: Path) -> None:
    """Only who writes its id removes it."""
    async with FormClient(api) as person:
        unsure = await person.submit("/domains/shelf", "/domains/shelf/remove", confirm="shel", back="/domains/shelf")
        is_there = await redis.exists(keys.domain("shelf"))
        sure = await person.submit("/domains/shelf", "/domains/shelf/remove", confirm="shelf")

    assert ("Nothing was removed." in unsure[2], is_there) == (True, 1)
    assert (sure[1], "shelf is removed" in sure[2]) == ("/domains", True)
    assert not await redis.exists(keys.domain("shelf"))


async def test_hostile_domain_is_text(settings: Settings, redis: Client, keys: Keys, shelf: Path) -> None:
    """Names, descriptions, sentences and locations are text, also bytes that are none."""
    for value in (HOSTILE, "javascript:alert(1)", "\udc80"):
        fields: dict[str, Any] = {"name": value, "description": value}
        await redis.hset(keys.domain("shelf"), mapping=fields)
        trouble = {"last_listing": value, "held": value, "full": value, "kind": value}
        await redis.hset(keys.source(SID), mapping=trouble)
        async with api_server(settings) as api:
            for path in ("/domains", "/domains/shelf", "/domains/shelf/dry-run"):
                answer = await api.get(path, headers=PAGE)

                assert answer.status == 200, (path, value)
                assert HOSTILE not in answer.text
                assert 'href="javascript:' not in answer.text
