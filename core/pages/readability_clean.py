"""Clean what scoring found, and offer both steps as one: the article as a reader mode would show it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate, compress
from operator import mul
from typing import NamedTuple

from core.pages.class_name_hints import SHARE
from core.pages.flat_tree import SubtreeSum
from core.pages.page_nodes import PageNodes
from core.pages.readability_score import (
    ATTEMPTS,
    ENOUGH_CHARS,
    Rules,
    ScoredPage,
    Sums,
    choose_region,
    comment_sections,
    prepare,
    score_blocks,
    sum_subtrees,
)

_DROPPED = frozenset(("footer", "aside"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_DATA_TABLE_PARTS = frozenset(("caption", "col", "colgroup", "th"))
# In this order, as what one round removes changes what the next one counts.
_ROUNDS = (("form", "fieldset"), ("table",), ("ul", "ol"), ("div",))


class ReaderArticle(NamedTuple):
    """The nodes that a reader mode would keep, and the blocks it found them in."""

    kept: bytearray
    region: bytearray


class _SparseSum:
    """Adds up the values of a few nodes over the subtrees that are asked for."""

    __slots__ = ("_before", "_ends", "_numbers")

    def __init__(self, nodes: PageNodes, values: Mapping[int, int]) -> None:
        """Take the values by node, in their order."""
        self._numbers, self._before, self._ends = list(values), [0, *accumulate(values.values())], nodes.ends

    def __getitem__(self, number: int) -> int:
        first = bisect_left(self._numbers, number)
        return self._before[bisect_left(self._numbers, self._ends[number], first)] - self._before[first]


class _Counts(NamedTuple):
    """What each node's subtree holds."""

    sums: Sums
    paragraphs: _SparseSum
    images: _SparseSum
    items: _SparseSum
    heading_chars: _SparseSum
    list_chars: _SparseSum


def find_reader_article(nodes: PageNodes, title: str) -> ReaderArticle | None:
    """Return the article; None if no block of the page has any text to speak of."""
    comments = comment_sections(nodes)
    best: ReaderArticle | None = None
    best_chars = -1
    for rules in ATTEMPTS:
        page = prepare(nodes, title, rules, comments)
        found = _attempt(page, rules)
        chars = sum(compress(nodes.own_chars, found.kept)) if found else 0
        if found and chars > best_chars:
            best, best_chars = found, chars
        if best_chars >= ENOUGH_CHARS:
            break
    return best


def _attempt(page: ScoredPage, rules: Rules) -> ReaderArticle | None:
    nodes, scores = page.nodes, score_blocks(page)
    if not scores:
        return None
    roots = choose_region(page, scores)
    kept, region = bytearray(nodes.size), bytearray(nodes.size)
    for root in roots:
        end = nodes.ends[root]
        kept[root:end] = page.alive[root:end]
        region[root:end] = b"\1" * (end - root)
    _drop_by_name(page, kept, set(roots))
    if rules.clean:
        tables = [number for number in _kept_tags(nodes, kept, ("table",)) if _is_data_table(nodes, number)]
        spared = _spare(nodes, tables)
        counts: _Counts | None = None
        for tags in _ROUNDS:
            counts = _clean(page, kept, tags, spared, counts)
    return ReaderArticle(kept, region)


def _kept_tags(nodes: PageNodes, kept: bytearray, tags: Iterable[str]) -> list[int]:
    """The kept nodes of these tags, in their order."""
    return sorted(number for tag in tags for number in nodes.by_tag[tag] if kept[number])


def _drop_by_name(page: ScoredPage, kept: bytearray, roots: set[int]) -> None:
    nodes = page.nodes
    dropped = _kept_tags(nodes, kept, _DROPPED)
    dropped += (number for number in _kept_tags(nodes, kept, ("h1", "h2")) if page.weights[number] < 0)
    shared = [number for number, bits in enumerate(nodes.bits) if bits & SHARE and kept[number] and number not in roots]
    if shared:  # as on one page in three
        chars = SubtreeSum(nodes, map(mul, nodes.own_chars, kept))
        dropped += (number for number in shared if chars[number] < ENOUGH_CHARS)
    for number in dropped:
        nodes.clear(kept, number)


