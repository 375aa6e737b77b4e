"""Parse JSON Feed 1.0 and 1.1 (jsonfeed.org) into entries.

Publishers get types wrong here too: numbers as ids, null for missing text, one author instead of a list.
"""

from __future__ import annotations

import json
from typing import Any

from core.errors import NotAFeed
from core.feeds.dates import parse_date
from core.feeds.xml_names import resolve_link, without_unstorable
from core.models import FeedEntry, FeedKind, ParsedFeed


def parse_json_feed(body: bytes, url: str, limit: int) -> ParsedFeed:
    """Return the JSON Feed in this body; NotAFeed when it is other JSON, or none."""
    try:
        feed = json.loads(body.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as exc:
        raise NotAFeed("This looks like JSON but cannot be read as JSON") from exc
    # By its version or, where that is missing, by its items.
    is_feed = isinstance(feed, dict) and (
        "jsonfeed.org/version" in _text(feed.get("version")) or isinstance(feed.get("items"), list)
    )
    if not is_feed:
        raise NotAFeed("This is JSON, but not a JSON Feed")
    items = feed.get("items")
    items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return ParsedFeed(
        kind=FeedKind.JSON,
        title=_text(feed.get("title")),
        entries=tuple(_entry(item, url) for item in items[:limit]),
        left_out=max(len(items) - limit, 0),
    )


def _entry(item: dict[str, Any], base: str) -> FeedEntry:
    contents = (_text(item.get(key)) for key in ("content_html", "content_text", "summary"))
    return FeedEntry(
        link=resolve_link(base, _text(item.get("url")) or _text(item.get("external_url"))),
        id=_text(item.get("id")),
        title=_text(item.get("title")),
        published_ts=parse_date(_text(item.get("date_published"))),
        updated_ts=parse_date(_text(item.get("date_modified"))),
        author=_author(item),
        content=next(filter(None, contents), ""),
    )


def _author(item: dict[str, Any]) -> str:
    """Return the first author: version 1.1 has a list of them, 1.0 a single one."""
    authors = item.get("authors") or [item.get("author")]
    people = authors if isinstance(authors, list) else [authors]
    names = (_text(person.get("name")) if isinstance(person, dict) else _text(person) for person in people)
    return next(filter(None, names), "")


def _text(value: Any) -> str:
    """Return text as it is, a number as its digits; empty for everything else."""
    if isinstance(value, str):
        return without_unstorable(value).strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
