"""Registering is the crawl queue: each thing once, due when it is new, whatever order it comes in."""

from __future__ import annotations

import json
from typing import Any

import fakeredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import ids
from core.keys import Keys
from core.models import Ref, RejectedUrl
from core.registry.blank_record import blank_record
from core.registry.io.due import DueItems
from core.registry.io.registrar import Listing, Registered, Registrar, item_id_of, ref_of
from core.registry.record import Status
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import Client
from core.urls.normalise import normalise_url
from tests.crawled_site import SID, add_site, crawl_context
from tests.site import Site
from tests.web import FakeWeb

NOW = 1_763_000_000.0
CANARY = "s3cr3t-canary"
SITE = Listing("docs.site")
SPEC_FIELDS = [
    "PartitionKey",
    "RowKey",
    "id",
    "type",
    "normalizedSource",
    "displaySource",
    "sourceHost",
    "parentPageId",
    "status",
    "reindexRequested",
    "reindexGeneration",
    "httpEtag",
    "httpLastModified",
    "httpContentLength",
    "httpStatusCode",
    "httpRedirectChain",
    "httpRobotsAllowed",
    "httpCanonicalUrl",
    "fileEtag",
    "fileLastModified",
    "fileLength",
    "fileContentType",
    "contentHash",
    "textHash",
    "language",
    "mimeType",
    "lastIndexedDocId",
    "imageCount",
    "firstSeen",
    "lastChecked",
    "lastChanged",
    "lastIndexed",
    "crawlAttempts",
    "errorMessage",
    "nextCrawlAt",
    "crawlIntervalSeconds",
]
"""The fields of a new registry record. There is no ETag of the record itself; leases stand for it."""


class Register:
    """A registrar and what it wrote."""

    def __init__(self, client: Client, keys: Keys, strategy: str = "host") -> None:
        self.client, self.keys = client, keys
        self.registrar = Registrar(client, keys, strategy)

    async def add(self, *refs: Ref | str, listing: Listing = SITE, now: float = NOW) -> Registered:
        return await self.registrar.register([Ref(r) if isinstance(r, str) else r for r in refs], listing, now)

    async def record(self, ref: Ref | str) -> dict[str, str]:
        item_id = item_id_of(Ref(ref) if isinstance(ref, str) else ref)
        return await self.client.hgetall(self.keys.item(item_id))

    async def due(self, source: str = SITE.source) -> dict[str, float]:
        return dict(await self.client.zrange(self.keys.due(source), 0, -1, withscores=True))

    async def dump(self) -> dict[str, Any]:
        """Everything in the store, readable."""
        return {key: await self._content(key) for key in sorted(await self.client.keys("*"))}

    async def _content(self, key: str) -> object:
        match await self.client.type(key):
            case "hash":
                return await self.client.hgetall(key)
            case "set":
                return await self.client.smembers(key)
            case "zset":
                return await self.client.zrange(key, 0, -1, withscores=True)
            case kind:
                raise AssertionError(kind)


@pytest.fixture
def register(any_redis: Client, keys: Keys) -> Register:
    return Register(any_redis, keys)


# ── a new record ────────────────────────────────────────────────────────────────────────────────


async def test_new_record_has_every_field_of_the_spec(register: Register) -> None:
    """All fields of the record from the first moment on, `Pending`, due now, in its partition and its source."""
    await register.add(Ref("https://contoso.com/blog/post-1", depth=2))

    record = await register.record("https://contoso.com/blog/post-1")
    assert set(SPEC_FIELDS) <= set(record)
    assert (record["status"], record["type"], record["crawlAttempts"]) == ("Pending", "url", "0")
    assert record["firstSeen"] == record["nextCrawlAt"] == "2025-11-13T02:13:20Z"
    assert (record["PartitionKey"], record["sourceHost"], record["sources"]) == ("contoso.com",) * 2 + ("docs.site",)
    assert record["id"] == f"url_{record['RowKey']}" == ids.item_id("url", "https://contoso.com/blog/post-1")
    assert len(record["RowKey"]) == 26
    assert (record["reindexRequested"], record["reindexGeneration"]) == ("false", "0")
    assert await register.client.smembers(register.keys.partition("contoso.com")) == {record["id"]}
    assert await register.client.smembers(register.keys.status("Pending")) == {record["id"]}
    assert await register.client.zrange(register.keys.refs("docs.site"), 0, -1, withscores=True) == [(record["id"], 2)]
    assert await register.due() == {record["id"]: NOW}