def _spare(nodes: PageNodes, data_tables: list[int]) -> bytearray:
    """Mark what is never removed: data tables, what stands in them or around them, and what stands in code."""
    spared = bytearray(nodes.size)
    for number in (*data_tables, *nodes.by_tag["code"]):
        end = nodes.ends[number]
        spared[number + 1 : end] = b"\1" * (end - number - 1)
    for table in data_tables:
        spared[table] = 1
        for above in nodes.ancestors(table):
            spared[above] = 1
    return spared


def _is_data_table(nodes: PageNodes, table: int) -> bool:
    """Return whether the table holds data, rather than the layout of the page."""
    attributes = nodes.attributes[table]
    if attributes.get("role") == "presentation" or "summary" in attributes:
        return "summary" in attributes
    inside = nodes.tags[table + 1 : nodes.ends[table]]
    if not _DATA_TABLE_PARTS.isdisjoint(inside):
        return True
    if "table" in inside:
        return False
    rows, columns, most = 0, 0, 0
    for tag in inside:
        if tag == "tr":
            rows, columns = rows + 1, 0
        elif tag == "td":
            columns += 1
            most = max(most, columns)
    if rows == 1 or most == 1:
        return False
    return rows >= 10 or most > 4 or rows * most > 10


def _count(page: ScoredPage, kept: bytearray) -> _Counts:
    nodes = page.nodes
    sums = sum_subtrees(nodes, kept)
    worded = compress(range(nodes.size), map(mul, page.is_paragraph, kept))
    list_chars, outermost_end = {}, 0
    for number in _kept_tags(nodes, kept, ("ul", "ol")):
        if number >= outermost_end:
            list_chars[number], outermost_end = sums.chars[number], nodes.ends[number]
    return _Counts(
        sums,
        _SparseSum(nodes, dict.fromkeys(sorted((*_kept_tags(nodes, kept, ("p",)), *worded)), 1)),
        _SparseSum(nodes, dict.fromkeys(_kept_tags(nodes, kept, ("img",)), 1)),
        _SparseSum(nodes, dict.fromkeys(_kept_tags(nodes, kept, ("li",)), 1)),
        _SparseSum(nodes, {number: sums.chars[number] for number in _kept_tags(nodes, kept, _HEADINGS)}),
        _SparseSum(nodes, list_chars),
    )


def _clean(
    page: ScoredPage, kept: bytearray, tags: tuple[str, ...], spared: bytearray, counts: _Counts | None
) -> _Counts | None:
    """Remove blocks of these tags that are mostly links, pictures or empty; never data tables and code.

    Returns the counts if they still hold, for the next round: two rounds in three remove nothing.
    """
    nodes = page.nodes
    candidates = [
        number for number in _kept_tags(nodes, kept, tags) if not spared[number] and not page.is_paragraph[number]
    ]
    if not candidates:
        return counts
    counts, has_removed = counts or _count(page, kept), False
    in_figure = bytearray(nodes.size)
    for figure in nodes.by_tag["figure"]:
        in_figure[figure + 1 : nodes.ends[figure]] = b"\1" * (nodes.ends[figure] - figure - 1)
    for number in reversed(candidates):
        weight = page.weights[number]
        if weight < 0 or _is_clutter(counts, number, weight, tags, bool(in_figure[number])):
            nodes.clear(kept, number)
            has_removed = True
    return None if has_removed else counts


def _is_clutter(counts: _Counts, number: int, weight: int, tags: tuple[str, ...], in_figure: bool) -> bool:
    sums = counts.sums
    if sums.commas[number] >= 10:
        return False
    chars, links = sums.chars[number], sums.link_share(number)
    images, items = counts.images[number], counts.items[number]
    is_list = tags[0] == "ul" or counts.list_chars[number] > 0.9 * chars
    if is_list and 0 < items == images:
        return False
    heading_share = counts.heading_chars[number] / chars if chars else 0.0
    is_stub = heading_share < 0.9 and chars < 25 and images != 1 and images != 2 and links > 0
    return (
        (not in_figure and images > 1 and counts.paragraphs[number] < 0.5 * images)
        or (not is_list and items - 100 > counts.paragraphs[number])
        or (not is_list and not in_figure and is_stub)
        or (not is_list and weight < 25 and links > 0.2)
        or (weight >= 25 and links > 0.5)
        or (chars == 0 and images == 0)
    )
