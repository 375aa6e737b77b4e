"""Find the article by scores, as reader modes of browsers do: text and commas count for the blocks around them.

The idea and the numbers are those of arc90's Readability and its descendants (Apache-2.0), the code is our own: it
marks nodes in lists instead of changing a tree, so that an attempt is cheap and can be repeated by other rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

from core.pages.class_name_hints import BYLINE, COMMENTS, STILL_LIKELY, UNLIKELY
from core.pages.flat_tree import SubtreeSum
from core.pages.page_nodes import UNLIKELY_ROLES, PageNodes

ENOUGH_CHARS = 500
"""With less the attempt is repeated with fewer rules, and the longest text wins."""
MIN_SCORED_CHARS = 25
MAX_LEVELS = 5
"""So many ancestors get a share of a paragraph's score."""

_COMMENT_TAGS = frozenset(("div", "ol", "ul", "section", "aside", "details"))
_BLOCKS_IN_DIV = frozenset(("blockquote", "dl", "div", "img", "ol", "p", "pre", "table", "ul"))
_SCORED = frozenset(("section", "h2", "h3", "h4", "h5", "h6", "p", "td", "pre"))
_PHRASING = frozenset(("span", "a", "img", "br", "code", "time", "label"))
_TAG_SCORES = {
    "div": 5,
    **dict.fromkeys(("pre", "td", "blockquote"), 3),
    **dict.fromkeys(("address", "ol", "ul", "dl", "dd", "dt", "li", "form"), -3),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6", "th"), -5),
}
_NOT_WORD = re.compile(r"\W+")
_SENTENCE_END = re.compile(r"\.( |$)")


class Rules(NamedTuple):
    """What an attempt believes of the names that a page gives its parts."""

    strip_unlikely: bool
    weigh_names: bool
    clean: bool


ATTEMPTS = (Rules(True, True, True), Rules(False, True, True), Rules(False, False, True), Rules(False, False, False))


class Sums(NamedTuple):
    """Of each node's subtree, without what was dropped."""

    chars: SubtreeSum
    link_tenths: SubtreeSum
    """Of characters in links, each link by its weight."""
    commas: SubtreeSum

    def link_share(self, number: int) -> float:
        chars = self.chars[number]
        return self.link_tenths[number] / (10 * chars) if chars else 0.0


@dataclass(slots=True)
class ScoredPage:
    """A page after the first cut, and what scoring needs to know of each node."""

    nodes: PageNodes
    alive: bytearray
    sums: Sums
    weights: Sequence[int]
    blocks_inside: SubtreeSum
    is_paragraph: bytearray
    """Blocks that hold nothing but words."""
    is_wrapper: bytearray
    """Blocks around a single paragraph; their paragraph counts for the next ancestor."""


def sum_subtrees(nodes: PageNodes, alive: bytearray) -> Sums:
    chars = SubtreeSum(nodes, map(mul, nodes.own_chars, alive))
    commas = SubtreeSum(nodes, map(mul, nodes.own_commas, alive))
    tenths, following = [0] * nodes.size, nodes.size
    for link, weight in nodes.links:  # the last first
        if alive[link]:
            end = nodes.ends[link]
            # A link around others counts once for the blocks around it.
            inside = sum(tenths[following:end]) if following < end else 0
            tenths[link] = weight * chars[link] - inside
            following = link
    return Sums(chars, SubtreeSum(nodes, tenths), commas)


def comment_sections(nodes: PageNodes) -> list[int]:
    """Return the sections with readers' comments, unless the page is little else."""
    found, after = [], 0
    for number in [number for number, bits in enumerate(nodes.bits) if bits & COMMENTS]:
        if number >= after and nodes.tags[number] in _COMMENT_TAGS:
            found.append(number)
            after = nodes.ends[number]
    if not found:
        return []
    total = sum(nodes.own_chars)
    inside = sum(sum(nodes.own_chars[number : nodes.ends[number]]) for number in found)
    return found if total - inside >= max(1_000, 0.15 * total) else []


def similarity(title: str, text: str) -> float:
    """Return the share of the text, by length, whose words are also in the title."""
    known, words = set(_NOT_WORD.split(title.lower())), [word for word in _NOT_WORD.split(text.lower()) if word]
    if not words or not known:
        return 0.0
    return 1 - len(" ".join(word for word in words if word not in known)) / len(" ".join(words))


