"""TRACKING_PARAM_PREFIXES holds wherever a link comes from, and wherever one is looked up."""

from __future__ import annotations

from pathlib import Path

from core.models import Document, Image
from core.pages.document_link_cleaning import remove_trackers
from core.registry.io.item_queries import ItemQueries
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store.connect import now
from tests import commands
from tests.articles import article
from tests.crawled_site import SID, add_site, crawl_context, item_id
from tests.site import Site
from workers import canonical_fetcher, ingestor

OURS = ("from_", "campaign")


async def sources_of(context: Context) -> set[str]:
    """The identities of all items."""
    names = [key async for key in context.client.scan_iter(context.keys.item("*"))]
    return {str(await context.client.hget(name, "normalizedSource")) for name in names}


async def crawled(context: Context, site: Site) -> None:
    await add_site(context, site.url("/"))
    await crawl_source(context, SID, CrawlMode.INCREMENTAL)


async def test_followed_links_are_cleaned(settings: Settings, site: Site) -> None:
    """One page under three names that only the setting knows is one item, fetched once."""
    site.page("/", links=["/a?from_menu=1", "/a?campaign=x", "/a"])
    site.page("/a")
    async with crawl_context(settings, tracking_param_prefixes=OURS) as context:
        await crawled(context, site)

        assert await sources_of(context) == {site.url("/"), site.url("/a")}
        assert site.web.paths.count("/a") == 1


async def test_sitemaps_and_canonicals_and_redirects_are_cleaned(settings: Settings, site: Site) -> None:
    """Each of them names the page without what the setting calls a tracker."""
    site.page("/", links=["/old", "/b"])
    site.web.redirect("/old", "/a?from_old=1", 301)
    site.page("/a")
    site.page("/b", head='<link rel=canonical href="/a?campaign=b">')
    listed = f"<url><loc>{site.url('/a?from_map=1')}</loc></url>"
    site.web.page("/sitemap.xml", f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{listed}</urlset>")
    async with crawl_context(settings, tracking_param_prefixes=OURS) as context:
        await crawled(context, site)

        assert await sources_of(context) == {site.url(path) for path in ("/", "/old", "/a", "/b")}
        kept = await commands.everything(context.client)
        trackers = ("from_old", "from_map", "campaign")
        assert [key for key, value in kept.items() if any(name in repr(value) for name in trackers)] == []


async def test_registered_urls_are_cleaned(settings: Settings, site: Site) -> None:
    """A URL that somebody registers has the identity that a link to it has."""
    async with crawl_context(settings, tracking_param_prefixes=OURS) as context:
        named = await context.registrar.add(site.url("/a?from_mail=1&id=2"), "url", await now(context.client))

        assert named == item_id(site.url("/a?id=2"))


async def test_items_are_found_by_any_spelling(settings: Settings, site: Site) -> None:
    """reindex and forget find a page by a URL with the setting's trackers."""
    site.page("/", links=["/a"])
    site.page("/a")
    async with crawl_context(settings, tracking_param_prefixes=OURS) as context:
        await crawled(context, site)
        found = await ItemQueries(context.client, context.keys, OURS).resolve(site.url("/a?from_mail=1"), Path("/"))

        assert found.item_id == item_id(site.url("/a"))
        asked = {"TRACKING_PARAM_PREFIXES": ",".join(OURS)}
        for script in ("scripts.reindex", "scripts.forget"):
            done = await commands.run(settings, script, site.url("/a?campaign=1"), "--dry-run", **asked)
            assert done.returncode == 0, done.stderr


async def test_articles_are_cleaned(settings: Settings, site: Site) -> None:
    """A feed's link and the redirect behind it lead to one item; one added by hand is the same page."""
    body = f"<item><title>One</title><link>{site.url('/go?from_feed=1')}</link></item>"
    site.web.page("/feed", f"<rss version='2.0'><channel><title>Feed</title>{body}</channel></rss>")
    site.web.redirect("/go", "/a?campaign=go", 301)
    site.web.page("/a", article())
    async with crawl_context(settings, tracking_param_prefixes=OURS) as context:
        await context.client.sadd(context.keys.feeds("world"), site.url("/feed"))
        await ingestor.run_cycle(context)
        await canonical_fetcher.run_once(context, 60.0)
        await context.client.sadd(context.keys.category_links("world"), site.url("/a?from_hand=1"))
        counts = await canonical_fetcher.run_once(context, 60.0)

        assert await sources_of(context) == {site.url("/a")}
        assert counts["alias"] == 1


def test_a_document_by_the_settings() -> None:
    """Image, images, canonical and links lose the tracker, each name is there once; without a setting nothing moves."""
    images = (Image("http://h/i.png?campaign=1", "first"), Image("http://h/i.png"))
    found = ("http://h/a?from_x=1", "http://h/a", "http://h/b?utm_x=1")
    document = Document(image=images[0].url, canonical_url="http://h/a?from_x=1", images=images, links=found)
    cleaned = remove_trackers(document, OURS)

    assert (cleaned.image, cleaned.canonical_url) == ("http://h/i.png", "http://h/a")
    assert cleaned.images == (Image("http://h/i.png", "first"),)
    assert cleaned.links == ("http://h/a", "http://h/b")
    assert remove_trackers(document, ("utm_",)) == document
