"""Compute the features of each run of text, for the weights that decide whether it belongs to the article.

Only runs that a reader mode (`readability_clean`) or the publisher's own names (`article_region`) place inside the
article are described, and what may be its lead; all others are dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache

from core.pages.article_region import find_named_region
from core.pages.boilerplate import is_byline, is_promotion
from core.pages.class_name_hints import HINT_BITS, HINT_NAMES, NOT_ARTICLE, name_bits
from core.pages.flat_tree import SubtreeSum
from core.pages.page_nodes import PageNodes, TextRun
from core.pages.readability_clean import ReaderArticle, find_reader_article

LONG_CHARS = 120
SMALL_CHARS = 500
MAX_LEAD_RUNS = 8
"""A lead stands no further behind the headline; between them are the author, the date and buttons."""
_TAG_NAMES = ("aside", "form", "figure", "figcaption", "table", "ul", "ol", "blockquote", "main", "p", "li")
_TAG_BITS = {tag: 1 << number for number, tag in enumerate(_TAG_NAMES)}
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SENTENCE_END = re.compile(r"[.!?…。！？][\"”’»)\]]*\s*$")
_YEAR = re.compile(r"(?:19|20)\d\d")
_TOLD_HINTS = sum(HINT_BITS.values()) - HINT_BITS["other"]
_PICTURE_TAGS = _TAG_BITS["figure"] | _TAG_BITS["figcaption"]

# Facts are bits, so that the weights of equal runs are added up once; in the order in which they are added.
_KEPT_OR_NAMED = ("neither", "named, not kept", "kept, not named", "kept and named")
_FACTS = (
    *("any", "in region", "beside most text", "marked like most text", "before text", "after text", "next kept"),
    *("heading next", *(f"name {name}" for name in HINT_NAMES), *(f"in {tag}" for tag in _TAG_NAMES), "own name"),
    *("heading", "in div", "under 20 words", "under 5 words", "links .3", "links .6", "sentence", "colon", "year"),
    *("byline", *_KEPT_OR_NAMED, "kept before text", "kept at picture", "kept in item", "kept, little in all"),
    *("in named body", "named, under 10 words", "named, in item", "repeated at picture", "lead before text"),
)
_BITS = {name: 1 << number for number, name in enumerate(_FACTS)}
_ANY, _IN_REGION, _BESIDE, _ALIKE, _BEFORE, _AFTER, _NEXT_KEPT, _HEADING_NEXT = (_BITS[name] for name in _FACTS[:8])
_OWN_NAME, _HEADING, _IN_DIV = _BITS["own name"], _BITS["heading"], _BITS["in div"]
_UNDER_20, _UNDER_5, _LINKS_3, _LINKS_6 = (
    _BITS[n] for n in ("under 20 words", "under 5 words", "links .3", "links .6")
)
_SENTENCE, _COLON, _YEAR_IN, _BYLINE = (_BITS[name] for name in ("sentence", "colon", "year", "byline"))
_KEPT_OR_NAMED_BITS = tuple(_BITS[name] for name in _KEPT_OR_NAMED)
_MAX_SCORES = 20_000


class RunScores(dict[int, float]):
    """What the weights of facts add up to, by the facts."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        super().__init__()
        self._weights = [weights.get(name, 0.0) for name in _FACTS]

    def __missing__(self, facts: int) -> float:
        score, rest = 0.0, facts
        while rest:  # from one fact to the next: a dozen of sixty are true
            lowest = rest & -rest
            score += self._weights[lowest.bit_length() - 1]
            rest ^= lowest
        if len(self) >= _MAX_SCORES:
            self.clear()
        self[facts] = score
        return score


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
        long = [number for number, run in enumerate(runs) if kept[run.owner] and _is_long(run)]
        self._first, self._last = (long[0], long[-1]) if long else (0, len(runs))
        above = (number for number in range(self._first - 1, -1, -1) if nodes.tags[runs[number].owner] == "h1")
        self._title = next(above, len(runs))

    def is_inside(self, number: int) -> bool:
        """Return whether the run is inside what may be the article, and no pointer to another story."""
        run = self._runs[number]
        is_inside = self._reader.region[run.owner] or self._named.inside[run.owner]
        return bool(is_inside) and not (len(run.text) <= 200 and is_promotion(run.text))

    def is_lead(self, number: int) -> bool:
        """Return whether this is a sentence between the headline and the text: many sites set the lead apart.

        The weights are learned without them: of the corpora, one has leads in its articles, and two do not.
        """
        run = self._runs[number]
        is_between = self._title < number < min(self._first, self._title + MAX_LEAD_RUNS)
        return is_between and _is_sentence(run) and _SENTENCE_END.search(run.text[-10:]) is not None

    @cached_property
    def _repeated(self) -> Counter[str]:
        """How often each text stands on the page; few pages have pictures in what may be the article."""
        return Counter(run.text for run in self._runs)

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
        facts = self.facts(number)
        return [name for name in _FACTS if facts & _BITS[name]]

    def facts(self, number: int) -> int:
        """Return what is true of a run, as bits: for `RunScores`."""
        run = self._runs[number]
        hints, tags = self._hints_and_tags(run.owner)
        told = _named_facts(hints & _TOLD_HINTS, tags)
        return _ANY | told | self._place(number, run) | _words(run) | self._both(number, run, hints, tags)

    def _place(self, number: int, run: TextRun) -> int:
        nodes, owner = self._nodes, run.owner
        tag = nodes.tags[owner]
        facts = _HEADING if tag in _HEADINGS else _IN_DIV if tag == "div" else 0
        if nodes.bits[owner] & NOT_ARTICLE:
            facts |= _OWN_NAME
        if self._reader.region[owner]:
            facts |= _IN_REGION
        if 2 * self._beside.get(nodes.parents[owner], 0) > self._total:
            facts |= _BESIDE
        if self._alike.get((tag, nodes.classes[owner]), 0) > 0.4 * self._total:
            facts |= _ALIKE
        if number < self._first:
            facts |= _BEFORE
        elif number > self._last:
            facts |= _AFTER
        if number + 1 < len(self._runs):
            following = self._runs[number + 1].owner
            if self._reader.kept[following]:
                facts |= _NEXT_KEPT
            if nodes.tags[following] in _HEADINGS:
                facts |= _HEADING_NEXT
        return facts

    def _both(self, number: int, run: TextRun, hints: int, tags: int) -> int:
        """What the reader mode and the publisher's names say together, and apart."""
        is_kept, is_named = self._reader.kept[run.owner], self._named.inside[run.owner]
        is_picture = bool(hints & HINT_BITS["picture"] or tags & _PICTURE_TAGS)
        is_item = bool(tags & _TAG_BITS["li"])
        facts = _KEPT_OR_NAMED_BITS[2 * is_kept + is_named]
        if is_kept:
            facts |= self._kept(number, is_picture, is_item)
        if is_named:
            if self._named.is_named_body:
                facts |= _BITS["in named body"]
            if run.text.count(" ") < 9:
                facts |= _BITS["named, under 10 words"]
            if is_item:
                facts |= _BITS["named, in item"]
        if is_picture and self._repeated[run.text] > 1:
            facts |= _BITS["repeated at picture"]
        if hints & HINT_BITS["lead"] and 0 < self._first - number < 6 and _is_sentence(run):
            facts |= _BITS["lead before text"]
        return facts

    def _kept(self, number: int, is_picture: bool, is_item: bool) -> int:
        facts = 0
        if number < self._first:
            facts |= _BITS["kept before text"]
        if is_picture:
            facts |= _BITS["kept at picture"]
        if is_item:
            facts |= _BITS["kept in item"]
        if self._total < SMALL_CHARS:
            facts |= _BITS["kept, little in all"]
        return facts


