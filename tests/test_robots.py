"""robots.txt: fetched once, shared, obeyed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.errors import FailCode, FailDetail
from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult
from core.net.fetcher import Fetcher
from core.net.robots import WAIT_SECONDS, Robots, RobotsPermit, sitemaps
from core.settings import Settings
from core.store.connect import Client
from tests.web import FakeWeb

ORIGIN = "http://a.example"


class Site:
    """Answers for robots.txt, and counts how often it is asked."""

    def __init__(self, *answers: FetchResult) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, url: str) -> FetchResult:
        self.asked.append(url)
        await asyncio.sleep(0)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def says(status: int, body: str | bytes = "") -> Fetched:
    raw = body.encode() if isinstance(body, str) else body
    return Fetched(f"{ORIGIN}/robots.txt", f"{ORIGIN}/robots.txt", status, {}, raw)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def robots(redis: Client, keys: Keys, clock: Clock) -> Robots:
    return Robots(redis, keys, "Freshet/1", clock=clock)


async def test_rules_are_obeyed(robots: Robots) -> None:
    """Allowed with the site's delay, or refused with a reason."""
    site = Site(says(200, "User-agent: *\nDisallow: /no\nCrawl-delay: 7"))

    assert await robots.check(f"{ORIGIN}/yes", ORIGIN, site) == RobotsPermit(7)
    refused = await robots.check(f"{ORIGIN}/no", ORIGIN, site)

    assert isinstance(refused, Failed)
    assert (refused.code, refused.detail) == (FailCode.HTTP, FailDetail.ROBOTS)


async def test_a_day_of_pages_is_one_question(redis: Client, keys: Keys, clock: Clock) -> None:
    """Processes share the answer through Redis; after a day it is asked again."""
    site = Site(says(200, "User-agent: *\nDisallow: /no"))
    for _ in range(3):
        await Robots(redis, keys, "Freshet/1", clock=clock).check(f"{ORIGIN}/a", ORIGIN, site)
    assert site.asked == [f"{ORIGIN}/robots.txt"]
    assert 86_000 < await redis.ttl(keys.robots(ORIGIN)) <= 86_400

    clock.now += 86_401
    await Robots(redis, keys, "Freshet/1", clock=clock).check(f"{ORIGIN}/a", ORIGIN, site)
    assert len(site.asked) == 2


async def test_many_at_once_ask_once(robots: Robots) -> None:
    """The first question is shared by all that come while it is open."""
    site = Site(says(404))

    results = await asyncio.gather(*(robots.check(f"{ORIGIN}/{i}", ORIGIN, site) for i in range(20)))

    assert results == [RobotsPermit()] * 20
    assert len(site.asked) == 1


async def test_origins_of_one_moment_share_round_trips(redis: Client, keys: Keys, clock: Clock) -> None:
    """The first pages of many hosts each get the answer of their own, and the next process finds all of them stored."""
    answers = {f"http://{number}.example": Site(says(404 if number % 2 else 503)) for number in range(30)}
    pairs = answers.items()

    async def check_all() -> list[bool]:
        own = Robots(redis, keys, "Freshet/1", clock=clock)
        results = await asyncio.gather(*(own.check(f"{origin}/a", origin, site) for origin, site in pairs))
        return [isinstance(result, RobotsPermit) for result in results]

    expected = [number % 2 == 1 for number in range(30)]
    assert [await check_all(), await check_all()] == [expected, expected]
    assert [len(site.asked) for site in answers.values()] == [1] * 30
    assert await redis.zcard(keys.robots_unreadable) == 15


async def test_what_is_stored_reads_as_words(robots: Robots, redis: Client, keys: Keys) -> None:
    """`redis-cli hgetall` shows what the site said and when."""
    await robots.check(f"{ORIGIN}/", ORIGIN, Site(says(200, b"User-agent: *\nDisallow: /\xff")))

    stored = await redis.hgetall(keys.robots(ORIGIN))
    assert stored == {
        "policy": "rules",
        "status": "200",
        "fetched_ts": "1800000000",
        "body": "User-agent: *\nDisallow: /\ufffd",
    }


@pytest.mark.parametrize("status", [401, 403, 404, 410, 302])
async def test_no_robots_allows_everything(robots: Robots, status: int) -> None:
    """The body of an error page is not read as rules."""
    assert await robots.check(f"{ORIGIN}/x", ORIGIN, Site(says(status, "User-agent: *\nDisallow: /"))) == RobotsPermit()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_error_means_wait(robots: Robots, redis: Client, keys: Keys, clock: Clock, status: int) -> None:
    """We come back in ten minutes, and ask once until then."""
    site = Site(says(status), says(404))

    for _ in range(3):
        got = await robots.check(f"{ORIGIN}/x", ORIGIN, site)
        assert got == Deferred(WAIT_SECONDS, "robots.txt cannot be read")
    assert len(site.asked) == 1
    assert await redis.ttl(keys.robots(ORIGIN)) <= WAIT_SECONDS

    clock.now += WAIT_SECONDS + 1
    assert await robots.check(f"{ORIGIN}/x", ORIGIN, site) == RobotsPermit()


