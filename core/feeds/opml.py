"""Parse and write OPML subscription lists.

`core.feeds.feed_toml` reads `feeds.toml`. Folders of OPML become categories, folders in folders one category with both
names. Titles of feeds are not kept: the feeds say them themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.feeds.xml_names import attribute
from core.feeds.xml_tree import parse_xml
from core.models import RejectedUrl
from core.pages.text_cleaning import printable
from core.urls.normalise import clean_url

UNCATEGORISED = "uncategorised"
_DEEPEST = 20


def parse_opml(body: bytes) -> dict[str, list[str]]:
    """Return the feed URLs by category, in the file's order, repeats dropped."""
    tree = parse_xml(body)
    if tree is None or not tree.is_sound:
        raise FeedFileError("The OPML file is not valid XML")
    if str(tree.root.tag).lower() != "opml":
        raise FeedFileError(f"This is not an OPML file: its root is <{tree.root.tag}>")
    categories: dict[str, list[str]] = {}
    for folders, url in _feeds(tree.root, ()):
        listed = categories.setdefault(category_slug("/".join(folders)) if folders else UNCATEGORISED, [])
        listed.append(url)
    return {category: list(dict.fromkeys(urls)) for category, urls in categories.items()}


def without_refused(listed: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the feeds that can be fetched by category, and the addresses that are not http(s) URLs.

    OPML files come from other programs: one entry that is not a URL does not spoil the others.
    """
    urls = dict.fromkeys(url for feeds in listed.values() for url in feeds)
    refused = tuple(url for url in urls if isinstance(clean_url(url), RejectedUrl))
    return {category: [url for url in feeds if url not in refused] for category, feeds in listed.items()}, refused


def _feeds(parent: etree._Element, folders: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every feed below, with the folders it is in, down to a depth that nobody uses."""
    for child in parent.iterchildren("*"):
        url = attribute(child, "xmlurl").strip()
        if url:
            # For feeds in no folder the first of OPML 2.0's `category="/News/World,/Other"`.
            category = attribute(child, "category").split(",")[0].strip()
            yield folders or tuple(name for name in category.split("/") if name), url
        if len(folders) < _DEEPEST:
            is_folder = str(child.tag).lower() == "outline" and not url
            name = (attribute(child, "text") or attribute(child, "title")).strip() if is_folder else ""
            yield from _feeds(child, (*folders, name) if name else folders)


def write_opml(categories: Mapping[str, Sequence[str]], titles: Mapping[str, str]) -> bytes:
    """Return OPML 2.0, categories and feeds in order of their names, so that two exports can be compared."""
    root = etree.Element("opml", version="2.0")
    etree.SubElement(etree.SubElement(root, "head"), "title").text = "Freshet feeds"
    body = etree.SubElement(root, "body")
    for category in sorted(categories):
        name = _printable(category)
        folder = etree.SubElement(body, "outline", text=name, title=name)
        for url in sorted(set(categories[category])):
            title = _printable(titles.get(url) or url)
            etree.SubElement(folder, "outline", type="rss", text=title, title=title, xmlUrl=_printable(url))
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, pretty_print=True)


def _printable(text: str) -> str:
    """Remove what XML cannot hold, and what a terminal would act on."""
    return "".join(char for char in text if char >= " " and char not in "\ufffe\uffff" and printable(char) == char)
