"""SharePoint sources in the registry: listed and read from their copies on this disk, as a folder is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.models import Failed, Fetched, ListingBatch, ListingEnd, Ref
from core.registry.io.why_trail_reader import explain_url
from core.registry.record import Item
from core.settings import Settings
from core.sources.io.source_kinds import source_class
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import NO_COPY, NOT_DOWNLOADED
from core.store import connect
from tests import files
from tests.crawled_site import counts, crawl_context, item, text
from tests.sharepoint_files_on_disk import SITE, LocalLibrary

FILLER = "The pump station reports its level every ten minutes to the office down the valley. " * 3
KINDS = {
    SharePointType.FILES: ("Reports/Q1 2024.txt", f"Budget of the pump station. {FILLER}"),
    SharePointType.LISTS: ("5", f"# Task 5\n\nReplace the pump. {FILLER}"),
    SharePointType.SITE_PAGES: ("News/Home.aspx", f"<html><body><h1>News</h1><p>{FILLER}</p></body></html>"),
}


@pytest.fixture(params=list(SharePointType))
async def library(
    request: pytest.FixtureRequest, settings: Settings, redis: connect.Client
) -> AsyncIterator[LocalLibrary]:
    async with crawl_context(settings, embedder="none") as context:
        made = LocalLibrary(context, request.param)
        await made.add()
        yield made


@pytest.fixture
async def documents(settings: Settings, redis: connect.Client) -> AsyncIterator[LocalLibrary]:
    async with crawl_context(settings, embedder="none") as context:
        made = LocalLibrary(context)
        await made.add()
        yield made


async def listed(library: LocalLibrary) -> tuple[list[Ref], ListingEnd]:
    refs: list[Ref] = []
    source = await library.source()
    async for part in source.list(source.state.memory):
        if isinstance(part, ListingEnd):
            return refs, part
        assert isinstance(part, ListingBatch)
        refs += part.refs
    raise AssertionError("no end")


async def fetched(library: LocalLibrary, name: str, **more: str) -> Fetched | Failed:
    source = await library.source()
    answer = await source.fetch(Item("url_x", fetch_url=library.url(name)), more)
    assert isinstance(answer, Fetched | Failed)
    return answer


async def test_items_are_known_by_their_url_in_sharepoint(library: LocalLibrary) -> None:
    """A file, a row of a list and a page are listed, read and searchable under the URL that people open."""
    name, body = KINDS[library.source_type]
    library.put(name, body)

    run = await library.embed()

    assert (run["status"], counts(run)) == ("succeeded", {"discovered": 1, "visited": 1, "changed": 1})
    assert FILLER.strip() in await text(library.context, library.url(name))
    assert (await item(library.context, library.url(name)))["sources"] == library.sid


async def test_a_second_pass_reads_nothing(library: LocalLibrary) -> None:
    """An unchanged map ends the listing at once."""
    name, body = KINDS[library.source_type]
    library.put(name, body)
    await library.embed()

    refs, end = await listed(library)
    run = await library.embed()

    assert (refs, end.reason) == ([], "unchanged")
    assert counts(run) == {"discovered": 1, "visited": 1, "unchanged": 1}


async def test_what_somebody_forgot_is_listed_again(documents: LocalLibrary) -> None:
    """An unchanged map ends the listing only while the registry has all of its items."""
    documents.put("a.txt", FILLER)
    documents.put("b.txt", f"Other words. {FILLER}")
    await documents.embed()
    [first, *_] = await documents.context.client.zrange(documents.context.keys.refs(documents.sid), 0, -1)
    await documents.context.client.zrem(documents.context.keys.refs(documents.sid), first)

    refs, end = await listed(documents)

    assert (len(refs), end.is_complete) == (2, True)


async def test_removed_changed_and_renamed(documents: LocalLibrary) -> None:
    """What the map lacks is gone, what it names with another version is read, and a rename is remembered."""
    documents.put("gone.txt", f"It was here. {FILLER}")
    documents.put("new.txt", f"First words. {FILLER}")
    documents.put("name.txt", f"The same words under any name. {FILLER}", unique_id="n")
    await documents.embed()
    documents.remove("id-gone.txt")
    documents.put("new.txt", f"Second words. {FILLER}")
    documents.remove("n")
    documents.put("other name.txt", f"The same words under any name. {FILLER}", unique_id="n")

    run = await documents.embed()

    assert counts(run) == {"discovered": 4, "visited": 4, "changed": 2, "gone": 2}
    assert "Second words" in await text(documents.context, documents.url("new.txt"))
    assert not await text(documents.context, documents.url("gone.txt"))
    assert (await item(documents.context, documents.url("other name.txt")))["movedFrom"]


async def test_another_file_of_the_same_name_size_and_time_is_read(documents: LocalLibrary) -> None:
    """The id of the file is a part of its version: what replaced it is no 304."""
    row = documents.put("a.txt", f"Words one. {FILLER}")
    await documents.embed()
    documents.remove("id-a.txt")
    other = documents.put("a.txt", f"Words two. {FILLER}", unique_id="other")
    documents.put_row(replace(other, last_modified_utc=row.last_modified_utc, downloaded_utc=row.downloaded_utc))

    await documents.embed()

    assert "Words two" in await text(documents.context, documents.url("a.txt"))


async def test_row_without_a_file_fails_with_its_error(documents: LocalLibrary) -> None:
    """What could not be downloaded is known, with the reason, and read as soon as its file is there."""
    url = documents.place("late.txt")
    documents.put_row(FileRow(sharepoint_unique_file_id="l", server_relative_url=url, sharepoint_error="It is locked."))
    first = await documents.embed()
    before = await item(documents.context, documents.url("late.txt"))
    documents.put("late.txt", f"It came late. {FILLER}", unique_id="l")

    await documents.embed()

    assert (first["status"], before["errorMessage"]) == ("partial", "It is locked.")
    assert "It came late" in await text(documents.context, documents.url("late.txt"))


async def test_a_missing_copy_is_no_loss(documents: LocalLibrary) -> None:
    """A copy that somebody deleted says nothing about SharePoint; the text stays."""
    row = documents.put("a.txt", FILLER)
    await documents.embed()
    path = documents.paths.from_map(row.file_relative_path)
    assert path
    (documents.storage.crawler / path).unlink()

    answer = await fetched(documents, "a.txt")

    assert isinstance(answer, Failed)
    assert answer.text == NO_COPY
    assert await text(documents.context, documents.url("a.txt"))


async def test_file_whose_embedding_failed_is_found(documents: LocalLibrary) -> None:
    """A copy in 03_failed is read as one in 02_embedded is."""
    documents.put("a.txt", FILLER, folder="failed")

    answer = await fetched(documents, "a.txt")

    assert isinstance(answer, Fetched)
    assert (answer.status, answer.final_url) == (200, documents.url("a.txt"))


async def test_without_a_map_nothing_is_listed(documents: LocalLibrary) -> None:
    """Before the first download, and with a map that is damaged, the listing is not complete and removes nothing."""
    _, first = await listed(documents)
    documents.put("a.txt", FILLER)
    await documents.embed()
    documents.storage.map_file(documents.stored, FileRow).write_bytes(b"\0\0 no map")

    _, second = await listed(documents)
    run = await documents.embed()

    assert (first.is_complete, first.reason) == (False, NOT_DOWNLOADED)
    assert (second.is_complete, "files_map.csv cannot be read" in second.reason) == (False, True)
    assert (run["status"], run["problem"]) == ("partial", "incomplete")
    assert await text(documents.context, documents.url("a.txt"))


async def test_names_of_all_kinds(documents: LocalLibrary) -> None:
    """Spaces, quotes, signs, other scripts and emoji: each name is one item, and its copy is found by its URL."""
    names = [
        "a b.txt",
        "a%20b.txt",
        "50% & more #1.txt",
        'it\'s "x".txt',
        "水位 📈.txt",
        "شرح.txt",
        "A B.txt",
        "x/a b.txt",
    ]
    for name in names:
        documents.put(name, f"Words of {name}. {FILLER}")

    run = await documents.embed()

    assert counts(run)["changed"] == len(names)
    for name in names:
        assert f"Words of {name}" in await text(documents.context, documents.url(name)), name


CODE = [
    *("c", "cpp", "cs", "css", "go", "java", "js", "json", "php", "py", "rb", "sh", "tex", "ts"),
    *("md", "txt", "html", "csv"),
]


async def test_types_that_are_read(documents: LocalLibrary) -> None:
    """Text, code and data are read as text, a document as what it is; what cannot be read is out of scope."""
    for ending in CODE:
        body = json.dumps({"sentence": FILLER}) if ending == "json" else FILLER
        documents.put(f"file.{ending}", f"<p>{body}</p>" if ending == "html" else body)
    documents.put("file.docx", files.docx(files.paragraph(FILLER)))
    documents.put("file.pdf", files.pdf([FILLER[:80]]))
    documents.put("file.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    documents.put("file.pptx", b"PK\x03\x04" + bytes(600))
    documents.put("empty.txt", b"")

    await documents.embed()

    for ending in (*CODE, "docx", "pdf"):
        assert "pump station reports" in await text(documents.context, documents.url(f"file.{ending}")), ending
    for name in ("file.doc", "file.pptx", "empty.txt"):
        record = await item(documents.context, documents.url(name))
        assert (record["status"], bool(record["errorMessage"])) == ("OutOfScope", True), name


JUDGED = [
    (SharePointType.FILES, f"{SITE}/Shared%20Documents/a.docx", ""),
    (SharePointType.FILES, f"{SITE}/shared%20documents/x/a.DOCX", ""),
    (SharePointType.FILES, f"{SITE}/Shared%20Documents/a.exe", "type not embedded"),
    (SharePointType.FILES, f"{SITE}/Other/a.docx", None),
    (SharePointType.FILES, "https://evil.example/sites/Demo/Shared%20Documents/a.docx", None),
    (SharePointType.LISTS, f"{SITE}/Lists/Project%20Tasks/DispForm.aspx?ID=5", ""),
    (SharePointType.LISTS, f"{SITE}/Lists/Project%20Tasks/AllItems.aspx", None),
    (SharePointType.SITE_PAGES, f"{SITE}/SitePages/Home.aspx", ""),
]


@pytest.mark.parametrize(("source_type", "url", "expected"), JUDGED)
async def test_judge(
    settings: Settings, redis: connect.Client, source_type: SharePointType, url: str, expected: str | None
) -> None:
    """A source takes what is in its library or list, and of files those types that are embedded."""
    async with crawl_context(settings, embedder="none") as context:
        library = LocalLibrary(context, source_type)
        await library.add()
        state = await context.sources.read(library.sid)
        assert state
        judgement = source_class(state.record.kind).judge(state, settings, url, 0, 0.0)

    assert (judgement.reason if judgement else None) == expected


async def test_why_a_type_is_not_found(documents: LocalLibrary) -> None:
    """The trail names the types that are embedded, and what to do."""
    documents.put("a.txt", FILLER)
    await documents.embed()

    context = documents.context
    now = await connect.now(context.client)
    trail = await explain_url(context.client, context.keys, context.settings, documents.url("data.xlsx"), now)
    stations = {str(station.name): station for station in trail.stations}

    scope = stations["scope"]
    assert scope.sentence.startswith(
        f"{documents.sid} does not take it: its type is not one of those that are embedded"
    )
    assert "docx" in scope.sentence
    assert ".docx" in scope.advice
    assert stations["listing"].sentence == f"It lies in the place of {documents.sid}, which does not take it."
