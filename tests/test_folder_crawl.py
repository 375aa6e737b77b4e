"""A folder kept fresh, end to end: real files, real parse children, real server."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

import core.sources.io.local_files
from core import ids
from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched, FetchRequest, FetchResult, Ref
from core.net.fetcher import BodySlot
from core.registry.io.batch_visitor import Visitor
from core.registry.io.commit_buffer import Progress
from core.registry.io.registrar import Listing, item_id_of, ref_of
from core.runtime.context import Context
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from core.urls.file_paths import file_identity
from tests import files
from tests.crawled_site import StoredItems, counts, crawl_context
from tests.site import FILLER
from tests.test_registrar import content

SID = "papers.shelf"
OLD = 1_600_000_000


class Shelf(StoredItems):
    """A folder with verbs; every write is older than what counts as young."""

    def __init__(self, root: Path, context: Context) -> None:
        self.root, self.context = root, context
        self._times = count(OLD)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (OLD, next(self._times)))
        return path

    def touch(self, name: str) -> None:
        os.utime(self.root / name, (OLD, next(self._times)))

    def id(self, name: str) -> str:
        return ids.item_id("file", file_identity(str(self.root / name)).normalised)

    async def crawl(self, mode: CrawlMode = CrawlMode.INCREMENTAL, **more: Any) -> dict[str, str]:
        return dict(await crawl_source(self.context, SID, mode, **more))

    async def add(self, **options: Any) -> None:
        source = {"id": "shelf", "path": str(self.root), **options}
        domain = parse_domain(json.dumps({"id": "papers", "folder_sources": [source]}), "/")
        now = await connect.now(self.context.client)
        for config in domain.sources():
            await self.context.sources.add(config, "", now)


@pytest.fixture
async def shelf(settings: Settings, redis: connect.Client, tmp_path: Path) -> AsyncIterator[Shelf]:
    root = tmp_path / "shelf"
    root.mkdir()
    async with crawl_context(settings, fetch_max_bytes=50_000) as context:
        made = Shelf(root, context)
        await made.add(include=["**"])
        yield made


def words(text: str) -> str:
    return f"# Title\n\n{text}\n\n{FILLER}\n"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every file that the source opens."""
    seen: list[str] = []
    real = core.sources.io.local_files._open_inside

    def noted(root: Path, path: str) -> int:
        seen.append(path)
        return real(root, path)

    monkeypatch.setattr(core.sources.io.local_files, "_open_inside", noted)
    return seen


# ── what is there ───────────────────────────────────────────────────────────────────────────────


async def test_documents_of_every_kind_get_their_texts(shelf: Shelf) -> None:
    """Markdown, text, CSV, HTML, PDF and DOCX below a folder are read, each as what it is."""
    shelf.put("a.md", words("About weirs."))
    shelf.put("notes/b.txt", f"About sluices. {FILLER}")
    shelf.put("c.csv", "gauge,height\nmill,2.31\nbridge,1.98\n" + "lock,1.0\n" * 20)
    shelf.put("d.html", f"<html><body><main><h1>D</h1><p>About locks. {FILLER}</p></main></body></html>")
    shelf.put("e.pdf", files.pdf(["About fish ladders.", *[FILLER[:90]] * 5]))
    shelf.put("f.docx", files.docx(files.paragraph("About towpaths.") + files.paragraph(FILLER)))

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 6, "visited": 6, "changed": 6}
    for name, wanted in {
        "a.md": "About weirs.",
        "notes/b.txt": "About sluices.",
        "c.csv": "bridge",
        "d.html": "About locks.",
        "e.pdf": "About fish ladders.",
        "f.docx": "About towpaths.",
    }.items():
        assert wanted in await shelf.text(name), name
        assert (await shelf.item(name))["status"] == "Crawled", name
    assert await shelf.context.client.zscore(shelf.context.keys.refs(SID), shelf.id("notes/b.txt")) == 1


