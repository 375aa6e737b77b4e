"""`domains/<id>/domain.json`: written by us, edited by people, taken up by whoever names the domain."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound
from core.keys import Keys
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_file_sync import DomainFileSync, DomainWatch, set_vector_store_id
from core.sources.io.domain_folder import DomainFolders
from core.sources.io.domain_setup import AddedDomain, add_domain, remove_domain
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError
from core.store.connect import Client
from core.store.leases import Leases

SITE = {"source_id": "Site", "url": "https://docs.example.org/"}
LATER_SECONDS = 60


def folder_of(settings: Settings, domain_id: str = "DOMAIN01") -> Path:
    return settings.persistent_storage_path / "domains" / domain_id


def put(settings: Settings, fields: Mapping[str, Any] | str, domain_id: str = "DOMAIN01", *, later: int = 0) -> Path:
    """What a person does with an editor, so many seconds after now."""
    path = folder_of(settings, domain_id) / "domain.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
    changed = path.stat().st_mtime + later
    os.utime(path, (changed, changed))
    return path


def read(settings: Settings, domain_id: str = "DOMAIN01") -> dict[str, Any]:
    return json.loads((folder_of(settings, domain_id) / "domain.json").read_text())


async def add(settings: Settings, redis: Client, keys: Keys, **fields: Any) -> AddedDomain:
    wanted = {"id": "DOMAIN01", "web_sources": [SITE], **fields}
    return await add_domain(settings, redis, keys, parse_domain(json.dumps(wanted), "/"))


def take_up(settings: Settings, redis: Client, keys: Keys, *, by_person: bool = True) -> DomainFileSync:
    return DomainFileSync(settings, redis, keys, is_own_command=by_person)


# ── written ─────────────────────────────────────────────────────────────────────────────────────


async def test_add_writes_what_was_said(settings: Settings, redis: Client, keys: Keys) -> None:
    """The file has the keys that were given, without the id, which is the folder; only its owner may read it."""
    await add(settings, redis, keys, name="My Domain", vector_store_name="my-store")
    path = folder_of(settings) / "domain.json"

    assert read(settings) == {
        "name": "My Domain",
        "vector_store_name": "my-store",
        "web_sources": [{"id": "Site", "url": SITE["url"]}],
    }
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)] == [
        *(0o600, 0o700, 0o700)
    ]
    assert [one.name for one in path.parent.iterdir()] == ["domain.json"]


async def test_folders_are_written_as_they_were_meant(
    settings: Settings, redis: Client, keys: Keys, tmp_path: Path
) -> None:
    """A path that was relative to another place is absolute in the file, so that it means the same there."""
    domain = parse_domain(json.dumps({"id": "kb", "folder_sources": [{"path": "notes"}]}), str(tmp_path))
    await add_domain(settings, redis, keys, domain)

    assert read(settings, "kb")["folder_sources"] == [{"path": str(tmp_path / "notes")}]
    assert await take_up(settings, redis, keys).one("kb") is None


async def test_file_that_says_the_same_stays_as_it_is(settings: Settings, redis: Client, keys: Keys) -> None:
    """Adding the file in the folder itself keeps how a person wrote it."""
    path = put(
        settings, '{"web_sources":\n[{"source_id":"Site","url":"https://docs.example.org/"}],  "name":"DOMAIN01"}'
    )
    before = path.read_bytes()
    await add_domain(settings, redis, keys, parse_domain(path.read_text(), str(path.parent)))

    assert path.read_bytes() == before


async def test_disk_that_cannot_be_written_is_a_warning(
    settings: Settings, redis: Client, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """The domain is in the store all the same."""
    (settings.persistent_storage_path / "domains").write_text("a file where a folder should be")
    await add(settings, redis, keys)

    assert await DomainStore(redis, keys).ids() == ["DOMAIN01"]
    assert "cannot be written" in caplog.text


# ── taken up ────────────────────────────────────────────────────────────────────────────────────


async def test_file_that_a_person_put_there_is_taken_up(settings: Settings, redis: Client, keys: Keys) -> None:
    """Once: its sources are in the store, under ids with the case that they have, and nothing is new then."""
    put(settings, {"name": "My Domain", "web_sources": [SITE]})
    added = await take_up(settings, redis, keys).one("DOMAIN01")

    assert added is not None
    assert [record.sid for record in added.sources] == ["DOMAIN01.Site"]
    assert (await DomainStore(redis, keys).require("DOMAIN01")).name == "My Domain"
    assert await redis.zscore(keys.sources_due, "DOMAIN01.Site") is not None
    assert await take_up(settings, redis, keys).one("DOMAIN01") is None


async def test_edited_file_is_taken_up(settings: Settings, redis: Client, keys: Keys) -> None:
    """A source that it no longer has goes."""
    await add(settings, redis, keys)
    put(settings, {"web_sources": [SITE | {"source_id": "other"}]})
    added = await take_up(settings, redis, keys).one("DOMAIN01")

    assert added is not None
    assert list(added.removed) == ["DOMAIN01.Site"]
    assert await SourceStore(redis, keys).ids() == ["DOMAIN01.other"]


async def test_old_file_never_replaces_a_newer_configuration(settings: Settings, redis: Client, keys: Keys) -> None:
    """What another machine left behind is no news; a store without the domain takes it."""
    await add(settings, redis, keys)
    put(settings, {"web_sources": [SITE | {"source_id": "old"}]}, later=-LATER_SECONDS)
    ignored = await take_up(settings, redis, keys).one("DOMAIN01")
    await redis.flushall()
    taken = await take_up(settings, redis, keys).one("DOMAIN01")

    assert ignored is None
    assert taken is not None
    assert [record.sid for record in taken.sources] == ["DOMAIN01.old"]


async def test_interrupted_change_is_taken_up_again(settings: Settings, redis: Client, keys: Keys) -> None:
    """A file counts as read when the last thing that follows from it is done, not before."""
    await add(settings, redis, keys)
    put(settings, {"web_sources": [SITE | {"source_id": "other"}]})
    domain = parse_domain(json.dumps({"web_sources": [SITE | {"source_id": "other"}]}), str(folder_of(settings)))
    await DomainStore(redis, keys).save(domain, ["DOMAIN01.other", "DOMAIN01.Site"], 2e9)  # killed here
    added = await take_up(settings, redis, keys).one("DOMAIN01")

    assert added is not None
    assert list(added.removed) == ["DOMAIN01.Site"]


BAD = [
    ("no JSON", '{"web_sources": [', "This is not JSON"),
    ("a wrong value", '{"web_sources": [{"url": "ftp://x"}]}', "web_sources[0].url: is not an http or https URL"),
    ("no text", "\udcff", "is not UTF-8 text"),
    ("another id", '{"id": "other", "web_sources": []}', "This domain has no sources"),
    (
        "an id that is not the folder's",
        json.dumps({"id": "other", "web_sources": [SITE]}),
        "id: the folder is called bad, and its name is the id",
    ),
]


@pytest.mark.parametrize(("name", "text", "sentence"), BAD, ids=[row[0] for row in BAD])
async def test_bad_file_hides_nothing(
    settings: Settings, redis: Client, keys: Keys, name: str, text: str, sentence: str
) -> None:
    """One sentence that begins with the place of the file; all other domains are taken up."""
    path = put(settings, "", "bad")
    path.write_bytes(text.encode(errors="surrogateescape"))
    put(settings, {"web_sources": [SITE]}, "good")
    put(settings, {"web_sources": [SITE]}, "a folder with spaces")
    problems = await take_up(settings, redis, keys).all()

    assert [problem.partition(": ")[0] for problem in problems] == [
        str(folder_of(settings, "a folder with spaces") / "domain.json"),
        str(path),
    ]
    assert problems[1].startswith(f"{path}: {sentence}")
    assert await DomainStore(redis, keys).ids() == ["good"]
    with pytest.raises(DomainFileError, match="bad"):
        await take_up(settings, redis, keys).one_if_usable("bad")


async def test_spoilt_file_of_a_known_domain(settings: Settings, redis: Client, keys: Keys) -> None:
    """What was known goes on; the sentence is there for people."""
    await add(settings, redis, keys)
    path = put(settings, "{")
    problem = await take_up(settings, redis, keys).one_if_usable("DOMAIN01")

    assert problem.startswith(f"{path}: This is not JSON")
    assert await SourceStore(redis, keys).ids() == ["DOMAIN01.Site"]


async def test_folders_in_a_file_need_a_person(settings: Settings, redis: Client, keys: Keys, tmp_path: Path) -> None:
    """Only a person's own command signs the folders that a file names; a process that finds it refuses them."""
    narrow = settings.model_copy(update={"folder_roots": ()})
    put(narrow, {"folder_sources": [{"source_id": "notes", "path": str(tmp_path)}]})
    [problem] = await take_up(narrow, redis, keys, by_person=False).all()
    stored = await SourceStore(redis, keys).ids()
    await take_up(narrow, redis, keys).one("DOMAIN01")
    state = await SourceStore(redis, keys).read("DOMAIN01.notes")

    assert "may not be read: it is not below FOLDER_ROOTS" in problem
    assert stored == []
    assert state is not None
    assert state.record.signature


