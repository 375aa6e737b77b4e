"""Tell which `<time>` elements of a page may be the time of its publication.

Most are not: they belong to other stories, to comments, to a table, or to what a sentence tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.pages.date_lines import is_line_of_example

Attributes = Mapping[str, str | None]

MAX_TIMES = 40
"""How many are looked at: what comes after as many is a list."""
MAX_CHARS_BEFORE = 500
"""The head of an article ends after so much text in paragraphs: a lead may stand above the date, not the story."""
HEAD_BEGINS = frozenset(("h1", "article"))
"""At the first of each the count begins anew: above may stand a banner that speaks of cookies."""
MAX_LINE_CHARS = 120
"""In a longer paragraph the date is not the purpose."""
SENTENCE_TAGS = ("p", "li", "dd")
# Of other stories and of readers, whatever the element itself says.
_OF_OTHERS = frozenset(("aside", "nav", "dialog"))
# No place for the date of the page, unless the element says that it is one.
_NO_HEAD = _OF_OTHERS | {"footer", "table", "li", "blockquote", "pre", "code"}
# Not `widget` and `teaser`: Blogger and others call the article so too.
_CLASS_OF_OTHERS = re.compile(
    r"(?:^|[\s_-])(?:comments?|commentlist|related|recommended|recommendations)(?:$|[\s_-])"
    r"|(?:^|\s)(?:sidebar|recent-posts|latest-(?:news|posts)|trending|popular(?:-posts)?|more-stories)(?:$|\s)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?:^|\s)comment(?:$|[\s-])", re.IGNORECASE)
_WHOLE_PAGE = frozenset(("html", "body", "main"))
_PUBLISHED = re.compile(
    r"publish|(?:entry|post|article|story)[_-]?(?:date|time)|dateline|posted-on|pub-?date|dt-published", re.IGNORECASE
)
_CHANGED = re.compile(r"modif|updated|(?:^|[\s_-])update(?:$|[\s_-])|revision|last-?edit", re.IGNORECASE)
_SENTENCE = re.compile(r"[a-z]{2}[.,;] (?:[a-z]+ ){2}|[a-z]{4}\.$")
_TOLD_OF_CHANGE = re.compile(
    r"^\W*(?:page |document )?(?:was )?(?:last |zuletzt )?(?:updated|modified|edited|reviewed|revised|built|changed"
    r"|aktualisiert|geändert|mis à jour|actualizado|aggiornato|atualizado|bijgewerkt|обновлено)\b",
    re.IGNORECASE,
)
_TOLD_OF_PUBLICATION = re.compile(
    r"^\W*(?:first |originally )?(?:posted|published|veröffentlicht|erstellt|publié|publicado|pubblicato)\b",
    re.IGNORECASE,
)


class TimeElement(NamedTuple):
    """A `<time>` and its place in the page, independent of the parser."""

    attributes: Attributes
    ancestors: Sequence[tuple[str, str]]
    """Tag and class of each, from the inside out."""
    line: str
    """The text of the smallest paragraph or item around it, else of its parent."""
    is_in_head: bool
    """No more than `MAX_CHARS_BEFORE` of text in paragraphs stand between the beginning and it."""


def may_be_publication(time: TimeElement) -> bool:
    """Return whether this is marked as the time of publication, or stands where articles show it."""
    if any(is_class_of_others(tag, name) for tag, name in time.ancestors):
        return False
    tags = {tag for tag, _ in time.ancestors}
    # Some articles have an aside or a footer for facts such as this one.
    if is_marked_as_published(time.attributes) and ("article" in tags or tags.isdisjoint(_OF_OTHERS)):
        return True
    names = [_names(time.attributes), *(name for tag, name in time.ancestors[:3] if tag not in _WHOLE_PAGE)]
    if any(map(is_class_of_change, names)):
        return False
    if any(tag in SENTENCE_TAGS for tag in tags) and not is_line_with_date(time.line):
        return False
    if "article" in tags and tags.isdisjoint(_NO_HEAD - {"footer"}) and _TOLD_OF_PUBLICATION.search(time.line):
        return True
    if tells_of_change(time.line) or is_line_of_example(time.line):
        return False
    return time.is_in_head and tags.isdisjoint(_NO_HEAD)


def is_marked_as_published(attributes: Attributes) -> bool:
    """Return whether the element itself says that it is the time of publication."""
    return "pubdate" in attributes or bool(_PUBLISHED.search(_names(attributes)))


def is_class_of_others(tag: str, name: str) -> bool:
    """Return whether an element of this class holds comments or other stories. The whole page's class tells nothing."""
    if not name or tag in _WHOLE_PAGE:
        return False
    return bool((_COMMENT if tag == "article" else _CLASS_OF_OTHERS).search(name))


def is_class_of_change(name: str) -> bool:
    """Return whether an element of this class says when the page was changed."""
    return bool(_CHANGED.search(name)) and not _PUBLISHED.search(name)


def is_line_with_date(line: str) -> bool:
    """Return whether this is so short that the date is its purpose, rather than a sentence with a date."""
    return len(line) <= MAX_LINE_CHARS and not _SENTENCE.search(line)


def tells_of_change(line: str) -> bool:
    """Return whether the words say when the page was changed, and not when it was published."""
    return bool(_TOLD_OF_CHANGE.search(line)) and not _TOLD_OF_PUBLICATION.search(line)


def _names(attributes: Attributes) -> str:
    return f"{attributes.get('itemprop') or ''} {attributes.get('class') or ''}"