@pytest.mark.parametrize("detail", [FailDetail.DNS, FailDetail.REFUSED, FailDetail.TLS, FailDetail.RESET])
async def test_a_host_that_is_down_is_told_once_and_then_waited_for(robots: Robots, detail: FailDetail) -> None:
    """The page would fail the same way; further pages of the host are not charged for it."""
    down = Failed(FailCode.HTTP, detail, "Down.")

    assert await robots.check(f"{ORIGIN}/1", ORIGIN, Site(down)) == down
    assert isinstance(await robots.check(f"{ORIGIN}/2", ORIGIN, Site(down)), Deferred)


async def test_forgotten_is_asked_for_again(robots: Robots) -> None:
    """A host that is known to be back need not be waited for."""
    down = Failed(FailCode.HTTP, FailDetail.REFUSED, "Down.")
    await robots.check(f"{ORIGIN}/1", ORIGIN, Site(down))
    await robots.forget(ORIGIN)

    assert await robots.check(f"{ORIGIN}/1", ORIGIN, Site(says(404))) == RobotsPermit()


@pytest.mark.parametrize("detail", [FailDetail.REDIRECTS, FailDetail.BLOCKED, FailDetail.URL])
async def test_redirects_into_nothing_are_no_rules(robots: Robots, detail: FailDetail) -> None:
    """A robots.txt that leads in circles or to forbidden places is as good as absent."""
    assert await robots.check(f"{ORIGIN}/", ORIGIN, Site(Failed(FailCode.HTTP, detail, "No."))) == RobotsPermit()


async def test_waiting_at_the_gate_is_not_remembered(robots: Robots, redis: Client) -> None:
    """Politeness says nothing about the rules."""
    site = Site(Deferred(30, "gap"), says(404))

    assert await robots.check(f"{ORIGIN}/", ORIGIN, site) == Deferred(30, "gap")
    assert await redis.keys("*") == []
    assert await robots.check(f"{ORIGIN}/", ORIGIN, site) == RobotsPermit()


async def test_memory_is_bounded(redis: Client, keys: Keys, clock: Clock) -> None:
    """Large files of many origins do not pile up in the process; Redis still has them."""
    robots = Robots(redis, keys, "Freshet/1", clock=clock, memory_chars=10_000)
    site = Site(says(200, "User-agent: *\n" + "Disallow: /b\n" * 400))
    for i in range(10):
        await robots.check(f"http://{i}.example/", f"http://{i}.example", site)

    assert len(robots._memory) == 1
    await robots.check("http://0.example/", "http://0.example", site)
    assert len(site.asked) == 10


async def test_sitemaps_come_from_the_same_file(robots: Robots) -> None:
    """robots.txt is fetched once, whoever asks first; relative addresses are made absolute."""
    site = Site(says(200, "User-agent: *\nDisallow: /no\nSitemap: https://cdn.example/a.xml\nsitemap: /b.xml # b"))

    named = [await robots.sitemaps_of(ORIGIN, site) for _ in range(2)]
    await robots.check(f"{ORIGIN}/yes", ORIGIN, site)

    assert named == [("https://cdn.example/a.xml", f"{ORIGIN}/b.xml")] * 2
    assert len(site.asked) == 1


async def test_sitemaps_are_shared_through_redis(robots: Robots, redis: Client, keys: Keys, clock: Clock) -> None:
    """Another process finds them without asking the site."""
    site = Site(says(200, "Sitemap: /s.xml"))
    await robots.check(f"{ORIGIN}/", ORIGIN, site)

    named = await Robots(redis, keys, "Freshet/1", clock=clock).sitemaps_of(ORIGIN, site)

    assert (named, len(site.asked)) == ((f"{ORIGIN}/s.xml",), 1)


@pytest.mark.parametrize(
    "answer",
    [
        says(404, "Sitemap: /s.xml"),
        says(503, "Sitemap: /s.xml"),
        Failed(FailCode.HTTP, FailDetail.DNS, "Down."),
        Deferred(30, "gap"),
    ],
    ids=["absent", "error", "down", "gate"],
)
async def test_without_a_robots_txt_there_are_no_sitemaps(robots: Robots, answer: FetchResult) -> None:
    """An error page names nothing, and trouble is no exception."""
    assert await robots.sitemaps_of(ORIGIN, Site(answer)) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (
            "Sitemap: http://a/1\nSITEMAP:http://a/2\n  site-map : http://a/3\r\n",
            ("http://a/1", "http://a/2", "http://a/3"),
        ),
        ("\ufeffSitemap: http://a/1\nSitemap: http://a/1", ("http://a/1",)),
        ("# Sitemap: http://a/1\nSitemap:\nSitemap: # none\nDisallow: /sitemap: x", ()),
        ("User-agent: other\nDisallow: /\nSitemap: http://a/1 # main", ("http://a/1",)),
        ("Sitemap: http://a/" + "x" * 3_000, ()),
        ("Sitemap: http://a/ï\x00", ("http://a/ï\x00",)),
    ],
)
def test_sitemap_lines(text: str, expected: tuple[str, ...]) -> None:
    """In any case and group, each once, nothing too long."""
    assert sitemaps(text) == expected


