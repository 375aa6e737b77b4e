"""Turn an RSS, RDF, Atom or CDF tree into entries.

The formats share one parser: elements are told apart by their short names, not by the version the feed claims. Where
an element is repeated, the choice is feedparser's. An entry without a link is returned without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from lxml import etree

from core.feeds.dates import parse_date
from core.feeds.xml_names import ElementNames, attribute, inner_html, link_base, plain_text, resolve_link, title_text
from core.models import FeedEntry, FeedKind, ParsedFeed, PublisherHints

_ENTRY = frozenset(("item", "entry"))
_KINDS = {
    **dict.fromkeys(("rss", "rdf:rdf", "rdf", "item"), FeedKind.RSS),
    **dict.fromkeys(("feed", "entry"), FeedKind.ATOM),
    "channel": FeedKind.CDF,
}
_IDS = ("guid", "id")
_TITLES = ("title", "dc:title", "media:title")
_PUBLISHED = ("pubdate", "published", "issued", "dcterms:issued")
_UPDATED = ("updated", "modified", "lastbuilddate", "dc:date", "dcterms:modified")
_AUTHORS = ("author", "dc:creator", "dc:author", "itunes:author", "managingeditor")
_CONTENTS = (
    *("content:encoded", "content", "fullitem", "body", "xhtml:body", "description", "summary", "abstract"),
    *("dc:description", "itunes:summary", "media:description"),
)

# Items sit two levels down in every format; deeper ones are wrapped by mistake, and only so far do we look.
_DEEPEST = 4

Children = dict[str, list[etree._Element]]
"""The child elements of an entry by their short names."""


def parse_rss_atom(root: etree._Element, names: ElementNames, url: str, limit: int) -> ParsedFeed | None:
    """Return the feed under this root; None when the root is no feed's."""
    kind = _KINDS.get(names(root))
    if kind is None:
        return None
    channel = next((child for child in root.iterchildren("*") if names(child) == "channel"), root)
    elements = _entry_elements(root, names, url)
    kept = list(islice(elements, limit))
    if kind is FeedKind.CDF and kept and not any(attribute(element, "href") for element, _ in kept):
        kind = FeedKind.RSS
    return ParsedFeed(
        kind=kind,
        title=_title(channel, names),
        entries=tuple(_entry(element, names, base) for element, base in kept),
        hints=_publisher_hints(channel, names),
        left_out=sum(1 for _ in elements),
    )


def _entry_elements(
    element: etree._Element, names: ElementNames, base: str, depth: int = 0
) -> Iterator[tuple[etree._Element, str]]:
    """Yield the entries in and under this element, each with the base for its links."""
    base = link_base(element, base)
    if names(element) in _ENTRY:
        yield element, base
    elif depth < _DEEPEST:
        for child in element.iterchildren("*"):
            yield from _entry_elements(child, names, base, depth + 1)


def _title(channel: etree._Element, names: ElementNames) -> str:
    titles = (title_text(child) for child in channel.iterchildren("*") if names(child) in _TITLES)
    return next(filter(None, titles), "")


# ── one entry ──


def _entry(element: etree._Element, names: ElementNames, base: str) -> FeedEntry:
    children = _children(element, names)
    return FeedEntry(
        link=_link(element, children, base),
        id=_last_text(children, _IDS) or attribute(element, "about"),
        title=next(filter(None, (title_text(title) for title in _all(children, _TITLES))), ""),
        published_ts=_first_date(children, _PUBLISHED),
        updated_ts=_first_date(children, _UPDATED) or parse_date(attribute(element, "lastmod")),
        author=next(filter(None, (_person(author, names) for author in _all(children, _AUTHORS))), ""),
        content=max((inner_html(content) for content in _all(children, _CONTENTS)), key=len, default=""),
        source_url=_source_url(children, names, base),
    )


def _children(element: etree._Element, names: ElementNames) -> Children:
    """Group an entry's elements by name; a media:group counts as its contents: video feeds keep their text there."""
    children: Children = {}
    for child in element.iterchildren("*"):
        children.setdefault(names(child), []).append(child)
    for group in children.pop("media:group", ()):
        for child in group.iterchildren("*"):
            children.setdefault(names(child), []).append(child)
    return children


def _source_url(children: Children, names: ElementNames, base: str) -> str:
    """Return the URL where a copied entry comes from: RSS's `<source url>`, or Atom's with elements inside."""
    source = next(iter(children.get("source", ())), None)
    if source is None:
        return ""
    if not len(source):
        return resolve_link(base, attribute(source, "url"))
    links = [child for child in source.iterchildren("*") if names(child) == "link"]
    return _article_link(links, link_base(source, base))


