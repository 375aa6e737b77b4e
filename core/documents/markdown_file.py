"""Markdown: kept as it is, and read as plain text by the structure that CommonMark and its tables give it.

Front matter is read as `key: value` lines and nothing else: no YAML, so no anchors, no tags, no surprises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from core.documents.file_document import (
    FileProperties,
    build_file_document,
    decode_text,
    paragraph_blocks,
    truncation_note,
)
from core.feeds.dates import parse_date
from core.models import Document
from core.pages.blocks import MAX_TEXT_CHARS, TextBlock
from core.pages.html_blocks import html_to_blocks, parse_fragment
from core.pages.lxml_page import LxmlPage
from core.pages.metadata import PageMetadata
from core.pages.outlinks import collect_outlinks
from core.pages.text_cleaning import strip_unstorable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_NESTING = 24
"""Deeper quotes and lists are left out of the plain text. Each level multiplies the time that a flood of `[` takes."""
MAX_STRUCTURED_CHARS = 1_500_000
"""The structure of longer files is not read, only their lines: it takes a second per million characters."""
_FRONT_MATTER = re.compile(r"---[ \t]*\n((?:(?!---|\.\.\.).*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\n|$)")
_KEY_VALUE = re.compile(r"([A-Za-z_-]{1,40})[ \t]*:[ \t]+(\S.*)")
_KEYS = {
    "title": ("title",),
    "description": ("description", "summary", "excerpt", "abstract"),
    "author": ("author", "authors"),
    "date": ("date", "published", "publishdate", "pubdate", "created"),
}


def read_markdown(body: bytes, name: str, content_type: str, *, links: bool = False) -> Document:
    """The file as it is, its plain text, and where it leads if that is asked for."""
    stated, markdown = _parted(decode_text(body, content_type))
    if len(markdown) <= MAX_STRUCTURED_CHARS:
        found, targets = _read(markdown, links)
    else:
        found, targets = paragraph_blocks(markdown), ()
    return build_file_document(found, name, len(body), _about(stated), markdown=_kept(markdown), links=targets)


def _kept(markdown: str) -> str:
    text = markdown.strip("\n").rstrip()
    if len(text) <= MAX_TEXT_CHARS:
        return text
    note = truncation_note(f"Only the first {MAX_TEXT_CHARS:,} characters are kept.")
    return f"{text[:MAX_TEXT_CHARS]}\n\n{note.markdown}"


def _parted(text: str) -> tuple[str, str]:
    """Front matter and the rest."""
    text = text.removeprefix("\ufeff")
    found = _FRONT_MATTER.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def _about(stated: str) -> FileProperties:
    pairs: dict[str, str] = {}
    for text in stated.split("\n"):
        found = _KEY_VALUE.match(text)
        if found:
            pairs.setdefault(found[1].lower(), found[2].strip().strip("[]").strip().strip("\"'"))
    said = {what: _first(pairs, keys) for what, keys in _KEYS.items()}
    published_ts = parse_date(said["date"]) if said["date"] else None
    return FileProperties(said["title"], said["description"], said["author"].replace('"', ""), published_ts)


def _first(pairs: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((pairs[key] for key in keys if pairs.get(key)), "")


def _read(markdown: str, links: bool) -> tuple[list[TextBlock], tuple[str, ...]]:
    """The blocks, and the absolute targets: of a file we do not know what its relative ones start from."""
    root = parse_fragment(strip_unstorable(_parser().render(markdown)))
    if root is None:
        return [], ()
    targets = collect_outlinks(LxmlPage(root).anchors(), PageMetadata(url="", base="")) if links else ()
    return html_to_blocks(root), targets


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
