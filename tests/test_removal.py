"""Whatever removes an item or an article removes all that belongs to it: looked for in every key of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest

from core import ids
from core.errors import FailCode
from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.models import Failed, Link, Ref
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.link_forgetter import LinkForgetter
from core.registry.io.periodic_cleanup import Pruner, Purger
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.domain_store import StoredDomain
from core.store import connect
from core.store.leases import Leases
from tests import commands
from tests.articles import ArticlePage
from tests.crawled_site import SID
from tests.search_site import Library, open_library
from tests.site import FILLER

DAY = 86_400
PICTURES = '<figure><img src="/weir.jpg" alt="The weir" width="800" height="600"></figure>'


@dataclass
class Scene:
    """A library with one page that has everything a page can have."""

    library: Library
    paper: ArticlePage
    amp: str
    """Another URL of the article."""
    words: tuple[str, ...]
    """Ids, uids and hashes that name the page, its images, its article and its alias."""

    @property
    def context(self) -> Context:
        return self.library.context

    async def traces(self, but: Iterable[str] = ()) -> list[str]:
        """Keys that still name it, but for those that have an end of their own."""
        keys, seen = self.context.keys, await commands.everything(self.context.client)
        skip = (keys.events, keys.done(""), keys.lost(SID), keys.lost("rss"), keys.run(""), "embed:cache:", *but)
        return [
            key
            for key, value in seen.items()
            if not key.startswith(skip) and any(word in f"{key} {value}" for word in self.words)
        ]

    async def memory(self) -> list[str]:
        """What is kept of a link that is still in its set: that it was tried."""
        keys = self.context.keys
        return [keys.attempted, keys.attempted_at]

    async def gone_events(self) -> list[str]:
        events = [fields for _, fields in await self.context.client.xrange(self.context.keys.events)]
        return [one["id"] for one in events if one["type"] == "item.gone" and one.get("deleted") == "true"]


async def build_context(library: Library, *, is_listed_by_site: bool) -> Scene:
    """An article with an alias, a failure, a feed entry, images, a snapshot, chunks, aliases, crashes, a lease."""
    context, web = library.context, library.site.web
    paper = ArticlePage(context, web, "/a")
    paper.write(f"The weir in spring. {FILLER}{PICTURES}")
    await paper.store()
    if is_listed_by_site:
        library.site.page("/", links=["/a", "/x"])
        await library.crawl()
        assert await context.client.zscore(context.keys.refs(SID), paper.id) is not None
        await context.client.sadd(context.keys.listed(SID), paper.id)
    paper.write(f"The weir in summer. {FILLER}{PICTURES}")  # the images and the snapshot come with a visit
    await paper.visit()
    await library.embed()
    client, keys = context.client, context.keys
    amp = f"{paper.url}?amp"
    alias = Link(amp, ids.article_uid(amp), ("world",))
    await Leases(client, keys).run(context.articles.alias(alias, paper.uid, await connect.now(client)))
    link, now = Link(paper.url, paper.uid, ("world",)), await connect.now(client)
    for code in FailCode:
        await Leases(client, keys).run(context.articles.fail(link, Failed(code), 1, now, now))
    await client.hset(keys.entry(paper.uid), mapping={"title": "A"})
    await client.sadd(keys.aliases(paper.id), paper.url + "?old")
    await client.set(keys.crashes(paper.id), 1)
    await client.set(keys.crashes(f"embed_{paper.id}"), 1)
    await client.sadd(keys.links(paper.id), "https://example.org/")
    await client.zadd(keys.embed_due, {paper.id: 1})
    images = await client.smembers(keys.images(paper.id))
    content_hash = (await paper.hash())["content_hash"]
    assert images
    assert content_hash
    assert await client.get(keys.content(content_hash)) == paper.uid
    assert await client.zcard(keys.chunks(paper.id)) > 0
    assert await client.exists(keys.snapshot(paper.id), keys.document(paper.id), keys.article(paper.uid)) == 3
    words = (paper.id, paper.uid, alias.uid, content_hash, *images)
    return Scene(library, paper, amp, words)


@pytest.fixture(params=[True, False], ids=["feed and site", "feed alone"])
async def scene(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Scene]:
    async with open_library(settings, {"/x": "Nothing of interest."}, snapshot_days=1) as library:
        yield await build_context(library, is_listed_by_site=request.param)


async def test_forget_leaves_nothing(scene: Scene) -> None:
    """By the wish of a person: also the memory of the link, and its places in link sets."""
    context = scene.context
    forgetter = ItemForgetter(context.client, context.keys)
    assert await LinkForgetter(forgetter).page(scene.paper.id, scene.paper.uid)

    assert await scene.traces() == []
    assert await scene.library.index_errors() == []
    assert await context.client.smembers(context.keys.category_links("world")) == set()
    assert await scene.gone_events() == [scene.paper.id]


async def test_gone_and_purged_leaves_the_memory_alone(scene: Scene) -> None:
    """410, then the end of the tombstone: only that the link was tried is left, until it is forgotten too."""
    context, paper = scene.context, scene.paper
    paper.web.gone("/a")
    await paper.visit()
    left = await scene.traces([*await scene.memory(), *_record_keys(scene)])
    assert left == []
    later = await connect.now(context.client) + scene.library.settings.gone_ttl_seconds + 10
    assert await Purger(context.client, context.keys, scene.library.settings.gone_ttl_seconds).run(later) == 1

    assert await scene.traces(await scene.memory()) == []
    assert await scene.library.index_errors() == []


def _record_keys(scene: Scene) -> list[str]:
    """What a tombstone keeps: its record, its outlinks, its places in sets of the registry."""
    keys, name = scene.context.keys, scene.paper.id
    own = [keys.item(name), keys.links(name), keys.partition(""), keys.status(""), keys.crashes(f"embed_{name}")]
    return [*own, *(place(sid) for sid in ("rss", SID) for place in (keys.refs, keys.due, keys.seen, keys.listed))]


async def test_duplicate_keeps_the_text_of_its_original(scene: Scene) -> None:
    """An article that was the second with its text goes without it, by a 410 as by a person."""
    context, paper = scene.context, scene.paper
    content = context.keys.content((await paper.hash())["content_hash"])
    await context.client.set(content, "0123456789abcdef")
    paper.web.gone("/a")
    await paper.visit()

    assert await context.client.get(content) == "0123456789abcdef"


async def test_category_takes_its_articles_along(settings: Settings) -> None:
    """An article of no other category goes with its item, the memory and the failures of its links."""
    async with open_library(settings, {"/x": "Nothing of interest."}, snapshot_days=1) as library:
        scene = await build_context(library, is_listed_by_site=False)
        context = scene.context
        await CategoryChanges(context.client, context.keys, Ttls.of(context.settings)).remove("world")

        assert await scene.traces([context.keys.attempted]) == []  # of the alias: its own link set would say
        assert await library.index_errors() == []
        assert await scene.gone_events() == [scene.paper.id]


async def test_article_of_another_category_only_leaves_this_one(scene: Scene) -> None:
    """Its text, its item and its chunks stay; search is told where it stands now."""
    context, paper = scene.context, scene.paper
    await context.client.sadd(context.keys.categories, "world", "local")
    await context.articles.enter_categories(paper.uid, ["local"])
    before = await context.client.zcard(context.keys.chunks(paper.id))
    await CategoryChanges(context.client, context.keys, Ttls.of(context.settings)).remove("world")

    assert await context.client.hmget(context.keys.article(paper.uid), ["category", "categories"]) == ["local", "local"]
    assert await context.client.exists(context.keys.articles_by_category("world")) == 0
    assert await context.client.smembers(context.keys.articles_by_category("local")) == {paper.uid}
    assert await context.client.zcard(context.keys.chunks(paper.id)) == before
    assert await paper.is_found() == (False, True)
    assert (await paper.events())[-1] == "item.listed"


async def test_ended_article_is_forgotten_after_its_memory(settings: Settings) -> None:
    """Its record lives 30 days longer; then nothing names it, wherever the clock of its last check stood."""
    async with open_library(settings, {"/x": "Nothing of interest."}, snapshot_days=1) as library:
        scene = await build_context(library, is_listed_by_site=False)
        context, paper = scene.context, scene.paper
        pruning, now = (
            Pruner(context.client, context.keys, Ttls.of(library.settings)),
            await connect.now(context.client),
        )
        await context.client.delete(context.keys.article(paper.uid))
        await pruning.run(["world"], now)
        await pruning.run(["world"], now + 29 * DAY)
        assert await paper.item()
        assert await scene.traces([*await scene.memory(), *_record_keys(scene)]) == []
        await pruning.run(["world"], now + 31 * DAY)

        assert await scene.traces(await scene.memory()) == []
        assert await library.index_errors() == []


async def test_domain_takes_its_pages_along(settings: Settings) -> None:
    """A page of a site alone: its record, its images, its chunks; the other page of the domain too."""
    async with open_library(settings, {"/x": "Nothing of interest."}, snapshot_days=1) as library:
        context = library.context
        library.site.page("/x", "Pictures.", head='<meta property="og:image" content="/weir.jpg">')
        await library.crawl()
        await library.embed()
        images = await context.client.smembers(context.keys.images(library.id("/x")))
        assert images
        scene = Scene(
            library, ArticlePage(context, library.site.web, "/x"), "", (library.id("/x"), library.id("/"), *images)
        )
        domain = StoredDomain("docs", sources=(SID,))
        await ItemForgetter(context.client, context.keys).domain(domain)

        assert await scene.traces() == []
        assert await library.index_errors() == []


async def test_purge_spares_what_was_revived(settings: Settings, redis: connect.Client) -> None:
    """A record that is Gone no more when the purge comes to it stays, and so does one that a worker has."""
    async with open_library(settings, {"/x": "Nothing of interest."}) as library:
        context = library.context
        ref = Ref("https://gone.example/1")
        await Registrar(context.client, context.keys, "host").register([ref], Listing("urls"), 1.0)
        name = item_id_of(ref)
        await context.client.sadd(context.keys.status("Gone"), name)  # its set says so still, its record not any more

        assert await Purger(context.client, context.keys, 10).run(1e9) == 0
        assert await context.client.exists(context.keys.item(name))
        await context.client.hset(context.keys.item(name), "status", "Gone")
        taken = await Leases(context.client, context.keys).acquire(name)
        assert taken
        assert await Purger(context.client, context.keys, 10).run(1e9) == 0
        assert await Leases(context.client, context.keys).commit(taken[0], ())
        assert await Purger(context.client, context.keys, 10).run(1e9) == 1
