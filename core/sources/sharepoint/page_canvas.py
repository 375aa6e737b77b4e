"""Read the canvas of a modern page into its parts: texts, and web parts with what they say about themselves.

SharePoint gives a canvas as HTML, whose web parts are JSON in attributes, or as one JSON array. Both are read here.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from lxml import etree

from core.pages.lxml_page import parse_html
from core.value_class import value_class

MOST_CHARS = 5_000_000
"""Limit for one field of a page; SharePoint itself refuses pages of more than a few megabytes."""
MOST_PARTS = 5_000
MOST_PROPERTIES = 2_000
"""Values that are looked at in the properties of one web part."""
_TEXT_CONTROL, _WEB_PART_CONTROL = 4, 3
_CAPTIONS = frozenset(("alttext", "alternativetext", "imagealttext", "captiontext", "caption", "alt"))
# The JSON of a web part is often longer than any tag of an honest page: taken out before the page is parsed.
_DATA_ATTRIBUTE = re.compile(r"""data-sp-(webpartdata|controldata)=(?:"([^"]*)"|'([^']*)')""")


class PageUnreadable(ValueError):
    """The content of a page cannot be read; the message says why."""


@value_class
class TextWebPart:
    html: str


@value_class
class WebPart:
    """A web part. Its values have names such as `title`, `items[0].title`, `items[0].sourceItem.url`."""

    id: str
    name: str
    """As the editor calls it, such as `Quick links`."""
    texts: Mapping[str, str]
    htmls: Mapping[str, str]
    links: Mapping[str, str]
    images: Mapping[str, str]
    captions: tuple[str, ...] = ()
    """Alternative texts and captions of its images."""


def read_canvas(content: str) -> list[TextWebPart | WebPart]:
    """Return the parts in the order of the page. Raises PageUnreadable."""
    if len(content) > MOST_CHARS:
        raise PageUnreadable(f"The page has {len(content):,} characters in one field; at most {MOST_CHARS:,} are read.")
    if content.lstrip()[:1] in ("[", "{"):
        return _of_json(content)
    return _of_html(content)


# ── JSON ──


def _of_json(content: str) -> list[TextWebPart | WebPart]:
    data = _load(content)
    if data is None:
        raise PageUnreadable("The page's canvas begins like JSON and is none.")
    controls = [one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict)]
    if all(isinstance(one.get("position"), dict) for one in controls):
        controls.sort(key=_position)
    return [part for part in map(_part, controls[:MOST_PARTS]) if part]


def _part(control: Mapping[str, Any]) -> TextWebPart | WebPart | None:
    inner = control.get("innerHTML")
    if control.get("controlType") == _TEXT_CONTROL or isinstance(inner, str):
        return TextWebPart(inner) if isinstance(inner, str) else None
    data = control.get("webPartData")
    data = _load(data) if isinstance(data, str) else data
    is_web_part = control.get("controlType") == _WEB_PART_CONTROL or isinstance(data, dict)
    # A part of a page's layout field is the data of a web part itself.
    data = data if isinstance(data, dict) else control if "serverProcessedContent" in control else {}
    return _web_part(data, str(control.get("webPartId") or "")) if is_web_part or data else None


def _web_part(data: Mapping[str, Any], part_id: str = "") -> WebPart:
    content = data.get("serverProcessedContent")
    content = content if isinstance(content, dict) else {}
    return WebPart(
        id=(str(data.get("id") or "") or part_id).lower(),
        name=str(data.get("title") or "").strip(),
        texts=_strings(content.get("searchablePlainTexts")),
        htmls=_strings(content.get("htmlStrings")),
        links=_strings(content.get("links")),
        images=_strings(content.get("imageSources")),
        captions=tuple(dict.fromkeys(_captions(data.get("properties")))),
    )


def _strings(value: object) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(name): text for name, text in pairs if isinstance(text, str) and text.strip()}


def _captions(properties: object) -> Iterator[str]:
    """Return the alternative texts in the properties of a web part, whatever their shape."""
    waiting, seen = [properties], 0
    while waiting and seen < MOST_PROPERTIES:
        value, seen = waiting.pop(), seen + 1
        if isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            yield from (text for name, text in _strings(value).items() if name.lower() in _CAPTIONS)
            waiting.extend(one for one in reversed(value.values()) if isinstance(one, (dict, list)))


def _position(control: Mapping[str, Any]) -> tuple[float, ...]:
    position = control.get("position")
    position = position if isinstance(position, dict) else {}
    return tuple(_number(position.get(name)) for name in ("zoneIndex", "sectionIndex", "controlIndex"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e9 else 0.0


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# ── HTML ──


def _of_html(content: str) -> list[TextWebPart | WebPart]:
    data: list[str] = []

    def take_out(attribute: re.Match[str]) -> str:
        data.append(attribute[2] or attribute[3] or "")
        return f'data-sp-{attribute[1]}="{len(data) - 1}"'

    root = parse_html(_DATA_ATTRIBUTE.sub(take_out, content)) if content.strip() else None
    if root is None:
        return []
    parts: list[TextWebPart | WebPart] = []
    for element in islice(_outermost(root, _is_part), MOST_PARTS):
        is_text = "data-sp-rte" in element.attrib
        parts.append(TextWebPart(inner_html(element)) if is_text else _web_part_of_element(element, data))
    return parts or [TextWebPart(content)]


def _is_part(element: etree._Element) -> bool:
    return any(name in element.attrib for name in ("data-sp-rte", "data-sp-webpart", "data-sp-webpartdata"))


def _is_value(element: etree._Element) -> bool:
    return bool(element.get("data-sp-prop-name"))


def _outermost(root: etree._Element, is_wanted: Callable[[etree._Element], bool]) -> Iterator[etree._Element]:
    """Return the wanted elements in order, none that lies inside another."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element is not root and is_wanted(element):
            yield element
        else:
            waiting.extend(reversed(element))


def _web_part_of_element(element: etree._Element, data: list[str]) -> WebPart:
    number = str(element.get("data-sp-webpartdata") or "")
    text = data[int(number)] if number.isdecimal() and int(number) < len(data) else ""
    stated = _load(html.unescape(text))
    known = _web_part(stated if isinstance(stated, dict) else {})
    texts, htmls, links, images = dict(known.texts), dict(known.htmls), dict(known.links), dict(known.images)
    for value in _outermost(element, _is_value):
        name = str(value.get("data-sp-prop-name"))
        if value.tag == "a":
            links[name] = str(value.get("href") or "")
        elif value.tag == "img":
            images[name] = str(value.get("src") or "")
        elif "data-sp-searchableplaintext" in value.attrib:
            texts[name] = "".join(map(str, value.itertext()))
        else:
            htmls[name] = inner_html(value)
    return replace(known, texts=_strings(texts), htmls=_strings(htmls), links=_strings(links), images=_strings(images))


def inner_html(element: etree._Element) -> str:
    pieces = [html.escape(str(element.text or ""), quote=False)]
    pieces += [etree.tostring(child, method="html", encoding="unicode") for child in element]
    return "".join(pieces)
