"""`python -m scripts.forget`: what goes, what stays, what is said."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.errors import FailCode, FreshetError
from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.models import Failed, Link, Ref
from core.registry.blank_record import blank_record
from core.registry.io.article_store import ArticleStore
from core.registry.io.item_store import ItemStore
from core.registry.io.registrar import Listing, Registrar
from core.registry.record import Item, Status
from core.settings import Settings
from core.store.connect import Client
from core.store.leases import Leases
from core.urls.normalise import normalise_url
from scripts import domain, domain_crawl, forget
from tests import commands
from tests.site import Site
from tests.web import FakeWeb

pytestmark = pytest.mark.usefixtures("adopted")

NOW = 1_800_000_000.0


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A crawled site with a root and two pages."""
    async with FakeWeb() as web:
        made = Site(web)
        made.three_pages()
        await domain.add(made.url(), "docs")
        await domain_crawl.crawl("docs")
        yield made


class Press:
    """Feeds and articles, stored as the pipeline stores them."""

    def __init__(self, redis: Client, keys: Keys, settings: Settings) -> None:
        self.redis, self.keys, self.lives = redis, keys, Ttls.of(settings)
        self.articles = ArticleStore(redis, keys, self.lives)

    async def feed(self, url: str, *links: str, category: str = "world") -> None:
        await Subscriptions(self.redis, self.keys).add(category, url)
        await self.redis.hset(self.keys.feed(ids.feed_id(url)), mapping={"url": url, "status": "ok"})
        await self.redis.sadd(self.keys.feed_links(ids.feed_id(url)), *links)
        sighted = LinkStore(self.redis, self.keys, self.lives).mark_seen([category], links, NOW)
        await Leases(self.redis, self.keys).run(sighted)

    async def article(self, url: str, category: str = "world") -> str:
        item_id, uid = ids.item_id("url", normalise_url(url)), ids.article_uid(url)
        fields = {"uid": uid, "url": url, "item_id": item_id, "categories": category, "status": "success"}
        fields |= {"content_hash": f"hash-of-{uid}", "duplicate_of": ""}
        stored = self.articles.store(Link(url, uid, (category,)), fields, NOW)
        item = Item(item_id, source=normalise_url(url), fetch_url=url, sources=("rss",), article_uid=uid)
        record = blank_record(item.source, url, NOW) | {"sources": "rss", "contentHash": f"hash-of-{uid}"}
        stored += ItemStore(self.redis, self.keys).enlist(item, Status.CRAWLED, record)
        stored.append(("ZADD", self.keys.due("rss"), NOW, item_id))
        await Leases(self.redis, self.keys).run(stored)
        return uid

    async def alias(self, url: str, target: str, category: str = "world") -> None:
        link = Link(url, ids.article_uid(url), (category,))
        await Leases(self.redis, self.keys).run(self.articles.alias(link, target, NOW))

    async def traces(self, *words: str) -> list[str]:
        """Keys that still hold one of these words, in their name or in their content."""
        seen = await commands.everything(self.redis)
        skip = (self.keys.events, self.keys.done(""), self.keys.canonical_stats)
        return [
            key for key, value in seen.items() if not key.startswith(skip) and any(w in f"{key} {value}" for w in words)
        ]


@pytest.fixture
def press(redis: Client, keys: Keys, settings: Settings) -> Press:
    return Press(redis, keys, settings)


# ── pages ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_goes_with_all_that_hangs_on_it(
    site: Site, redis: Client, keys: Keys, press: Press, capsys: pytest.CaptureFixture[str]
) -> None:
    """Record, text, links, places in every index; an event tells it, and a sentence that it may come back."""
    item_id = ids.item_id("url", normalise_url(site.url("/a")))
    capsys.readouterr()
    assert await forget.forget(site.url("/a"), dry_run=False) == 0
    events = [event for _, event in await redis.xrange(keys.events)]
    (sid,) = await redis.smembers(keys.sources)

    assert await press.traces(item_id) == []
    assert [event["id"] for event in events if event["type"] == "item.gone" and event["deleted"] == "true"] == [item_id]
    told = capsys.readouterr().out
    assert f"Forgot {site.url('/a')}: 1 item, 1 text." in told
    assert f"If {sid} still lists it or links to it, the next crawl finds it again." in told


