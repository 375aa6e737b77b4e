"""Parse with feedparser the feeds that nothing else can read: slow, lenient, and within limits.

It only ever gets a BytesIO (bytes that look like a path would be opened as a file), in UTF-8 of our own making, and
none of the inputs it is known to be quadratic on. Whatever it raises counts as: not a feed.
"""

from __future__ import annotations

import io
import re
from calendar import timegm
from typing import Any

import feedparser

from core.errors import NotAFeed
from core.feeds import encoding
from core.feeds.xml_names import resolve_link, without_unstorable
from core.models import FeedEntry, FeedKind, ParsedFeed

# About a second and a half of CPU at feedparser's speed (6.0.14, the worst shape we found for each).
_MAX_BYTES = 500_000
_MAX_TAGS = 40_000
# Bases nest, and each is joined to the one before: 340 KB of them took 39 s.
_MAX_BASES = 500
# Attributes in one tag are quadratic: 233 KB took 7.6 s.
_LONGEST_TAG = re.compile(r"<[A-Za-z][^<>]{20000}")
# So is what feedparser does with an author (its issue 562: 100 KB took 43 s). Under another name it leaves them alone.
_PEOPLE = re.compile(r"(</?)([\w.-]{0,40}:)?(author|creator|managingeditor|webmaster|publisher|owner)\b", re.IGNORECASE)


def parse_leniently(body: bytes, url: str, content_type: str, limit: int) -> ParsedFeed:
    """Return the feed as feedparser understands it, without authors; NotAFeed when it finds none or is not used."""
    if len(body) > _MAX_BYTES:
        raise NotAFeed("The feed is damaged, and too large to repair")
    # Comments are quadratic too (200 KB: 8.2 s): they are removed in one pass, of unclosed ones the mark.
    head, *rest = encoding.decode(body, content_type).split("<!--")
    text = head + "".join(piece.partition("-->")[2] if "-->" in piece else piece for piece in rest)
    if text.count("<") > _MAX_TAGS or text.count("base=") > _MAX_BASES or _LONGEST_TAG.search(text):
        raise NotAFeed("The feed is damaged in a way that is not worth repairing")
    text = _PEOPLE.sub(r"\1person-\3", text)
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": url}
    options = {"response_headers": headers, "sanitize_html": False, "resolve_relative_uris": False}
    try:
        parsed = feedparser.parse(io.BytesIO(text.encode("utf-8", "replace")), **options)
    except Exception as exc:
        raise NotAFeed("This cannot be read as a feed") from exc
    version, entries = str(parsed.get("version") or ""), parsed.entries
    if not version and not entries:
        raise NotAFeed("This is not a feed of any kind we know")
    is_atom = version.startswith("atom")
    return ParsedFeed(
        kind=FeedKind.ATOM if is_atom else FeedKind.CDF if version == "cdf" else FeedKind.RSS,
        title=_text(parsed.feed, "title"),
        entries=tuple(_entry(entry, is_atom) for entry in entries[:limit]),
        parser="feedparser",
        left_out=max(len(entries) - limit, 0),
    )


def _entry(entry: Any, is_atom: bool) -> FeedEntry:
    link = _text(entry, "feedburner_origlink") or _text(entry, "link")
    contents = [_text(content, "value") for content in entry.get("content") or ()]
    source = entry.get("source") or {}
    # feedparser takes any Atom id for the link where there is none; `rss_atom._id_link` says when that is right.
    is_name = is_atom and entry.get("guidislink") and not (contents and link.startswith("http"))
    return FeedEntry(
        link="" if is_name else resolve_link("", link),
        id=_text(entry, "id"),
        title=_text(entry, "title"),
        published_ts=_moment(entry, "published_parsed"),
        updated_ts=_moment(entry, "updated_parsed"),
        content=max((*contents, _text(entry, "summary")), key=len),
        source_url=_text(source, "href"),
    )


def _text(fields: Any, key: str) -> str:
    value = fields.get(key)
    return without_unstorable(value).strip() if isinstance(value, str) else ""


def _moment(entry: Any, key: str) -> float | None:
    # Not `entry.get`: feedparser answers a missing update with the publication, and warns about it.
    moment = dict.get(entry, key)
    return float(timegm(moment)) if moment else None
