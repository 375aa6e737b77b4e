"""Leave in a page only those of its dates that may say when it was published. Changes the tree."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, cast

from lxml import etree

from core.pages.date_lines import (
    is_dateline,
    is_label_of_publication,
    is_line_of_example,
    names_publication,
    says_when_published,
)
from core.pages.time_elements import MAX_LINE_CHARS

_DATED = etree.XPath("/descendant::text()[contains(., '20') or contains(., '19')]")
_WITH_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d{3})")
_NO_TEXT = frozenset(("script", "style"))
_TITLES = frozenset(("title", "h1"))
# A line has no more; 20,000 empty elements around as many dates took 34 s.
_MAX_PARTS = 60
# Parts of a line.
_INLINE = frozenset(("a", "abbr", "b", "code", "em", "font", "i", "small", "span", "strong", "time", "u", "var"))
# Mostly of dates of something else, as in a list of changes: these must say that they are of the publication.
_LISTED = frozenset(("li", "dt", "dd", "h2", "h3", "h4", "h5", "h6"))
# Not `time` and `info`: those are on every second box.
_CLASS_OF_DATE = re.compile(
    r"date|datum|fecha|publi|posted|submitted|stamp|byline|author|autor|attribution|(?:^|[\s_-])meta(?:$|[\s_-])",
    re.IGNORECASE,
)


def keep_dates_of_page(root: etree._Element) -> bool:
    """Remove the texts with a year that are no datelines; return whether any text with a year is left."""
    texts = [text for text in cast("list[Any]", _DATED(root)) if _WITH_YEAR.search(text)]
    texts = [text for text in texts if text.getparent().tag not in _NO_TEXT]
    refused = [text for text in texts if not _may_date_page(text)]  # all are asked before any is removed
    for text in refused:
        if text.is_tail:
            text.getparent().tail = None
        else:
            text.getparent().text = None
    return len(refused) < len(texts)


def _may_date_page(text: Any) -> bool:
    """Return whether the line around the text is a dateline, or is marked as one and tells of no example."""
    element = text.getparent().getparent() if text.is_tail else text.getparent()
    if element is None:
        return False
    around = [element, *element.iterancestors()]
    block = next((one for one in around if one.tag not in _INLINE), element)
    words = " ".join(text.split())
    line = _line_of(block) or words
    labelled = f"{_label_of(block)} {line}"
    if len(words) > MAX_LINE_CHARS or is_line_of_example(labelled):
        return False
    before = element.getprevious() if element is not block else None
    if before is not None and is_label_of_publication(_line_of(before)):
        return True
    is_marked = any(_CLASS_OF_DATE.search(one.get("class") or "") for one in around[:3])
    if element.tag in _TITLES or is_marked or says_when_published(words):
        return True
    if block.tag in _LISTED:
        return names_publication(labelled) and is_dateline(labelled, may_name_author=False)
    if block.tag == "p":
        return is_dateline(labelled)
    return is_dateline(words) or is_dateline(line)


def _line_of(block: etree._Element) -> str:
    """Return the text of the block in one line; empty if it is more than a line."""
    if next(islice(block.iterdescendants(), _MAX_PARTS, None), None) is not None:
        return ""
    text = ""
    for piece in map(str, block.itertext()):
        text += f" {piece}"
        if len(text) > 4 * MAX_LINE_CHARS:
            return ""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARS else ""


def _label_of(block: etree._Element) -> str:
    """Return what stands before a line and is explained by it: the term of a definition, `for example:`."""
    before = block.getprevious()
    if before is None or not isinstance(before.tag, str):
        return ""
    words = _line_of(before)
    return words if before.tag == "dt" or words.endswith(":") else ""