async def test_file_record_has_them_too(register: Register) -> None:
    """A file's partition is its scheme, its host is empty."""
    ref = Ref("/srv/shelf/a.md", "file", version="1:2")
    await register.add(ref)

    record = await register.record(ref)
    assert set(SPEC_FIELDS) <= set(record)
    assert (record["type"], record["PartitionKey"], record["sourceHost"]) == ("file", "file", "")
    assert record["listedVersion"] == "1:2"
    assert record["id"].startswith("file_")


@pytest.mark.parametrize(
    ("ref", "strategy", "partition"),
    [
        (Ref("https://contoso.com/a"), "host", "contoso.com"),
        (Ref("https://contoso.com/a"), "scheme", "https"),
        (Ref("http://contoso.com/a"), "scheme", "http"),
        (Ref("https://contoso.com:8443/a"), "host", "contoso.com"),
        (Ref("/srv/a.md", "file"), "host", "file"),
        (Ref("/srv/a.md", "file"), "scheme", "file"),
        (Ref("C:\\Docs\\a.md", "file"), "host", "file"),
        (Ref("//server/share/a.md", "file"), "host", "share"),
        (Ref("https://acc.blob.core.windows.net/c/a.pdf", "file"), "host", "blob"),
        (Ref("https://acc.blob.core.windows.net/c/a.pdf", "file"), "scheme", "blob"),
    ],
)
async def test_partition(redis: Client, keys: Keys, ref: Ref, strategy: str, partition: str) -> None:
    """REGISTRY_PARTITION_STRATEGY: the host of a URL or its scheme; a file always has its scheme."""
    register = Register(redis, keys, strategy)
    await register.add(ref)

    record = await register.record(ref)
    assert record["PartitionKey"] == partition
    assert record["id"] in await redis.smembers(keys.partition(partition))


async def test_names_of_the_registry(redis: Client, settings: Settings) -> None:
    """REGISTRY_TABLE_NAME renames the family `ingest:`, KEY_PREFIX stands before all keys; nothing else is written."""
    changed = settings.model_copy(update={"registry_table_name": "MyItems", "key_prefix": "{a}:"})
    register = Register(redis, Keys.of(changed))
    await register.add("https://contoso.com/a")

    item_id = item_id_of(Ref("https://contoso.com/a"))
    assert set(await redis.keys("*")) == {
        f"{{a}}:MyItems:item:{item_id}",
        "{a}:MyItems:partition:contoso.com",
        "{a}:MyItems:status:Pending",
        "{a}:source:docs.site:refs",
        "{a}:source:docs.site:due",
        "{a}:source:docs.site:seen",
    }


# ── identity ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "same"),
    [
        ("https://Contoso.com/a", "https://contoso.com/a"),
        ("https://contoso.com/a/", "https://contoso.com/a"),
        ("https://contoso.com/a#part", "https://contoso.com/a"),
        ("https://contoso.com:443/a", "https://contoso.com/a"),
        ("https://contoso.com/a?b=1&a=2", "https://contoso.com/a?a=2&b=1"),
        ("https://contoso.com/a?utm_source=x&gclid=1&fbclid=2&msclkid=3", "https://contoso.com/a"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
    ],
)
async def test_spellings_of_one_url_are_one_item(register: Register, first: str, same: str) -> None:
    """Case, fragment, default port, trackers, order of parameters, punycode: one record."""
    one, other = ref_of(first, "url"), ref_of(same, "url")
    assert isinstance(one, Ref)
    assert isinstance(other, Ref)

    added = await register.add(one)
    again = await register.add(other)

    assert (len(added.new), again.new, again.known) == (1, (), added.new)
    assert await register.client.zcard(register.keys.refs("docs.site")) == 1
    assert "utm_" not in json.dumps(await register.record(one))