async def test_record_of_a_file_has_all_that_the_spec_names(shelf: Shelf) -> None:
    """file* fields, PartitionKey `file`, hashes and mime type; and the record is found in its partition."""
    path = shelf.put("a.md", words("About weirs."))
    size = path.stat().st_size

    await shelf.crawl()

    record = await shelf.item("a.md")
    assert (record["type"], record["PartitionKey"], record["sourceHost"]) == ("file", "file", "")
    assert record["id"] == f"file_{record['RowKey']}"
    assert record["normalizedSource"] == record["displaySource"] == str(path)
    assert record["fileEtag"] == record["httpEtag"] != ""
    assert record["fileLastModified"] == "2020-09-13T12:26:40Z"
    assert (record["fileLength"], record["fileContentType"]) == (str(size), "text/markdown")
    assert record["mimeType"] == "text/markdown"
    assert record["bodyHash"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["contentHash"] == record["textHash"] != ""
    assert record["id"] in await shelf.context.client.smembers(shelf.context.keys.partition("file"))


async def test_what_is_not_for_us_says_why(shelf: Shelf) -> None:
    """A type nobody reads is OutOfScope with a sentence; a broken PDF too; neither is asked for at every pass."""
    shelf.put("a.md", words("A."))
    shelf.put("photo.jpg", b"\xff\xd8\xff\xe0" + bytes(range(256)) * 4)
    shelf.put("broken.pdf", b"no pdf at all, only called one")

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 3, "visited": 3, "changed": 1, "excluded": 2}
    for name in ("photo.jpg", "broken.pdf"):
        record = await shelf.item(name)
        assert record["status"] == "OutOfScope"
        assert record["errorMessage"].endswith(".")
    assert counts(await shelf.crawl()) == {"discovered": 3, "visited": 3, "unchanged": 3}


# ── nothing changed ─────────────────────────────────────────────────────────────────────────────


async def test_unchanged_folder_costs_a_walk_and_no_open(shelf: Shelf, opened: list[str]) -> None:
    """The second pass compares mtime and size: no file is opened, nothing is visited, nothing told."""
    for n in range(20):
        shelf.put(f"{n % 3}/{n}.md", words(f"Number {n}."))
    await shelf.crawl()
    assert len(opened) == 20
    opened.clear()
    events = await shelf.context.client.xlen(shelf.context.keys.events)

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 20, "visited": 20, "unchanged": 20}
    assert opened == []
    assert await shelf.context.client.xlen(shelf.context.keys.events) == events + 1  # run.finished


async def test_touched_file_is_opened_and_found_unchanged(shelf: Shelf, opened: list[str]) -> None:
    """Another mtime over the same bytes: one file is opened, no text is replaced, no event; then it is quiet again."""
    shelf.put("a.md", words("A."))
    shelf.put("b.md", words("B."))
    await shelf.crawl()
    shelf.touch("a.md")
    opened.clear()

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 2, "visited": 2, "unchanged": 2}
    assert opened == [str(shelf.root / "a.md")]
    assert len(await shelf.events("item.changed")) == 2
    record = await shelf.item("a.md")
    assert record["fileEtag"] == record["httpEtag"]
    assert counts(await shelf.crawl()) == {"discovered": 2, "visited": 2, "unchanged": 2}


async def test_young_file_is_read_until_its_time_can_be_trusted(shelf: Shelf) -> None:
    """An edit within the clock's grain, with size and mtime as they were, is found all the same."""
    path = shelf.put("a.md", words("Before."))
    now = path.stat().st_ctime
    os.utime(path, (now + 3600, now + 3600))  # an mtime in the future proves nothing, for as long as the test lasts
    await shelf.crawl()
    path.write_text(words("After!!"))
    os.utime(path, (now + 3600, now + 3600))

    run = await shelf.crawl()

    assert counts(run)["changed"] == 1
    assert "After!!" in await shelf.text("a.md")


# ── changes ─────────────────────────────────────────────────────────────────────────────────────


async def test_changed_new_and_removed_files_are_found(shelf: Shelf) -> None:
    """A text replaced in place, a new one, and one that went: Gone, its document removed, told with deleted."""
    for name in ("a.md", "b.md", "c.md"):
        shelf.put(name, words(f"Old {name}."))
    await shelf.crawl()
    before = await shelf.item("a.md")
    shelf.put("a.md", words("Corrected."))
    (shelf.root / "b.md").unlink()
    shelf.put("d.md", words("Brand new."))

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 4, "visited": 4, "changed": 2, "unchanged": 1, "gone": 1}
    assert "Corrected." in await shelf.text("a.md")
    assert "Brand new." in await shelf.text("d.md")
    after = await shelf.item("a.md")
    assert after["firstSeen"] == before["firstSeen"]
    assert after["contentHash"] != before["contentHash"]
    gone = await shelf.item("b.md")
    assert (gone["status"], gone["sources"], gone["lockedUntil"]) == ("Gone", "", "")
    assert await shelf.text("b.md") == ""
    assert [event["id"] for event in await shelf.events("item.gone")] == [shelf.id("b.md")]
    assert (await shelf.events("item.gone"))[0]["deleted"] == "true"
    for place in (shelf.context.keys.refs, shelf.context.keys.due, shelf.context.keys.seen):
        assert await shelf.context.client.zscore(place(SID), shelf.id("b.md")) is None
    assert shelf.id("b.md") in await shelf.context.client.smembers(shelf.context.keys.status("Gone"))


