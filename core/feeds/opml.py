"""Feed lists as other readers write and read them: OPML in, OPML 2.0 out.

Folders become categories, folders in folders one category with both names. Titles of feeds are not kept: the feeds
say them themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

from core.errors import FeedFileError
from core.feeds.categories import slug
from core.feeds.elements import attribute
from core.feeds.xml_tree import parse_xml
from core.pages.printable import printable

UNCATEGORISED = "uncategorised"
_DEEPEST = 20


def read(body: bytes) -> dict[str, list[str]]:
    """Category to feed URLs, in the file's order, repeats dropped."""
    tree = parse_xml(body)
    if tree is None or not tree.is_sound:
        raise FeedFileError("The OPML file is not valid XML")
    if str(tree.root.tag).lower() != "opml":
        raise FeedFileError(f"This is not an OPML file: its root is <{tree.root.tag}>")
    found: dict[str, list[str]] = {}
    for folders, url in _feeds(tree.root, ()):
        listed = found.setdefault(slug("/".join(folders)) if folders else UNCATEGORISED, [])
        listed.append(url)
    return {category: list(dict.fromkeys(urls)) for category, urls in found.items()}


def _feeds(parent: etree._Element, folders: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every feed below, with the folders it lies in. Deeper than anyone sorts is not followed."""
    for child in parent.iterchildren("*"):
        url = attribute(child, "xmlurl").strip()
        if url:
            yield folders or _own_folders(child), url
        if len(folders) < _DEEPEST:
            is_folder = str(child.tag).lower() == "outline" and not url
            name = (attribute(child, "text") or attribute(child, "title")).strip() if is_folder else ""
            yield from _feeds(child, (*folders, name) if name else folders)


def _own_folders(outline: etree._Element) -> tuple[str, ...]:
    """OPML 2.0's `category="/News/World,/Other"`: the first one, for feeds in no folder."""
    first = attribute(outline, "category").split(",")[0]
    return tuple(name for name in first.strip().split("/") if name)


def write(categories: Mapping[str, Sequence[str]], titles: Mapping[str, str]) -> bytes:
    """OPML 2.0, categories and feeds in order of their names, so that two exports can be compared."""
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
    """Without what XML cannot hold, and what a terminal would act on."""
    return "".join(char for char in text if char >= " " and char not in "\ufffe\uffff" and printable(char) == char)