async def test_a_page_that_is_still_linked_is_found_again(site: Site, redis: Client, keys: Keys) -> None:
    """By the very next crawl, though the page that links to it answers 304."""
    await forget.forget(site.url("/a"), dry_run=False)
    await domain_crawl.crawl("docs")

    assert await redis.exists(keys.document(ids.item_id("url", normalise_url(site.url("/a")))))


async def test_a_dry_run_writes_nothing(site: Site, redis: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """And says how much would go."""
    before = await commands.everything(redis)
    capsys.readouterr()
    await forget.forget(site.url("/a"), dry_run=True)

    assert await commands.everything(redis) == before
    assert capsys.readouterr().out.startswith(f"Would forget {site.url('/a')}: 1 item, 1 text.")


async def test_forgetting_twice_is_a_sentence(site: Site) -> None:
    """The second time there is nothing of it."""
    await forget.forget(site.url("/a"), dry_run=False)
    with pytest.raises(FreshetError, match="there is nothing of it"):
        await forget.forget(site.url("/a"), dry_run=False)


async def test_an_image_goes_with_its_page(site: Site, redis: Client, keys: Keys) -> None:
    """Alone it would come back with the next visit, so the page is named."""
    await redis.hset(keys.item("url_picture"), mapping={"status": "Crawled", "parentPageId": "url_page"})
    with pytest.raises(FreshetError, match=r"image of url_page .* scripts.forget url_page"):
        await forget.forget("url_picture", dry_run=False)


# ── articles and links ──────────────────────────────────────────────────────────────────────────


async def test_an_article_goes_by_any_of_its_names(press: Press, capsys: pytest.CaptureFixture[str]) -> None:
    """Article, aliases, indexes, memory, link sets, what feeds remember: nothing is left."""
    story, amp = "https://example.org/story", "https://amp.example.org/story"
    await press.feed("https://example.org/feed", story, amp, "https://example.org/other")
    uid = await press.article(story)
    other = await press.article("https://example.org/other")
    await press.alias(amp, uid)
    await forget.forget(amp, dry_run=False)
    told = capsys.readouterr().out

    assert await press.traces("/story", uid, ids.article_uid(amp), ids.item_id("url", story)) == []
    assert await press.traces(other)
    assert "1 item, 1 text, 1 article, 1 alias, 2 links." in told
    assert "else it would be fetched again in the next minute" in told


async def test_a_failed_link_goes_with_its_story(press: Press, redis: Client, keys: Keys) -> None:
    """It never was an item, and is forgotten all the same."""
    url = "https://example.org/broken"
    await press.feed("https://example.org/feed", url)
    link = Link(url, ids.article_uid(url), ("world",))
    await Leases(redis, keys).run(press.articles.fail(link, Failed(FailCode.EMPTY), 1, None, NOW))
    await forget.forget(url, dry_run=False)

    assert await press.traces("/broken", link.uid) == []


async def test_the_text_of_a_duplicate_stays_the_originals(press: Press, redis: Client, keys: Keys) -> None:
    """Who had the text first is only forgotten with who had it."""
    first = await press.article("https://example.org/first")
    second = await press.article("https://example.org/second")
    await redis.hset(keys.article(second), "content_hash", f"hash-of-{first}")
    await forget.forget("https://example.org/second", dry_run=False)

    assert await redis.get(keys.content(f"hash-of-{first}")) == first


# ── feeds ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_feed_goes_with_what_it_alone_listed(
    press: Press, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """What another feed lists stays, with its article."""
    ours, shared = "https://one.org/ours", "https://one.org/shared"
    await press.feed("https://one.org/feed", ours, shared)
    await press.feed("https://two.org/feed", shared)
    own, common = await press.article(ours), await press.article(shared)
    await forget.forget_feed("https://one.org/feed", dry_run=False)

    assert await press.traces("one.org/feed", "one.org/ours", own, ids.feed_id("https://one.org/feed")) == []
    assert await redis.exists(keys.article(common))
    assert await redis.smembers(keys.category_links("world")) == {shared}
    assert await redis.zcard(keys.feeds_due) == 1
    told = "Forgot the feed https://one.org/feed (in world): 1 item, 1 text, 1 article, 1 link.\n"
    assert capsys.readouterr().out == told


async def test_an_article_under_another_feeds_name_stays(press: Press, redis: Client, keys: Keys) -> None:
    """Its alias is listed by another feed, so the article is too."""
    await press.feed("https://one.org/feed", "https://one.org/a")
    await press.feed("https://two.org/feed", "https://two.org/a")
    uid = await press.article("https://one.org/a")
    await press.alias("https://two.org/a", uid)
    await forget.forget_feed("https://one.org/feed", dry_run=False)

    assert await redis.exists(keys.article(uid))
    assert await redis.smembers(keys.category_links("world")) == {"https://two.org/a"}


async def test_a_link_by_hand_in_another_category_stays(press: Press, redis: Client, keys: Keys) -> None:
    """Somebody else wants it."""
    await press.feed("https://one.org/feed", "https://one.org/a")
    await redis.sadd(keys.categories, "mine")
    await redis.sadd(keys.category_links("mine"), "https://one.org/a")
    await forget.forget_feed("https://one.org/feed", dry_run=False)

    assert await redis.smembers(keys.category_links("mine")) == {"https://one.org/a"}


async def test_a_page_that_a_site_lists_too_stays_as_a_page(press: Press, redis: Client, keys: Keys) -> None:
    """Its article goes; the page is due, so that the site gets a text of its own."""
    url = "https://one.org/a"
    await press.feed("https://one.org/feed", url)
    await press.article(url)
    await Registrar(redis, keys, "host").register([Ref(url)], Listing("docs.site"), NOW)
    await forget.forget_feed("https://one.org/feed", dry_run=False)
    item_id = ids.item_id("url", url)

    assert await redis.hmget(keys.item(item_id), ["sources", "articleUid"]) == ["docs.site", ""]
    assert await redis.zrange(keys.due("docs.site"), 0, -1) == [item_id]
    assert await redis.zscore(keys.refs("rss"), item_id) is None


async def test_a_feed_in_a_dry_run(press: Press, redis: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """Counted, and nothing written."""
    await press.feed("https://one.org/feed", "https://one.org/a")
    await press.article("https://one.org/a")
    before = await commands.everything(redis)
    await forget.forget_feed("https://one.org/feed", dry_run=True)

    assert await commands.everything(redis) == before
    assert "1 item, 1 text, 1 article, 1 link." in capsys.readouterr().out


async def test_a_feed_that_a_file_still_lists_is_told(
    press: Press, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it would come back, and nobody would know why."""
    settings.feeds_file.write_text('[categories]\nworld = ["https://one.org/feed"]\n')
    await press.feed("https://one.org/feed", "https://one.org/a")
    await forget.forget_feed("https://one.org/feed", dry_run=False)

    assert f"still stands in {settings.feeds_file}" in capsys.readouterr().out


# ── domains, and what is not there ──────────────────────────────────────────────────────────────


async def test_a_domain_goes_as_by_domain_remove(site: Site, settings: Settings, redis: Client, keys: Keys) -> None:
    """One command for everything that is to be forgotten."""
    done = await commands.run(settings, "scripts.forget", "--domain", "docs")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Removed docs: 1 source, 3 items, 3 texts, 2 runs, 1 local file.\n")
    assert await redis.smembers(keys.domains) == set()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("https://example.org/x",), "https://example.org/x is neither in the registry nor in a link set"),
        (("/no/such/file",), "/no/such/file is neither in the registry"),
        (("0123456789abcdef",), "is neither in the registry"),
        (("--feed", "https://example.org/feed"), "https://example.org/feed is in no category."),
        (("--domain", "nobody"), "There is no domain nobody."),
    ],
)
async def test_what_is_not_known_is_a_sentence(words: tuple[str, ...], sentence: str, settings: Settings) -> None:
    """Exit code 2, one line."""
    await commands.refused(settings, sentence, "scripts.forget", *words)