class _Stripper:
    """Drops what is hidden, the byline, the repeated title and, by its name, what is unlikely to be the article."""

    def __init__(self, nodes: PageNodes, title: str, rules: Rules) -> None:
        self._nodes, self._title, self._rules = nodes, title, rules
        self._chars = SubtreeSum(nodes, nodes.own_chars)
        self._protected_until = 0
        self._has_byline = self._has_title = False

    def strip(self, comments: list[int]) -> bytearray:
        nodes = self._nodes
        alive = bytearray(b"\1") * nodes.size
        for number in comments:
            nodes.clear(alive, number)
        for number in self._nodes.droppable:
            if alive[number] and self._is_dropped(number):
                nodes.clear(alive, number)
        return alive

    def _is_dropped(self, number: int) -> bool:
        nodes, tag = self._nodes, self._nodes.tags[number]
        if nodes.hidden[number]:
            return True
        if tag in ("table", "code"):
            self._protected_until = max(self._protected_until, nodes.ends[number])
        attributes = nodes.attributes[number]
        if attributes and not self._has_byline and self._chars[number] < 100 and self._is_byline(number):
            self._has_byline = True
            return True
        if tag in ("h1", "h2") and not self._has_title and self._is_title(number):
            self._has_title = True
            return True
        return bool(attributes) and self._rules.strip_unlikely and self._is_unlikely(number)

    def _is_byline(self, number: int) -> bool:
        attributes = self._nodes.attributes[number]
        is_marked = attributes.get("rel") == "author" or "author" in attributes.get("itemprop", "")
        return self._chars[number] > 0 and (is_marked or self._nodes.bits[number] & BYLINE > 0)

    def _is_title(self, number: int) -> bool:
        is_short = 0 < self._chars[number] < 500
        return is_short and similarity(self._title, self._nodes.text_of(number)) > 0.75

    def _is_unlikely(self, number: int) -> bool:
        nodes = self._nodes
        if nodes.attributes[number].get("role") in UNLIKELY_ROLES:
            return True
        bits = nodes.bits[number]
        if not bits & UNLIKELY or bits & STILL_LIKELY:
            return False
        return number >= self._protected_until and nodes.tags[number] not in ("body", "a")


def prepare(nodes: PageNodes, title: str, rules: Rules, comments: list[int]) -> ScoredPage:
    """Make the first cut and look at the shape of what is left."""
    alive = _Stripper(nodes, title, rules).strip(comments)
    weights = nodes.name_weights if rules.weigh_names else [0] * nodes.size
    blocks = SubtreeSum(nodes, map(mul, map(_BLOCKS_IN_DIV.__contains__, nodes.tags), alive))
    is_paragraph, is_wrapper = bytearray(nodes.size), bytearray(nodes.size)
    page = ScoredPage(nodes, alive, sum_subtrees(nodes, alive), weights, blocks, is_paragraph, is_wrapper)
    for number in nodes.by_tag["div"]:
        if alive[number]:
            is_paragraph[number] = blocks[number] == 1  # the block itself
            is_wrapper[number] = _is_wrapper(page, number)
    return page


def _is_wrapper(page: ScoredPage, number: int) -> bool:
    nodes = page.nodes
    if nodes.own_chars[number]:
        return False
    child = _only_child(page, number)
    return child > 0 and nodes.tags[child] == "p" and page.sums.link_share(number) < 0.25


def _only_child(page: ScoredPage, number: int) -> int:
    """The child of a node that has a single one left; else 0."""
    ends, end, child, found = page.nodes.ends, page.nodes.ends[number], number + 1, 0
    while child < end:
        if page.alive[child]:
            if found:
                return 0
            found = child
        child = ends[child]
    return found


def score_blocks(page: ScoredPage) -> dict[int, float]:
    """Return the score of each block that holds paragraphs, less its share of links."""
    nodes, sums = page.nodes, page.sums
    scores: dict[int, float] = {}
    # Most blocks hold nothing but blocks, and no text between them.
    around_phrases = {nodes.parents[number] for tag in _PHRASING for number in nodes.by_tag[tag]}
    for number, tag in enumerate(nodes.tags):
        if not page.alive[number]:
            continue
        if tag in _SCORED or page.is_paragraph[number]:
            _share_score(page, scores, sums.chars[number], sums.commas[number], nodes.parents[number])
        elif tag == "div" and not page.is_wrapper[number] and (nodes.own_chars[number] or number in around_phrases):
            for chars, commas in _loose_text(page, number):
                _share_score(page, scores, chars, commas, number)
    return {number: score * (1 - sums.link_share(number)) for number, score in scores.items()}


