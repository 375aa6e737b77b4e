"""Turn a site page into a simple HTML document: its title, texts, headings, tables, links and image descriptions.

The original keeps the fields of a page as SharePoint gave them, one after another, so that a page can be cleaned again
without asking for it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape, unescape

from core.pages.text_cleaning import collapse_whitespace, strip_unstorable
from core.sources.sharepoint.html_fragments import clean_fragment, count_classic_web_parts, described_image, is_safe_url
from core.sources.sharepoint.page_canvas import TextWebPart, WebPart, read_canvas
from core.value_class import value_class

CANVAS_FIELDS = ("LayoutWebpartsContent", "CanvasContent1")
HTML_FIELDS = ("WikiField", "PublishingPageContent")
CLASSIC_WEB_PART = "Classic web part"
UNNAMED_WEB_PART = "Web part without a name"
# The divider and the spacer: there is nothing to read in them.
_DECORATION = frozenset(("2161a1c6-db61-4731-b97c-3cdb303f7cbb", "8654b779-4886-46d4-8ffb-b5ed960ee986"))
_PLACE = re.compile(r"\[(\d{1,9})\]")
_HEAD = re.compile(r'\A<!DOCTYPE html>\n<meta charset="utf-8">\n<meta name="sharepoint-fields" content="([^"]*)">\n')
_UNREAD = re.compile(r'<meta name="unread-web-parts" content="([^"]*)">')
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@value_class
class CleanPage:
    html: str
    unread_web_parts: Mapping[str, int]
    """Web parts whose content is not in the page's own data, by name, with their number."""


# ── the original ──


def encode_original(values: Mapping[str, str]) -> str:
    """Return the fields of a page as one HTML file; `decode_original` finds them again, whatever they hold."""
    fields = {name: strip_unstorable(values.get(name, "")) for name in (*CANVAS_FIELDS, *HTML_FIELDS)}
    kept = {name: text for name, text in fields.items() if text}
    lengths = escape(json.dumps({name: len(text) for name, text in kept.items()}))
    title = escape(collapse_whitespace(strip_unstorable(values.get("Title", ""))), quote=False)
    head = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<meta name="sharepoint-fields" content="{lengths}">\n'
    return "".join((head, f"<title>{title}</title>\n", *(f"{text}\n" for text in kept.values())))


def decode_original(text: str) -> dict[str, str]:
    """Return the fields of an original; a file that is none of ours is taken as the HTML of a classic page."""
    head, title = _HEAD.match(text), _TITLE.search(text)
    name = unescape(title[1]) if title else ""
    lengths = _counts(head[1]) if head else None
    if head is None or lengths is None or title is None:
        return {"Title": name, "WikiField": text}
    values, at = {"Title": name}, title.end() + 1
    for field, length in lengths.items():
        values[field] = text[at : at + length]
        at += length + 1
    return values


def _counts(content: str) -> dict[str, int] | None:
    try:
        stated = json.loads(unescape(content))
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(stated, dict) and all(isinstance(one, int) and one >= 0 for one in stated.values())
    return stated if is_ours else None


# ── the clean page ──


def clean_page(values: Mapping[str, str]) -> CleanPage:
    """Return the page as a simple document. Raises PageUnreadable."""
    unread: Counter[str] = Counter()
    title = collapse_whitespace(strip_unstorable(values.get("Title", "")))
    blocks = [f"<h1>{escape(title, quote=False)}</h1>"] if title else []
    for field in CANVAS_FIELDS:
        for part in read_canvas(values.get(field, "")):
            blocks.append(clean_fragment(part.html) if isinstance(part, TextWebPart) else _read(part, title, unread))
    for field in HTML_FIELDS:
        content = values.get(field, "")
        blocks.append(clean_fragment(content))
        unread[CLASSIC_WEB_PART] += count_classic_web_parts(content)
    body = "\n".join(block for block in blocks if block)
    counts = {name: count for name, count in sorted(unread.items()) if count}
    note = f'<meta name="unread-web-parts" content="{escape(json.dumps(counts))}">' if counts else ""
    head = f'<head><meta charset="utf-8">{note}<title>{escape(title, quote=False)}</title></head>'
    html = f"<!DOCTYPE html>\n<html>{head}\n<body><main><article>\n{body}\n</article></main></body></html>\n"
    return CleanPage(html, counts)


def unread_web_parts(html: str) -> dict[str, int]:
    """Return what a clean page says of web parts that were not read; its first lines are enough."""
    note = _UNREAD.search(html)
    return (_counts(note[1]) if note else None) or {}


def _read(part: WebPart, page_title: str, unread: Counter[str]) -> str:
    """Return what a web part says as blocks, and count it if that is nothing but its own title."""
    heading = collapse_whitespace(part.texts.get("title", ""))
    blocks = [*_lists(part), *(clean_fragment(one) for one in part.htmls.values())]
    images = iter(part.images.values())
    blocks += [described_image(next(images, ""), caption) for caption in part.captions]
    blocks = [block for block in blocks if block]
    is_read = bool(blocks) or heading == page_title != ""
    if not is_read and part.id not in _DECORATION:
        unread[part.name or part.id or UNNAMED_WEB_PART] += 1
    if heading and heading != page_title:
        blocks.insert(0, f"<h2>{escape(heading, quote=False)}</h2>")
    return "\n".join(blocks)


def _lists(part: WebPart) -> Iterator[str]:
    """Return the texts of a web part: those of its items as a list with their links, its own as paragraphs."""
    groups: dict[str, list[str]] = {}
    for name, text in part.texts.items():
        if name != "title":
            groups.setdefault(_item(name), []).append(collapse_whitespace(text))
    links = {_item(name): url for name, url in reversed(list(part.links.items())) if is_safe_url(url)}
    items = []
    for item in sorted(groups, key=_order):
        words = _linked(groups[item], links.get(item, "") if item else "")
        if item:
            items.append(f"<li>{words}</li>")
        else:
            yield f"<p>{words}</p>"
    if items:
        yield "<ul>\n" + "\n".join(items) + "\n</ul>"


def _linked(texts: list[str], url: str) -> str:
    """Return the first text as the link, the others after it."""
    first, *others = (escape(text, quote=False) for text in texts)
    linked = f'<a href="{escape(url.strip())}">{first}</a>' if url else first
    return " – ".join((linked, *others))


def _item(name: str) -> str:
    """Return `items[0]` of `items[0].sourceItem.url`; empty for a value of the web part itself."""
    first, dot, _ = name.partition(".")
    return first if dot or _PLACE.search(first) else ""


def _order(item: str) -> tuple[str, int]:
    place = _PLACE.search(item)
    return _PLACE.sub("", item), int(place[1]) if place else -1
