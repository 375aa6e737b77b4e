"""Find the part of a page that its publisher names as the article: by itemprop, class and id, then by tag."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from core.pages.class_name_hints import BODY
from core.pages.flat_tree import SubtreeSum
from core.pages.page_nodes import PageNodes, TextRun

MIN_CHARS = 200
"""Of running text; a part with less is a teaser or empty."""
FIRST_SHARE = 0.3
"""The first part of its kind is the article if it has this share of the longest; what follows are others."""
_TAGS = frozenset(("article", "div", "main", "section", "td", "span"))
_MAIN_NAME = re.compile(
    r"^(?:article|story|content|main)(?:[-_ ]|$)|main-?content|content-?main|page-content", re.IGNORECASE
)


class NamedRegion(NamedTuple):
    """The nodes of the article's part, and whether it is named as the body of an article."""

    inside: bytearray
    is_named_body: bool


def find_named_region(nodes: PageNodes, runs: list[TextRun]) -> NamedRegion:
    """Return the first and most exact part that has text; the whole page if none is named."""
    own = [0] * nodes.size
    for owner, text, link_chars, *_ in runs:
        if len(text) >= 40 and 2 * link_chars < len(text):
            own[owner] += len(text)
    chars = SubtreeSum(nodes, own)
    large = [number for tag in _TAGS for number in nodes.by_tag[tag] if chars[number] >= MIN_CHARS]
    large.sort()
    for stage, is_wanted in enumerate((_is_body, _is_article, _has_main_name, _is_main)):
        found = _outermost(nodes, large, is_wanted)
        if found:
            return NamedRegion(_mark(nodes, _chosen(nodes, chars, found, with_siblings=stage == 0)), stage == 0)
    return NamedRegion(bytearray(b"\1") * nodes.size, False)


def _outermost(nodes: PageNodes, large: list[int], is_wanted: Callable[[PageNodes, int], bool]) -> list[int]:
    found, after = [], 0
    for number in large:
        if number >= after and is_wanted(nodes, number):
            found.append(number)
            after = nodes.ends[number]
    return found


def _chosen(nodes: PageNodes, chars: SubtreeSum, found: list[int], *, with_siblings: bool) -> list[int]:
    longest = max(found, key=lambda number: chars[number])
    best = found[0] if chars[found[0]] >= FIRST_SHARE * chars[longest] else longest
    if not with_siblings:
        return [best]
    alike = (nodes.parents[best], nodes.classes[best])
    return [number for number in found if (nodes.parents[number], nodes.classes[number]) == alike]


def _mark(nodes: PageNodes, roots: list[int]) -> bytearray:
    inside = bytearray(nodes.size)
    for root in roots:
        inside[root : nodes.ends[root]] = b"\1" * (nodes.ends[root] - root)
    return inside


def _is_body(nodes: PageNodes, number: int) -> bool:
    attributes = nodes.attributes[number]
    if not attributes:
        return False
    is_post = nodes.classes[number] in ("post", "entry")
    is_marked = "articleBody" in attributes.get("itemprop", "")
    return is_post or is_marked or nodes.bits[number] & BODY > 0


def _is_article(nodes: PageNodes, number: int) -> bool:
    return nodes.tags[number] == "article" or nodes.attributes[number].get("role") == "article"


def _has_main_name(nodes: PageNodes, number: int) -> bool:
    return _MAIN_NAME.search(f"{nodes.ids[number]} {nodes.classes[number]}") is not None


def _is_main(nodes: PageNodes, number: int) -> bool:
    return nodes.tags[number] == "main" or nodes.attributes[number].get("role") == "main"
