"""A repository kept fresh, end to end: a server that speaks GitHub's API, real parse children, real store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core import ids
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.store import connect
from core.urls.normalise import normalise_url
from tests import files
from tests.crawled_site import StoredItems, counts, crawl_context
from tests.github_server import GithubServer, sha
from tests.site import FILLER
from tests.test_registrar import content

SID = "code.repo"
TOKEN = "ghp_canary_never_stored"


class Repository(StoredItems):
    """A repository on a hub, and what the store knows of it."""

    def __init__(self, hub: GithubServer, context: Context) -> None:
        self.hub, self.context = hub, context

    def url(self, name: str) -> str:
        return f"{self.hub.web_url}/o/r/blob/main/{name}"

    def id(self, name: str) -> str:
        return ids.item_id("url", normalise_url(self.url(name)))

    def put(self, name: str, text: str) -> None:
        self.hub.file(name, words(text))

    async def crawl(self, mode: CrawlMode = CrawlMode.INCREMENTAL) -> dict[str, str]:
        """A pass; requests and quota are counted from its start."""
        self.hub.requests.clear()
        self.hub.quota_used = 0
        return dict(await crawl_source(self.context, SID, mode))


def words(text: str) -> bytes:
    return f"# Title\n\n{text}\n\n{FILLER}\n".encode()


@pytest.fixture
async def repo(settings: Settings, redis: connect.Client) -> AsyncIterator[Repository]:
    async with GithubServer(TOKEN) as hub:
        hub.repository("o/r")
        async with crawl_context(settings, **hub.settings()) as context:
            await add(context)
            yield Repository(hub, context)


async def add(context: Context, **options: Any) -> None:
    source = {"id": "repo", "repo": "o/r", **options}
    domain = parse_domain(json.dumps({"id": "code", "github_sources": [source]}), "/")
    now = await connect.now(context.client)
    for config in domain.sources():
        await context.sources.add(config, "", now)


async def test_documents_of_a_repository_get_their_texts(repo: Repository) -> None:
    """Markdown, CSV, PDF and DOCX of the newest commit, under the URLs people know; code is left alone."""
    repo.put("README.md", "About weirs.")
    repo.put("docs/guide/a.md", "About sluices.")
    repo.hub.file("table.csv", b"gauge,height\n" + b"mill,2.31\n" * 20)
    repo.hub.file("paper.pdf", files.pdf(["About fish ladders.", *[FILLER[:90]] * 5]))
    repo.hub.file("letter.docx", files.docx(files.paragraph("About towpaths.") + files.paragraph(FILLER)))
    repo.hub.file("src/main.py", b"print()")

    run = await repo.crawl()

    assert counts(run) == {"discovered": 5, "visited": 5, "changed": 5}
    assert "About weirs." in await repo.text("README.md")
    assert "About fish ladders." in await repo.text("paper.pdf")
    assert "About towpaths." in await repo.text("letter.docx")
    assert "mill" in await repo.text("table.csv")
    record = await repo.item("docs/guide/a.md")
    assert (record["type"], record["PartitionKey"], record["status"]) == ("url", "127.0.0.3", "Crawled")
    assert record["httpEtag"].strip('"') == record["listedVersion"] == sha("blob", words("About sluices."))
    assert record["mimeType"] == "text/markdown"
    assert await repo.context.client.zscore(repo.context.keys.refs(SID), record["id"]) == 2


async def test_unchanged_repository_is_one_request_that_costs_nothing(repo: Repository) -> None:
    """With a token the second pass is a single 304: no quota, no file, no event."""
    for n in range(5):
        repo.put(f"{n}.md", f"Number {n}.")
    await repo.crawl()
    events = await repo.context.client.xlen(repo.context.keys.events)

    run = await repo.crawl()

    assert counts(run) == {"discovered": 5, "visited": 5, "unchanged": 5}
    assert (repo.hub.paths, repo.hub.quota_used) == (["/repos/o/r/commits/HEAD"], 0)
    assert await repo.context.client.xlen(repo.context.keys.events) == events + 1
    assert run["message"] == ""


async def test_new_commit_fetches_what_it_changed(repo: Repository) -> None:
    """Of six files one changed, one came, one went: two are fetched, and each has its count."""
    for n in range(6):
        repo.put(f"{n}.md", f"Number {n}.")
    await repo.crawl()
    repo.put("1.md", "Corrected.")
    repo.put("new.md", "Brand new.")
    repo.hub.remove("2.md")

    run = await repo.crawl()

    assert counts(run) == {"discovered": 7, "visited": 7, "changed": 2, "unchanged": 4, "gone": 1}
    raw = [path for path in repo.hub.paths if not path.startswith("/repos/")]
    assert sorted(raw) == ["/o/r/main/1.md", "/o/r/main/new.md"]
    assert "Corrected." in await repo.text("1.md")
    assert "Brand new." in await repo.text("new.md")
    gone = await repo.item("2.md")
    assert (gone["status"], gone["sources"], await repo.text("2.md")) == ("Gone", "", "")
    assert [(told["id"], told["deleted"]) for told in await repo.events("item.gone")] == [(gone["id"], "true")]


async def test_commit_that_touches_no_document_fetches_nothing(repo: Repository) -> None:
    """Code moves on, the documents are the same blobs: only the tree is read."""
    repo.put("a.md", "A.")
    await repo.crawl()
    repo.hub.file("src/main.py", b"print(2)")

    run = await repo.crawl()

    assert counts(run) == {"discovered": 1, "visited": 1, "unchanged": 1}
    assert all(path.startswith("/repos/") for path in repo.hub.paths)


async def test_rename_is_recognised_by_content(repo: Repository) -> None:
    """The new name knows the old one and has been seen as long; told as a move."""
    repo.put("drafts/a.md", "The same words.")
    repo.put("b.md", "B.")
    await repo.crawl()
    await repo.context.client.hset(repo.context.keys.item(repo.id("drafts/a.md")), "firstSeen", "2020-01-01T00:00:00Z")
    repo.hub.remove("drafts/a.md")
    repo.put("final/z.md", "The same words.")

    await repo.crawl()

    old, new = await repo.item("drafts/a.md"), await repo.item("final/z.md")
    assert (old["status"], old["movedTo"]) == ("Gone", new["id"])
    assert (new["movedFrom"], new["firstSeen"]) == (old["id"], "2020-01-01T00:00:00Z")
    assert [(told["id"], told["moved_from"]) for told in await repo.events("item.moved")] == [(new["id"], old["id"])]


async def test_file_comes_back(repo: Repository) -> None:
    """Reverted: the tombstone is listed again, visited at once, and has its text."""
    repo.put("a.md", "Here.")
    repo.put("b.md", "B.")
    await repo.crawl()
    repo.hub.remove("a.md")
    await repo.crawl()
    repo.put("a.md", "Here.")

    run = await repo.crawl()

    assert counts(run) == {"discovered": 2, "visited": 2, "changed": 1, "unchanged": 1}
    back = await repo.item("a.md")
    assert (back["status"], back["goneTs"], back["sources"]) == ("Crawled", "", SID)
    assert "Here." in await repo.text("a.md")


async def test_listing_cut_short_deletes_nothing(repo: Repository) -> None:
    """A truncated tree whose sub-folder cannot be had: everything stays, and the next pass asks for all of it again."""
    for n in range(4):
        repo.put(f"docs/{n}.md", f"Number {n}.")
    repo.put("top.md", "Top.")
    await repo.crawl()
    repo.hub.remove("top.md")
    repo.put("docs/0.md", "Corrected.")
    repo.hub.truncate_above(2)
    repo.hub.web.on(repo.hub.tree_path("docs"), 502)

    run = await repo.crawl()

    assert "502" in run["message"]
    assert "Top." in await repo.text("top.md")
    assert all([await repo.text(f"docs/{n}.md") for n in range(4)])
    repo.hub.web._pages.clear()
    repo.hub.truncate_above(100_000)
    run = await repo.crawl()
    assert counts(run) == {"discovered": 5, "visited": 5, "changed": 1, "unchanged": 3, "gone": 1}
    assert "Corrected." in await repo.text("docs/0.md")


@pytest.mark.parametrize("status", [404, 401, 403, 500])
async def test_repository_that_does_not_answer_loses_nothing(repo: Repository, status: int) -> None:
    """Renamed away, a withdrawn token, an outage: a sentence, and every text stays."""
    repo.put("a.md", "A.")
    await repo.crawl()
    repo.hub.web.on("/repos/o/r/commits/HEAD", status)

    run = await repo.crawl()

    assert "o/r" in run["message"]
    assert "A." in await repo.text("a.md")
    assert (await repo.item("a.md"))["status"] == "Crawled"


async def test_emptied_repository_is_held_until_a_person_says_yes(repo: Repository) -> None:
    """Every document removed in one commit stops with a sentence, also at the next pass; allowed, they go."""
    for n in range(3):
        repo.put(f"{n}.md", f"Number {n}.")
    repo.hub.file("src/main.py", b"print()")
    await repo.crawl()
    for n in range(3):
        repo.hub.remove(f"{n}.md")

    for _ in range(2):
        held = await repo.crawl()
        assert "3 of 3 items would be gone within a day" in held["message"]
        assert "scripts.domain crawl code --yes" in held["message"]
    assert all([await repo.text(f"{n}.md") for n in range(3)])
    await repo.context.sources.losses.allow(SID, await connect.now(repo.context.client) + 3600)
    run = await repo.crawl()
    assert counts(run)["gone"] == 3
    assert not any([await repo.text(f"{n}.md") for n in range(3)])


async def test_full_mode_reads_every_file_anew(repo: Repository) -> None:
    """Forced, the same blobs are fetched and read again, though the commit is the one we know."""
    repo.put("a.md", "A.")
    await repo.crawl()

    run = await repo.crawl(CrawlMode.FULL)

    assert counts(run) == {"discovered": 1, "visited": 1, "unchanged": 1}
    assert "/o/r/main/a.md" in repo.hub.paths
    assert len(await repo.events("item.changed")) == 1


async def test_due_file_that_is_as_listed_costs_no_request(repo: Repository) -> None:
    """Its own schedule asks for it: the listing has already said which blob it is."""
    repo.put("a.md", "A.")
    await repo.crawl()
    now = await connect.now(repo.context.client)
    await repo.context.due.make_due([repo.id("a.md")], now)

    run = await repo.crawl(CrawlMode.SCHEDULED)

    assert counts(run) == {"discovered": 1, "visited": 1, "unchanged": 1}
    assert repo.hub.paths == ["/repos/o/r/commits/HEAD"]


async def test_token_is_stored_nowhere(repo: Repository) -> None:
    """Not in a record, not in a source's memory, not in an event, not in a queue."""
    repo.put("a.md", "A.")
    await repo.crawl()

    assert {seen.headers.get("authorization") for seen in repo.hub.requests} == {f"Bearer {TOKEN}"}
    for key in await repo.context.client.keys("*"):
        assert TOKEN not in str(await content(repo.context.client, key))