async def test_punycode_is_identity_and_unicode_is_display(register: Register) -> None:
    """ASCII for comparing and fetching, people's letters for people."""
    ref = ref_of("https://bücher.example/a", "url")
    assert isinstance(ref, Ref)
    await register.add(ref)

    record = await register.record(ref)
    assert record["normalizedSource"] == record["fetchUrl"] == "https://xn--bcher-kva.example/a"
    assert record["displaySource"] == "https://bücher.example/a"
    assert record["PartitionKey"] == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("path", "normalised"),
    [
        ("C:\\Docs\\A.MD", "c:/docs/a.md"),
        ("c:/docs//a.md/", "c:/docs/a.md"),
        ("file:///C:/Docs/a.md", "c:/docs/a.md"),
        ("/srv//shelf/./a.md", "/srv/shelf/a.md"),
        ("file:///srv/shelf/a.md", "/srv/shelf/a.md"),
        ("\\\\Server\\Share\\a.md", "//server/share/a.md"),
        (
            f"https://Acc.blob.core.windows.net/c//a.pdf?sv=2024&sig={CANARY}",
            "https://acc.blob.core.windows.net/c/a.pdf",
        ),
    ],
)
async def test_spellings_of_one_file_are_one_item(register: Register, path: str, normalised: str) -> None:
    """Drive, case, slashes, file: URIs and SAS tokens make no difference."""
    ref = ref_of(path, "file")
    assert isinstance(ref, Ref)
    await register.add(ref)

    record = await register.record(ref)
    assert record["normalizedSource"] == normalised
    assert record["id"] == ids.item_id("file", normalised)
    assert CANARY not in str(await register.dump())


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (f"https://contoso.com/a?sig={CANARY}&x=1", "url"),
        (f"https://contoso.com/a?access_token={CANARY}", "url"),
        (f"https://contoso.com/a?X-Amz-Signature={CANARY}", "url"),
        (f"https://user:{CANARY}@contoso.com/a", "url"),
        (f"https://acc.blob.core.windows.net/c/a.pdf?sv=1&se=2&sig={CANARY}", "file"),
        (f"https://acc.blob.core.windows.net/c/a.pdf%3Fsv=1&sig={CANARY}", "file"),
        (f"https://user:{CANARY}@acc.blob.core.windows.net/c/a.pdf", "file"),
        (f"file://user:{CANARY}@server/share/a", "file"),
    ],
)
async def test_secrets_are_stored_nowhere(register: Register, source: str, kind: str) -> None:
    """SAS tokens, signatures and passwords are in no key, no value and no refusal; named or refused, never kept."""
    found = ref_of(source, kind)

    assert CANARY not in repr(found)
    if isinstance(found, Ref):
        await register.add(found)
        assert CANARY not in str(await register.dump())


async def test_what_cannot_be_named_is_refused_with_a_reason(register: Register) -> None:
    """A relative address or a foreign scheme has no identity: resolving is the caller's business."""
    for source, kind in (("a/b.md", "file"), ("/a", "url"), ("ftp://x.org/a", "url"), ("", "url"), ("C:a.md", "file")):
        found = ref_of(source, kind)
        assert isinstance(found, RejectedUrl), source
        assert found.reason


# ── again and again ─────────────────────────────────────────────────────────────────────────────


async def test_registering_again_changes_nothing(register: Register) -> None:
    """The ingestor registers every ten minutes; the time of the next crawl stays what it was."""
    await register.add("https://contoso.com/a")
    item_id = item_id_of(Ref("https://contoso.com/a"))
    await register.client.zadd(register.keys.due("docs.site"), {item_id: NOW + 86_400})
    await register.client.hset(register.keys.item(item_id), mapping={"status": "Indexed", "nextCrawlAt": "later"})
    before = await register.record("https://contoso.com/a")

    again = await register.add("https://contoso.com/a", now=NOW + 600)

    assert again == Registered(known=(item_id,))
    assert await register.record("https://contoso.com/a") == before
    assert await register.due() == {item_id: NOW + 86_400}
    assert await register.client.zscore(register.keys.seen("docs.site"), item_id) == NOW + 600


