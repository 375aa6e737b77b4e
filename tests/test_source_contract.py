"""What every source promises, whatever stands behind it: the same claims over a web site, a folder and a repository."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from core.keys import Keys
from core.models import Fetched, FetchResult, ListingBatch, ListingEnd, Ref
from core.net.fetcher import Fetcher
from core.registry.io.registrar import item_id_of
from core.registry.record import Item
from core.settings import Settings
from core.sources.io.folder import FolderSource
from core.sources.io.github import GithubSource
from core.sources.io.source import Source
from core.sources.io.web import WebSource
from core.store.connect import Client
from core.urls.scope import Scope
from tests.github_server import GithubServer
from tests.inline_pool import InlinePool
from tests.site import Site, html
from tests.web import FakeWeb

OLD = 1_600_000_000
MANY = 1_201


class Place(ABC):
    """Somewhere with named texts in it, and the source that lists it."""

    source: Source

    @abstractmethod
    def put(self, name: str, text: str) -> None:
        """A new thing of this name, or another version of it."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """It is there no more."""

    @abstractmethod
    def break_listing(self) -> None:
        """From now on the place cannot be listed."""

    @abstractmethod
    def address(self, name: str) -> str:
        """Under which address it is listed."""


class WebPlace(Place):
    """A site whose sitemap names its pages."""

    def __init__(self, web: FakeWeb, source: Source) -> None:
        self.site, self.source = Site(web), source
        self._days = count(1)
        self._pages: dict[str, int] = {}
        self.site.page("/")

    def put(self, name: str, text: str) -> None:
        self.site.page(f"/{name}", text)
        self._pages[name] = next(self._days)
        self._write()

    def remove(self, name: str) -> None:
        self.site.remove(f"/{name}")
        del self._pages[name]
        self._write()

    def _write(self) -> None:
        dates = {name: f"2025-{1 + day // 28 % 12:02}-{1 + day % 28:02}" for name, day in self._pages.items()}
        rows = (f"<url><loc>{self.address(name)}</loc><lastmod>{day}</lastmod></url>" for name, day in dates.items())
        self.site.web.page("/sitemap.xml", f"<urlset>{''.join(rows)}</urlset>", media_type="application/xml")

    def break_listing(self) -> None:
        self.site.web.on("/sitemap.xml", 500)

    def address(self, name: str) -> str:
        return self.site.url(f"/{name}")


class FolderPlace(Place):
    """Files on a disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = FolderSource(root, max_bytes=1_000_000)
        self._times = count(OLD)

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (OLD, next(self._times)))

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def break_listing(self) -> None:
        self.root.rename(self.root.with_name("unmounted"))

    def address(self, name: str) -> str:
        return str(self.root / name)


class GithubPlace(Place):
    """Documents of a repository."""

    def __init__(self, hub: GithubServer, source: Source) -> None:
        self.hub, self.source = hub, source

    def put(self, name: str, text: str) -> None:
        self.hub.file(name, text.encode())

    def remove(self, name: str) -> None:
        self.hub.remove(name)

    def break_listing(self) -> None:
        self.hub.refuse(500, "Server Error")

    def address(self, name: str) -> str:
        return f"{self.hub.web_url}/o/r/blob/main/{name}"


@pytest.fixture(params=["web", "folder", "github"])
async def place(
    request: pytest.FixtureRequest, settings: Settings, redis: Client, keys: Keys, tmp_path: Path
) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if request.param == "folder":
            root = tmp_path / "library"
            root.mkdir()
            yield FolderPlace(root)
            return
        if request.param == "github":
            hub = await stack.enter_async_context(GithubServer("token"))
            hub.repository("o/r")
            changed = settings.model_copy(update=hub.settings())
            fetcher = await stack.enter_async_context(Fetcher(changed, redis, keys))
            yield GithubPlace(hub, GithubSource(changed, fetcher, "o/r"))
            return
        web = await stack.enter_async_context(FakeWeb())
        changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})
        fetcher = await stack.enter_async_context(Fetcher(changed, redis, keys))
        scope = Scope(web.url("/"), "host")
        yield WebPlace(
            web, WebSource(fetcher, InlinePool(), scope, max_pages=100_000, named_sitemaps=fetcher.sitemaps_of)
        )


class Listed:
    """A listing, collected and held against what all listings must be."""

    def __init__(self, parts: list[ListingBatch | ListingEnd]) -> None:
        assert [isinstance(part, ListingEnd) for part in parts] == [False] * (len(parts) - 1) + [True]
        *self.batches, self.end = parts
        assert isinstance(self.end, ListingEnd)
        self.refs: dict[str, Ref] = {}
        for batch in self.batches:
            assert isinstance(batch, ListingBatch)
            assert len(batch.refs) + len(batch.refused) <= 500
            for ref in batch.refs:
                assert ref.address not in self.refs
                self.refs[ref.address] = ref
        assert all(isinstance(word, str) for pair in self.end.memory.items() for word in pair)


async def listing(place: Place, memory: Mapping[str, str] | None = None) -> Listed:
    return Listed([part async for part in place.source.list(memory or {})])


def item(ref: Ref, **fields: str) -> Item:
    return Item(
        item_id_of(ref), ref.type, fetch_url=ref.address, listed_version=fields.pop("listed", ref.version), **fields
    )


async def fetch(place: Place, one: Item, etag: str = "") -> FetchResult:
    return await place.source.fetch(one, {"If-None-Match": etag} if etag else {})


def text(words: str) -> str:
    """Words that any of the places can serve."""
    return html("A page", words)


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


