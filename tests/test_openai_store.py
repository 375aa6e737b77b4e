"""The vector store of OpenAI by its real client, over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.outputs.vector_store.io.openai_setup import CREATION_NAME, StoreOwner, open_openai_store
from core.outputs.vector_store.io.openai_store import FILES_PER_BATCH, OpenAiStore
from core.outputs.vector_store.protocol import (
    BegunUpload,
    FileStatus,
    StoredFile,
    UploadRequest,
    VectorStoreMissing,
    VectorStoreUnavailable,
)
from core.secret_text import SecretStr
from core.settings import Settings
from tests.openai_store_server import OpenAiStoreServer

BATCHES = "POST /vector_stores/*/file_batches"


@pytest.fixture
def given(tmp_path: Path, openai_server: OpenAiStoreServer) -> Settings:
    return Settings(persistent_storage_path=tmp_path, openai_wait_seconds=60, **openai_server.settings)


class Shelf:
    """A domain that remembers the id of its store."""

    def __init__(self, folder: Path, name: str = "", store_id: str = "") -> None:
        self.store_id = store_id
        self.domain = StoreOwner("DOMAIN01", name, folder, lambda: self.store_id, self.write)

    def write(self, store_id: str) -> None:
        self.store_id = store_id


class Naps:
    """Instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@asynccontextmanager
async def opened(settings: Settings, naps: Naps | None = None) -> AsyncIterator[OpenAiStore]:
    shelf = Shelf(settings.persistent_storage_path)
    async with open_openai_store(settings, shelf.domain, naps or Naps()) as store:
        yield store


def requests(folder: Path, *names: str, **attributes: str) -> list[UploadRequest]:
    made = []
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"The text of {name}.")
        content_hash = hashlib.sha256(path.read_bytes()).hexdigest()
        stamped = {"domain": "DOMAIN01", "unique_id": name, "content_hash": content_hash, **attributes}
        made.append(UploadRequest(name, str(path), path.name, f"https://e.org/{name}", content_hash, stamped))
    return made


async def listed(store: OpenAiStore) -> list[StoredFile]:
    return [one async for one in store.files()]


async def added(store: OpenAiStore, files: Sequence[UploadRequest]) -> list[StoredFile]:
    results = await store.upload(files)
    return await store.wait([one.file_id for one in results if one.file_id])


# ── create and open ──


