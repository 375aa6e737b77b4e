"""A redirect to a signed URL: it is followed, its signature is kept nowhere, and it moves nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.keys import Keys
from core.models import Fetched, FetchRequest, Hop
from core.net.fetcher import Fetcher
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.articles import article
from tests.crawled_site import SID, add_site, crawl_context, item, text
from tests.site import Site, html
from tests.web import FakeWeb
from tests.web_replies import redirect
from workers import canonical_fetcher, ingestor


@pytest.fixture
async def web(redis: connect.Client) -> AsyncIterator[FakeWeb]:
    async with FakeWeb() as running:
        yield running


async def fetched(settings: Settings, redis: connect.Client, keys: Keys, request: FetchRequest) -> Fetched:
    allowed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), "robots_respect": False})
    async with Fetcher(allowed, redis, keys) as fetcher:
        answer = await fetcher.fetch(request)
        assert isinstance(answer, Fetched)
        return answer


async def test_answer_names_no_signature(settings: Settings, redis: connect.Client, keys: Keys, web: FakeWeb) -> None:
    """The target was asked with its signature; final URL, hops and first URL are told without."""
    web.redirect("/a", "/b?sig=CANARY&sv=1&w=2", 301)
    web.redirect("/b", "/c?access_token=CANARY", 308)
    web.page("/c", "hello")
    answer = await fetched(settings, redis, keys, FetchRequest(web.url("/a?api_key=CANARY")))

    assert web.requests[-1].target == "/c?access_token=CANARY"
    assert (answer.url, answer.final_url) == (web.url("/a"), web.url("/c"))
    assert answer.hops == (Hop(web.url("/a"), 301), Hop(web.url("/b?w=2"), 308))
    assert (answer.is_signed, answer.is_moved_for_good, answer.permanent_target) == (True, False, "")


async def test_move_without_signature_is_one(
    settings: Settings, redis: connect.Client, keys: Keys, web: FakeWeb
) -> None:
    """That the first URL carries a person's own token does not make its target a signed one."""
    web.redirect("/a", "/c", 301)
    web.page("/c", "hello")
    answer = await fetched(settings, redis, keys, FetchRequest(web.url("/a?api_key=CANARY")))

    assert (answer.is_signed, answer.is_moved_for_good, answer.permanent_target) == (False, True, web.url("/c"))


async def test_validators_go_to_the_same_target_under_a_new_signature(
    settings: Settings, redis: connect.Client, keys: Keys, web: FakeWeb
) -> None:
    """They are kept with the URL without its signature, and that is what is compared; another URL gets none."""
    web.on("/a", redirect("/c?sig=CANARY1&se=1", 302), redirect("/c?sig=CANARY2&se=2", 302), redirect("/d?sig=C", 302))
    web.page("/c", "hello", etag='"1"')
    web.page("/d", "hello", etag='"1"')
    first = await fetched(settings, redis, keys, FetchRequest(web.url("/a")))
    again = FetchRequest(web.url("/a"), conditional={"If-None-Match": '"1"'}, conditional_url=first.final_url)

    assert [(await fetched(settings, redis, keys, again)).status for _ in range(2)] == [304, 200]


async def test_feed_behind_a_token_is_polled_by_304(settings: Settings, web: FakeWeb) -> None:
    """A person's own feed URL works with its token, also for validators, and its record does not repeat it."""
    body = f"<item><title>One</title><link>{web.url('/story')}</link></item>"
    web.page("/feed", f"<rss version='2.0'><channel><title>Feed</title>{body}</channel></rss>", etag='"1"')
    url = web.url("/feed?access_token=CANARY")
    async with crawl_context(settings) as context:
        await context.client.sadd(context.keys.feeds("world"), url)
        await ingestor.run_cycle(context)
        (fid,) = await context.client.zrange(context.keys.feeds_due, 0, -1)
        await context.client.zadd(context.keys.feeds_due, {fid: 0})
        await ingestor.run_cycle(context)
        state = await context.client.hgetall(context.keys.feed(fid))

    asked = web.asked("/feed")
    assert [one.target for one in asked] == ["/feed?access_token=CANARY"] * 2
    assert asked[1].headers.get("if-none-match") == '"1"'
    assert (state["polls_304"], state["url"], state["validators_url"]) == ("1", web.url("/feed"), web.url("/feed"))


async def test_page_behind_a_signed_target_keeps_its_own_name(settings: Settings, web: FakeWeb) -> None:
    """Also after a permanent redirect: what is kept of the target could not be asked again, so each visit asks anew."""
    site = Site(web)
    site.page("/", links=["/file"])
    web.on("/file", redirect("/store?sig=CANARY1", 301), redirect("/store?sig=CANARY2", 301))
    web.page("/store", 403)
    for number in (1, 2):
        web.page(f"/store?sig=CANARY{number}", html("File", "About weirs."), etag='"1"')
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        for mode in (CrawlMode.INCREMENTAL, CrawlMode.FULL):
            await crawl_source(context, SID, mode)
        record = await item(context, web.url("/file"))

        assert (record["status"], record["fetchUrl"], record["aliasOf"]) == ("Crawled", web.url("/file"), "")
        assert "About weirs." in await text(context, web.url("/file"))
        assert await item(context, web.url("/store")) == {}
    assert [one.target for one in web.asked("/store")] == ["/store?sig=CANARY1", "/store?sig=CANARY2"]


@pytest.mark.parametrize("status", [301, 302])
async def test_article_behind_a_signed_target_keeps_its_own_name(settings: Settings, web: FakeWeb, status: int) -> None:
    """Its record is fetched by the link's own URL."""
    web.redirect("/a", "/there?X-Amz-Signature=CANARY", status)
    web.page("/there", article())
    async with crawl_context(settings) as context:
        await context.client.sadd(context.keys.category_links("world"), web.url("/a"))
        await canonical_fetcher.run_once(context, 60.0)
        record = await item(context, web.url("/a"))

        assert record.get("fetchUrl") == web.url("/a")
