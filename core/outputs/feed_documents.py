"""Write a published feed as RSS 2.0, Atom 1.0 (both by feedgenerator) or JSON Feed 1.1.

The same feed gives the same bytes, whenever it is written. Whatever its values are, the XML is well-formed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from feedgenerator import Atom1Feed, Enclosure, Rss201rev2Feed
from feedgenerator.django.utils.xmlutils import SimplerXMLGenerator

from core.outputs.published_feed import FeedFormat, PublishedEntry, PublishedFeed, cleaned, paragraphs_html
from core.registry.record import iso

MEDIA_TYPES: Mapping[FeedFormat, str] = {
    FeedFormat.RSS: "application/rss+xml",
    FeedFormat.ATOM: "application/atom+xml",
    FeedFormat.JSON: "application/feed+json",
}
TTL_MINUTES = 5
"""The `ttl` for RSS readers: how long to wait between two requests."""
MEDIA_NAMESPACE = "http://search.yahoo.com/mrss/"
_NAMESPACES = {
    "xmlns:content": "http://purl.org/rss/1.0/modules/content/",
    "xmlns:dc": "http://purl.org/dc/elements/1.1/",
    "xmlns:media": MEDIA_NAMESPACE,
}
_IMAGE_TYPES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
}
_Attributes = dict[str, str]


def write_feed(feed: PublishedFeed, feed_format: FeedFormat) -> bytes:
    """Return the document in UTF-8."""
    feed = cleaned(feed)
    return _WRITERS[feed_format](feed)


def _written(document: RssDocument | AtomDocument, feed: PublishedFeed) -> bytes:
    for entry in feed.entries:
        document.add_item(**_item(entry))
    out = io.BytesIO()
    document.write(out, "utf-8")
    return out.getvalue()


def _head(feed: PublishedFeed) -> dict[str, Any]:
    return {
        "title": feed.title,
        "link": feed.home_url,
        "description": feed.description,
        "language": feed.language or None,
        "feed_url": feed.self_url,
        "feed_guid": feed.id,
        "ttl": TTL_MINUTES,
        "hub_url": feed.hub_url,
        "updated": _moment(feed.updated_ts),
    }


def _item(entry: PublishedEntry) -> dict[str, Any]:
    return {
        "title": entry.title,
        "link": entry.link,
        # RSS readers take a description for HTML, and feedgenerator writes an Atom summary as such.
        "description": escape(entry.summary, quote=False) or None,
        "content": paragraphs_html(entry.text) or None,
        "author_name": entry.author or None,
        "pubdate": _moment(entry.published_ts) if entry.published_ts else None,
        "updateddate": _moment(entry.updated_ts or entry.published_ts),
        "unique_id": entry.id,
        "unique_id_is_permalink": False,
        "categories": entry.categories,
        "enclosures": _enclosures(entry.image),
        "image": entry.image,
        "language": entry.language,
    }


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _enclosures(image: str) -> list[Enclosure]:
    """Return the image, if its ending tells its type, which an enclosure must have; its length is not known."""
    kind = _IMAGE_TYPES.get(image.partition("?")[0].rpartition(".")[2].lower())
    return [Enclosure(image, "0", kind)] if kind else []


class RssDocument(Rss201rev2Feed):  # type: ignore[misc]
    def rss_attributes(self) -> _Attributes:
        return {**super().rss_attributes(), **_NAMESPACES}

    def add_root_elements(self, handler: SimplerXMLGenerator) -> None:
        super().add_root_elements(handler)
        if self.feed["hub_url"]:
            handler.addQuickElement("atom:link", None, {"rel": "hub", "href": self.feed["hub_url"]})

    def add_item_elements(self, handler: SimplerXMLGenerator, item: dict[str, Any]) -> None:
        super().add_item_elements(handler, item)
        if item["content"]:
            handler.addQuickElement("content:encoded", item["content"])
        if item["language"]:
            handler.addQuickElement("dc:language", item["language"])
        handler.addQuickElement("atom:updated", item["updateddate"].isoformat())
        _add_image(handler, item)

    def latest_post_date(self) -> datetime:
        """Return when the newest entry changed; the library's own takes the time of day for an empty feed."""
        updated: datetime = self.feed["updated"]
        return updated


class AtomDocument(Atom1Feed):  # type: ignore[misc]
    def root_attributes(self) -> _Attributes:
        return {**super().root_attributes(), "xmlns:media": MEDIA_NAMESPACE}

    def add_root_elements(self, handler: SimplerXMLGenerator) -> None:
        super().add_root_elements(handler)
        if self.feed["hub_url"]:
            handler.addQuickElement("link", "", {"rel": "hub", "href": self.feed["hub_url"]})

    def item_attributes(self, item: dict[str, Any]) -> _Attributes:
        return {"xml:lang": item["language"]} if item["language"] else {}

    def add_item_elements(self, handler: SimplerXMLGenerator, item: dict[str, Any]) -> None:
        super().add_item_elements(handler, item)
        _add_image(handler, item)

    def latest_post_date(self) -> datetime:
        updated: datetime = self.feed["updated"]
        return updated


def _add_image(handler: SimplerXMLGenerator, item: dict[str, Any]) -> None:
    if item["image"]:
        handler.addQuickElement("media:content", None, {"url": item["image"], "medium": "image"})


# ── JSON Feed 1.1 (jsonfeed.org) ──

_JSON_FEED = "https://jsonfeed.org/version/1.1"
_NOT_KNOWN: tuple[object, ...] = (None, "", [])


def _json_feed(feed: PublishedFeed) -> bytes:
    head = {
        "version": _JSON_FEED,
        "title": feed.title,
        "home_page_url": feed.home_url,
        "feed_url": feed.self_url,
        "description": feed.description,
        "language": feed.language,
        "hubs": [{"type": "WebSub", "url": feed.hub_url}] if feed.hub_url else [],
    }
    items = [_known(_json_item(entry)) for entry in feed.entries]
    return json.dumps({**_known(head), "items": items}, ensure_ascii=False).encode()


def _json_item(entry: PublishedEntry) -> dict[str, Any]:
    changed_ts = entry.updated_ts if entry.updated_ts != entry.published_ts else 0.0
    return {
        "id": entry.id,
        "url": entry.link,
        "title": entry.title,
        # One of the two contents must be there.
        "content_html": paragraphs_html(entry.text or entry.summary or entry.title),
        "summary": entry.summary,
        "image": entry.image,
        "date_published": iso(entry.published_ts) if entry.published_ts else None,
        "date_modified": iso(changed_ts) if changed_ts else None,
        "authors": [{"name": entry.author}] if entry.author else [],
        "tags": list(entry.categories),
        "language": entry.language,
    }


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not known; readers take an empty string for a value."""
    return {name: value for name, value in values.items() if value not in _NOT_KNOWN}


_WRITERS: Mapping[FeedFormat, Callable[[PublishedFeed], bytes]] = {
    FeedFormat.RSS: lambda feed: _written(RssDocument(**_head(feed)), feed),
    # An entry without an author must be in a feed that has one (RFC 4287, section 4.1.1).
    FeedFormat.ATOM: lambda feed: _written(AtomDocument(**_head(feed), author_name=feed.title), feed),
    FeedFormat.JSON: _json_feed,
}
