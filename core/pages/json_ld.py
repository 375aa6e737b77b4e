"""Find the object that describes the article in a page's JSON-LD, and read its properties.

Publishers write it by hand and by template: arrays, graphs, wrong types, broken JSON. What cannot be read is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from core.pages.text_cleaning import collapse_whitespace

Thing = dict[str, Any]

MAX_SCRIPT_CHARS = 500_000
_MAX_THINGS = 300
# `<!-- … -->`, `<![CDATA[ … ]]>` and `/* … */` around the JSON, from the days of XHTML.
_WRAPPING = re.compile(r"^(?:\s|/\*|\*/|//|<!--|<!\[CDATA\[)+|(?:\s|/\*|\*/|//|-->|\]\]>|;)+$")
_ARTICLE = re.compile(r"(?:Article|Posting|Report|Recipe|Review|WebPage|VideoObject|Episode|ScholarlyWork)$")
# The page is described beside the article in it; the article knows better.
_WEAK = {"WebPage", "ItemPage", "CollectionPage", "AboutPage", "VideoObject"}


def article(scripts: Iterable[str]) -> Thing:
    """Return the first object that describes an article, else one that describes the page, else an empty one."""
    found = [thing for script in scripts for thing in _things(_loaded(script)) if _ARTICLE.search(kind(thing))]
    strong = [thing for thing in found if kind(thing) not in _WEAK]
    return (strong or found or [{}])[0]


def kind(thing: Thing) -> str:
    """Return its type; of several the one that names an article."""
    kinds = [str(one) for one in _listed(thing.get("@type"))]
    return next((one for one in kinds if _ARTICLE.search(one)), kinds[0] if kinds else "")


def text(thing: Thing, *names: str) -> str:
    """Return the first of these properties that is a string or a number, as one line."""
    for name in names:
        for value in _listed(thing.get(name)):
            if isinstance(value, str | int | float) and collapse_whitespace(str(value)):
                return collapse_whitespace(str(value))
    return ""


def names(thing: Thing, name: str) -> list[str]:
    """Return the names in a property that holds people: objects, strings, or lists of both."""
    found = (one.get("name") if isinstance(one, dict) else one for one in _listed(thing.get(name)))
    return [
        collapse_whitespace(one)
        for each in found
        for one in _listed(each)
        if isinstance(one, str) and collapse_whitespace(one)
    ]


def urls(thing: Thing, name: str) -> list[str]:
    """Return the URLs in a property that holds images or pages, as they stand."""
    found: list[str] = []
    for one in _listed(thing.get(name)):
        value = (one.get("url") or one.get("contentUrl") or one.get("@id")) if isinstance(one, dict) else one
        found += [address for address in _listed(value) if isinstance(address, str)]
    return found


def _loaded(script: str) -> Any:
    script = _WRAPPING.sub("", script[: MAX_SCRIPT_CHARS + 1])
    if len(script) > MAX_SCRIPT_CHARS:
        return None
    try:
        return json.loads(script, strict=False)
    except (ValueError, RecursionError):
        return None


def _things(value: Any, depth: int = 0) -> Iterator[Thing]:
    """Yield the objects at the top, in lists, in graphs, and as the main entity of a page."""
    if depth > 4:
        return
    for one in _listed(value)[:_MAX_THINGS]:
        if isinstance(one, dict):
            yield one
            for inner in ("@graph", "mainEntity", "mainEntityOfPage"):
                if isinstance(one.get(inner), dict | list):
                    yield from _things(one[inner], depth + 1)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
