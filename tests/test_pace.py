"""A pace per host, feed and source. Gaps are thousands of seconds here, so that no clock can blur the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.keys import Keys
from core.models import Deferred, Fetched, FetchRequest, Ref
from core.net.fetcher import Fetcher
from core.net.pace_store import PaceStore, source_commands
from core.net.rate_limit import Admission, Gate
from core.registry.io.due import NO_SHARE, DueItems, HostShares
from core.registry.io.registrar import Listing, Registrar
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import Client
from core.store.leases import Leases
from core.urls.pace import (
    COMMAND,
    NOTHING,
    HostPace,
    PaceDefaults,
    PaceOption,
    Paces,
    PaceScope,
    StoredPace,
    checked_host,
    checked_option,
    hosts_of_url,
)
from tests.crawled_site import SID, add_site, crawl_context, item
from tests.dns import FakeDns
from tests.site import Site
from tests.web import FakeWeb

GAP = 1_000.0
DEFAULTS = PaceDefaults(GAP)
FILE = "/srv/feeds.toml"


def host(name: str, origin: str = FILE, **option: Any) -> StoredPace:
    return StoredPace(PaceScope.HOST, name, origin, PaceOption(**option))


def source(sid: str, gap: float, *hosts: str) -> StoredPace:
    return StoredPace(PaceScope.SOURCE, sid, sid.partition(".")[0], PaceOption(gap_seconds=gap), hosts)


def feed(fid: str, origin: str = FILE, hosts: tuple[str, ...] = (), **option: Any) -> StoredPace:
    return StoredPace(PaceScope.FEED, fid, origin, PaceOption(**option), hosts)


# ── which pace holds ────────────────────────────────────────────────────────────────────────────

DOCS = ("docs.example.org", 443)
RESOLUTIONS: list[tuple[str, list[StoredPace], tuple[str, int], tuple[str, float, int | None]]] = [
    ("nothing is set", [], DOCS, ("example.org", GAP, 2)),
    ("a host", [host("docs.example.org", gap_seconds=0)], DOCS, ("host:docs.example.org", 0, None)),
    ("its sibling", [host("docs.example.org", gap_seconds=0)], ("www.example.org", 443), ("example.org", GAP, 2)),
    ("the apex alone", [host("example.org", gap_seconds=0)], ("example.org", 443), ("host:example.org", 0, None)),
    ("below the apex", [host("example.org", gap_seconds=0)], DOCS, ("example.org", GAP, 2)),
    ("slower", [host("docs.example.org", gap_seconds=9_000)], DOCS, ("host:docs.example.org", 9_000, 2)),
    ("parallel", [host("docs.example.org", gap_seconds=0, parallel=8)], DOCS, ("host:docs.example.org", 0, 8)),
    ("parallel alone", [host("docs.example.org", parallel=8)], DOCS, ("host:docs.example.org", GAP, 8)),
    ("all hosts", [host("*.example.org", gap_seconds=1)], DOCS, ("example.org", 1, 2)),
    (
        "the host itself before all hosts",
        [host("*.example.org", gap_seconds=1), host("docs.example.org", gap_seconds=2)],
        DOCS,
        ("host:docs.example.org", 2, 2),
    ),
    (
        "a port before its host",
        [host("docs.example.org:8443", gap_seconds=1), host("docs.example.org", gap_seconds=2)],
        ("docs.example.org", 8443),
        ("host:docs.example.org:8443", 1, 2),
    ),
    ("another port", [host("docs.example.org:8443", gap_seconds=1)], DOCS, ("example.org", GAP, 2)),
    ("an address", [host("10.0.0.1", gap_seconds=0)], ("10.0.0.1", 8080), ("10.0.0.1:8080", 0, None)),
    ("an address and port", [host("10.0.0.1:80", gap_seconds=0)], ("10.0.0.1", 8080), ("10.0.0.1:8080", GAP, 2)),
    ("a bare name", [host("wiki", gap_seconds=0)], ("wiki", 80), ("wiki:80", 0, None)),
    ("a source", [source("d.s", 0, "docs.example.org")], DOCS, ("host:docs.example.org", 0, None)),
    (
        "a host before a source",
        [source("d.s", 0, "docs.example.org"), host("docs.example.org", gap_seconds=7)],
        DOCS,
        ("host:docs.example.org", 7, 2),
    ),
    (
        "of two sources the more patient one",
        [source("d.s", 1, "docs.example.org"), source("d.t", 3, "docs.example.org")],
        DOCS,
        ("host:docs.example.org", 3, 2),
    ),
    (
        "of a source and a feed the more patient one",
        [source("d.s", 1, "docs.example.org"), feed("f", hosts=("docs.example.org",), gap_seconds=2)],
        DOCS,
        ("host:docs.example.org", 2, 2),
    ),
    (
        "a command before a file",
        [host("docs.example.org", gap_seconds=7), host("docs.example.org", COMMAND, gap_seconds=1)],
        DOCS,
        ("host:docs.example.org", 1, 2),
    ),
    (
        "value by value",
        [host("docs.example.org", gap_seconds=7), host("docs.example.org", COMMAND, parallel=5)],
        DOCS,
        ("host:docs.example.org", 7, 5),
    ),
    (
        "all hosts of a source before a limit of one",
        [source("d.s", 1, "*.example.org"), host("docs.example.org", parallel=9)],
        DOCS,
        ("host:docs.example.org", 1, 9),
    ),
]


@pytest.mark.parametrize(("name", "stored", "where", "expected"), RESOLUTIONS, ids=[row[0] for row in RESOLUTIONS])
def test_which_pace_holds(
    name: str, stored: list[StoredPace], where: tuple[str, int], expected: tuple[str, float, int | None]
) -> None:
    """Host before feed and source before the settings, the nearer name first; every way round of asking is the same."""
    for order in (stored, stored[::-1]):
        pace = Paces(order, DEFAULTS).of(*where)

        assert (pace.gate, pace.gap_seconds, pace.parallel) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], 5_000.0),
        ([host("docs.example.org", gap_seconds=0)], 0.0),
        ([host("*.example.org", gap_seconds=1)], 1.0),
        ([source("d.s", 0, "docs.example.org")], 5_000.0),
        ([source("d.s", 9_000, "docs.example.org")], 9_000.0),
        ([host("docs.example.org", parallel=3)], 5_000.0),
    ],
)
def test_crawl_delay_counts_unless_the_host_was_named(stored: list[StoredPace], expected: float) -> None:
    """A stranger's robots.txt lengthens every gap but one that was set for this very host."""
    assert Paces(stored, DEFAULTS).of(*DOCS).with_crawl_delay(5_000).gap_seconds == expected


