"""Put a Document together from the blocks of a file, and what the file says about itself.

Unlike a page's, a file's text is all its own: nothing is trimmed. What is cut for its length ends with a line that says
so, so that nobody takes a part for the whole.
"""

from __future__ import annotations

from typing import NamedTuple

from core.documents.file_type import file_stem
from core.feeds import encoding
from core.models import Document, TextSource
from core.pages.blocks import MAX_TEXT_CHARS, BlockKind, TextBlock, blocks_to_markdown, blocks_to_text, lines_to_blocks
from core.pages.boilerplate import choose_abstract
from core.pages.charset import decode_page
from core.pages.extraction import EXTRACTOR_VERSION
from core.pages.language import guess_language
from core.pages.text_cleaning import collapse_whitespace, content_hash, strip_unstorable, truncate

MAX_TITLE_CHARS = 500


class FileProperties(NamedTuple):
    """What a file says about itself; empty where it says nothing."""

    title: str = ""
    description: str = ""
    author: str = ""
    published_ts: float | None = None


def build_file_document(
    found: list[TextBlock],
    name: str,
    raw_len: int,
    about: FileProperties = FileProperties(),  # noqa: B008 - immutable
    *,
    markdown: str | None = None,
    links: tuple[str, ...] = (),
) -> Document:
    """The blocks as a document.

    Args:
        markdown: the file's own Markdown, where it has one; else it is made from the blocks.
    """
    kept = shorten_blocks(found)
    text = strip_unstorable(blocks_to_text(kept))
    own = blocks_to_markdown(kept) if markdown is None else markdown
    return Document(
        title=_title(about.title, found, name),
        markdown=strip_unstorable(own),
        clean_text=text,
        abstract=strip_unstorable(choose_abstract(kept, _line(about.description), text)),
        author=truncate(_line(about.author), MAX_TITLE_CHARS),
        published_ts=about.published_ts,
        language=guess_language(text),
        raw_len=raw_len,
        text_len=len(text),
        content_hash=content_hash(text),
        extractor_version=EXTRACTOR_VERSION,
        source=TextSource.ALL_TEXT,
        links=links,
    )


def shorten_blocks(found: list[TextBlock]) -> list[TextBlock]:
    """The first `MAX_CHARS` characters, blank lines between blocks included, and a word on it where that is not all."""
    room = MAX_TEXT_CHARS
    for number, block in enumerate(found):
        if len(block.text) > room:
            rest = [TextBlock(block.kind, block.markdown[:room], block.text[:room])] if room else []
            return [*found[:number], *rest, truncation_note(f"Only the first {MAX_TEXT_CHARS:,} characters are kept.")]
        room = max(0, room - len(block.text) - len("\n\n"))
    return found


def truncation_note(sentence: str) -> TextBlock:
    """Our own word at the end of a text that was cut."""
    return TextBlock(BlockKind.LINE, f"[… {sentence}]", f"[… {sentence}]")


def decode_text(body: bytes, content_type: str) -> str:
    """A text file's content, fit to store, whatever system its lines end for.

    `decode_page` makes two line ends of `\\r\\n`. That is all the same to HTML, and a new paragraph to text.
    """
    mark = encoding.codec_from_bom(body)
    if mark:
        body, content_type = body.decode(mark, "replace").removeprefix("\ufeff").encode("utf-8", "replace"), ""
    return strip_unstorable(decode_page(body.replace(b"\r\n", b"\n"), content_type))


def paragraph_blocks(text: str) -> list[TextBlock]:
    """Text as blocks that keep their lines: paragraphs stand between blank lines. Ends soon after `MAX_CHARS`."""
    blocks: list[TextBlock] = []
    piece: list[str] = []
    chars = 0
    for words in (*map(collapse_whitespace, text.split("\n")), ""):
        if words:
            # A line that is too long is two lines, so that the cut is seen.
            piece += filter(None, (words[:MAX_TEXT_CHARS], words[MAX_TEXT_CHARS : 2 * MAX_TEXT_CHARS]))
            chars += len(words)
        if piece and (not words or chars > MAX_TEXT_CHARS):
            blocks.append(_paragraph(piece))
            piece = []
        if chars > MAX_TEXT_CHARS:
            break
    return blocks


def _paragraph(piece: list[str]) -> TextBlock:
    found = lines_to_blocks(piece)
    markdown = "\n".join(block.markdown for block in found)
    return TextBlock(BlockKind.PARAGRAPH, markdown, "\n".join(block.text for block in found))


def _title(stated: str, found: list[TextBlock], name: str) -> str:
    headings = (block.text for block in found if block.kind is BlockKind.HEADING)
    return truncate(_line(stated) or _line(next(headings, "")) or _line(file_stem(name)), MAX_TITLE_CHARS)


def _line(text: str) -> str:
    return collapse_whitespace(strip_unstorable(text[: 10 * MAX_TITLE_CHARS]))
