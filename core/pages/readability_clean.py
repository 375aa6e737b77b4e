"""Clean what scoring found, and offer both steps as one: the article as a reader mode would show it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from core.pages.name_hints import SHARE
from core.pages.page_nodes import PageNodes
from core.pages.readability_score import (
    ATTEMPTS,
    ENOUGH_CHARS,
    Rules,
    ScoredPage,
    Sums,
    choose_region,
    comment_sections,
    name_weights,
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


class _Count:
    """Adds up values over the subtrees of a few nodes, without doing so for all."""

    def __init__(self, nodes: PageNodes, values: Iterable[int]) -> None:
        self._before, self._ends = [0, *accumulate(values)], nodes.ends

    def __getitem__(self, number: int) -> int:
        return self._before[self._ends[number]] - self._before[number]


class _Counts(NamedTuple):
    """What each node's subtree holds."""

    sums: Sums
    paragraphs: _Count
    images: _Count
    items: _Count
    heading_chars: _Count
    list_chars: _Count
    data_tables: _Count


def find_reader_article(nodes: PageNodes, title: str) -> ReaderArticle | None:
    """Return the article; None if no block of the page has any text to speak of."""
    comments, weights = comment_sections(nodes), name_weights(nodes)
    best: ReaderArticle | None = None
    best_chars = -1
    for rules in ATTEMPTS:
        page = prepare(nodes, title, rules, comments, weights if rules.weigh_names else [0] * nodes.size)
        found = _attempt(page, rules)
        chars = sum(own for own, is_kept in zip(nodes.own_chars, found.kept, strict=True) if is_kept) if found else 0
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
        data_tables = [number for number in _kept_tags(nodes, kept, ("table",)) if _is_data_table(nodes, number)]
        for tags in _ROUNDS:
            _clean(page, kept, tags, data_tables)
    return ReaderArticle(kept, region)


def _kept_tags(nodes: PageNodes, kept: bytearray, tags: tuple[str, ...]) -> list[int]:
    return [number for number, tag in enumerate(nodes.tags) if tag in tags and kept[number]]


def _drop_by_name(page: ScoredPage, kept: bytearray, roots: set[int]) -> None:
    nodes = page.nodes
    chars = sum_subtrees(nodes, kept).chars
    for number, tag in enumerate(nodes.tags):
        if not kept[number]:
            continue
        is_bad_heading = tag in ("h1", "h2") and page.weights[number] < 0
        is_share = (
            bool(nodes.attributes[number])
            and chars[number] < ENOUGH_CHARS
            and number not in roots
            and (nodes.class_bits[number] | nodes.id_bits[number]) & SHARE > 0
        )
        if tag in _DROPPED or is_bad_heading or is_share:
            nodes.clear(kept, number)


def _is_data_table(nodes: PageNodes, table: int) -> bool:
    """Does the table hold data, rather than the layout of the page?"""
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


def _count(page: ScoredPage, kept: bytearray, data_tables: list[int]) -> _Counts:
    nodes = page.nodes
    sums = sum_subtrees(nodes, kept)
    live = [(tag if is_kept else "") for tag, is_kept in zip(nodes.tags, kept, strict=True)]
    is_p = page.is_paragraph
    marks = [0] * nodes.size
    for number in data_tables:
        marks[number] = 1
    list_chars = [0] * nodes.size
    outermost_end = 0
    for number, tag in enumerate(live):
        if tag in ("ul", "ol") and number >= outermost_end:
            list_chars[number], outermost_end = sums.chars[number], nodes.ends[number]
    return _Counts(
        sums,
        _Count(nodes, [int(tag == "p" or bool(tag and is_p[number])) for number, tag in enumerate(live)]),
        _Count(nodes, [int(tag == "img") for tag in live]),
        _Count(nodes, [int(tag == "li") for tag in live]),
        _Count(nodes, [sums.chars[number] if tag in _HEADINGS else 0 for number, tag in enumerate(live)]),
        _Count(nodes, list_chars),
        _Count(nodes, marks),
    )


def _clean(page: ScoredPage, kept: bytearray, tags: tuple[str, ...], data_tables: list[int]) -> None:
    """Remove blocks of these tags that are mostly links, pictures or empty; never data tables and code."""
    nodes = page.nodes
    candidates = _kept_tags(nodes, kept, tags)
    if not candidates:
        return
    counts, tables = _count(page, kept, data_tables), frozenset(data_tables)
    for number in reversed(candidates):
        if page.is_paragraph[number] or counts.data_tables[number] or not kept[number]:
            continue
        above = nodes.ancestors(number)
        if any(nodes.tags[one] == "code" for one in above) or not tables.isdisjoint(above):
            continue
        in_figure = any(nodes.tags[one] == "figure" for one in above)
        if page.weights[number] < 0 or _is_clutter(counts, number, page.weights[number], tags, in_figure):
            nodes.clear(kept, number)


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
