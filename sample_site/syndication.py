"""Render the feeds, one format per section, and the sitemaps. Values in, bytes out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from sample_site import links, markdown, pages, quirks
from sample_site.newsroom import Edition, Story

TTL_MINUTES = 5
NEWS_SITEMAP_AGE = timedelta(days=2)
"""Google's rule for news sitemaps: nothing older than two days."""

ATOM = "http://www.w3.org/2005/Atom"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
DC = "http://purl.org/dc/elements/1.1/"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RSS1 = "http://purl.org/rss/1.0/"
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
SYNDICATION = "http://purl.org/rss/1.0/modules/syndication/"
RSS1_PREFIXES: dict[Any, str] = {None: RSS1, "rdf": RDF, "dc": DC, "sy": SYNDICATION}

Element = Any
"""lxml's makers of elements have no types."""
E = ElementMaker(nsmap={"atom": ATOM, "content": CONTENT, "dc": DC})
A = ElementMaker(namespace=ATOM, nsmap={None: ATOM})
R = ElementMaker(namespace=RSS1, nsmap=RSS1_PREFIXES)
S = ElementMaker(namespace=SITEMAP, nsmap={None: SITEMAP, "news": NEWS})


def news_rss(edition: Edition, base: str) -> bytes:
    """RSS 2.0."""
    stories = links.stories_of(edition, "news")
    channel = E.channel(
        E.title("The Freshet Gazette: News"),
        E.link(f"{base}/section/news"),
        E.description("What happened beside the Aldwater"),
        E.language("en"),
        E.lastBuildDate(format_datetime(last_change(stories))),
        E.ttl(str(TTL_MINUTES)),
        _named(ATOM, "link", rel="self", type="application/rss+xml", href=f"{base}/feeds/news.xml"),
        *(_rss_item(story, base) for story in stories),
    )
    return _xml(E.rss(channel, version="2.0"))


def business_atom(edition: Edition, base: str) -> bytes:
    """Atom 1.0."""
    stories = links.stories_of(edition, "business")
    feed = A.feed(
        A.id("tag:gazette.example,1868:business"),
        A.title("The Freshet Gazette: Business"),
        A.updated(last_change(stories).isoformat()),
        A.link(rel="self", href=f"{base}/feeds/business.atom"),
        A.link(rel="alternate", href=f"{base}/section/business"),
        *(_atom_entry(story, base) for story in stories),
    )
    return _xml(feed)


def culture_json(edition: Edition, base: str) -> bytes:
    """JSON Feed 1.1, with the whole text of every story."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "The Freshet Gazette: Culture",
        "home_page_url": f"{base}/section/culture",
        "feed_url": f"{base}/feeds/culture.json",
        "language": "en",
        "items": [_json_item(story, base) for story in links.stories_of(edition, "culture")],
    }
    return json.dumps(feed, ensure_ascii=False, indent=1).encode()


def sports_rdf(edition: Edition, base: str) -> bytes:
    """RSS 1.0."""
    stories = links.stories_of(edition, "sports")
    sequence = _named(RDF, "Seq")
    sequence.extend(_named(RDF, "li", resource=links.in_feed(story, base, "sports")) for story in stories)
    channel = R.channel(
        R.title("The Freshet Gazette: Sports"),
        R.link(f"{base}/section/sports"),
        R.description("Boats, balls and hills"),
        _named(SYNDICATION, "updatePeriod", "hourly"),
        _named(SYNDICATION, "updateFrequency", "4"),
        R.items(sequence),
        {f"{{{RDF}}}about": f"{base}/feeds/sports.rdf"},
    )
    root = etree.Element(f"{{{RDF}}}RDF", nsmap=RSS1_PREFIXES)
    root.extend([channel, *(_rdf_item(story, base) for story in stories)])
    return _xml(root)


def news_sitemap(edition: Edition, base: str) -> bytes:
    """A Google News sitemap of the sports pages: results are old before the next ordinary crawl."""
    stories = [story for story in edition.section("sports") if story.article.slug not in quirks.WITHOUT_PAGE]
    newest = last_change(edition.stories)
    recent = [story for story in stories if newest - story.published < NEWS_SITEMAP_AGE]
    return _xml(S.urlset(*(_news_url(story, base) for story in recent)))


def sitemap(edition: Edition, base: str) -> bytes:
    """The ordinary sitemap: every page with its last change."""
    urls = (
        S.url(S.loc(base + story.article.path), S.lastmod(story.updated.isoformat(timespec="seconds")))
        for story in edition.stories
        if story.article.slug not in quirks.WITHOUT_PAGE
    )
    return _xml(S.urlset(*urls))


def last_change(stories: Iterable[Story]) -> datetime:
    """When any of these was last printed or corrected."""
    return max(story.updated for story in stories).replace(microsecond=0)


def _rss_item(story: Story, base: str) -> Element:
    article = story.article
    item = E.item(
        E.title(article.title),
        E.link(links.in_feed(story, base, "news")),
        E.guid(f"gazette-{article.slug}", isPermaLink="false"),
        E.pubDate(format_datetime(story.published)),
        E.description(markdown.summary(article.body)),
        _named(DC, "creator", article.author),
        *(E.category(tag) for tag in article.tags),
        E.enclosure(url=base + pages.image_path(story), type="image/svg+xml", length="0"),
    )
    if article.slug == quirks.CONSENT_WALL:
        item.append(_named(CONTENT, "encoded", markdown.to_html(article.body)))
    return item


def _atom_entry(story: Story, base: str) -> Element:
    article = story.article
    return A.entry(
        A.id(f"tag:gazette.example,1868:{article.slug}"),
        A.title(article.title),
        A.link(rel="alternate", type="text/html", href=links.in_feed(story, base, "business")),
        A.published(story.published.isoformat(timespec="seconds")),
        A.updated(story.updated.isoformat(timespec="seconds")),
        A.author(A.name(article.author)),
        A.summary(f"<p>{markdown.summary(article.body)}</p>", type="html"),
    )


def _json_item(story: Story, base: str) -> dict[str, object]:
    article = story.article
    return {
        "id": f"gazette-{article.slug}",
        "url": links.in_feed(story, base, "culture"),
        "title": article.title,
        "content_html": markdown.to_html(article.body),
        "date_published": story.published.isoformat(timespec="seconds"),
        "date_modified": story.updated.isoformat(timespec="seconds"),
        "authors": [{"name": article.author}],
        "tags": list(article.tags),
        "image": base + pages.image_path(story),
        "language": article.language,
    }


def _rdf_item(story: Story, base: str) -> Element:
    link = links.in_feed(story, base, "sports")
    return R.item(
        R.title(story.article.title),
        R.link(link),
        R.description(markdown.summary(story.article.body)),
        _named(DC, "date", story.published.isoformat(timespec="seconds")),
        _named(DC, "creator", story.article.author),
        {f"{{{RDF}}}about": link},
    )


def _news_url(story: Story, base: str) -> Element:
    publication = _named(NEWS, "publication")
    publication.extend([_named(NEWS, "name", "The Freshet Gazette"), _named(NEWS, "language", story.article.language)])
    news = _named(NEWS, "news")
    news.extend(
        [
            publication,
            _named(NEWS, "publication_date", story.published.isoformat(timespec="seconds")),
            _named(NEWS, "title", story.article.title),
        ]
    )
    return S.url(S.loc(base + story.article.path), news)


def _named(namespace: str, tag: str, text: str | None = None, **attributes: str) -> Element:
    element = etree.Element(f"{{{namespace}}}{tag}", attributes)
    element.text = text
    return element


def _xml(root: Element) -> bytes:
    return etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
