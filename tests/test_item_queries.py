"""Which items somebody means, and which links are tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core import ids
from core.errors import FailCode
from core.feeds.io.link_store import FailedLinks, Ttls
from core.keys import Keys
from core.models import Failed, Link, Ref
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry.io.article_store import ArticleStore
from core.registry.io.item_queries import ItemQueries, ResolvedName
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.registry.record import Status
from core.store.connect import Client
from core.store.leases import Leases
from core.urls.normalise import host_of

NOW = 1_800_000_000.0
LIVES = Ttls(link=172_800, attempted=2_592_000, article=604_800)
HERE = Path("/work")


async def all_of(batches: AsyncIterator[list[str]]) -> list[str]:
    return [name async for some in batches for name in some]


async def register(redis: Client, keys: Keys, source: str, *addresses: str, kind: str = "url") -> list[str]:
    refs = [Ref(address, kind) for address in addresses]
    await redis.sadd(keys.sources, source)
    await Registrar(redis, keys, "host").register(refs, Listing(source), NOW)
    return [item_id_of(ref) for ref in refs]


async def store_article(redis: Client, keys: Keys, url: str, item_id: str, category: str = "world") -> str:
    uid = ids.article_uid(url)
    await redis.hset(keys.article(uid), mapping={"uid": uid, "item_id": item_id, "categories": category})
    await redis.sadd(keys.articles_by_category(category), uid)
    return uid


# ── one ─────────────────────────────────────────────────────────────────────────────────────────


async def test_an_item_by_its_id(redis: Client, keys: Keys) -> None:
    """The name that reports show."""
    (item_id,) = await register(redis, keys, "docs.site", "https://example.org/a")

    assert await ItemQueries(redis, keys).resolve(item_id, HERE) == ResolvedName(item_id)


@pytest.mark.parametrize("word", ["https://example.org/a?b=2&a=1", "HTTPS://EXAMPLE.org/a/?a=1&utm_source=x&b=2#top"])
async def test_an_item_by_any_spelling_of_its_url(redis: Client, keys: Keys, word: str) -> None:
    """The normal form decides."""
    (item_id,) = await register(redis, keys, "docs.site", "https://example.org/a?a=1&b=2")

    assert (await ItemQueries(redis, keys).resolve(word, HERE)).item_id == item_id


async def test_an_article_by_its_uid_its_alias_and_its_alias_url(redis: Client, keys: Keys) -> None:
    """Every name of an article leads to its item."""
    (item_id,) = await register(redis, keys, "rss", "https://example.org/a")
    uid = await store_article(redis, keys, "https://example.org/a", item_id)
    amp = "https://amp.example.org/a"
    await redis.set(keys.alias(ids.article_uid(amp)), uid)
    queries = ItemQueries(redis, keys)

    assert await queries.resolve(uid, HERE) == ResolvedName(item_id, uid)
    assert await queries.resolve(ids.article_uid(amp), HERE) == ResolvedName(item_id, ids.article_uid(amp))
    assert await queries.resolve(amp, HERE) == ResolvedName(item_id, ids.article_uid(amp))


@pytest.mark.parametrize("word", ["/work/notes/a.md", "notes/a.md", "./notes/../notes/a.md", "file:///work/notes/a.md"])
async def test_a_file_by_its_path(redis: Client, keys: Keys, word: str) -> None:
    """Absolute, relative to where the person stands, or as a URI."""
    (item_id,) = await register(redis, keys, "docs.notes", "/work/notes/a.md", kind="file")

    assert (await ItemQueries(redis, keys).resolve(word, HERE)).item_id == item_id


@pytest.mark.parametrize("word", ["https://example.org/b", "url_nothing", "/no/file", "", "javascript:1", "a\0b"])
async def test_what_is_not_known_has_no_item(redis: Client, keys: Keys, word: str) -> None:
    """And nothing is raised, whatever the word is."""
    assert (await ItemQueries(redis, keys).resolve(word, HERE)).item_id == ""


# ── many ────────────────────────────────────────────────────────────────────────────────────────


async def test_sources_give_a_shared_item_once(redis: Client, keys: Keys) -> None:
    """Also when two of the sources asked for list it."""
    a, b = await register(redis, keys, "docs.one", "https://example.org/a", "https://example.org/b")
    await register(redis, keys, "docs.two", "https://example.org/b", "https://example.org/c")
    queries = ItemQueries(redis, keys)

    assert sorted(await all_of(queries.of_sources(["docs.one"]))) == sorted([a, b])
    assert len(await all_of(queries.of_sources(["docs.one", "docs.two"]))) == 3
    assert len(await all_of(queries.of_all())) == 3


async def test_a_category_gives_the_items_of_its_articles(redis: Client, keys: Keys) -> None:
    """Articles that have ended are passed over."""
    (item_id,) = await register(redis, keys, "rss", "https://example.org/a")
    await store_article(redis, keys, "https://example.org/a", item_id)
    await redis.sadd(keys.articles_by_category("world"), "0123456789abcdef")

    assert await all_of(ItemQueries(redis, keys).of_category("world")) == [item_id]


@pytest.mark.parametrize("strategy", ["host", "scheme"])
async def test_a_host_by_either_partition(redis: Client, keys: Keys, strategy: str) -> None:
    """Whatever the registry is partitioned by."""
    refs = [Ref("https://example.org/a"), Ref("https://other.org/a")]
    await Registrar(redis, keys, strategy).register(refs, Listing("docs.site"), NOW)

    assert await all_of(ItemQueries(redis, keys).of_host("example.org", strategy)) == [item_id_of(refs[0])]


async def test_statuses(redis: Client, keys: Keys) -> None:
    """What nobody has visited is pending."""
    names = await register(redis, keys, "docs.site", "https://example.org/a", "https://example.org/b")

    assert sorted(await all_of(ItemQueries(redis, keys).of_status(Status.PENDING))) == sorted(names)
    assert await all_of(ItemQueries(redis, keys).of_status(Status.GONE)) == []


async def test_stale_is_what_an_older_extractor_read(redis: Client, keys: Keys) -> None:
    """What was never read is not stale, and what the current one read is not either."""
    _, old, new = await register(redis, keys, "docs.site", *(f"https://example.org/{name}" for name in "abc"))
    await redis.hset(keys.item(old), "extractorVersion", "0")
    await redis.hset(keys.item(new), "extractorVersion", EXTRACTOR_VERSION)

    assert await all_of(ItemQueries(redis, keys).stale()) == [old]


async def test_a_large_selection_comes_in_pieces(redis: Client, keys: Keys) -> None:
    """No batch holds more than a scan gives."""
    await register(redis, keys, "docs.site", *(f"https://example.org/{n}" for n in range(5_000)))
    sizes = [len(some) async for some in ItemQueries(redis, keys).of_all()]

    assert sum(sizes) == 5_000
    assert max(sizes) < 2_500


async def test_selecting_writes_nothing(redis: Client, keys: Keys) -> None:
    """It may be used to look before something is done."""
    await register(redis, keys, "docs.site", "https://example.org/a")
    before = {key: await redis.dump(key) for key in await redis.keys("*")}
    queries = ItemQueries(redis, keys)
    for batches in (queries.of_all(), queries.stale(), queries.of_category("x"), queries.of_host("x", "host")):
        await all_of(batches)
    await queries.resolve("https://example.org/zzz", HERE)

    assert {key: await redis.dump(key) for key in await redis.keys("*")} == before


# ── links that gave no article ──────────────────────────────────────────────────────────────────


async def fail(redis: Client, keys: Keys, url: str, retry_at: float | None) -> str:
    link = Link(url, ids.article_uid(url), ("world",))
    commands = ArticleStore(redis, keys, LIVES).fail(link, Failed(FailCode.TIMEOUT), 1, retry_at, NOW)
    await Leases(redis, keys).run(commands)
    return link.uid


async def test_links_without_an_article_are_found(redis: Client, keys: Keys) -> None:
    """Failed for good, waiting for another try, or gone from the link set; not what is stored or never tried."""
    stored, fresh, failed, waiting, left = (f"https://example.org/{name}" for name in "abcde")
    await redis.sadd(keys.category_links("world"), stored, fresh, failed, waiting)
    await redis.sadd(keys.attempted, await store_article(redis, keys, stored, "url_x"))
    found = {await fail(redis, keys, failed, None), await fail(redis, keys, left, None)}
    found.add(await fail(redis, keys, waiting, NOW + 600))
    await fail(redis, keys, "https://example.org/other", None)
    await redis.hset(keys.failure(ids.article_uid("https://example.org/other")), "category", "sport")

    assert set(await all_of(FailedLinks(redis, keys).in_category("world"))) == found
    assert host_of(fresh) == "example.org"


async def test_tried_again_means_now_and_keeps_the_story(redis: Client, keys: Keys) -> None:
    """Out of the memory, due for another try, and the failure stays to be read."""
    failed = await fail(redis, keys, "https://example.org/a", None)
    waiting = await fail(redis, keys, "https://example.org/b", NOW + 600)
    failed_links = FailedLinks(redis, keys)
    await failed_links.retry([failed, waiting], NOW)
    await failed_links.retry([failed, waiting], NOW)

    assert await redis.zrange(keys.retry, 0, -1, withscores=True) == [(uid, NOW) for uid in sorted([failed, waiting])]
    assert not await redis.sismember(keys.attempted, failed)
    assert await redis.zscore(keys.attempted_at, failed) is None
    assert await redis.hget(keys.failure(failed), "code") == "FAIL_TIMEOUT"
