"""Choose among the datelines of a page: first a line below the headline that says "published", then the nearest.

Reads no page that states its date: see `publish_date`.
"""

from __future__ import annotations

import re
from collections import defaultdict

from lxml import etree

from core.pages.date_lines import is_dateline
from core.pages.dated_texts import DatedPage, Dateline
from core.pages.day_in_line import day_in_line
from core.pages.lxml_page import text_length
from core.pages.time_elements import MAX_CHARS_BEFORE

_TITLE_PARTS = re.compile(r"\s+[|–—·-]\s+|\s*\|\s*")
_MANY_ALIKE = 3
"""So many lines in boxes of the same names, with different days, are of other stories or of events."""
_BEFORE_TITLE = 3
"""A line above the headline counts as three times as far from it as one below: above are also today's date and others'
stories."""


def shown_publish_date(root: etree._Element) -> float | None:
    """Return the day on which the page says that it was published; None if it shows none."""
    lines = _without_lists(DatedPage(root).datelines())
    places = _places(root, lines) if lines else {}
    in_head = [line for line in lines if line.element in places]
    best = min(in_head, key=lambda line: _rank(line, places[line.element]), default=None)
    if best is None or (places[best.element] < 0 and not best.is_said):
        best = next((line for line in lines if line.is_said), best)  # above may stand today's date
    best = best or next((line for line in lines if line.is_marked), None)
    return best.day if best else _day_in_title(root)


def _without_lists(lines: list[Dateline]) -> list[Dateline]:
    days: defaultdict[tuple[str, ...], set[float]] = defaultdict(set)
    for line in lines:
        days[line.names].add(line.day)
    return [line for line in lines if len(days[line.names]) < _MANY_ALIKE]


def _rank(line: Dateline, place: int) -> tuple[bool, int]:
    """Return what is less for a line more likely to date the page: above the headline others say "posted" too."""
    return (place < 0 or not line.is_said, -_BEFORE_TITLE * place if place < 0 else place)


def _places(root: etree._Element, lines: list[Dateline]) -> dict[etree._Element, int]:
    """Return how far each line is below the headline, in elements; only of lines in the head of the article."""
    wanted = {line.element for line in lines}
    places: dict[etree._Element, int] = {}
    title, chars = next(root.iter("h1"), None), 0
    passed = 0 if title is None else None
    for number, element in enumerate(root.iter(etree.Element)):
        if element is title:
            passed, chars = number, 0
            places = {above: place - number for above, place in places.items()}
        if element in wanted:
            if passed is None or chars <= MAX_CHARS_BEFORE:
                places[element] = number - (passed or 0)
        elif element.tag == "p" and chars <= MAX_CHARS_BEFORE:
            chars += text_length(element)
    return places


def _day_in_title(root: etree._Element) -> float | None:
    """Return the day that stands apart in the title: `Story | 23.05.2011`."""
    title = next(root.iter("title"), None)
    parts = _TITLE_PARTS.split(str(title.text or "")[:500]) if title is not None else []
    return next((day for part in parts if is_dateline(part) and (day := day_in_line(part)) is not None), None)
