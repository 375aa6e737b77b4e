"""Read Markdown: kept as it is, and turned into plain text by its CommonMark structure and tables.

Front matter is read as `key: value` lines and not as YAML: no anchors, no tags, no surprises.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from core.feeds.dates import parse_date
from core.models import Document
from core.pages.documents.file_document import (
    FileProperties,
    build_file_document,
    decode_text,
    paragraph_blocks,
    truncation_note,
)
from core.pages.html_blocks import html_to_blocks, parse_fragment
from core.pages.lxml_page import LxmlPage
from core.pages.metadata import PageMetadata
from core.pages.outlinks import collect_outlinks
from core.pages.text_blocks import MAX_TEXT_CHARS, TextBlock
from core.pages.text_cleaning import strip_unstorable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_NESTING = 24
"""Deeper quotes and lists are left out of the plain text: each level multiplies the time that a flood of `[` takes."""
MAX_STRUCTURED_CHARS = 1_500_000
"""Of longer files only the lines are read: the structure takes a second per million characters."""
_FRONT_MATTER = re.compile(r"---[ \t]*\n((?:(?!---|\.\.\.).*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\n|$)")
_KEY_VALUE = re.compile(r"([A-Za-z_-]{1,40})[ \t]*:[ \t]+(\S.*)")
# Of the title, the description, the author and the date.
_KEYS = (
    ("title",),
    ("description", "summary", "excerpt", "abstract"),
    ("author", "authors"),
    ("date", "published", "publishdate", "pubdate", "created"),
)


def read_markdown(body: bytes, name: str, content_type: str, *, links: bool = False) -> Document:
    """Return the file as a document, with its links if asked for."""
    markdown = decode_text(body, content_type).removeprefix("\ufeff")
    front_matter = _FRONT_MATTER.match(markdown)
    if front_matter:
        markdown = markdown[front_matter.end() :]
    properties = _properties(front_matter[1] if front_matter else "")
    if len(markdown) <= MAX_STRUCTURED_CHARS:
        blocks, targets = _read(markdown, links)
    else:
        blocks, targets = paragraph_blocks(markdown), ()
    text = markdown.strip("\n").rstrip()
    if len(text) > MAX_TEXT_CHARS:
        note = truncation_note(f"Only the first {MAX_TEXT_CHARS:,} characters are kept.")
        text = f"{text[:MAX_TEXT_CHARS]}\n\n{note.markdown}"
    return build_file_document(blocks, name, len(body), properties, markdown=text, links=targets)


def _properties(front_matter: str) -> FileProperties:
    pairs: dict[str, str] = {}
    for line in front_matter.split("\n"):
        if match := _KEY_VALUE.match(line):
            pairs.setdefault(match[1].lower(), match[2].strip().strip("[]").strip().strip("\"'"))
    title, description, author, date = (next((pairs[key] for key in keys if pairs.get(key)), "") for keys in _KEYS)
    return FileProperties(title, description, author.replace('"', ""), parse_date(date) if date else None)


def _read(markdown: str, links: bool) -> tuple[list[TextBlock], tuple[str, ...]]:
    """Return the blocks and the absolute links: what a file's relative links start from is not known."""
    root = parse_fragment(strip_unstorable(_parser().render(markdown)))
    if root is None:
        return [], ()
    targets = collect_outlinks(LxmlPage(root).anchors(), PageMetadata(url="", base="")) if links else ()
    return html_to_blocks(root), targets


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