async def test_everything_is_listed_under_its_address(place: Place) -> None:
    """All that is there, each once, with a version, below an address that is the same at every listing."""
    for name in ("a.html", "b.html", "deep/c.html"):
        place.put(name, text(name))

    first, again = await listing(place), await listing(place)

    wanted = {place.address(name) for name in ("a.html", "b.html", "deep/c.html")}
    assert wanted <= set(first.refs)
    assert set(first.refs) == set(again.refs)
    assert all(first.refs[address].version for address in wanted)


async def test_unchanged_place_says_so_or_says_the_same(place: Place) -> None:
    """Asked again with its memory it is `unchanged`, or names nothing new: no version moves without a reason."""
    place.put("a.html", text("A."))
    place.put("b.html", text("B."))
    first = await listing(place)

    second = await listing(place, first.end.memory)

    if second.end.reason == "unchanged":
        assert not second.refs
        assert not second.end.is_complete
    assert all(first.refs[address] == ref for address, ref in second.refs.items())


async def test_changed_thing_has_another_version(place: Place) -> None:
    """Of two things the changed one has moved, the other has not."""
    place.put("a.html", text("Before."))
    place.put("b.html", text("Same."))
    first = await listing(place)
    place.put("a.html", text("After!"))

    second = await listing(place, first.end.memory)

    a, b = place.address("a.html"), place.address("b.html")
    assert second.refs[a].version != first.refs[a].version
    assert second.refs[b].version == first.refs[b].version


async def test_new_and_removed_things_are_seen(place: Place) -> None:
    """The next listing has what came, and has not what went."""
    place.put("a.html", text("A."))
    place.put("b.html", text("B."))
    first = await listing(place)
    place.remove("a.html")
    place.put("c.html", text("C."))

    second = await listing(place, first.end.memory)

    assert place.address("c.html") in second.refs
    assert place.address("a.html") not in second.refs


async def test_broken_listing_is_an_end_and_never_complete(place: Place) -> None:
    """Trouble is a reason for people, not an exception, and no evidence of a loss."""
    place.put("a.html", text("A."))
    first = await listing(place)
    place.break_listing()

    broken = await listing(place, first.end.memory)

    assert not broken.end.is_complete
    assert broken.end.reason not in ("", "unchanged")


async def test_what_a_broken_listing_remembers_hides_nothing_later(place: Place) -> None:
    """After trouble the next good listing still finds what changed meanwhile."""
    place.put("a.html", text("Before."))
    first = await listing(place)
    memory = dict(first.end.memory)
    place.put("a.html", text("After!"))
    if isinstance(place, FolderPlace):
        place.break_listing()
        broken = await listing(place, memory)
        place.root.with_name("unmounted").rename(place.root)
    elif isinstance(place, GithubPlace):
        place.break_listing()
        broken = await listing(place, memory)
        place.hub._limited = None
    else:
        assert isinstance(place, WebPlace)
        place.break_listing()
        broken = await listing(place, memory)
        place._write()

    healed = await listing(place, broken.end.memory)

    a = place.address("a.html")
    assert healed.refs[a].version != first.refs[a].version


async def test_large_place_comes_in_batches(place: Place) -> None:
    """Some more than twice five hundred things are at least three batches, and none is lost at a seam."""
    for n in range(MANY):
        if isinstance(place, WebPlace):
            place._pages[f"p{n:04}.html"] = n
        else:
            place.put(f"p{n:04}.html", "x")
    if isinstance(place, WebPlace):
        place._write()

    found = await listing(place)

    assert {place.address(f"p{n:04}.html") for n in range(MANY)} <= set(found.refs)
    assert len(found.batches) >= 3


# ── fetching ────────────────────────────────────────────────────────────────────────────────────


async def test_fetch_gives_body_type_and_etag(place: Place) -> None:
    """200 with the bytes that were put there, a content type and a validator; header names in lower case."""
    place.put("a.html", text("The words."))
    ref = (await listing(place)).refs[place.address("a.html")]

    answer = await fetch(place, item(ref))

    assert isinstance(answer, Fetched)
    assert answer.status == 200
    assert b"The words." in answer.body
    assert answer.header("content-type").startswith("text/html")
    assert answer.header("etag")
    assert all(name == name.lower() for name in answer.headers)
    assert answer.final_url == ref.address


async def test_same_etag_gives_304_without_a_body(place: Place) -> None:
    """What we have is confirmed for nothing."""
    place.put("a.html", text("The words."))
    ref = (await listing(place)).refs[place.address("a.html")]
    first = await fetch(place, item(ref))
    assert isinstance(first, Fetched)

    again = await fetch(place, item(ref, validators_url=ref.address), first.header("etag"))

    assert isinstance(again, Fetched)
    assert (again.status, again.body) == (304, b"")


async def test_changed_thing_is_found_by_its_validator(place: Place) -> None:
    """The old ETag gets the new bytes, also where no listing came in between."""
    place.put("a.html", text("Before."))
    ref = (await listing(place)).refs[place.address("a.html")]
    first = await fetch(place, item(ref))
    assert isinstance(first, Fetched)
    place.put("a.html", text("After!"))

    again = await fetch(place, item(ref, validators_url=ref.address, listed=""), first.header("etag"))

    assert isinstance(again, Fetched)
    assert again.status == 200
    assert b"After!" in again.body
    assert again.header("etag") != first.header("etag")


async def test_missing_thing_is_404(place: Place) -> None:
    """Nothing there is an answer, not a failure: while the place itself is there, it is gone."""
    place.put("a.html", text("A."))
    place.put("b.html", text("B."))
    ref = (await listing(place)).refs[place.address("a.html")]
    place.remove("a.html")

    answer = await fetch(place, item(ref))

    assert isinstance(answer, Fetched)
    assert (answer.status, answer.final_url) == (404, ref.address)
