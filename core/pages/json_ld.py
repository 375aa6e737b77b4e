"""Find the object that describes the article in a page's JSON-LD, and read its properties.

Publishers write it by hand and by template: arrays, graphs, wrong types, broken JSON. What cannot be read is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

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
    weak: Thing = {}
    for thing in (thing for script in scripts for thing in _things(_load(script))):
        kind = _type(thing)
        if not _ARTICLE.search(kind):
            continue
        if kind not in _WEAK:
            return thing  # what follows is not parsed
        weak = weak or thing
    return weak


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
    script = script[: MAX_SCRIPT_CHARS + 1].strip()
    if not (script.startswith(("{", "[")) and script.endswith(("}", "]"))):  # else the pattern tries every letter
        script = _WRAPPING.sub("", script)
    if len(script) > MAX_SCRIPT_CHARS:
        return None
    try:
        return msgspec.json.decode(script)  # takes a third of the time of `json`
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    try:
        return json.loads(script, strict=False)  # is content with line feeds inside strings, as templates leave them
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