async def test_watch_takes_up_each_file_once(
    settings: Settings, redis: Client, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """The timer looks at times and sizes; a bad file is named once, and again when it has changed."""
    watch = DomainWatch(settings, redis, keys)
    put(settings, "{", "bad")
    await watch.look()
    put(settings, {"web_sources": [SITE]})
    await watch.look()
    await watch.look()
    named = caplog.text.count("This is not JSON")
    put(settings, {"web_sources": [SITE]}, "bad", later=LATER_SECONDS)
    await watch.look()

    assert named == 1
    assert await DomainStore(redis, keys).ids() == ["DOMAIN01", "bad"]


async def test_nobody_waits_for_a_crawl(settings: Settings, redis: Client, keys: Keys) -> None:
    """A source that left the file is being crawled: the timer and people go on, and it goes when that has ended."""
    await add(settings, redis, keys)
    leases, watch = Leases(redis, keys), DomainWatch(settings, redis, keys, patience_seconds=0.05)
    taken = await leases.acquire("source_DOMAIN01.Site")
    assert taken is not None
    put(settings, {"web_sources": [SITE | {"source_id": "other"}]})
    await watch.look()
    problem = await take_up(settings, redis, keys).one_if_usable("DOMAIN01", patience_seconds=0.05)
    before = await SourceStore(redis, keys).ids()
    await leases.release(taken[0])
    async with asyncio.timeout(60):
        while "DOMAIN01.Site" in await SourceStore(redis, keys).ids():
            await watch.look()

    assert "is being taken up" in problem
    assert "DOMAIN01.Site" in before


# ── the vector store ────────────────────────────────────────────────────────────────────────────


async def test_store_id_is_written_back(settings: Settings, redis: Client, keys: Keys) -> None:
    """Into the file and into the store; other keys and their order are as they were, and nothing is new then."""
    text = {"web_sources": [SITE], "description": "é", "vector_store_name": "x", "name": "My Domain"}
    put(settings, text)
    await take_up(settings, redis, keys).one("DOMAIN01")
    await set_vector_store_id(settings, redis, keys, "DOMAIN01", "vs_1")

    assert list(read(settings).items()) == [
        ("web_sources", [SITE]),
        ("description", "é"),
        ("vector_store_name", "x"),
        ("vector_store_id", "vs_1"),
        ("name", "My Domain"),
    ]
    assert (await DomainStore(redis, keys).require("DOMAIN01")).vector_store.id == "vs_1"
    assert await take_up(settings, redis, keys).one("DOMAIN01") is None
    await set_vector_store_id(settings, redis, keys, "DOMAIN01", "vs_2")
    assert list(read(settings)) == ["web_sources", "description", "vector_store_name", "vector_store_id", "name"]
    assert read(settings)["vector_store_id"] == "vs_2"


async def test_store_id_does_not_hide_an_edit(settings: Settings, redis: Client, keys: Keys) -> None:
    """What a person wrote while a crawl made the store is taken up afterwards, with the id."""
    await add(settings, redis, keys)
    put(settings, {"name": "Edited", "web_sources": [SITE]})
    await set_vector_store_id(settings, redis, keys, "DOMAIN01", "vs_1")
    await take_up(settings, redis, keys).one("DOMAIN01")
    domain = await DomainStore(redis, keys).require("DOMAIN01")

    assert (domain.name, domain.vector_store.id) == ("Edited", "vs_1")


async def test_store_is_kept_when_a_domain_is_added_again(settings: Settings, redis: Client, keys: Keys) -> None:
    """A file of one's own knows nothing of the store that a crawl made; another name or index asks for another."""
    await add(settings, redis, keys)
    await set_vector_store_id(settings, redis, keys, "DOMAIN01", "vs_1")
    await add(settings, redis, keys, name="Again")
    kept = read(settings)["vector_store_id"]
    await add(settings, redis, keys, index="openai")

    assert kept == "vs_1"
    assert (await DomainStore(redis, keys).require("DOMAIN01")).vector_store.id == ""


async def test_choice_of_a_store(settings: Settings, redis: Client, keys: Keys) -> None:
    """Without a name the store is called like the domain; without an index it is Freshet's own."""
    await add(settings, redis, keys)
    plain = (await DomainStore(redis, keys).require("DOMAIN01")).vector_store

    assert (plain.name, plain.id, plain.index) == ("DOMAIN01", "", "redis")


# ── removed ─────────────────────────────────────────────────────────────────────────────────────


async def test_remove_takes_the_local_copy_too(settings: Settings, redis: Client, keys: Keys) -> None:
    """The dry run counts the files; what a person put beside them and the reports stay."""
    await add(settings, redis, keys)
    storage = settings.persistent_storage_path
    copy, report = storage / "crawler/DOMAIN01/01_files/x/02_embedded/a.md", storage / "reports/crawls/r.zip"
    own = folder_of(settings) / "notes.txt"
    for path in (copy, report, own, folder_of(settings) / "files_metadata.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    counts = await remove_domain(settings, redis, keys, "DOMAIN01", dry_run=True)
    before = copy.exists()
    await remove_domain(settings, redis, keys, "DOMAIN01")

    assert (counts.files, before) == (3, True)
    assert [path.name for path in folder_of(settings).iterdir()] == ["notes.txt"]
    assert (copy.parents[3].exists(), report.exists()) == (False, True)
    assert await take_up(settings, redis, keys).all() == []
    assert await DomainStore(redis, keys).ids() == []
    with pytest.raises(NotFound):
        await remove_domain(settings, redis, keys, "DOMAIN01")


async def test_remove_of_a_file_that_nobody_could_use(settings: Settings, redis: Client, keys: Keys) -> None:
    """A bad file goes by the same command, without a domain in the store."""
    put(settings, "{")
    counts = await remove_domain(settings, redis, keys, "DOMAIN01")

    assert counts.files == 1
    assert not folder_of(settings).exists()


@pytest.mark.parametrize("name", ["..", "a/b", "", "x" * 300])
async def test_no_name_leads_out_of_the_folder(settings: Settings, redis: Client, keys: Keys, name: str) -> None:
    """What cannot be a folder's name has no file, whoever asks."""
    assert DomainFolders(settings.persistent_storage_path).read(name) is None
    with pytest.raises(NotFound):
        await remove_domain(settings, redis, keys, name)