def _words(run: TextRun) -> int:
    text, chars, spaces = run.text, len(run.text), run.text.count(" ")
    facts = 0
    if spaces < 19:
        facts = _UNDER_20 | _UNDER_5 if spaces < 4 else _UNDER_20
    if run.link_chars > 0.3 * chars:
        facts |= _LINKS_3 | _LINKS_6 if run.link_chars > 0.6 * chars else _LINKS_3
    if _SENTENCE_END.search(text[-10:]):
        facts |= _SENTENCE
    elif text.endswith(":"):
        facts |= _COLON
    if chars < LONG_CHARS and _YEAR.search(text):
        facts |= _YEAR_IN
    if chars <= 200 and is_byline(text):
        facts |= _BYLINE
    return facts


@lru_cache(maxsize=10_000)
def _named_facts(hints: int, tags: int) -> int:
    """What names and tags say of a run; of an item of a list only what `_both` adds."""
    named = sum(_BITS[f"name {name}"] for name in HINT_NAMES if hints & HINT_BITS[name])
    return named | sum(_BITS[f"in {tag}"] for tag in _TAG_NAMES if tags & _TAG_BITS[tag] and tag != "li")


def _is_sentence(run: TextRun) -> bool:
    return run.text.count(" ") >= 9 and run.link_chars <= 0.3 * len(run.text)


def _is_long(run: TextRun) -> bool:
    return len(run.text) > LONG_CHARS and run.link_chars < 0.3 * len(run.text)
