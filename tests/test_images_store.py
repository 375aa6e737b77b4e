"""Images are children of their page: with it they come, change and go."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.doctor.io.index_checks import IndexChecks
from core.doctor.io.lua_check_runner import LuaChecks
from core.keys import Keys
from core.models import Image
from core.registry.io import image_records
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.item_queries import ItemQueries
from core.registry.io.periodic_cleanup import Purger
from core.registry.record import Item, Status
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.store.leases import Leases
from core.urls.normalise import normalise_url
from tests.crawled_site import SID, add_site, crawl_context, item
from tests.site import FILLER, Site
from tests.web import FakeWeb


class Gallery:
    """A site of one page with pictures, and the children that the store has of it."""

    def __init__(self, site: Site, context: Context) -> None:
        self.site, self.context = site, context
        self.url = site.url("/gallery")
        self.id = ids.item_id("url", normalise_url(self.url))
        self._edition = 0

    def show(self, *pictures: str, text: str = "Pictures of the river.") -> None:
        """The page with these pictures, `name` or `name|alt`."""
        self._edition += 1
        tags = "".join(
            f'<figure><img src="/{name}.jpg" alt="{alt}" width="800" height="600"></figure>'
            for name, _, alt in (picture.partition("|") for picture in pictures)
        )
        body = (
            "<!doctype html><html lang=en><head><title>Gallery</title></head><body><main><h1>Gallery</h1>"
            f"<p>{text}</p><p>{FILLER}</p>{tags}</main></body></html>"
        )
        self.site.web.page("/gallery", body, etag=f'"{self._edition}"')

    async def crawl(self) -> None:
        await crawl_source(self.context, SID, CrawlMode.INCREMENTAL)

    async def record(self) -> dict[str, str]:
        return await item(self.context, self.url)

    async def children(self) -> dict[str, dict[str, str]]:
        """Records of its images by file name."""
        members = await self.context.client.smembers(self.context.keys.images(self.id))
        found = [await self.context.client.hgetall(self.context.keys.item(name)) for name in members]
        return {one["fetchUrl"].rpartition("/")[2]: one for one in found}

    async def all_children(self) -> int:
        """How many records with a parent there are at all, linked or left behind."""
        names = await self.context.client.keys(self.context.keys.item("*"))
        return sum([bool(await self.context.client.hget(name, "parentPageId")) for name in names])


@pytest.fixture
async def gallery(settings: Settings, redis: connect.Client) -> AsyncIterator[Gallery]:
    async with FakeWeb() as web, crawl_context(settings) as context:
        site = Site(web)
        site.page("/", links=["/gallery", "/other"])
        site.page("/other")
        await add_site(context, site.url("/"))
        yield Gallery(site, context)


async def test_images_are_children_of_their_page(gallery: Gallery) -> None:
    """Each has an id of its own, its page's id and address, its origin, alt text and size; the page counts them."""
    gallery.show("weir|The weir in spring", "mill|The old mill")
    await gallery.crawl()

    children = await gallery.children()
    assert sorted(children) == ["mill.jpg", "weir.jpg"]
    weir = children["weir.jpg"]
    assert weir["parentPageId"] == gallery.id
    assert weir["parentPageUrl"] == weir["source"] == gallery.url
    assert (weir["altText"], weir["width"], weir["height"]) == ("The weir in spring", "800", "600")
    assert (weir["mimeType"], weir["status"], weir["nextCrawlAt"]) == ("image/jpeg", "Indexed", "")
    assert weir["id"] == f"url_{weir['RowKey']}" != gallery.id
    assert (await gallery.record())["imageCount"] == "2"
    assert (await gallery.record())["parentPageId"] == ""
    refs = await gallery.context.client.zrange(gallery.context.keys.refs(SID), 0, -1)
    assert weir["id"] not in refs


async def test_same_picture_on_two_pages_is_two_children(gallery: Gallery) -> None:
    """Each page has its own, so that one page's end does not take the other's picture."""
    gallery.show("weir")
    gallery.site.web.page(
        "/other",
        f"<html lang=en><body><main><h1>Other</h1><p>{FILLER}</p>"
        '<img src="/weir.jpg" width="800" height="600"></main></body></html>',
    )
    await gallery.crawl()
    assert await gallery.all_children() == 2
    gallery.site.remove("/other", 410)

    await gallery.crawl()

    assert await gallery.all_children() == 1
    assert sorted(await gallery.children()) == ["weir.jpg"]


