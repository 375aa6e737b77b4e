"""Tell which texts of a page with a year in them may say when it was published.

Most do not: they stand in code, tables, sentences, footers and comments, or tell of versions and changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

from lxml import etree

from core.pages.date_lines import (
    is_dateline,
    is_label_of_publication,
    is_line_of_example,
    names_publication,
    says_when_published,
)
from core.pages.day_in_line import day_in_line
from core.pages.time_elements import (
    MAX_LINE_CHARS,
    SENTENCE_TAGS,
    is_class_of_change,
    is_class_of_others,
    is_line_with_date,
    tells_of_change,
)

# Text by text: to ask each element for its texts takes a quarter longer.
_DATED = etree.XPath(
    "/descendant::text()[contains(., '20') or contains(., '19')][not(parent::script or parent::style)]"
)
_WITH_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d{3})")
_MAX_TEXTS = 500
"""So many texts with a year are looked at: what comes after as many is a list."""
_NO_DATE_IN = (
    *("pre", "code", "samp", "kbd", "table", "nav", "footer", "aside", "form", "blockquote", "style", "script"),
    *("svg", "picture", "video", "audio", "iframe", "object", "select", "option", "button", "textarea"),
)
_HOLDS_NO_DATE = frozenset(_NO_DATE_IN)
_PAGE_TAGS = frozenset(("html", "head", "body", "main", "article", "title", "h1"))
_HEADINGS = frozenset(("h2", "h3", "h4", "h5", "h6"))
_CLASS_OF_FOOTER = re.compile(r"(?:^|\s)(?:site-|page-|global-)?footer(?:$|\s)", re.IGNORECASE)
_CLASS_OF_EXAMPLE = re.compile(r"(?:^|[\s_-])(?:example|sample|placeholder|date-format)(?:$|[\s_-])", re.IGNORECASE)
_VERSION = re.compile(r"(?:^|[\s(\[v])\d{1,3}\.\d{1,3}(?:\.\d{1,3})?(?![.\d])")
_TITLES = frozenset(("title", "h1"))
_MAX_TITLES = 10
# A line has no more; 20,000 empty elements around as many dates took 34 s.
_MAX_PARTS = 60
# Parts of a line.
_INLINE = frozenset(("a", "abbr", "b", "code", "em", "font", "i", "small", "span", "strong", "time", "u", "var"))
# Mostly of dates of something else, as in a list of changes: these must say that they are of the publication.
_LISTED = frozenset(("li", "dt", "dd", "h2", "h3", "h4", "h5", "h6"))
# Not `time` and `info`: those are on every second box; nor `update`, `mandate`, `validate`, `publisher`.
_CLASS_OF_DATE = re.compile(
    r"(?<!up)(?<!man)(?<!li)(?<!di)date|datum|fecha|publi(?:sh(?!er)|ca)|posted|submitted|stamp|attribution",
    re.IGNORECASE,
)
# Of whatever is said beside an article: `Ada (born 5 May 1995)`, `Registration closes 12 June 2021`.
_CLASS_OF_FACTS = re.compile(r"byline|author|autor|(?:^|[\s_-])meta(?:$|[\s_-])", re.IGNORECASE)
_CLASS_OF_COMMENT = re.compile(r"comment(?!ary)", re.IGNORECASE)
_MAX_CACHED = 10_000


class Dateline(NamedTuple):
    """A line that may say when the page was published."""

    day: float
    element: etree._Element
    is_said: bool
    """It has a word for publication."""
    is_marked: bool
    """It is in a box for dates."""
    names: tuple[str, ...]
    """Tag and classes of it and of the boxes around."""


class DatedPage:
    """A page whose texts with a year are asked one by one; what is known of an element is kept for its other texts."""

    def __init__(self, root: etree._Element) -> None:
        self._texts = [text for text in cast("list[Any]", _DATED(root)) if _WITH_YEAR.search(text)][:_MAX_TEXTS]
        dated = map(_element_around, self._texts)
        # Other elements are looked at for their names alone, unless they are paragraphs or items.
        self._dated = {one for element in dated for one in (element, element.getparent())}
        titles = islice(root.iter("h1"), _MAX_TITLES)
        self._around_title = {above for title in titles for above in title.iterancestors()}
        self._refused: dict[etree._Element, bool] = {}

    def datelines(self) -> list[Dateline]:
        """Return the lines that may date the page, in their order."""
        return [line for text in self._texts if (line := self._dateline(text)) is not None]

    def _dateline(self, text: Any) -> Dateline | None:
        """Return the line around the text if it is a dateline, or is marked as one and tells of no example."""
        element = _element_around(text)
        if element.tag in _TITLES or self._is_refused(element):
            return None
        around = [element, *islice(element.iterancestors(), 20)]
        block = next((one for one in around if one.tag not in _INLINE), element)
        words = " ".join(text.split())
        line = _line_of(block) or words
        labelled = f"{_label_of(block)} {line}"
        if len(words) > MAX_LINE_CHARS or is_line_of_example(labelled):
            return None
        day = day_in_line(words) or day_in_line(line)
        if day is None:
            return None
        classes = [one.get("class") or "" for one in around[:3]]
        before = _before(element) if element is not block else None
        is_labelled = before is not None and is_label_of_publication(_line_of(before) or "")
        is_said = is_labelled or says_when_published(words)
        is_fact = any(map(_CLASS_OF_FACTS.search, classes)) and (is_said or is_dateline(words))
        is_marked = is_fact or any(map(_CLASS_OF_DATE.search, classes))
        is_marked = is_marked and not any(map(_CLASS_OF_COMMENT.search, classes))
        if block.tag in _LISTED and not (is_said or is_marked):
            is_said = names_publication(labelled) and is_dateline(labelled, may_name_author=False)
            if not is_said:
                return None
        is_bare = is_dateline(labelled) if block.tag == "p" else is_dateline(words) or is_dateline(line)
        if not (is_said or is_marked or is_bare):
            return None
        return Dateline(day, element, is_said, is_marked, (str(element.tag), *classes))

    def _is_refused(self, element: etree._Element) -> bool:
        """Return whether this, or anything around it, is no place for the date of the page."""
        known, path = self._refused, []
        one: etree._Element | None = element
        while one is not None and one not in known:
            path.append(one)
            one = one.getparent()
        is_refused = one is not None and known[one]
        for inner in reversed(path):
            is_refused = known[inner] = is_refused or self._holds_no_date(inner)
        return is_refused

    def _holds_no_date(self, element: etree._Element) -> bool:
        """Return whether no date in this can be that of the page: in code, sentences, footers, comments, versions."""
        tag, name = str(element.tag), element.get("class") or ""
        if tag in _PAGE_TAGS:
            return False
        if tag in _HOLDS_NO_DATE or (tag == "time" and _WITH_YEAR.search(element.get("datetime") or "")):
            return True  # else the page would state it
        if name and _is_class_without_date(tag, name):
            return element not in self._around_title
        if tag not in SENTENCE_TAGS and element not in self._dated:
            return False
        words = _line_of(element)
        if tag in SENTENCE_TAGS and (words is None or not is_line_with_date(words)):
            return True
        if not words or not _WITH_YEAR.search(words):
            return False
        is_release = tag in _HEADINGS and _VERSION.search(words)
        return bool(is_release or _CLASS_OF_EXAMPLE.search(name)) or is_class_of_change(name) or tells_of_change(words)


@lru_cache(maxsize=_MAX_CACHED)  # half of a page's classes stand at several elements
def _is_class_without_date(tag: str, name: str) -> bool:
    return bool(_CLASS_OF_FOOTER.search(name)) or is_class_of_others(tag, name)


def _element_around(text: Any) -> etree._Element:
    holder: etree._Element = text.getparent()
    around = holder.getparent() if text.is_tail else None
    return holder if around is None else around


def _line_of(block: etree._Element) -> str | None:
    """Return the text of the block in one line, without code, buttons and the like; None if it is more than a line."""
    if next(islice(block.iterdescendants(), _MAX_PARTS, None), None) is not None:
        return None
    text = ""
    for piece in _pieces(block):
        text += f" {piece}"
        if len(text) > 4 * MAX_LINE_CHARS:
            return None
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARS else None


def _pieces(block: etree._Element) -> Iterator[str]:
    if next(block.iterdescendants(*_NO_DATE_IN), None) is not None:
        block = copy(block)
        etree.strip_elements(block, *_NO_DATE_IN, with_tail=False)
        block.tail = None
    return map(str, block.itertext())


def _before(element: etree._Element) -> etree._Element | None:
    return next(element.itersiblings(etree.Element, preceding=True), None)


def _label_of(block: etree._Element) -> str:
    """Return what stands before a line and is explained by it: the term of a definition, `for example:`."""
    before = _before(block)
    if before is None:
        return ""
    words = _line_of(before) or ""
    return words if before.tag == "dt" or words.endswith(":") else ""
