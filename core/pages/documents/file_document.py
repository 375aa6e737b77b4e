"""Build a Document from plain text, or from the blocks of a file and what the file says about itself.

Unlike a page, a file has no boilerplate to remove. A text that is cut for its length ends with a line that says so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.feeds import encoding
from core.models import Document, TextSource
from core.pages.abstract import choose_abstract
from core.pages.charset import decode_page
from core.pages.documents.file_type import file_stem
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.pages.language_choice import guess_language
from core.pages.text_blocks import (
    MAX_TEXT_CHARS,
    TextBlock,
    TextBlockKind,
    blocks_to_markdown,
    blocks_to_text,
    lines_to_blocks,
)
from core.pages.text_cleaning import collapse_whitespace, content_hash, strip_unstorable, truncate

MAX_TITLE_CHARS = 500
_MAX_FIRST_LINE_CHARS = 120
_UNDERLINE = re.compile(r"([=~*#-])\1{2,}$")


class FileProperties(NamedTuple):
    """What a file says about itself."""

    title: str = ""
    description: str = ""
    author: str = ""
    published_ts: float | None = None


def build_file_document(
    blocks: list[TextBlock],
    name: str,
    raw_len: int,
    properties: FileProperties = FileProperties(),  # noqa: B008 - immutable
    *,
    markdown: str | None = None,
    links: tuple[str, ...] = (),
) -> Document:
    """Build the document; `markdown` is the file's own where it has one, else it is made from the blocks."""
    kept = shorten_blocks(blocks)
    text = strip_unstorable(blocks_to_text(kept))
    own = blocks_to_markdown(kept) if markdown is None else markdown
    headings = (block.text for block in blocks if block.kind is TextBlockKind.HEADING)
    return Document(
        title=truncate(_line(properties.title) or _line(next(headings, "")) or _line(file_stem(name)), MAX_TITLE_CHARS),
        markdown=strip_unstorable(own),
        clean_text=text,
        abstract=strip_unstorable(choose_abstract(kept, _line(properties.description), text)),
        author=truncate(_line(properties.author), MAX_TITLE_CHARS),
        published_ts=properties.published_ts,
        language=guess_language(text),
        raw_len=raw_len,
        text_len=len(text),
        content_hash=content_hash(text),
        extractor_version=EXTRACTOR_VERSION,
        source=TextSource.ALL_TEXT,
        links=links,
    )


def read_text(body: bytes, name: str, content_type: str) -> Document:
    """Read plain text with its lines and paragraphs. A first line is the title if it stands alone or is underlined."""
    text = decode_text(body, content_type)
    first, second, *_ = (*map(collapse_whitespace, text.lstrip()[:1000].split("\n", 2)), "", "")
    is_alone = not second or _UNDERLINE.fullmatch(second) is not None
    has_more = len(text.strip()) > len(first) + 5
    title = first if is_alone and has_more and len(first) <= _MAX_FIRST_LINE_CHARS else ""
    return build_file_document(paragraph_blocks(text), name, len(body), FileProperties(title))


def shorten_blocks(blocks: list[TextBlock]) -> list[TextBlock]:
    """Cut after `MAX_TEXT_CHARS` characters, blank lines between blocks included, and add a note about it."""
    room = MAX_TEXT_CHARS
    for number, block in enumerate(blocks):
        if len(block.text) > room:
            rest = [TextBlock(block.kind, block.markdown[:room], block.text[:room])] if room else []
            return [*blocks[:number], *rest, truncation_note(f"Only the first {MAX_TEXT_CHARS:,} characters are kept.")]
        room = max(0, room - len(block.text) - len("\n\n"))
    return blocks


def truncation_note(sentence: str) -> TextBlock:
    """Return a last line that says what was cut."""
    return TextBlock(TextBlockKind.LINE, f"[… {sentence}]", f"[… {sentence}]")


def decode_text(body: bytes, content_type: str) -> str:
    """Return a text file's content, fit to store, with line feeds as line ends.

    `decode_page` makes two line ends of `\\r\\n`. HTML does not mind, but to text that is a new paragraph.
    """
    mark = encoding.codec_from_bom(body)
    if mark:
        body, content_type = body.decode(mark, "replace").removeprefix("\ufeff").encode("utf-8", "replace"), ""
    return strip_unstorable(decode_page(body.replace(b"\r\n", b"\n"), content_type))


def paragraph_blocks(text: str) -> list[TextBlock]:
    """Return the paragraphs between blank lines, which keep their lines. Ends soon after `MAX_TEXT_CHARS`."""
    blocks: list[TextBlock] = []
    piece: list[str] = []
    chars = 0
    for words in (*map(collapse_whitespace, text.split("\n")), ""):
        if words:
            # A line that is too long is two lines, so that the cut is seen.
            piece += filter(None, (words[:MAX_TEXT_CHARS], words[MAX_TEXT_CHARS : 2 * MAX_TEXT_CHARS]))
            chars += len(words)
        if piece and (not words or chars > MAX_TEXT_CHARS):
            lines = lines_to_blocks(piece)
            markdown = "\n".join(line.markdown for line in lines)
            blocks.append(TextBlock(TextBlockKind.PARAGRAPH, markdown, "\n".join(line.text for line in lines)))
            piece = []
        if chars > MAX_TEXT_CHARS:
            break
    return blocks


def _line(text: str) -> str:
    return collapse_whitespace(strip_unstorable(text[: 10 * MAX_TITLE_CHARS]))