async def test_images_are_in_the_sets_of_the_registry(gallery: Gallery) -> None:
    """By host and by status, as their records say; nothing waits for an embed worker because of them."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    client, keys = gallery.context.client, gallery.context.keys
    names = {record["id"] for record in (await gallery.children()).values()}

    assert len(names) == 2
    assert names <= await client.smembers(keys.partition("127.0.0.1"))
    assert names <= await client.smembers(keys.status("Indexed"))
    assert not names & await client.smembers(keys.status("Crawled"))
    assert not names & set(await client.zrange(keys.embed_due, 0, -1))
    checks = IndexChecks(client, keys, LuaChecks(client, keys, gallery.context.settings))
    assert [found async for some in checks.check_all() for found in some] == []


async def test_image_is_named_in_its_normal_form(gallery: Gallery) -> None:
    """Two spellings of one address are one image; what is fetched for it is as the page spells it."""
    gallery.show("weir", "weir.jpg?b=2&a=1#top", "weir.jpg?a=1&b=2&utm_source=feed")
    await gallery.crawl()

    sources = sorted(one["normalizedSource"] for one in (await gallery.children()).values())
    assert sources == [gallery.site.url("/weir.jpg"), gallery.site.url("/weir.jpg?a=1&b=2")]
    assert (await gallery.record())["imageCount"] == "2"
    assert await gallery.all_children() == 2


@pytest.mark.parametrize("how", ["404", "410", "other pictures", "purged"])
async def test_images_leave_the_sets_with_their_page(gallery: Gallery, how: str) -> None:
    """Whatever takes them away takes them out of partition and status."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    client, keys = gallery.context.client, gallery.context.keys
    names = {record["id"] for record in (await gallery.children()).values()}
    if how == "other pictures":
        gallery.show(text="No pictures any more.")
    else:
        gallery.site.remove("/gallery", 404 if how == "404" else 410)
    await gallery.crawl()
    if how == "purged":
        later = await connect.now(client) + 31 * 86_400
        assert await Purger(client, keys, 30 * 86_400).run(later) == 1

    assert names
    for key in [keys.partition("127.0.0.1"), *await client.keys(keys.status("*"))]:
        assert not names & await client.smembers(key), key
    assert [key for name in names for key in await client.keys(f"*{name}*")] == []


async def test_images_are_not_selected_for_a_reindex(gallery: Gallery) -> None:
    """They are read anew with their page; alone they would wait for ever."""
    gallery.show("weir")
    await gallery.crawl()
    queries = ItemQueries(gallery.context.client, gallery.context.keys)
    (image,) = (await gallery.children()).values()

    by_status = [name async for some in queries.of_status(Status.INDEXED) for name in some]
    by_host = [name async for some in queries.of_host("127.0.0.1", "host") for name in some]
    assert image["id"] not in [*by_status, *by_host]
    assert gallery.id in by_host


async def test_children_change_with_the_page(gallery: Gallery) -> None:
    """A new text with other pictures: those that went are removed, those that stayed are the same records."""
    gallery.show("weir|Before", "mill")
    await gallery.crawl()
    before = await gallery.children()
    gallery.show("weir|After", "lock", text="Other pictures of the river.")

    await gallery.crawl()

    after = await gallery.children()
    assert sorted(after) == ["lock.jpg", "weir.jpg"]
    assert after["weir.jpg"]["id"] == before["weir.jpg"]["id"]
    assert after["weir.jpg"]["altText"] == "After"
    assert (await gallery.record())["imageCount"] == "2"
    assert await gallery.all_children() == 2


async def test_other_pictures_under_the_same_text(gallery: Gallery) -> None:
    """The text decides whether the page changed; its children are what it shows now all the same."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    events = await gallery.context.client.xlen(gallery.context.keys.events)
    gallery.show("weir", "lock", "bridge")

    await gallery.crawl()

    assert sorted(await gallery.children()) == ["bridge.jpg", "lock.jpg", "weir.jpg"]
    assert (await gallery.record())["imageCount"] == "3"
    assert await gallery.all_children() == 3
    assert await gallery.context.client.xlen(gallery.context.keys.events) == events + 1  # run.finished, no item.changed


async def test_304_keeps_the_children(gallery: Gallery) -> None:
    """Nothing was read, nothing is touched."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    before = await gallery.children()

    await gallery.crawl()

    assert await gallery.children() == before
    assert (await gallery.record())["imageCount"] == "2"