async def test_removal_is_told_to_whoever_watches(shelf: Shelf) -> None:
    """The progress callback: `deleted` for what is gone."""
    for name in ("a.md", "b.md"):
        shelf.put(name, words(name))
    await shelf.crawl()
    (shelf.root / "b.md").unlink()
    seen: list[Progress] = []

    await shelf.crawl(watch=seen.append)

    assert [one.item_id for one in seen if one.deleted] == [shelf.id("b.md")]


async def test_file_comes_back(shelf: Shelf) -> None:
    """A tombstone that is listed again is visited at once, and has its text and its first sighting."""
    shelf.put("a.md", words("Here."))
    shelf.put("b.md", words("B."))
    await shelf.crawl()
    first = await shelf.item("a.md")
    (shelf.root / "a.md").unlink()
    await shelf.crawl()
    assert (await shelf.item("a.md"))["status"] == "Gone"
    shelf.put("a.md", words("Here."))

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 2, "visited": 2, "changed": 1, "unchanged": 1}
    back = await shelf.item("a.md")
    assert (back["status"], back["missingChecks"], back["goneTs"], back["sources"]) == ("Crawled", "0", "", SID)
    assert back["firstSeen"] == first["firstSeen"]
    assert "Here." in await shelf.text("a.md")
    assert shelf.id("a.md") not in await shelf.context.client.smembers(shelf.context.keys.status("Gone"))


async def test_rename_is_recognised_by_content(shelf: Shelf) -> None:
    """The new name knows the old one and has been seen as long; the old one says where it went; told as a move."""
    shelf.put("drafts/a.md", words("The same words."))
    shelf.put("b.md", words("B."))
    await shelf.crawl()
    key = shelf.context.keys.item(shelf.id("drafts/a.md"))
    await shelf.context.client.hset(key, "firstSeen", "2020-01-01T00:00:00Z")
    (shelf.root / "final").mkdir()
    (shelf.root / "drafts/a.md").rename(shelf.root / "final/z.md")

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 3, "visited": 3, "changed": 1, "unchanged": 1, "gone": 1}
    old, new = await shelf.item("drafts/a.md"), await shelf.item("final/z.md")
    assert (old["status"], old["movedTo"]) == ("Gone", new["id"])
    assert (new["status"], new["movedFrom"], new["firstSeen"]) == ("Crawled", old["id"], "2020-01-01T00:00:00Z")
    assert [(told["id"], told["moved_from"]) for told in await shelf.events("item.moved")] == [(new["id"], old["id"])]
    assert await shelf.text("drafts/a.md") == ""
    assert "The same words." in await shelf.text("final/z.md")


async def test_copy_is_no_rename(shelf: Shelf) -> None:
    """While the original is there, an equal file is a file of its own."""
    path = shelf.put("a.md", words("Twice."))
    await shelf.crawl()
    shutil.copy(path, shelf.root / "copy.md")
    shelf.touch("copy.md")

    await shelf.crawl()

    assert "movedFrom" not in await shelf.item("copy.md")
    assert await shelf.events("item.moved") == []


# ── large files ─────────────────────────────────────────────────────────────────────────────────


async def test_too_large_file_is_hashed_as_a_stream_once(shelf: Shelf, opened: list[str]) -> None:
    """OutOfScope with a sentence and its hash; touched it is hashed again and found the same; changed it is noticed."""
    big = words("Large.").encode() + b"x" * 100_000
    shelf.put("small.md", words("S."))
    shelf.put("big.md", big)
    await shelf.crawl()
    record = await shelf.item("big.md")
    assert record["status"] == "OutOfScope"
    assert "at most 50,000 are read" in record["errorMessage"]
    assert record["contentHash"] == record["bodyHash"] == hashlib.sha256(big).hexdigest()
    assert record["lastChanged"] != ""

    shelf.touch("big.md")
    await shelf.crawl()
    touched = await shelf.item("big.md")
    assert touched["contentHash"] == record["contentHash"]
    assert touched["changedTs"] == record["changedTs"]
    assert touched["unchangedStreak"] == "1"

    shelf.put("big.md", big + b"y")
    await shelf.crawl()
    changed = await shelf.item("big.md")
    assert changed["contentHash"] == hashlib.sha256(big + b"y").hexdigest()
    assert float(changed["changedTs"]) > float(record["changedTs"])
    assert changed["unchangedStreak"] == "0"

    opened.clear()
    now = await connect.now(shelf.context.client)
    await shelf.context.due.make_due([shelf.id("big.md")], now)
    await shelf.crawl(CrawlMode.SCHEDULED)
    assert len(opened) == 1  # looked at, not hashed: its metadata is what it was