async def test_force_is_the_one_way_to_be_due_again(register: Register) -> None:
    """It raises the generation once per force, however often the call is resent."""
    await register.add("https://contoso.com/a")
    item_id = item_id_of(Ref("https://contoso.com/a"))
    await register.client.zadd(register.keys.due("docs.site"), {item_id: NOW + 86_400})
    forced = Listing("docs.site", force=True, token="one")

    for _ in range(3):
        await register.add("https://contoso.com/a", listing=forced)

    record = await register.record("https://contoso.com/a")
    assert (record["reindexGeneration"], record["reindexRequested"]) == ("1", "true")
    assert (await register.due())[item_id] <= NOW
    await register.add("https://contoso.com/a", listing=Listing("docs.site", force=True, token="two"))
    assert (await register.record("https://contoso.com/a"))["reindexGeneration"] == "2"


async def test_moved_version_is_due_at_once_if_it_is_believed(register: Register) -> None:
    """A listing that says that the content has moved needs no schedule; one that is not believed changes none."""
    ref = Ref("https://contoso.com/a", version="1")
    item_id = item_id_of(ref)
    for believes, wanted in ((False, NOW + 86_400), (True, NOW + 5)):
        await register.add(ref)
        await register.client.hset(register.keys.item(item_id), "visitedVersion", "1")
        await register.client.zadd(register.keys.due("docs.site"), {item_id: NOW + 86_400})
        moved = Ref("https://contoso.com/a", version="2")
        said = await register.add(moved, listing=Listing("docs.site", believes_versions=believes), now=NOW + 5)
        assert said.moved == ((item_id,) if believes else ())
        assert await register.due() == {item_id: wanted}
        await register.client.flushall()


async def test_tombstone_is_revived_by_a_listing_that_proves_something(register: Register) -> None:
    """A file that is listed is there; a link to a page proves nothing."""
    ref = Ref("/srv/a.md", "file")
    await register.add(ref)
    item_id = item_id_of(ref)
    await register.client.hset(register.keys.item(item_id), "status", str(Status.GONE))
    await register.client.zadd(register.keys.due("docs.site"), {item_id: NOW + 86_400})

    assert (await register.add(ref)).moved == ()
    assert (await register.add(ref, listing=Listing("docs.site", revives=True))).moved == (item_id,)
    assert (await register.due())[item_id] == NOW


async def test_second_source_is_added_to_the_record(register: Register) -> None:
    """One record, both sources, due in each."""
    await register.add("https://contoso.com/a")
    await register.add("https://contoso.com/a", listing=Listing("other.site"), now=NOW + 9)
    await register.add("https://contoso.com/a", listing=Listing("other.site"), now=NOW + 99)

    record = await register.record("https://contoso.com/a")
    assert record["sources"] == "docs.site,other.site"
    assert [fields["type"] for _, fields in await register.client.xrange(register.keys.events)] == ["item.listed"]
    assert await register.due("docs.site") == {record["id"]: NOW}
    assert await register.due("other.site") == {record["id"]: NOW + 9}


async def test_source_has_room_for_so_many(register: Register) -> None:
    """Beyond max pages nothing is written; what is known is always known."""
    full = Listing("docs.site", most=3)
    pages = [Ref(f"https://contoso.com/{n}") for n in range(5)]

    said = await register.add(*pages, listing=full)

    assert (len(said.new), len(said.left_out)) == (3, 2)
    assert await register.client.zcard(register.keys.refs("docs.site")) == 3
    assert len(await register.client.keys(register.keys.item("*"))) == 3
    assert (await register.add(*pages, listing=full)).known == said.new