def _person(element: etree._Element, names: ElementNames) -> str:
    """Return a name out of Atom's person element, or out of RSS's `mail@example.org (Name)`."""
    if len(element):
        parts = names.children(element)
        return plain_text(parts.get("name")) or plain_text(parts.get("email"))
    text = title_text(element)
    mail, _, name = text.partition("(")
    return name[:-1].strip() if "@" in mail and name.endswith(")") and len(name) > 1 else text


def _all(children: Children, wanted: tuple[str, ...]) -> Iterator[etree._Element]:
    return (element for name in wanted for element in children.get(name, ()))


def _last_text(children: Children, wanted: tuple[str, ...]) -> str:
    texts = [text for element in _all(children, wanted) if (text := plain_text(element))]
    return texts[-1] if texts else ""


def _first_date(children: Children, wanted: tuple[str, ...]) -> float | None:
    """Return the last readable date of the first kind that has one."""
    dates = (parse_date(plain_text(element)) for name in wanted for element in reversed(children.get(name, [])))
    return next((seconds for seconds in dates if seconds is not None), None)


# ── its link ──

# A careless serialiser turns `?a=1&b=2` into `?a=1&b;=2`.
_STRAY_SEMICOLON = re.compile(r"&([A-Za-z0-9_]+);")
_HTML_TYPES = frozenset(("", "text/html", "html", "application/xhtml+xml", "xhtml"))


def _link(element: etree._Element, children: Children, base: str) -> str:
    """Return FeedBurner's original link, the article among the links, or the guid that says it is one."""
    original = _last_text(children, ("feedburner:origlink",))
    if original:
        return resolve_link(base, original)
    link = _article_link(children["link"], base) if "link" in children else ""
    return link or resolve_link(base, attribute(element, "href")) or _id_link(children, base)


def _article_link(links: list[etree._Element], base: str) -> str:
    """Return the last HTML alternate, else the last alternate of another type.

    Enclosures, comments, self and edit links are never the article.
    """
    html = other = ""
    for element in links:
        if (attribute(element, "rel") or "alternate").lower() != "alternate":
            continue
        # Atom's attribute, RSS's text, or an attribute with another name.
        target = str(element.get("href") or "") or plain_text(element)
        target = target or attribute(element, "href") or attribute(element, "url") or attribute(element, "uri")
        if "&" in target:
            target = _STRAY_SEMICOLON.sub(r"&\1", target.replace("&amp;", "&"))
        target = resolve_link(link_base(element, base), target)
        if attribute(element, "type").lower() in _HTML_TYPES:
            html = target or html
        else:
            other = target or other
    return html or other


def _id_link(children: Children, base: str) -> str:
    """Return RSS's guid unless it says it is no permalink; Atom's id only where the entry may do without a link."""
    for guid in children.get("guid", ()):
        if (attribute(guid, "ispermalink") or "true").lower() == "true":
            link = plain_text(guid)
            # Only paths are resolved: joining a bare word would invent a page.
            is_path = link.startswith(("/", "http://", "https://"))
            return resolve_link(link_base(guid, base), link) if is_path else link
    # RFC 4287 §4.1.2: an entry without atom:content must have a link, so an id there is a name and no address.
    name = _last_text(children, ("id",)) if "content" in children else ""
    return name if name.startswith(("http://", "https://")) else ""


# ── how often the feed wants to be polled: ttl, skipHours, skipDays and the syndication module ──

_PERIOD_SECONDS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_HINT_SECONDS = 366 * 86400.0


def _publisher_hints(channel: etree._Element, names: ElementNames) -> PublisherHints:
    """Read the hints among a channel's children; those that make no sense are left out."""
    children = names.children(channel)
    ttl_minutes = _number(children.get("ttl"))
    hours = [_number(child) for child in children.get("skiphours", ())]
    days = [plain_text(child).lower() for child in children.get("skipdays", ())]
    # `daily` is the syndication module's default for a frequency alone.
    default = "daily" if "sy:updateperiod" not in children and "sy:updatefrequency" in children else ""
    period = _PERIOD_SECONDS.get(plain_text(children.get("sy:updateperiod")).lower() or default)
    return PublisherHints(
        ttl_seconds=min(ttl_minutes * 60, _LONGEST_HINT_SECONDS) if ttl_minutes else None,
        update_period_seconds=period / max(_number(children.get("sy:updatefrequency")) or 1, 1) if period else None,
        # RSS 0.91 counted 1 to 24, RSS 2.0 counts 0 to 23: 24 is midnight.
        skip_hours=tuple(sorted({int(hour) % 24 for hour in hours if hour is not None and hour <= 24})),
        skip_days=tuple(sorted({_WEEKDAYS.index(day) for day in days if day in _WEEKDAYS})),
    )


def _number(element: etree._Element | None) -> float | None:
    text = plain_text(element)
    return float(text) if text.isdecimal() and len(text) < 10 else None