def test_sitemap_lines_are_bounded() -> None:
    """A file of nothing but sitemaps names five hundred at most."""
    assert len(sitemaps("".join(f"Sitemap: http://a/{n}\n" for n in range(20_000)))) == 500


# ── together with the fetcher ───────────────────────────────────────────────────────────────────


@pytest.fixture
async def fetcher(redis: Client, keys: Keys, settings: Settings) -> AsyncIterator[Fetcher]:
    changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})
    async with Fetcher(changed, redis, keys) as running:
        yield running


async def test_the_fetcher_asks_first(web: FakeWeb, fetcher: Fetcher) -> None:
    """A forbidden page is never asked for."""
    web.robots("User-agent: *\nDisallow: /no")
    web.page("/yes", "hello")

    allowed = await fetcher.fetch(FetchRequest(web.url("/yes")))
    refused = await fetcher.fetch(FetchRequest(web.url("/no")))

    assert isinstance(allowed, Fetched)
    assert isinstance(refused, Failed)
    assert refused.detail is FailDetail.ROBOTS
    assert [seen.path for seen in web.requests] == ["/robots.txt", "/yes"]


async def test_redirects_are_asked_about_too(web: FakeWeb, fetcher: Fetcher) -> None:
    """Neither the same host's rules nor another host's are bypassed by a redirect."""
    async with FakeWeb("127.0.0.2") as other:
        other.robots("User-agent: *\nDisallow: /")
        web.redirect("/away", other.url("/x"))
        web.redirect("/here", "/no")
        web.robots("User-agent: *\nDisallow: /no")

        results = [await fetcher.fetch(FetchRequest(web.url(path))) for path in ("/away", "/here")]

        assert [result.detail for result in results] == [FailDetail.ROBOTS] * 2
        assert other.paths == []


async def test_what_a_person_named_is_not_asked_about(web: FakeWeb, fetcher: Fetcher) -> None:
    """Feeds are fetched because someone subscribed to them."""
    web.robots("User-agent: *\nDisallow: /")
    web.page("/feed", "x")

    got = await fetcher.fetch(FetchRequest(web.url("/feed"), respect_robots=False))

    assert isinstance(got, Fetched)
    assert web.asked("/robots.txt") == []


async def test_the_switch_turns_it_off(web: FakeWeb, redis: Client, keys: Keys, settings: Settings) -> None:
    """ROBOTS_RESPECT=false asks for no robots.txt at all."""
    changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.1",), "robots_respect": False})
    web.robots("User-agent: *\nDisallow: /")
    async with Fetcher(changed, redis, keys) as fetcher:
        got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert (got.status, web.paths) == (404, ["/a"])
    assert web.asked("/robots.txt") == []


async def test_of_a_huge_file_the_beginning_counts(web: FakeWeb, fetcher: Fetcher) -> None:
    """500 KiB are read, compressed or not, and the rules in them hold."""
    web.robots("User-agent: *\nDisallow: /no\n" + "# padding\n" * 200_000)

    refused = await fetcher.fetch(FetchRequest(web.url("/no")))
    allowed = await fetcher.fetch(FetchRequest(web.url("/yes")))

    assert isinstance(refused, Failed)
    assert isinstance(allowed, Fetched)


async def test_redirected_rules_are_the_rules(web: FakeWeb, fetcher: Fetcher) -> None:
    """RFC 9309 wants redirects of robots.txt followed, to another host too."""
    async with FakeWeb("127.0.0.2") as other:
        web.redirect("/robots.txt", other.url("/rules"))
        other.page("/rules", "User-agent: *\nDisallow: /no")

        got = await fetcher.fetch(FetchRequest(web.url("/no")))

        assert isinstance(got, Failed)
        assert other.asked("/robots.txt") == []


async def test_an_unreadable_robots_defers_the_page(web: FakeWeb, fetcher: Fetcher) -> None:
    """The page is not asked for, and not given up either."""
    web.robots(503)

    got = await fetcher.fetch(FetchRequest(web.url("/a")))

    assert isinstance(got, Deferred)
    assert web.paths == []


async def test_the_sites_delay_becomes_the_gap(web: FakeWeb, fetcher: Fetcher) -> None:
    """A site that asks for a delay gets it, also where we would have none of our own."""
    web.robots("User-agent: *\nCrawl-delay: 50")
    web.page("/1", "one")

    first = await fetcher.fetch(FetchRequest(web.url("/1"), max_wait_seconds=0))
    second = await fetcher.fetch(FetchRequest(web.url("/2"), max_wait_seconds=0))

    assert isinstance(first, Fetched)
    assert isinstance(second, Deferred)
    assert (second.wait_seconds > 5, second.reason, web.paths) == (True, "gap", ["/1"])