async def test_file_that_shrinks_is_read(shelf: Shelf) -> None:
    """Too large yesterday, small today: then it has a text."""
    shelf.put("a.md", words("A.") + "x" * 100_000)
    await shelf.crawl()
    shelf.put("a.md", words("Short now."))

    await shelf.crawl()

    assert (await shelf.item("a.md"))["status"] == "Crawled"
    assert "Short now." in await shelf.text("a.md")


async def test_file_that_grew_too_large_keeps_its_text(shelf: Shelf) -> None:
    """What we have stays, with the reason beside it."""
    shelf.put("a.md", words("Kept."))
    await shelf.crawl()
    shelf.put("a.md", words("Grown.") + "x" * 100_000)

    run = await shelf.crawl()

    assert counts(run) == {"discovered": 1, "visited": 1, "failed": 1}
    assert "Kept." in await shelf.text("a.md")
    assert "at most" in (await shelf.item("a.md"))["errorMessage"]


# ── nothing is lost by accident ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
async def test_unreadable_folder_deletes_nothing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """No permission, or an I/O error, in one sub-folder: all is kept; what really went goes with the next good pass."""
    shelf.put("good/a.md", words("A."))
    shelf.put("bad/b.md", words("B."))
    shelf.put("c.md", words("C."))
    await shelf.crawl()
    (shelf.root / "c.md").unlink()
    real = os.scandir

    def broken(path: str) -> Any:
        if str(path).endswith("/bad"):
            raise OSError(number, os.strerror(number))
        return real(path)

    monkeypatch.setattr("core.sources.io.folder_walk.os.scandir", broken)
    run = await shelf.crawl()
    monkeypatch.undo()

    assert os.strerror(number) in run["message"]
    assert (run["status"], run["problem"]) == ("partial", "incomplete")
    assert "B." in await shelf.text("bad/b.md")
    assert "C." in await shelf.text("c.md")
    await shelf.crawl()
    assert "B." in await shelf.text("bad/b.md")
    assert (await shelf.item("c.md"))["status"] == "Gone"


async def test_vanished_root_deletes_nothing(shelf: Shelf) -> None:
    """An unmounted share is trouble, never a loss; when it is back, nothing has changed."""
    shelf.put("a.md", words("A."))
    await shelf.crawl()
    away = shelf.root.with_name("away")
    shelf.root.rename(away)

    run = await shelf.crawl()

    assert "cannot be read" in run["message"]
    assert "A." in await shelf.text("a.md")
    assert (await shelf.item("a.md"))["status"] == "Crawled"
    away.rename(shelf.root)
    assert counts(await shelf.crawl()) == {"discovered": 1, "visited": 1, "unchanged": 1}


async def test_due_files_of_a_vanished_root_are_failures(shelf: Shelf) -> None:
    """Asked for one by one while the share is away they fail and keep their texts; back again they are healthy."""
    for n in range(8):
        shelf.put(f"{n}.md", words(f"Number {n}."))
    await shelf.crawl()
    away = shelf.root.with_name("away")
    shelf.root.rename(away)

    run = await shelf.crawl(CrawlMode.FULL)

    assert counts(run)["failed"] == 8
    assert all([await shelf.text(f"{n}.md") for n in range(8)])
    assert "is it mounted?" in (await shelf.item("0.md"))["errorMessage"]
    away.rename(shelf.root)
    await shelf.crawl(CrawlMode.FULL)
    assert (await shelf.item("0.md"))["status"] == "Crawled"


async def test_emptied_folder_is_held_until_a_person_says_yes(shelf: Shelf) -> None:
    """Everything gone at once stops with a sentence that names the command; allowed, it goes."""
    for n in range(4):
        shelf.put(f"{n}.md", words(f"Number {n}."))
    await shelf.crawl()
    for n in range(4):
        (shelf.root / f"{n}.md").unlink()

    held = await shelf.crawl()

    assert "4 of 4 items would be gone within a day" in held["message"]
    assert "python -m scripts.domain crawl papers --yes" in held["message"]
    assert (await shelf.context.sources.details(SID))["held"] == held["message"]
    assert all([await shelf.text(f"{n}.md") for n in range(4)])
    await shelf.context.sources.losses.allow(SID, await connect.now(shelf.context.client) + 3600)
    run = await shelf.crawl()
    assert not any([await shelf.text(f"{n}.md") for n in range(4)])
    assert counts(run)["gone"] == 4
    assert "held" not in await shelf.context.sources.details(SID)