async def test_empty_id_makes_a_store(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A store is made with the domain's name for it, its id is written back, and the log says so word for word."""
    shelf = Shelf(tmp_path, name="my-vector-store")
    with caplog.at_level(logging.INFO, "crawler"):
        async with open_openai_store(given, shelf.domain) as store:
            assert store.id == shelf.store_id

    [remote] = openai_server.stores.values()
    assert (remote.id, remote.name, remote.metadata["domain"]) == (shelf.store_id, "my-vector-store", "DOMAIN01")
    assert f"Created vector store 'my-vector-store' (ID={remote.id})" in caplog.messages
    assert not (tmp_path / CREATION_NAME).exists()


async def test_name_falls_back_to_the_domain(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Without a name for it the store is called as the domain; a second opening makes none."""
    shelf = Shelf(tmp_path)
    for _ in range(2):
        async with open_openai_store(given, shelf.domain):
            pass

    assert [one.name for one in openai_server.stores.values()] == ["DOMAIN01"]


async def test_lost_answer_of_a_creation(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A store whose answer was lost is found again instead of made twice, however many others there are."""
    openai_server.lose_answer("POST /vector_stores")
    shelf = Shelf(tmp_path)
    async with open_openai_store(given, shelf.domain, Naps()):
        pass

    assert list(openai_server.stores) == [shelf.store_id]


async def test_killed_after_a_creation(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A process that died before it wrote the id down leaves a note, and the next one finds the store by it."""
    shelf = Shelf(tmp_path)

    def die(_: str) -> None:
        raise KeyboardInterrupt

    dying = StoreOwner("DOMAIN01", "", tmp_path, lambda: "", die)
    with pytest.raises(KeyboardInterrupt):
        async with open_openai_store(given, dying):
            pass
    async with open_openai_store(given, shelf.domain) as store:
        assert [store.id] == list(openai_server.stores)

    assert not (tmp_path / CREATION_NAME).exists()


async def test_two_at_once_make_one_store(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Two sources of a domain that are first embedded at the same time share one new store."""
    shelf = Shelf(tmp_path)

    async def use() -> str:
        async with open_openai_store(given, shelf.domain) as store:
            return store.id

    assert len(set(await asyncio.gather(use(), use(), use()))) == len(openai_server.stores) == 1


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_refused_creation(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path, status: int) -> None:
    """A store that cannot be made is a sentence, and the domain has none afterwards."""
    openai_server.refuse("POST /vector_stores", status, "You may not.", times=9)
    shelf = Shelf(tmp_path, name="shop")
    with pytest.raises(VectorStoreUnavailable, match="vector store 'shop' could not be created"):
        async with open_openai_store(given, shelf.domain, Naps()):
            pass

    assert (shelf.store_id, openai_server.stores) == ("", {})


async def test_missing_store(given: Settings, tmp_path: Path) -> None:
    """A store that is gone is told as missing, with what to do."""
    shelf = Shelf(tmp_path, store_id="vs_gone")
    with pytest.raises(VectorStoreMissing, match="no vector store vs_gone"):
        async with open_openai_store(given, shelf.domain):
            pass


# ── who may be asked, and with what ──


async def test_loopback_has_to_be_allowed(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Neither an address nor a name on loopback is asked unless FETCH_ALLOWED_HOSTS has it."""
    for host in ("127.0.0.1", "localhost"):
        url = openai_server.url.replace("127.0.0.1", host)
        closed = given.model_copy(update={"fetch_allowed_hosts": ("10.0.0.0/8",), "openai_base_url": url})
        with pytest.raises(VectorStoreUnavailable, match="FETCH_ALLOWED_HOSTS"):
            async with open_openai_store(closed, Shelf(tmp_path).domain, Naps()):
                pass

    assert openai_server.requests == []


async def test_environment_changes_nothing(
    given: Settings, openai_server: OpenAiStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies and keys in the environment are not used."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    async with opened(given) as store:
        assert await listed(store) == []

    assert {one.headers["authorization"] for one in openai_server.requests} == {f"Bearer {openai_server.key}"}


async def test_no_key_and_a_wrong_key(given: Settings, tmp_path: Path) -> None:
    """Both are sentences that name the setting, and neither holds the key."""
    for key in (None, SecretStr("sk-wrong-key")):
        with pytest.raises(VectorStoreUnavailable, match="OPENAI_API_KEY") as caught:
            async with open_openai_store(given.model_copy(update={"openai_api_key": key}), Shelf(tmp_path).domain):
                pass
        assert "sk-wrong-key" not in str(caught.value)


async def test_redirects_are_not_followed(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A redirect shows the key to nobody else."""
    openai_server.refuse("POST /vector_stores", 307, "Elsewhere.", Location=f"{openai_server.url}/elsewhere")
    with pytest.raises(VectorStoreUnavailable):
        async with open_openai_store(given, Shelf(tmp_path).domain, Naps()):
            pass

    assert len(openai_server.requests) == 1


# ── upload and wait ──


async def test_files_are_found_with_their_attributes(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """Files are uploaded, attached in one batch with attributes of their own, and told completed with their times."""
    names = ("a.md", "Ünï “quotes\" & 'more' 🌊.md", "sub/a.md")
    openai_server.polls = 3
    async with opened(given) as store:
        files = await added(store, requests(tmp_path, *names))
        again = await listed(store)

    assert [one.status for one in files] == [FileStatus.COMPLETED] * 3
    assert [one.attributes["unique_id"] for one in files] == list(names)
    assert openai_server.content(store.id) == {name: f"The text of {name}.".encode() for name in names}
    assert openai_server.names(store.id) == sorted(name.split("/")[-1] for name in names)
    assert {one.file_id: one.embedded_ts for one in files} == {one.file_id: one.embedded_ts for one in again}
    assert all(one.embedded_ts for one in files)
    assert (openai_server.count("POST /files"), openai_server.count(BATCHES)) == (3, 1)


async def test_long_lists_are_read_to_their_end(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """Lists come in pages of a hundred; a batch has at most two thousand."""
    async with opened(given) as store:
        for number in range(205):
            openai_server.add_file(store.id, f"{number}.md")
        assert len(await listed(store)) == 205
        assert openai_server.count("GET /vector_stores/*/files") == 3
        names = [f"{number}.md" for number in range(130)]
        files = await added(store, requests(tmp_path, *names))

    assert (len(files), FILES_PER_BATCH) == (130, 2_000)
    assert {one.status for one in files} == {FileStatus.COMPLETED}


async def test_failures_are_named(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A file that cannot be embedded has failed with the store's own reason; the others are completed."""
    openai_server.fails["b.md"] = "There is no text in it."
    async with opened(given) as store:
        files = await added(store, requests(tmp_path, "a.md", "b.md"))

    assert [(one.status, one.error) for one in files] == [
        (FileStatus.COMPLETED, ""),
        (FileStatus.FAILED, "There is no text in it."),
    ]


async def test_wait_has_a_deadline(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """What is not embedded in time is in progress, with that reason, and goes on in the store."""
    openai_server.hold()
    async with opened(given.model_copy(update={"openai_wait_seconds": 0.2})) as store:
        [one] = await added(store, requests(tmp_path, "a.md"))

    assert (one.status, openai_server.count(f"{BATCHES}/*/cancel")) == (FileStatus.IN_PROGRESS, 0)
    assert "OPENAI_WAIT_SECONDS" in one.error


async def test_files_without_a_known_batch(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Another process can wait for what this one attached."""
    openai_server.polls = 4
    shelf = Shelf(tmp_path)
    async with open_openai_store(given, shelf.domain) as store:
        results = await store.upload(requests(tmp_path, "a.md", "b.md"))
    async with open_openai_store(given, shelf.domain) as store:
        files = await store.wait([one.file_id for one in results])

    assert [one.status for one in files] == [FileStatus.COMPLETED] * 2


async def test_unreadable_file_is_a_result(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A file that is not there fails alone, and not for ever."""
    good, bad = requests(tmp_path, "a.md", "b.md")
    (tmp_path / "b.md").unlink()
    async with opened(given) as store:
        first, second = await store.upload([good, bad])

    assert (first.error, bool(first.file_id)) == ("", True)
    assert ("cannot be read" in second.error, second.is_final) == (True, False)
    assert openai_server.names(store.id, "in_progress") == ["a.md"]


# ── lost answers, rate limits, time-outs ──


async def test_lost_answer_of_an_upload(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """An upload whose answer was lost is found by its name and size, and not repeated."""
    names = ("a/same.md", "b/same.md", "other.md")
    openai_server.lose_answer("POST /files", times=2)
    async with opened(given) as store:
        await added(store, requests(tmp_path, *names))

    assert openai_server.count("POST /files") == 3
    assert openai_server.content(store.id) == {name: f"The text of {name}.".encode() for name in names}
    assert len(openai_server.files) == 3


async def test_older_file_of_the_same_name_and_size_is_not_taken(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """An upload that never arrived is repeated, although the store has an earlier version of the same size."""
    async with opened(given) as store:
        await added(store, requests(tmp_path, "a.md"))
        [request] = requests(tmp_path, "a.md")
        (tmp_path / "a.md").write_text("The text of b.md.")
        openai_server.cut("POST /files")
        [result] = await store.upload([request])

    assert openai_server.files[result.file_id].content == b"The text of b.md."
    assert len(openai_server.files) == 2


async def test_lost_answer_of_a_batch(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Files that were attached and whose answer was lost are not attached twice, and are waited for."""
    openai_server.lose_answer(BATCHES)
    async with opened(given) as store:
        files = await added(store, requests(tmp_path, "a.md", "b.md"))

    assert [one.status for one in files] == [FileStatus.COMPLETED] * 2
    assert openai_server.count(BATCHES) == 1


async def test_batch_that_never_arrived_is_repeated(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """The uploads stay, and are attached by the next try."""
    openai_server.cut(BATCHES)
    async with opened(given) as store:
        await added(store, requests(tmp_path, "a.md"))

    assert (openai_server.names(store.id), openai_server.count("POST /files")) == (["a.md"], 1)


async def test_one_bad_file_does_not_spoil_its_batch(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """Where a batch is refused each file is attached alone; the one at fault fails, and its upload is deleted."""
    good, bad = requests(tmp_path, "a.md", "b.md")
    bad = UploadRequest(bad.unique_id, bad.path, bad.filename, bad.url, bad.content_hash, {"much": "x" * 600})
    async with opened(given) as store:
        first, second = await store.upload([good, bad])

    assert (first.error, bool(second.error), second.file_id, second.is_final) == ("", True, "", True)
    assert [one.filename for one in openai_server.files.values()] == ["a.md"]


@pytest.mark.parametrize(
    ("headers", "least"), [({"Retry_After": "7"}, 7.0), ({"retry_after_ms": "2500"}, 2.5), ({}, 0.5)]
)
async def test_rate_limits_are_waited_for(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path, headers: dict[str, str], least: float
) -> None:
    """A 429 is waited for as long as it asks, in seconds or milliseconds, and then tried again."""
    naps = Naps()
    openai_server.refuse("POST /files", 429, **headers)
    async with opened(given, naps) as store:
        await added(store, requests(tmp_path, "a.md"))

    assert openai_server.names(store.id) == ["a.md"]
    assert naps.seconds[0] == least


async def test_lasting_rate_limit_is_a_result(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """A limit that stays fails the file, gracefully and not for ever; one that lasts an hour at once."""
    naps = Naps()
    openai_server.refuse("POST /files", 429, times=4)
    async with opened(given, naps) as store:
        [first] = await store.upload(requests(tmp_path, "a.md"))
        openai_server.refuse("POST /files", 429, Retry_After="3600")
        [second] = await store.upload(requests(tmp_path, "a.md"))

    assert naps.seconds == [0.5, 1.0, 2.0]
    for result in (first, second):
        assert ("429" in result.error, result.is_final, result.file_id) == (True, False, "")


async def test_time_out_is_tried_again(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A request that is not answered in time is repeated; where none is answered the file fails."""
    quick = given.model_copy(update={"openai_timeout_seconds": 0.3})
    openai_server.hang("POST /files")
    async with opened(quick) as store:
        [first] = await store.upload(requests(tmp_path, "a.md"))
        openai_server.hang("POST /files", times=4)
        [second] = await store.upload(requests(tmp_path, "b.md"))

    assert (bool(first.file_id), first.error) == (True, "")
    assert ("OPENAI_TIMEOUT_SECONDS" in second.error, second.is_final) == (True, False)


async def test_list_that_breaks_off_is_no_list(given: Settings, openai_server: OpenAiStoreServer) -> None:
    """A list of which a page cannot be read raises, so that nothing seems to be missing."""
    async with opened(given) as store:
        for number in range(150):
            openai_server.add_file(store.id, f"{number}.md")
        await listed(store)
        openai_server.refuse("GET /vector_stores/*/files", 500, times=9)
        with pytest.raises(VectorStoreUnavailable):
            await listed(store)


# ── changing and removing ──


async def test_attributes_change_without_an_upload(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """A file gets other attributes in its place."""
    async with opened(given) as store:
        [one] = await added(store, requests(tmp_path, "a.md"))
        await store.update_attributes(one.file_id, {**one.attributes, "filename": "b.md"})
        [now] = await listed(store)

    assert (now.file_id, now.attributes["filename"], openai_server.count("POST /files")) == (one.file_id, "b.md", 1)


async def test_detach_and_delete(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """Detached files stay in the global storage, deleted ones do not; doing it twice is no error."""
    async with opened(given) as store:
        first, second = await added(store, requests(tmp_path, "a.md", "b.md"))
        openai_server.lose_answer("DELETE /files/*").lose_answer("DELETE /vector_stores/*/files/*")
        for _ in range(2):
            await store.detach(first.file_id)
            await store.delete(second.file_id)

    assert list(openai_server.files) == [first.file_id]
    assert openai_server.stores[store.id].files == {}


async def test_file_without_bytes_is_missing(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A file that the store still lists and the global storage has lost is told as missing."""
    async with opened(given) as store:
        first, second = await added(store, requests(tmp_path, "a.md", "b.md"))
        openai_server.delete_file(first.file_id, stays_listed=True)
        statuses = {one.file_id: one.status for one in await listed(store)}

    assert statuses == {first.file_id: FileStatus.MISSING, second.file_id: FileStatus.COMPLETED}


async def test_store_that_vanishes(given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path) -> None:
    """A store that is deleted while it is used is missing, whatever was asked; no file is told failed for it."""
    async with opened(given) as store:
        results = await store.upload(requests(tmp_path, "a.md"))
        del openai_server.stores[store.id]
        with pytest.raises(VectorStoreMissing):
            await listed(store)
        with pytest.raises(VectorStoreMissing):
            await store.upload(requests(tmp_path, "b.md"))
        with pytest.raises(VectorStoreMissing):
            await store.wait([results[0].file_id])
        with pytest.raises(VectorStoreMissing):
            await store.wait(["file-00000001"])


async def test_unrecorded_uploads_are_deleted(
    given: Settings, openai_server: OpenAiStoreServer, tmp_path: Path
) -> None:
    """What a killed process uploaded is deleted by its name and size; files in the store or in a map stay."""
    async with opened(given) as store:
        mark = await store.upload_mark()
        await added(store, requests(tmp_path, "a.md"))
        lost = openai_server._new_file("a.md", b"The text of a.md.", "assistants").id
        named = openai_server._new_file("a.md", b"The text of a.md.", "assistants").id
        stranger = openai_server._new_file("c.md", b"The text of c.md.", "assistants").id
        count = await store.forget_unrecorded(
            mark, [BegunUpload("a.md", 17), BegunUpload("b.md", 17)], {named}.__contains__
        )

    assert (count, lost in openai_server.files) == (1, False)
    assert {named, stranger} < set(openai_server.files)
    assert len(openai_server.files) == 3
