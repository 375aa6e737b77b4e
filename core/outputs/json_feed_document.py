"""Write a published feed as JSON Feed 1.1 (jsonfeed.org)."""

from __future__ import annotations

import json
from typing import Any

from core.outputs.published_feed import PublishedEntry, PublishedFeed, paragraphs_html
from core.registry.record import iso

VERSION = "https://jsonfeed.org/version/1.1"
_NOT_KNOWN: tuple[object, ...] = (None, "", [])


def json_feed(feed: PublishedFeed) -> bytes:
    head = {
        "version": VERSION,
        "title": feed.title,
        "home_page_url": feed.home_url,
        "feed_url": feed.self_url,
        "description": feed.description,
        "language": feed.language,
        "hubs": [{"type": "WebSub", "url": feed.hub_url}] if feed.hub_url else [],
    }
    items = [_known(_item(entry)) for entry in feed.entries]
    return json.dumps({**_known(head), "items": items}, ensure_ascii=False).encode()


def _item(entry: PublishedEntry) -> dict[str, Any]:
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