async def test_held_files_that_come_back_were_never_away(shelf: Shelf) -> None:
    """A mistake that is set right leaves no trace: nothing removed, nothing read again."""
    for n in range(4):
        shelf.put(f"{n}.md", words(f"Number {n}."))
    await shelf.crawl()
    away = shelf.root.with_name("away")
    shelf.root.rename(away)
    shelf.root.mkdir()
    assert (await shelf.crawl())["message"]
    shelf.root.rmdir()
    away.rename(shelf.root)

    run = await shelf.crawl()

    assert (counts(run), run["message"]) == ({"discovered": 4, "visited": 4, "unchanged": 4}, "")
    assert "held" not in await shelf.context.sources.details(SID)


async def test_full_mode_reads_every_file_anew(shelf: Shelf, opened: list[str]) -> None:
    """Forced, every file is opened, and the force is used up."""
    shelf.put("a.md", words("A."))
    shelf.put("b.md", words("B."))
    await shelf.crawl()
    opened.clear()

    run = await shelf.crawl(CrawlMode.FULL)

    assert counts(run) == {"discovered": 2, "visited": 2, "unchanged": 2}
    assert len(opened) == 2
    record = await shelf.item("a.md")
    assert (record["reindexGeneration"], record["processedGeneration"]) == ("1", "1")
    assert len(await shelf.events("item.changed")) == 2


# ── blobs: files that speak HTTP ────────────────────────────────────────────────────────────────

CANARY = "sas-canary"


class Azure:
    """A fetcher that answers for one blob, if it is asked with the right token."""

    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self.text = words("In a blob.")

    async def fetch(self, request: FetchRequest, room: BodySlot | None = None) -> FetchResult:
        self.asked.append(request)
        if CANARY not in request.url:
            return Failed(FailCode.HTTP, FailDetail.STATUS, f"HTTP 403 for {request.url}", 403)
        etag = f'"0x{len(self.text)}"'
        if request.conditional.get("If-None-Match") == etag:
            return Fetched(request.url, request.url, 304, {"etag": etag}, b"")
        headers = {"etag": etag, "content-type": "text/markdown", "last-modified": "Thu, 13 Nov 2025 02:13:20 GMT"}
        return Fetched(request.url, request.url, 200, headers, self.text.encode())


async def test_blob_is_a_file_with_a_token_that_is_stored_nowhere(shelf: Shelf) -> None:
    """file* fields, PartitionKey `blob`, 304 by its ETag, a change found; the SAS is in the request and in no key."""
    azure, client, keys = Azure(), shelf.context.client, shelf.context.keys
    changed = shelf.context.settings.model_copy(update={"blob_sas_token": SecretStr(f"?sv=1&sig={CANARY}")})
    context = dataclasses.replace(shelf.context, fetcher=cast(Any, azure), settings=changed)
    ref = ref_of(f"https://acc.blob.core.windows.net/c/a.md?sv=2020&sig={CANARY}", "file")
    assert isinstance(ref, Ref)
    name = item_id_of(ref)
    await context.registrar.register([ref], Listing("urls"), await connect.now(client))

    async def visit() -> dict[str, str]:
        clock = await ServerClock.ask(client)
        await Visitor(context, clock, OpenSources(context, clock.now())).visit_many([name], via="urls")
        return await client.hgetall(keys.item(name))

    record = await visit()
    assert (record["status"], record["type"], record["PartitionKey"]) == ("Crawled", "file", "blob")
    assert (record["fileEtag"], record["fileContentType"]) == (f'"0x{len(azure.text)}"', "text/markdown")
    assert (record["fileLastModified"], record["fileLength"]) == ("2025-11-13T02:13:20Z", str(len(azure.text)))
    assert record["fetchUrl"] == record["validatorsUrl"] == "https://acc.blob.core.windows.net/c/a.md"
    assert "In a blob." in await client.hget(keys.document(name), "markdown")
    assert (await visit())["httpStatusCode"] == "304"
    azure.text = words("In a corrected blob.")
    await visit()
    assert "In a corrected blob." in await client.hget(keys.document(name), "markdown")
    assert all(CANARY in request.url for request in azure.asked)
    for key in await client.keys("*"):
        assert CANARY not in key
        assert CANARY not in str(await content(client, key)), key