async def test_batch_of_five_hundred_is_one_step(register: Register) -> None:
    """The largest batch of any source fits."""
    said = await register.add(*(Ref(f"https://contoso.com/{n}", version=str(n)) for n in range(500)))

    assert len(said.new) == 500
    assert len(await register.due()) == 500


# ── order ───────────────────────────────────────────────────────────────────────────────────────

SPELLINGS = [
    *(Ref("https://contoso.com/a", depth=depth) for depth in (0, 3)),
    Ref("https://contoso.com/a/", depth=1),
    Ref("https://contoso.com/b?x=1&a=2", depth=2),
    Ref("https://contoso.com/b?a=2&x=1", depth=2),
    Ref("https://xn--bcher-kva.example/", depth=1),
    Ref("https://contoso.com/c", depth=1, version="7"),
    Ref("/srv/a.md", "file", version="1:2"),
    Ref("/srv//a.md", "file", version="1:2"),
    Ref("C:/Docs/a.md", "file"),
    Ref("c:/docs/A.md", "file"),
]


async def _registry(calls: list[list[Ref]]) -> dict[str, Any]:
    async with fakeredis.FakeAsyncRedis(decode_responses=True) as client:
        register = Register(client, Keys())
        for refs in calls:
            await register.add(*refs)
        found = await register.dump()
        await client.aclose()
        return found


REFERENCE: dict[str, Any] = {}


@given(st.permutations(SPELLINGS), st.lists(st.sampled_from(SPELLINGS), max_size=6), st.integers(1, 6))
async def test_order_and_repetition_make_no_difference(order: list[Ref], more: list[Ref], size: int) -> None:
    """Any permutation, any repetition, any cut into batches: the same registry, byte for byte."""
    if not REFERENCE:
        REFERENCE.update(await _registry([[ref] for ref in SPELLINGS]))
    everything = [*more, *order, *more]
    calls = [everything[at : at + size] for at in range(0, len(everything), size)]

    assert await _registry(calls) == REFERENCE


async def test_shortest_way_is_the_depth(register: Register) -> None:
    """A page that is found deep first and near later is near: max_depth does not depend on who was faster."""
    for depth in (5, 2, 4):
        await register.add(Ref("https://contoso.com/a", depth=depth))

    item_id = item_id_of(Ref("https://contoso.com/a"))
    assert await register.client.zscore(register.keys.refs("docs.site"), item_id) == 2


async def test_visited_item_keeps_the_address_its_validators_belong_to(register: Register) -> None:
    """Another spelling that sorts before it changes nothing any more."""
    await register.add("https://contoso.com/a/")
    item_id = item_id_of(Ref("https://contoso.com/a/"))
    await register.client.hset(register.keys.item(item_id), "crawlAttempts", "1")

    await register.add("https://contoso.com/a")

    assert (await register.record("https://contoso.com/a"))["fetchUrl"] == "https://contoso.com/a/"


# ── forcing ─────────────────────────────────────────────────────────────────────────────────────


async def test_make_due_forces_once_and_unparks(register: Register) -> None:
    """Due in every source of the item, the generation raised once per token, the crash counter forgotten."""
    await register.add("https://contoso.com/a")
    await register.add("https://contoso.com/a", listing=Listing("other.site"))
    item_id = item_id_of(Ref("https://contoso.com/a"))
    for source in ("docs.site", "other.site"):
        await register.client.zrem(register.keys.due(source), item_id)
    await register.client.set(register.keys.crashes(item_id), 3)
    due = DueItems(register.client, register.keys)

    for _ in range(2):
        said = await due.make_due([item_id, "url_nobody"], NOW, force=True, token="t")

    assert said == [True, False]
    record = await register.record("https://contoso.com/a")
    assert (record["reindexGeneration"], record["reindexRequested"]) == ("1", "true")
    assert await register.due("docs.site") == await register.due("other.site") == {item_id: NOW}
    assert not await register.client.exists(register.keys.crashes(item_id))
    assert not await register.client.exists(register.keys.item("url_nobody"))


