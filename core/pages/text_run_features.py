"""Compute the features of each run of text, for the weights that decide whether it belongs to the article.

Only runs that a reader mode (`readability_clean`) or the publisher's own names (`article_region`) place inside the
article are described; all others are dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from core.pages.article_region import find_named_region
from core.pages.boilerplate import is_byline, is_promotion
from core.pages.class_name_hints import HINT_BITS, HINT_NAMES, NOT_ARTICLE, name_bits
from core.pages.flat_tree import SubtreeSum
from core.pages.page_nodes import PageNodes, TextRun
from core.pages.readability_clean import ReaderArticle, find_reader_article

LONG_CHARS = 120
SMALL_CHARS = 500
_TAG_NAMES = ("aside", "form", "figure", "figcaption", "table", "ul", "ol", "blockquote", "main", "p", "li")
_TAG_BITS = {tag: 1 << number for number, tag in enumerate(_TAG_NAMES)}
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SENTENCE_END = re.compile(r"[.!?…。！？][\"”’»)\]]*\s*$")
_YEAR = re.compile(r"(?:19|20)\d\d")
_TOLD_HINTS = sum(HINT_BITS.values()) - HINT_BITS["other"]
_KEPT_OR_NAMED = ("neither", "named, not kept", "kept, not named", "kept and named")
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
        self._chars = SubtreeSum(nodes, own)
        self._total = self._chars[0] or 1
        self._inherited = {0: (0, 0)}
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
        """Return whether the run is inside what may be the article, and no pointer to another story."""
        is_inside = self._reader.region[run.owner] or self._named.inside[run.owner]
        return bool(is_inside) and not (len(run.text) <= 200 and is_promotion(run.text))

    def _hints_and_tags(self, number: int) -> tuple[int, int]:
        """What names and tags say of a node and of the blocks around it that hold less than half of the text."""
        known = self._inherited
        path = []
        while number not in known:  # only of blocks with candidates in them, and of each once
            path.append(number)
            number = self._nodes.parents[number]
        hints, tags = known[number]
        for inner in reversed(path):
            own_hints, own_tags = self._own_hints_and_tags(inner)
            hints, tags = known[inner] = (hints | own_hints, tags | own_tags)
        return hints, tags

    def _own_hints_and_tags(self, number: int) -> tuple[int, int]:
        nodes, tag = self._nodes, self._nodes.tags[number]
        if 2 * self._chars[number] >= self._total or tag == "body":
            return 0, _TAG_BITS["main"] if tag == "main" else 0
        role = nodes.attributes[number].get("role")
        return nodes.bits[number] | (name_bits(role) if role else 0), _TAG_BITS.get(tag, 0)

    def of(self, number: int) -> list[str]:
        """Return the names of what is true of a run."""
        run = self._runs[number]
        following = self._runs[number + 1] if number + 1 < len(self._runs) else None
        facts = ["any"]
        self._add_place(facts, number, run, following)
        self._add_names(facts, run)
        _add_words(facts, run)
        self._add_both(facts, number, run)
        return facts

    def _add_place(self, facts: list[str], number: int, run: TextRun, following: TextRun | None) -> None:
        nodes, owner = self._nodes, run.owner
        if self._reader.region[owner]:
            facts.append("in region")
        if 2 * self._beside[nodes.parents[owner]] > self._total:
            facts.append("beside most text")
        if self._alike[nodes.tags[owner], nodes.classes[owner]] > 0.4 * self._total:
            facts.append("marked like most text")
        if number < self._first:
            facts.append("before text")
        if number > self._last:
            facts.append("after text")
        if following is not None and self._reader.kept[following.owner]:
            facts.append("next kept")
        if following is not None and nodes.tags[following.owner] in _HEADINGS:
            facts.append("heading next")

    def _add_names(self, facts: list[str], run: TextRun) -> None:
        owner, tag = run.owner, self._nodes.tags[run.owner]
        hints, tags = self._hints_and_tags(owner)
        facts += _name_facts(hints & _TOLD_HINTS)
        facts += _tag_facts(tags)
        if self._nodes.bits[owner] & NOT_ARTICLE:
            facts.append("own name")
        if tag in _HEADINGS:
            facts.append("heading")
        elif tag == "div":
            facts.append("in div")

    def _add_both(self, facts: list[str], number: int, run: TextRun) -> None:
        """What the reader mode and the publisher's names say together, and apart."""
        owner = run.owner
        is_kept, is_named = self._reader.kept[owner], self._named.inside[owner]
        hints, tags = self._hints_and_tags(owner)
        is_picture = bool(hints & HINT_BITS["picture"] or tags & _PICTURE_TAGS)
        is_item = bool(tags & _TAG_BITS["li"])
        facts.append(_KEPT_OR_NAMED[2 * is_kept + is_named])
        if is_kept:
            self._add_kept(facts, number, is_picture, is_item)
        if is_named:
            if self._named.is_named_body:
                facts.append("in named body")
            if run.text.count(" ") < 9:
                facts.append("named, under 10 words")
            if is_item:
                facts.append("named, in item")
        if is_picture and self._repeated[run.text] > 1:
            facts.append("repeated at picture")
        if hints & HINT_BITS["lead"] and 0 < self._first - number < 6 and _is_sentence(run):
            facts.append("lead before text")

    def _add_kept(self, facts: list[str], number: int, is_picture: bool, is_item: bool) -> None:
        if number < self._first:
            facts.append("kept before text")
        if is_picture:
            facts.append("kept at picture")
        if is_item:
            facts.append("kept in item")
        if self._total < SMALL_CHARS:
            facts.append("kept, little in all")


def _add_words(facts: list[str], run: TextRun) -> None:
    text, spaces = run.text, run.text.count(" ")
    if spaces < 19:
        facts.append("under 20 words")
        if spaces < 4:
            facts.append("under 5 words")
    if run.link_chars > 0.3 * len(text):
        facts.append("links .3")
        if run.link_chars > 0.6 * len(text):
            facts.append("links .6")
    if _SENTENCE_END.search(text[-10:]):
        facts.append("sentence")
    elif text.endswith(":"):
        facts.append("colon")
    if len(text) < LONG_CHARS and _YEAR.search(text):
        facts.append("year")
    if len(text) <= 200 and is_byline(text):
        facts.append("byline")


@lru_cache(maxsize=10_000)
def _name_facts(hints: int) -> list[str]:
    return [f"name {name}" for name in HINT_NAMES if hints & HINT_BITS[name]]


@lru_cache(maxsize=10_000)
def _tag_facts(tags: int) -> list[str]:
    return [f"in {name}" for name in _TAG_NAMES if tags & _TAG_BITS[name] and name != "li"]


def _is_sentence(run: TextRun) -> bool:
    return run.text.count(" ") >= 9 and run.link_chars <= 0.3 * len(run.text)


def _is_long(run: TextRun) -> bool:
    return len(run.text) > LONG_CHARS and run.link_chars < 0.3 * len(run.text)
