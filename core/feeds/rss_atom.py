"""An RSS, RDF, Atom or CDF tree into entries.

The formats share one reading: elements are told apart by their short names, not by the version the feed claims. Where
an element is repeated, the choice is feedparser's. An entry without a link is returned without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lxml import etree

from core.feeds import entry_links, hints
from core.feeds.dates import parse_date
from core.feeds.elements import ElementNames, attribute
from core.feeds.text import line, markup, plain
from core.models import Entry, FeedKind, ParsedFeed

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

Found = dict[str, list[etree._Element]]


def parse_rss_atom(root: etree._Element, names: ElementNames, url: str, limit: int) -> ParsedFeed | None:
    """The feed under this root; None when the root is no feed's."""
    kind = _KINDS.get(names(root))
    if kind is None:
        return None
    channel = next((child for child in root.iterchildren("*") if names(child) == "channel"), root)
    elements = _entry_elements(root, names, url)
    found = list(islice(elements, limit))
    if kind is FeedKind.CDF and found and not any(attribute(element, "href") for element, _ in found):
        kind = FeedKind.RSS
    return ParsedFeed(
        kind=kind,
        title=_title(channel, names),
        entries=tuple(_entry(element, names, base) for element, base in found),
        hints=hints.read(channel, names),
        left_out=sum(1 for _ in elements),
    )


def _entry_elements(
    element: etree._Element, names: ElementNames, base: str, depth: int = 0
) -> Iterator[tuple[etree._Element, str]]:
    """The entries in and under this element, each with the base for its links."""
    base = entry_links.base_of(element, base)
    if names(element) in _ENTRY:
        yield element, base
    elif depth < _DEEPEST:
        for child in element.iterchildren("*"):
            yield from _entry_elements(child, names, base, depth + 1)


def _title(channel: etree._Element, names: ElementNames) -> str:
    titles = (line(child) for child in channel.iterchildren("*") if names(child) in _TITLES)
    return next(filter(None, titles), "")


def _entry(element: etree._Element, names: ElementNames, base: str) -> Entry:
    found = _children(element, names)
    source_url, source_title = _source(found, names, base)
    return Entry(
        link=_link(element, found, base),
        id=_last(found, _IDS) or attribute(element, "about"),
        title=next(filter(None, (line(title) for title in _all(found, _TITLES))), ""),
        published_ts=_moment(found, _PUBLISHED),
        updated_ts=_moment(found, _UPDATED) or parse_date(attribute(element, "lastmod")),
        author=next(filter(None, (_person(author, names) for author in _all(found, _AUTHORS))), ""),
        content=max((markup(content) for content in _all(found, _CONTENTS)), key=len, default=""),
        source_url=source_url,
        source_title=source_title,
    )


def _children(element: etree._Element, names: ElementNames) -> Found:
    """An entry's elements by name; a media:group counts as its contents, for video feeds keep their text there."""
    found: Found = {}
    for child in element.iterchildren("*"):
        found.setdefault(names(child), []).append(child)
    for group in found.pop("media:group", ()):
        for child in group.iterchildren("*"):
            found.setdefault(names(child), []).append(child)
    return found


def _link(element: etree._Element, found: Found, base: str) -> str:
    """FeedBurner's original link, the article among the links, or the guid that says it is one."""
    original = _last(found, ("feedburner:origlink",))
    if original:
        return entry_links.resolve(base, original)
    link = entry_links.article(found["link"], base) if "link" in found else ""
    return link or entry_links.resolve(base, attribute(element, "href")) or _id_link(found, base)


def _id_link(found: Found, base: str) -> str:
    """RSS's guid unless it says it is no permalink; Atom's id only where the entry may do without a link."""
    for guid in found.get("guid", ()):
        if (attribute(guid, "ispermalink") or "true").lower() == "true":
            return entry_links.permalink(plain(guid), entry_links.base_of(guid, base))
    # RFC 4287 §4.1.2: an entry without atom:content must have a link, so an id there is a name and no address.
    name = _last(found, ("id",)) if "content" in found else ""
    return name if name.startswith(("http://", "https://")) else ""


def _source(found: Found, names: ElementNames, base: str) -> tuple[str, str]:
    """Where a copied entry comes from: RSS's `<source url>`, or Atom's `<source>` with elements inside."""
    source = next(iter(found.get("source", ())), None)
    if source is None:
        return "", ""
    if not len(source):
        return entry_links.resolve(base, attribute(source, "url")), plain(source)
    links = [child for child in source.iterchildren("*") if names(child) == "link"]
    return entry_links.article(links, entry_links.base_of(source, base)), _title(source, names)


def _person(element: etree._Element, names: ElementNames) -> str:
    """A name out of Atom's person element, or out of RSS's `mail@example.org (Name)`."""
    if len(element):
        parts = {names(child): plain(child) for child in element.iterchildren("*")}
        return parts.get("name") or parts.get("email") or ""
    text = line(element)
    mail, _, name = text.partition("(")
    return name[:-1].strip() if "@" in mail and name.endswith(")") and len(name) > 1 else text


def _all(found: Found, wanted: tuple[str, ...]) -> Iterator[etree._Element]:
    return (element for name in wanted for element in found.get(name, ()))


def _last(found: Found, wanted: tuple[str, ...]) -> str:
    texts = [text for element in _all(found, wanted) if (text := plain(element))]
    return texts[-1] if texts else ""


def _moment(found: Found, wanted: tuple[str, ...]) -> float | None:
    """The last readable date of the first kind that has one."""
    for name in wanted:
        for element in reversed(found.get(name, [])):
            seconds = parse_date(plain(element))
            if seconds is not None:
                return seconds
    return None