def test_feed_options_are_merged_value_by_value() -> None:
    """The command's interval and the file's gap hold together."""
    paces = Paces([feed("f", gap_seconds=1, interval_seconds=900), feed("f", COMMAND, interval_seconds=60)], DEFAULTS)

    assert paces.of_feed("f") == PaceOption(interval_seconds=60, gap_seconds=1)
    assert paces.of_feed("other") == NOTHING


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Docs.Example.org.", "docs.example.org"),
        ("docs.example.org:8443", "docs.example.org:8443"),
        ("docs.example.org:80", "docs.example.org:80"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:8080", "::1:8080"),
        ("wiki", "wiki"),
        ("*.example.co.uk", "*.example.co.uk"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_hosts_as_people_write_them(written: str, expected: str) -> None:
    """As the fetcher compares them."""
    assert checked_host(written) == expected


@pytest.mark.parametrize(
    "written", ["", "https://docs.example.org/", "a b", "me@example.org", "*.docs.example.org", "*"]
)
def test_what_is_no_host(written: str) -> None:
    """A sentence that says how to write one."""
    with pytest.raises(ValueError, match=r"is not a (host|registrable domain)"):
        checked_host(written)


@pytest.mark.parametrize(
    "values",
    [
        {"gap_seconds": -1},
        {"gap_seconds": "5"},
        {"gap_seconds": True},
        {"gap_seconds": float("nan")},
        {"gap_seconds": 1e9},
        {"interval_seconds": 0},
        {"interval_seconds": 1e9},
        {"parallel": 0},
        {"parallel": 1.5},
        {"speed": 1},
    ],
)
def test_values_that_cannot_be(values: dict[str, Any]) -> None:
    """The sentence begins with the name of the value."""
    with pytest.raises(ValueError, match=f"^{next(iter(values))} "):
        checked_option(values, ("interval_seconds", "gap_seconds", "parallel"))


@pytest.mark.parametrize(
    ("url", "whole_domain", "expected"),
    [
        ("https://docs.example.org/guide/", False, ("docs.example.org", "www.docs.example.org")),
        ("https://www.example.org/", False, ("example.org", "www.example.org")),
        ("https://docs.example.org/", True, ("*.example.org",)),
        ("http://127.0.0.1:8000/", True, ("127.0.0.1:8000",)),
        ("nonsense", False, ()),
    ],
)
def test_hosts_of_a_source(url: str, whole_domain: bool, expected: tuple[str, ...]) -> None:
    """Its own host, with and without `www.`, to which so many sites redirect; or all hosts of its domain."""
    assert hosts_of_url(url, whole_domain=whole_domain) == expected


# ── the gate ────────────────────────────────────────────────────────────────────────────────────


async def test_own_gate_does_not_move_the_siblings(redis: Client, keys: Keys) -> None:
    """A hundred requests to a host with its own pace cost its siblings no place, and give them none sooner."""
    paces = Paces([host("docs.example.org", gap_seconds=0, parallel=200)], DEFAULTS)
    docs, www, blog = (paces.of(f"{name}.example.org", 443) for name in ("docs", "www", "blog"))
    gate = Gate(redis, keys)
    first = await gate.enter(www, "w1", 0)
    quick = [await gate.enter(docs, f"d{n}", 0) for n in range(100)]
    second = await gate.enter(blog, "b1", 1e6)
    after = await gate.enter(docs, "d100", 0)

    assert {reply.admission for reply in (first, *quick, after)} == {Admission.GO}
    assert (second.admission, round(second.wait_seconds / GAP)) == (Admission.WAIT, 1)
    assert float(await redis.hget(keys.gate("host:docs.example.org"), "gap")) == 0
    assert float(await redis.hget(keys.gate("example.org"), "gap")) == GAP


async def test_retry_after_closes_the_domain_whoever_was_told(redis: Client, keys: Keys) -> None:
    """Own gate or not: a 429 stops the host with its own pace and all its siblings."""
    paces = Paces([host("docs.example.org", gap_seconds=1, parallel=8)], DEFAULTS)
    docs, www = paces.of(*DOCS), paces.of("www.example.org", 443)
    gate = Gate(redis, keys)
    assert (await gate.enter(docs, "before", 0)).admission is Admission.GO
    await gate.close_for(docs.domain, 5_000, "Retry-After (429)")
    replies = [await gate.enter(pace, f"t{n}", 60) for n, pace in enumerate((docs, www))]

    assert {(reply.admission, reply.reason) for reply in replies} == {(Admission.DEFER, "Retry-After (429)")}
    assert (await gate.pace(docs)).reason == "Retry-After (429)"


# ── the fetcher ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def slow(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    """A fetcher that asks a domain every thousand seconds, unless someone says otherwise."""
    names = {f"{name}.example.org": [["127.0.0.1"]] for name in ("docs", "www")}
    allowed = {"fetch_allowed_hosts": ("127.0.0.0/8", *names), "fetch_host_gap_seconds": GAP}
    changed = settings.model_copy(update=allowed)
    async with Fetcher(changed, redis, keys, resolver=FakeDns(names)) as fetcher:
        yield fetcher


async def ask(fetcher: Fetcher, *urls: str) -> list[type]:
    return [type(await fetcher.fetch(FetchRequest(url, max_wait_seconds=0, respect_robots=False))) for url in urls]


async def test_every_request_keeps_the_pace_of_its_host(
    slow: Fetcher, web: FakeWeb, redis: Client, keys: Keys, settings: Settings
) -> None:
    """The host with a gap of nothing answers ten times; its sibling once, then it is put off."""
    await PaceStore(redis, keys, settings).set(host("docs.example.org", COMMAND, gap_seconds=0))
    docs, www = (web.url("/x", f"{name}.example.org") for name in ("docs", "www"))
    answers = await ask(slow, *[docs] * 5, www, www, *[docs] * 5)

    assert answers == [Fetched] * 6 + [Deferred] + [Fetched] * 5
    assert Counter(seen.headers["host"].partition(":")[0] for seen in web.requests) == {
        "docs.example.org": 10,
        "www.example.org": 1,
    }


async def test_429_wins_over_any_option(
    slow: Fetcher, web: FakeWeb, redis: Client, keys: Keys, settings: Settings
) -> None:
    """A gap of nothing does not mean that we do not listen."""
    await PaceStore(redis, keys, settings).set(host("docs.example.org", COMMAND, gap_seconds=0))
    web.retry_after("/busy", 429, "600")
    answers = await ask(slow, *(web.url(path, "docs.example.org") for path in ("/busy", "/other")))

    assert answers == [Fetched, Deferred]
    assert web.paths == ["/busy"]


async def test_crawl_delay_of_robots_txt(
    slow: Fetcher, web: FakeWeb, redis: Client, keys: Keys, settings: Settings
) -> None:
    """With a source's gap it still counts; with the host's it does not."""
    web.page("/robots.txt", "User-agent: *\nCrawl-delay: 50\n", media_type="text/plain")
    store = PaceStore(redis, keys, settings)
    await Leases(redis, keys).run(source_commands(keys, "d.s", ["docs.example.org"], 0))
    urls = [web.url(path, "docs.example.org") for path in ("/a", "/b", "/c")]
    polite = [await slow.fetch(FetchRequest(url, max_wait_seconds=0)) for url in urls]
    told = await slow.pace_of(urls[0])
    await store.set(host("docs.example.org", COMMAND, gap_seconds=0))
    await slow._paces.read()
    ours = [await slow.fetch(FetchRequest(url, max_wait_seconds=0)) for url in urls]

    assert (told and told.gap_seconds, Deferred in map(type, polite)) == (50, True)
    assert {type(answer) for answer in ours} == {Fetched}


async def test_option_is_heard_and_forgotten(
    slow: Fetcher, web: FakeWeb, redis: Client, keys: Keys, settings: Settings
) -> None:
    """Set in another process it counts after some seconds; removed, the setting holds again."""
    store, url = PaceStore(redis, keys, settings), web.url("/x", "docs.example.org")
    before = await ask(slow, url, url)
    await store.set(host("docs.example.org", COMMAND, gap_seconds=0))
    remembered = await ask(slow, url)
    await slow._paces.read()  # what happens by itself after some seconds
    during = await ask(slow, url, url)
    await store.set(StoredPace(PaceScope.HOST, "docs.example.org", COMMAND, NOTHING))
    await slow._paces.read()
    after = await ask(slow, url)

    assert (before, remembered, during, after) == ([Fetched, Deferred], [Deferred], [Fetched] * 2, [Deferred])
    assert await redis.exists(keys.paces) == 0


async def test_damaged_option_harms_nobody(redis: Client, keys: Keys, settings: Settings) -> None:
    """What a person wrote by hand and cannot be read is as good as not there."""
    await redis.hset(
        keys.paces, mapping={"host a.example x": "][", "planet mars x": "{}", "host": '{"gap_seconds": 1}'}
    )
    await redis.hset(keys.paces, "host b.example me", '{"gap_seconds": -1}')
    await redis.hset(keys.paces, "host c.example me", '{"gap_seconds": 3}')
    store = PaceStore(redis, keys, settings)

    assert [one.name for one in await store.all()] == ["c.example"]
    assert (await store.current()).of("c.example", 80) == HostPace("host:c.example", "c.example", 3, 2, PaceScope.HOST)


# ── sources ─────────────────────────────────────────────────────────────────────────────────────


async def test_gap_of_a_source_lets_its_site_be_read(site: Site, settings: Settings) -> None:
    """Five pages of our own, at a gap of a thousand seconds for everybody else."""
    pages = [f"/{name}" for name in "abcd"]
    site.page("/", links=pages)
    for path in pages:
        site.page(path)
    async with crawl_context(settings, fetch_host_gap_seconds=GAP, refresh_budget_seconds=1) as context:
        await add_site(context, site.url("/"), gap_seconds=0, sitemap=False)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        fields = await context.client.hgetall(context.keys.paces)
        await add_site(context, site.url("/"), sitemap=False)
        without = await context.client.hgetall(context.keys.paces)

    assert sorted(site.web.paths) == ["/", *pages]
    assert list(fields) == [f"source {SID} docs"]
    assert without == {}


async def test_removed_source_takes_its_gap_along(site: Site, settings: Settings) -> None:
    """Nobody is asked faster because of a source that is gone."""
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"), gap_seconds=0)
        there = await context.client.hlen(context.keys.paces)
        await context.sources.remove(SID)

        assert (there, await context.client.exists(context.keys.paces)) == (1, 0)


@pytest.mark.parametrize(("interval", "expected"), [(900, 900), (None, 86_400), (20 * 86_400, 20 * 86_400)])
async def test_interval_of_a_source_is_the_first_wait_of_its_pages(
    site: Site, settings: Settings, interval: float | None, expected: float
) -> None:
    """And where it is longer than the longest wait of the settings, it is that as well."""
    site.page("/")
    async with crawl_context(settings) as context:
        options = {} if interval is None else {"interval_seconds": interval}
        await add_site(context, site.url("/"), sitemap=False, **options)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        record = await item(context, site.url("/"))

    assert float(record["crawlIntervalSeconds"]) == expected


# ── the timer's share ───────────────────────────────────────────────────────────────────────────


async def test_share_of_a_host_follows_its_gap(redis: Client, keys: Keys) -> None:
    """As many as fit into a job's time at the gap of each host; without a gap all of them."""
    stored = [host("quick.example", gap_seconds=0), host("*.slow.example", gap_seconds=50)]
    shares = HostShares.within(100, Paces(stored, PaceDefaults(10)))
    registrar, hosts = Registrar(redis, keys, "host"), ("quick.example", "a.slow.example", "other.example")
    for name in hosts:
        await registrar.register([Ref(f"https://{name}/{n}") for n in range(30)], Listing("urls"), 1_000.0)
    picked = await DueItems(redis, keys).pick("urls", 2_000.0, 100, 60.0, shares)
    found = Counter([await redis.hget(keys.item(item_id), "sourceHost") for item_id in picked])

    assert (shares.each, shares.by_host) == (10, {"quick.example": NO_SHARE, "*.slow.example": 2})
    assert found == {"quick.example": 30, "a.slow.example": 2, "other.example": 10}