def test_normal_form_is_what_urls_say() -> None:
    """One opinion on identity, also for what the registrar is given raw."""
    ref = Ref("https://contoso.com/a/?b=1&a=2")
    assert item_id_of(ref) == ids.item_id("url", normalise_url(ref.address))


# ── in a crawl ──────────────────────────────────────────────────────────────────────────────────


async def test_nearer_way_opens_what_was_too_deep(settings: Settings, redis: Client) -> None:
    """A page comes nearer by a new link; what it leads to is in reach then, though the page itself is unchanged."""
    async with FakeWeb() as web, crawl_context(settings) as context:
        site = Site(web)
        for path, link in (("/", "/1"), ("/1", "/2"), ("/2", "/deep"), ("/deep", "/deeper"), ("/deeper", "/")):
            site.page(path, links=[link])
        await add_site(context, site.url("/"), max_depth=3, sitemap=False)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        refs = context.keys.refs(SID)
        assert await redis.zscore(refs, item_id_of(Ref(site.url("/deep")))) == 3
        assert await redis.zscore(refs, item_id_of(Ref(site.url("/deeper")))) is None
        site.page("/", "A new menu.", links=["/1", "/deep"])

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await redis.zscore(refs, item_id_of(Ref(site.url("/deep")))) == 1
        assert await redis.zscore(refs, item_id_of(Ref(site.url("/deeper")))) == 2


async def test_signature_in_a_link_is_stored_nowhere(settings: Settings, redis: Client) -> None:
    """A page that leaks a signed link: the link is followed without it, and no key holds it."""
    async with FakeWeb() as web, crawl_context(settings) as context:
        site = Site(web)
        site.page("/", links=[f"/a?x=1&sig={CANARY}", f"http://user:{CANARY}@127.0.0.1:{web.port}/b"])
        site.page("/a", "Behind a signature.")
        await add_site(context, site.url("/"))

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert [seen.target for seen in web.asked("/a")] == ["/a?x=1"]
        for key in await redis.keys("*"):
            assert CANARY not in key
            assert CANARY not in str(await content(redis, key)), key


async def content(client: Client, key: str) -> object:
    match await client.type(key):
        case "string":
            return await client.get(key)
        case "stream":
            return await client.xrange(key)
        case "list":
            return await client.lrange(key, 0, -1)
        case _:
            return await Register(client, Keys())._content(key)


async def test_every_new_record_of_a_batch_is_whole(any_redis: Client, keys: Keys) -> None:
    """Each has all fields, its own among them, and nothing is left of what they were copied from."""
    refs = [Ref(f"https://contoso.com/{'long/' * n}{n}") for n in range(40)]
    await Registrar(any_redis, keys, "host").register(refs, SITE, NOW)

    for ref in refs:
        address = normalise_url(ref.address)
        blank = blank_record(address, ref.address, NOW)
        stored = await any_redis.hgetall(keys.item(item_id_of(ref)))
        assert stored == blank | {"sources": "docs.site", "addedTs": "1763000000"}
    assert await any_redis.zcard(keys.refs("docs.site")) == await any_redis.zcard(keys.due("docs.site")) == 40
    assert await any_redis.zcard(keys.seen("docs.site")) == await any_redis.scard(keys.status("Pending")) == 40
    assert await any_redis.scard(keys.partition("contoso.com")) == 40
    assert await any_redis.exists(keys.item("template")) == 0


async def test_lost_record_is_made_again(redis: Client, keys: Keys) -> None:
    """An item that its source lists, but whose record is gone, gets a blank one that claims no source."""
    ref = Ref("https://contoso.com/a")
    registrar = Registrar(redis, keys, "host")
    await registrar.register([ref], SITE, NOW)
    await redis.delete(keys.item(item_id_of(ref)))
    done = await registrar.register([ref], SITE, NOW + 9)
    stored = await redis.hgetall(keys.item(item_id_of(ref)))

    assert done == Registered(known=(item_id_of(ref),))
    assert (stored["sources"], stored["fetchUrl"], "addedTs" in stored) == ("", ref.address, False)
