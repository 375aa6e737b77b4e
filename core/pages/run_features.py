"""Describe each run of text by what is true of it, for the weights that decide whether it belongs to the article.

Only runs that a reader mode (`readability_clean`) or the publisher's own names (`article_region`) place inside the
article are described; all others are dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from core.pages.article_region import find_named_region
from core.pages.boilerplate import is_byline, is_promotion
from core.pages.name_hints import HINT_BITS, HINT_NAMES, NOT_ARTICLE, name_bits
from core.pages.page_nodes import PageNodes, TextRun
from core.pages.readability_clean import ReaderArticle, find_reader_article

LONG_CHARS = 120
SMALL_CHARS = 500
_TAG_NAMES = ("aside", "form", "figure", "figcaption", "table", "ul", "ol", "blockquote", "main", "p", "li")
_TAG_BITS = {tag: 1 << number for number, tag in enumerate(_TAG_NAMES)}
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SENTENCE_END = re.compile(r"[.!?…。！？][\"”’»)\]]*\s*$")
_YEAR = re.compile(r"(?:19|20)\d\d")
_PICTURE_TAGS = _TAG_BITS["figure"] | _TAG_BITS["figcaption"]


class RunFeatures:
    """The runs of a page, and for each that may belong to the article the names of what is true of it."""

    def __init__(self, nodes: PageNodes, runs: list[TextRun], title: str) -> None:
        self._nodes, self._runs = nodes, runs
        nothing = bytearray(nodes.size)
        self._reader = find_reader_article(nodes, title) or ReaderArticle(nothing, nothing)
        self._named = find_named_region(nodes, runs)
        kept = self._reader.kept
        own = [0] * nodes.size
        for run in runs:
            if kept[run.owner]:
                own[run.owner] += len(run.text)
        self._chars = nodes.sums(own)
        self._total = self._chars[0] or 1
        self._hints, self._tags = self._inherited()
        self._beside = Counter[int]()
        self._alike = Counter[tuple[str, str]]()
        for run in runs:
            if kept[run.owner]:
                self._beside[nodes.parents[run.owner]] += len(run.text)
                if len(run.text) > 80:
                    self._alike[nodes.tags[run.owner], nodes.classes[run.owner]] += len(run.text)
        self._repeated = Counter(run.text for run in runs)
        long = [number for number, run in enumerate(runs) if kept[run.owner] and _is_long(run)]
        self._first, self._last = (long[0], long[-1]) if long else (0, len(runs))

    def is_candidate(self, run: TextRun) -> bool:
        """Is the run inside what may be the article, and no pointer to another story?"""
        is_inside = self._reader.region[run.owner] or self._named.inside[run.owner]
        return bool(is_inside) and not (len(run.text) <= 200 and is_promotion(run.text))

    def _inherited(self) -> tuple[list[int], list[int]]:
        """What names and tags say of each node and of the blocks around it that hold less than half of the text."""
        nodes = self._nodes
        hints, tags = [0] * nodes.size, [0] * nodes.size
        for number in range(1, nodes.size):
            parent, tag = nodes.parents[number], nodes.tags[number]
            hints[number], tags[number] = hints[parent], tags[parent]
            if 2 * self._chars[number] < self._total and tag != "body":
                tags[number] |= _TAG_BITS.get(tag, 0)
                if attributes := nodes.attributes[number]:
                    hints[number] |= nodes.class_bits[number] | nodes.id_bits[number]
                    if role := attributes.get("role"):
                        hints[number] |= name_bits(role)
            elif tag == "main":
                tags[number] |= _TAG_BITS["main"]
        return hints, tags

    def of(self, number: int) -> Iterator[str]:
        """Yield the names of what is true of a run."""
        run = self._runs[number]
        following = self._runs[number + 1] if number + 1 < len(self._runs) else None
        yield "any"
        yield from self._of_place(number, run, following)
        yield from self._of_names(run)
        yield from self._of_words(run)
        yield from self._of_both(number, run)

    def _of_place(self, number: int, run: TextRun, following: TextRun | None) -> Iterator[str]:
        nodes, owner = self._nodes, run.owner
        if self._reader.region[owner]:
            yield "in region"
        if 2 * self._beside[nodes.parents[owner]] > self._total:
            yield "beside most text"
        if self._alike[nodes.tags[owner], nodes.classes[owner]] > 0.4 * self._total:
            yield "marked like most text"
        if number < self._first:
            yield "before text"
        if number > self._last:
            yield "after text"
        if following is not None and self._reader.kept[following.owner]:
            yield "next kept"
        if following is not None and nodes.tags[following.owner] in _HEADINGS:
            yield "heading next"

    def _of_names(self, run: TextRun) -> Iterator[str]:
        owner, tag = run.owner, self._nodes.tags[run.owner]
        hints, tags = self._hints[owner], self._tags[owner]
        if hints:
            yield from (f"name {name}" for name in HINT_NAMES if hints & HINT_BITS[name] and name != "other")
        if tags:
            yield from (f"in {name}" for name in _TAG_NAMES if tags & _TAG_BITS[name] and name != "li")
        if (self._nodes.class_bits[owner] | self._nodes.id_bits[owner]) & NOT_ARTICLE:
            yield "own name"
        if tag in _HEADINGS:
            yield "heading"
        elif tag == "div":
            yield "in div"

    def _of_words(self, run: TextRun) -> Iterator[str]:
        text, spaces = run.text, run.text.count(" ")
        if spaces < 19:
            yield "under 20 words"
            if spaces < 4:
                yield "under 5 words"
        if run.link_chars > 0.3 * len(text):
            yield "links .3"
            if run.link_chars > 0.6 * len(text):
                yield "links .6"
        if _SENTENCE_END.search(text[-10:]):
            yield "sentence"
        elif text.endswith(":"):
            yield "colon"
        if len(text) < LONG_CHARS and _YEAR.search(text):
            yield "year"
        if len(text) <= 200 and is_byline(text):
            yield "byline"

    def _of_both(self, number: int, run: TextRun) -> Iterator[str]:
        """What the reader mode and the publisher's names say together, and apart."""
        owner = run.owner
        is_kept, is_named = self._reader.kept[owner], self._named.inside[owner]
        is_picture = self._hints[owner] & HINT_BITS["picture"] or self._tags[owner] & _PICTURE_TAGS
        is_item = self._tags[owner] & _TAG_BITS["li"]
        yield {3: "kept and named", 2: "kept, not named", 1: "named, not kept", 0: "neither"}[2 * is_kept + is_named]
        if is_kept:
            yield from self._of_kept(number, bool(is_picture), bool(is_item))
        if is_named:
            if self._named.is_named_body:
                yield "in named body"
            if run.text.count(" ") < 9:
                yield "named, under 10 words"
            if is_item:
                yield "named, in item"
        if is_picture and self._repeated[run.text] > 1:
            yield "repeated at picture"
        is_near = 0 < self._first - number < 6 and run.text.count(" ") >= 9 and run.link_chars <= 0.3 * len(run.text)
        if is_near and self._hints[owner] & HINT_BITS["lead"]:
            yield "lead before text"

    def _of_kept(self, number: int, is_picture: bool, is_item: bool) -> Iterator[str]:
        if number < self._first:
            yield "kept before text"
        if is_picture:
            yield "kept at picture"
        if is_item:
            yield "kept in item"
        if self._total < SMALL_CHARS:
            yield "kept, little in all"


def _is_long(run: TextRun) -> bool:
    return len(run.text) > LONG_CHARS and run.link_chars < 0.3 * len(run.text)