def first_score(page: ScoredPage, number: int) -> float:
    return float(_TAG_SCORES.get(page.nodes.tags[number], 0) + page.weights[number])


def _share_score(page: ScoredPage, scores: dict[int, float], chars: int, commas: int, parent: int) -> None:
    if chars < MIN_SCORED_CHARS:
        return
    score, level = 2 + commas + min(chars // 100, 3), 0
    while parent > 0 and level < MAX_LEVELS:
        if not page.is_wrapper[parent]:
            known = scores[parent] if parent in scores else first_score(page, parent)
            scores[parent] = known + score / (1, 2, 6, 9, 12)[level]
            level += 1
        parent = page.nodes.parents[parent]


def _loose_text(page: ScoredPage, number: int) -> Iterator[tuple[int, int]]:
    """Yield the length and the commas of text between the blocks of a `<div>`; two line breaks end a paragraph."""
    nodes, sums = page.nodes, page.sums
    text = nodes.texts[number]
    chars, commas, was_break = len(text.strip()), text.count(","), False
    for child in nodes.children(number):
        tail = nodes.tails[child]
        is_break = nodes.tags[child] == "br"
        # An image is a phrase and counts as a block of its own.
        is_phrase = nodes.tags[child] in _PHRASING and page.blocks_inside[child] == (nodes.tags[child] == "img")
        if page.alive[child] and ((is_break and was_break) or not is_phrase):
            if chars:
                yield chars, commas
            chars = commas = 0
        elif page.alive[child] and not is_break:
            chars, commas = chars + sums.chars[child], commas + sums.commas[child]
        length = len(tail.strip())
        was_break = is_break and not length
        chars, commas = chars + length, commas + tail.count(",")
    if chars:
        yield chars, commas


def choose_region(page: ScoredPage, scores: dict[int, float]) -> list[int]:
    """Return the block with the best score, or an ancestor that says more, and the siblings that belong to it."""
    nodes = page.nodes
    best = sorted(scores, key=lambda number: -scores[number])[:5]
    top = best[0]
    if nodes.tags[top] in ("body", "html"):
        return [top]
    top = _common_ancestor(page, scores, best)
    top = _better_ancestor(page, scores, top)
    while (parent := nodes.parents[top]) > 0 and nodes.tags[parent] != "body" and _only_child(page, parent):
        top = parent
    scores.setdefault(top, first_score(page, top))
    return [sibling for sibling in nodes.children(nodes.parents[top]) if _belongs(page, scores, top, sibling)]


def _common_ancestor(page: ScoredPage, scores: dict[int, float], best: list[int]) -> int:
    """Several blocks with nearly the same score are parts of one article: take the block around three of them."""
    nodes, top = page.nodes, best[0]
    if scores[top] <= 0:
        return top
    others = [set(nodes.ancestors(other)) for other in best[1:] if scores[other] >= 0.75 * scores[top]]
    if len(others) < 3:
        return top
    above = (number for number in nodes.ancestors(top) if number > 0 and nodes.tags[number] != "body")
    return next((number for number in above if sum(number in each for each in others) >= 3), top)


def _better_ancestor(page: ScoredPage, scores: dict[int, float], top: int) -> int:
    """An ancestor whose score rises again holds another part of the article."""
    last = scores.setdefault(top, first_score(page, top))
    least = last / 3
    for number in page.nodes.ancestors(top):
        if number <= 0 or page.nodes.tags[number] == "body":
            break
        if number in scores:
            if scores[number] < least:
                break
            if scores[number] > last:
                return number
            last = scores[number]
    return top


def _belongs(page: ScoredPage, scores: dict[int, float], top: int, sibling: int) -> bool:
    nodes, sums = page.nodes, page.sums
    if sibling == top or not page.alive[sibling]:
        return sibling == top
    cls = nodes.classes[sibling]
    bonus = 0.2 * scores[top] if cls and cls == nodes.classes[top] else 0.0
    if sibling in scores and scores[sibling] + bonus >= max(10.0, 0.2 * scores[top]):
        return True
    if nodes.tags[sibling] != "p":
        return False
    chars, links = sums.chars[sibling], sums.link_share(sibling)
    if chars > 80:
        return links < 0.25
    return chars > 0 and links == 0 and _SENTENCE_END.search(nodes.text_of(sibling)) is not None
