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
    candidates = [thing for script in scripts for thing in _things(_load(script)) if _ARTICLE.search(_type(thing))]
    strong = [thing for thing in candidates if _type(thing) not in _WEAK]
    return (strong or candidates or [{}])[0]


def text(thing: Thing, *names: str) -> str:
    """Return the first of these properties that is a string or a number, as one line."""
    values = (value for name in names for value in _listed(thing.get(name)) if isinstance(value, str | int | float))
    return next(filter(None, (collapse_whitespace(str(value)) for value in values)), "")


def names(thing: Thing, name: str) -> list[str]:
    """Return the names in a property that holds people: objects, strings, or lists of both."""
    people = (one.get("name") if isinstance(one, dict) else one for one in _listed(thing.get(name)))
    strings = (one for each in people for one in _listed(each) if isinstance(one, str))
    return list(filter(None, map(collapse_whitespace, strings)))


def urls(thing: Thing, name: str) -> list[str]:
    """Return the URLs in a property that holds images or pages, as they stand."""
    values = (
        (one.get("url") or one.get("contentUrl") or one.get("@id")) if isinstance(one, dict) else one
        for one in _listed(thing.get(name))
    )
    return [url for value in values for url in _listed(value) if isinstance(url, str)]


def _type(thing: Thing) -> str:
    """Its type; of several the one that names an article."""
    types = [str(one) for one in _listed(thing.get("@type"))]
    return next((one for one in types if _ARTICLE.search(one)), types[0] if types else "")


def _load(script: str) -> Any:
    script = _WRAPPING.sub("", script[: MAX_SCRIPT_CHARS + 1])
    try:
        return json.loads(script, strict=False) if len(script) <= MAX_SCRIPT_CHARS else None
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
