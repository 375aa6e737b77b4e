"""A crawl of SharePoint that is killed at any point: the same command again, and everything is as without the kill.

The points are exact: a server holds an answer back, Redis a command, or the process kills itself before a certain
change of the disk.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from core.keys import Keys
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.embedded import EmbeddedServer
from tests.faults import state
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.openai_store_server import OpenAiStoreServer
from tests.sharepoint_server import COLUMNS, DOWNLOAD, LISTING, Column, Item, ItemList, SharePointServer

DOMAIN = "DOMAIN01"
CRAWL = ("scripts.domain", "crawl", DOMAIN)
MAPS = ("sharepoint_map.csv", "files_map.csv", "vectorstore_map.csv")
STAMPS = ("downloaded_", "uploaded_", "embedded_")
FILLER = " The pump station reports its level every ten minutes to the office down the valley." * 3
FIRST_ITEMS = 9
BATCHES = "POST /vector_stores/*/file_batches"


@dataclass(frozen=True)
class Point:
    """Where a crawl is killed: when a server, or Redis, holds this back; or before this change of the disk."""

    name: str
    page: str = ""
    """A request to SharePoint, as a pattern of its path."""
    after: int = 0
    """So many of them are answered first."""
    store: str = ""
    """A request to the vector store."""
    is_done: bool = False
    """The store does what it is asked for before it hangs."""
    is_embedding: bool = False
    """The store takes the files and never gets ready."""
    disk: str = ""
    number: int = 1
    redis: float = 0.0
    """So far through the commands of an undisturbed crawl."""
    may_come_late: bool = False
    """It was counted in another crawl: this one may have come to its end by then."""

    def __str__(self) -> str:
        return self.name


USUAL = (
    Point("during the listing", page=LISTING, after=1),
    Point("between downloads", page=DOWNLOAD, after=1),
    Point("between download and process", disk=r"02_lists/tasks/02_embedded/\w"),
    Point("among the visits", redis=0.2),
    Point("between uploads and the store", store=BATCHES),
    Point("while waiting for the store", is_embedding=True),
    Point("between store and maps", disk=r"docs_main/vectorstore_map\.csv$", number=2),
    Point("between maps and metadata", disk=r"/files_metadata\.json$"),
    Point("while the report is written", disk=r"reports/crawls/.*\.zip$"),
)
MORE = (
    Point("before the listing", page=LISTING),
    Point("among the columns of the list", page=COLUMNS),
    Point("among the rows of the list", page=LISTING, after=3),
    Point("before the first download", page=DOWNLOAD),
    Point("before a file is in its place", disk=r"docs_main/02_embedded/.+\.md$"),
    Point("before files_map.csv", disk=r"docs_main/files_map\.csv$"),
    Point("before sharepoint_map.csv", disk=r"docs_main/sharepoint_map\.csv$"),
    Point("before the export of the list", disk=r"tasks/01_originals/.+\.csv$"),
    Point("before the second page", disk=r"pages_all/02_embedded/.+\.html$", number=2),
    Point("between visit and publish", store="GET /vector_stores/*"),
    Point("before an upload", store="POST /files"),
    Point("before the answer to an upload", store="POST /files", is_done=True),
    Point("before the answer of the store", store=BATCHES, is_done=True),
    Point("before an old version is detached", store="DELETE /vector_stores/*/files/*"),
    Point("before an old version is deleted", store="DELETE /files/*", is_done=True),
    Point("before the maps of the list", disk=r"tasks/vectorstore_map\.csv$"),
    Point("before the metadata of the pages", disk=r"/files_metadata\.json$", number=3),
)


class KillScene:
    """A site, a vector store, a domain that was crawled once, and what has changed since then."""

    def __init__(self, folder: Path, redis: Client, raw: Redis, proxy: Proxy, index: str) -> None:
        self.folder, self.redis, self.raw, self.proxy, self.index = folder, redis, raw, proxy, index
        self.keys = Keys()
        self.storage, self._saved_storage = folder / "storage", folder / "saved"
        self.storage.mkdir()
        self.server, self.store = SharePointServer(), OpenAiStoreServer()
        self._saved: tuple[state.Saved, object] = ({}, None)
        self.expected: dict[str, Any] = {}
        self.commands = 0
        """Of an undisturbed crawl, to Redis."""
        self.disk_changes = 0

    @property
    def domain_file(self) -> Path:
        return self.storage / "domains" / DOMAIN / "domain.json"

    # ── the site ──

    def fill(self) -> None:
        """A library, a list and pages; few of each, since each trial crawls them twice."""
        server = self.server
        server.page_size(2)
        for name in ("a.md", "b.md", "gone.md", "Old/c.txt"):
            server.file(name, f"# {name}\n\nText of {name}.{FILLER}".encode())
        self.list = server.item_list("Tasks", [Column("Body", "Notes", "Note")])
        self.rows = [server.row(Title=f"Task {number}", Body=FILLER) for number in range(3)]
        self.pages = server.pages()
        for name in ("Home.aspx", "About.aspx"):
            server.page(name, name, wiki=f"<h1>{name}</h1><p>{FILLER}</p>")
        self._write_domain()

    def change(self) -> None:
        """Something of everything: added, changed, removed, moved, names swapped."""
        server = self.server
        self._at(server.documents)
        server.swap("a.md", "b.md")
        server.update("Old/c.txt", f"Another text.{FILLER}".encode())
        server.delete("gone.md")
        server.file("New/d.md", f"# New\n\nA new file.{FILLER}".encode())
        self._at(self.list)
        server.update_row(self.rows[0], Body=f"Other words.{FILLER}")
        server.delete_row(self.rows[1])
        self.rows.append(server.row(Title="Task 9", Body=FILLER))
        self._at(self.pages)
        server.update_page("Home.aspx", WikiField=f"<h1>Home</h1><p>Other words.{FILLER}</p>")
        server.page("Third.aspx", "Third", wiki=f"<p>A third page.{FILLER}</p>")

    def _at(self, where: ItemList) -> Item:
        self.server.at = where
        return where.root

    def _write_domain(self) -> None:
        site, path = self.server.site_url, self.domain_file
        domain = {
            "name": "My Domain",
            "vector_store_name": "my-store",
            "vector_store_id": "",
            "index": self.index,
            "file_sources": [
                {"source_id": "docs_main", "site_url": site, "sharepoint_url_part": "/Shared Documents", "filter": ""}
            ],
            "list_sources": [{"source_id": "tasks", "site_url": site, "list_name": "Tasks", "filter": ""}],
            "sitepage_sources": [
                {"source_id": "pages_all", "site_url": site, "sharepoint_url_part": "/SitePages", "filter": ""}
            ],
        }
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(domain))

    # ── processes ──

    def process(self, *command: str) -> Worker:
        environment = {
            "PERSISTENT_STORAGE_PATH": str(self.storage),
            "EMBEDDER": "none",
            "SHAREPOINT_ACCESS_TOKEN": "T",
            "SHAREPOINT_DOWNLOADS": "1",
            "LOSS_LIMIT_PERCENT": "100",
            "FETCH_TIMEOUT_SECONDS": "60",
            **self.store.environment,
        }
        return Worker(self.folder, self.proxy.url, *command, **environment)

    async def crawl(self) -> Worker:
        """Crawl to the end."""
        with self.process(*CRAWL) as crawl:
            assert await crawl.ended() == 0, crawl.log
        return crawl

    async def kill_at(self, point: Point) -> None:
        """Begin a crawl, and kill it at this point."""
        command = ("tests.faults.killed_before", point.disk, str(point.number), *CRAWL) if point.disk else CRAWL
        is_reached = self._hold(point)
        with self.process(*command) as crawl:
            has_ended_well = lambda: point.may_come_late and crawl.process.poll() == 0  # noqa: E731
            if point.disk:
                assert await crawl.ended() == -9 or has_ended_well(), crawl.log
            else:
                await crawl.until(lambda: is_reached() or has_ended_well())
                crawl.kill()
        self.server.heal()
        self.store.heal()
        self.store.release()
        self.proxy.let_go()

    def _hold(self, point: Point) -> Callable[[], bool]:
        if point.page:
            return self.server.hold(on=point.page, after=point.after).reached.is_set
        if point.store:
            (self.store.stall if point.is_done else self.store.hang)(point.store)
            return lambda: self.store.is_stalling
        if point.is_embedding:
            self.store.forget_requests()
            self.store.hold()
            return lambda: self.store.count("GET /vector_stores/*/file_batches/*") > 0
        if point.redis:
            self.proxy.count_from_here()
            self.proxy.hold(max(int(self.commands * point.redis), 1))
            return lambda: self.proxy.is_holding
        return bool

    # ── before and after ──

    async def begin(self) -> None:
        """Crawl once, remember everything, change the site, and crawl it as nobody disturbs."""
        await self.crawl()
        self._saved = await state.save(self.raw), self.store.save()
        shutil.copytree(self.storage, self._saved_storage, symlinks=True)
        self.change()
        self.proxy.count_from_here()
        with self.process("tests.faults.killed_before", "", "0", *CRAWL) as crawl:
            assert await crawl.ended() == 0, crawl.log
        self.commands = self.proxy.count
        self.disk_changes = int(crawl.lines("disk changes: ")[-1].rpartition(" ")[2])
        self.expected = await self.look()

    async def rewind(self) -> None:
        """Make Redis, the disk and the vector store what they were before the changes."""
        redis, store = self._saved
        await state.restore(self.raw, redis)
        self.store.restore(store)
        shutil.rmtree(self.storage)
        shutil.copytree(self._saved_storage, self.storage, symlinks=True)

    async def look(self) -> dict[str, Any]:
        """Everything that does not depend on when and how often something was done."""
        # A source that was done when the process died is not opened again: its crash counter expires.
        left_out = (*state.POLITENESS, *state.HISTORY, *state.COUNTERS, "crashes", "events")
        picture = await state.look(self.redis, self.keys)
        return {
            "copies": dict(self._copies()),
            "names": sorted(str(path.relative_to(self.storage)) for path in self._hidden()),
            "maps": {str(path.relative_to(self.storage)): self._rows(path) for path in self._map_files()},
            "store": self._stored(),
            "uploads": len(self.store.files),
            "metadata": self._metadata(),
            "registry": {key: _without_history(held) for key, held in state.dump(picture, without=left_out).items()},
        }

    async def compare(self, what: str) -> None:
        """Everything is as after the crawl that nobody disturbed."""
        seen = await self.look()
        assert state.difference(self.expected["registry"], seen["registry"]) == "", what
        for name, expected in self.expected.items():
            assert seen[name] == expected, f"{name}, {what}"
        assert state.problems(await state.look(self.redis, self.keys), is_settled=True) == [], what

    def _files(self, *folders: str) -> Iterator[Path]:
        for folder in folders:
            yield from (path for path in (self.storage / folder).rglob("*") if path.is_file())

    def _copies(self) -> Iterator[tuple[str, object]]:
        for path in self._files("crawler"):
            if path.name not in MAPS and not path.name.startswith("."):
                yield str(path.relative_to(self.storage)), (path.read_bytes(), path.stat().st_mtime)

    def _hidden(self) -> list[Path]:
        """What nobody names: nothing of a killed process may stay."""
        known = ("domain.json", "files_metadata.json")
        hidden = [path for path in self._files("crawler") if path.name.startswith(".")]
        return [
            *hidden,
            *(path for path in self._files("domains") if path.suffix != ".zip" and path.name not in known),
        ]

    def _map_files(self) -> Iterator[Path]:
        return (path for path in self._files("crawler") if path.name in MAPS)

    def _rows(self, path: Path) -> list[dict[str, str]]:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if self.index == "openai" and "openai_file_id" in row:
                row["openai_file_id"] = self._content(row["openai_file_id"])
        return [{name: cell for name, cell in row.items() if not name.startswith(STAMPS)} for row in rows]

    def _content(self, file_id: str) -> str:
        stores = list(self.store.stores.values())
        is_attached = any(file_id in store.files for store in stores)
        return self.store.files[file_id].content.decode() if is_attached else f"{file_id} is nowhere"

    def _stored(self) -> list[object]:
        stores = list(self.store.stores.values())
        found = [
            (dict(one.attributes), one.status, self._content(one.id))
            for store in stores
            for one in store.files.values()
        ]
        return sorted(found, key=lambda one: json.dumps(one))

    def _metadata(self) -> list[str]:
        entries = json.loads((self.domain_file.parent / "files_metadata.json").read_text())
        hidden = {"embedded_utc"} | ({"openai_file_id"} if self.index == "openai" else set())
        return sorted(json.dumps({name: one[name] for name in sorted(one) if name not in hidden}) for one in entries)


def _without_history(held: tuple[str, int, Any]) -> tuple[str, int, Any]:
    """How the last listing ended depends on how often there was one."""
    kind, hours, content = held
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name != "last_listing"}
    return kind, hours, content


@pytest.fixture(params=["openai", "redis"])
async def new_scene(
    request: pytest.FixtureRequest,
    settings: Settings,
    server: EmbeddedServer,
    redis: Client,
    proxy: Proxy,
    tmp_path: Path,
) -> AsyncIterator[KillScene]:
    raw = Redis.from_url(connect.url_of(settings))
    scene = KillScene(tmp_path, redis, raw, proxy, request.param)
    with scene.server, scene.store:
        scene.fill()
        yield scene
    await raw.aclose()


@pytest.fixture
async def scene(new_scene: KillScene) -> KillScene:
    """Crawled and changed."""
    await new_scene.begin()
    return new_scene


async def test_killed_at_any_point(scene: KillScene, full: bool) -> None:
    """Files, maps, vector store, metadata and registry are after one more crawl as without the kill."""
    for point in points(scene, full):
        await scene.rewind()
        await scene.kill_at(point)
        await scene.crawl()

        await scene.compare(f"killed {point}")


async def test_lost_replies(scene: KillScene, full: bool) -> None:
    """Redis does what it is asked for and the answer is lost, a dozen times in one crawl: nothing differs."""
    for first in range(3, 33, 6 if full else 30):
        await scene.rewind()
        scene.proxy.count_from_here()
        scene.proxy.drop_reply(*range(first, scene.commands, 33))
        await scene.crawl()

        assert len(scene.proxy.dropped) > 5
        await scene.compare(f"lost: {scene.proxy.dropped}")


@pytest.mark.parametrize("new_scene", ["openai"], indirect=True)
@pytest.mark.parametrize("is_done", [False, True], ids=["unmade", "made"])
async def test_killed_while_the_store_is_made(new_scene: KillScene, is_done: bool) -> None:
    """There is one store after the next crawl, its id is in domain.json, and each item is in it once."""
    await new_scene.kill_at(Point("before the store is made", store="POST /vector_stores", is_done=is_done))
    await new_scene.crawl()

    [store] = new_scene.store.stores.values()
    assert json.loads(new_scene.domain_file.read_text())["vector_store_id"] == store.id
    assert store.files.keys() == new_scene.store.files.keys()
    items = [one.attributes["unique_id"] for one in store.files.values()]
    assert len(set(items)) == len(items) == FIRST_ITEMS


def points(scene: KillScene, full: bool) -> list[Point]:
    """The usual ones; with --full all of them, and further ones on the disk and in Redis."""
    chosen = [*USUAL, *MORE] if full else list(USUAL)
    if full:
        for number in range(1, scene.disk_changes, 7):
            late = number > 0.9 * scene.disk_changes
            chosen.append(Point(f"before change {number} of the disk", disk=".", number=number, may_come_late=late))
        chosen += [Point(f"at {n} % of Redis", redis=n / 100, may_come_late=n > 85) for n in range(1, 100, 4)]
    if scene.index == "redis":
        # There are no uploads that the map would have to be written for, before the store is told.
        chosen = [replace(one, number=1) if "vectorstore_map" in one.disk else one for one in chosen]
        chosen = [one for one in chosen if not one.store and not one.is_embedding]
        return chosen if full else [one for one in chosen if one.redis] + [Point("while it is embedded", redis=0.8)]
    return chosen