@pytest.mark.parametrize("status", [404, 410])
async def test_children_go_with_the_page(gallery: Gallery, status: int) -> None:
    """Missing or gone: no picture is left behind; when the page is back, so are they."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    gallery.site.remove("/gallery", status)
    await gallery.crawl()
    assert await gallery.all_children() == 0
    assert await gallery.children() == {}
    assert (await gallery.record())["imageCount"] == "0"
    gallery.show("weir", "mill")

    await gallery.context.client.zadd(gallery.context.keys.due(SID), {gallery.id: 1})
    await gallery.crawl()

    assert sorted(await gallery.children()) == ["mill.jpg", "weir.jpg"]
    assert (await gallery.record())["imageCount"] == "2"


async def test_children_go_with_an_orphan(gallery: Gallery) -> None:
    """No page leads to it any more: it leaves with its pictures."""
    gallery.show("weir")
    await gallery.crawl()
    gallery.site.page("/", "Without a gallery.", links=["/other"])

    await gallery.crawl()

    assert (await gallery.record())["status"] == "Gone"
    assert await gallery.all_children() == 0


async def test_children_are_forgotten_with_the_page(gallery: Gallery) -> None:
    """Forget removes every key that names the page or its pictures."""
    gallery.show("weir", "mill")
    await gallery.crawl()
    children = await gallery.context.client.smembers(gallery.context.keys.images(gallery.id))

    forgetter = ItemForgetter(gallery.context.client, gallery.context.keys)
    await forgetter.items(await forgetter.remover.read([gallery.id]))

    assert len(children) == 2
    for name in (gallery.id, *children):
        assert await gallery.context.client.keys(f"*{name}*") == []
    assert await gallery.all_children() == 0


async def test_alias_has_no_children(gallery: Gallery) -> None:
    """Under its old name the page has no text and no pictures; under its new one it has them."""
    gallery.show("weir")
    await gallery.crawl()
    gallery.site.web._pages["/moved"] = gallery.site.web._pages["/gallery"]  # the same bytes
    gallery.site.web.redirect("/gallery", "/moved", 301)

    await gallery.crawl()

    assert await gallery.children() == {}
    moved = ids.item_id("url", normalise_url(gallery.site.url("/moved")))
    assert await gallery.context.client.scard(gallery.context.keys.images(moved)) == 1
    assert await gallery.context.client.exists(gallery.context.keys.document(moved))
    assert (await gallery.record())["aliasOf"] == moved
    assert gallery.site.web.paths.count("/moved") == 1


async def test_images_of_a_new_page_have_whole_records(redis: connect.Client, keys: Keys) -> None:
    """All but the first are copies on the server: each still has every field, its own values, and one time."""
    page = Item("url_page", source="https://a.example.com/p", fetch_url="https://a.example.com/p")
    images = [
        Image("https://a.example.com/1.jpg", "One", 800, 600, "image/jpeg"),
        Image("https://b.example.com/2.png", mime_type="image/png"),
        Image("https://a.example.com/1.jpg#again", "One again", 80, 60, "image/jpeg"),
        Image("javascript:nothing", "Nothing", 1, 1, ""),
    ]
    records = image_records.image_records(page, images, "host")
    await Leases(redis, keys).run(image_records.write(keys, page, records, 0.0, is_first=True))
    first = {name: await redis.hgetall(keys.item(name)) for name in records}
    await redis.flushdb()
    await Leases(redis, keys).run(image_records.write(keys, page, records, 0.0, is_first=False))

    assert first == {name: await redis.hgetall(keys.item(name)) for name in records}
    assert sorted((one["altText"], one["sourceHost"], one["width"]) for one in first.values()) == [
        ("", "b.example.com", ""),
        ("One again", "a.example.com", "80"),
    ]
    assert await redis.smembers(keys.images(page.id)) == set(records) == await redis.smembers(keys.status("Indexed"))
    assert {name for host in ("a", "b") for name in await redis.smembers(keys.partition(f"{host}.example.com"))} == {
        *records
    }
