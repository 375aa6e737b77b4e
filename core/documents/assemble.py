"""Put a Document together from the blocks of a file, and what the file says about itself.

Unlike a page's, a file's text is all its own: nothing is trimmed. What is cut for its length ends with a line that says
so, so that nobody takes a part for the whole.
"""

from __future__ import annotations

from typing import NamedTuple

from core.documents import type as doc_type
from core.feeds import encoding
from core.models import Document, TextSource
from core.pages import blocks as page_blocks
from core.pages import charset as page_charset
from core.pages import language as page_language
from core.pages import trim as page_trim
from core.pages.blocks import MAX_CHARS, Block, BlockKind
from core.pages.extract import EXTRACTOR_VERSION
from core.pages.text import content_hash, cut, line, storable

MAX_TITLE_CHARS = 500


class About(NamedTuple):
    """What a file says about itself; empty where it says nothing."""

    title: str = ""
    description: str = ""
    author: str = ""
    published_ts: float | None = None


def document(
    found: list[Block],
    name: str,
    raw_len: int,
    about: About = About(),  # noqa: B008 - immutable
    *,
    markdown: str | None = None,
    links: tuple[str, ...] = (),
) -> Document:
    """The blocks as a document.

    Args:
        markdown: the file's own Markdown, where it has one; else it is made from the blocks.
    """
    kept = shortened(found)
    text = storable(page_blocks.plain(kept))
    own = page_blocks.markdown(kept) if markdown is None else markdown
    return Document(
        title=_title(about.title, found, name),
        markdown=storable(own),
        clean_text=text,
        abstract=storable(page_trim.abstract(kept, _line(about.description), text)),
        author=cut(_line(about.author), MAX_TITLE_CHARS),
        published_ts=about.published_ts,
        language=page_language.guessed(text),
        raw_len=raw_len,
        text_len=len(text),
        content_hash=content_hash(text),
        extractor_version=EXTRACTOR_VERSION,
        source=TextSource.ALL_TEXT,
        links=links,
    )


def shortened(found: list[Block]) -> list[Block]:
    """The first `MAX_CHARS` characters, blank lines between blocks included, and a word on it where that is not all."""
    room = MAX_CHARS
    for number, block in enumerate(found):
        if len(block.text) > room:
            rest = [Block(block.kind, block.markdown[:room], block.text[:room])] if room else []
            return [*found[:number], *rest, note(f"Only the first {MAX_CHARS:,} characters are kept.")]
        room = max(0, room - len(block.text) - len("\n\n"))
    return found


def note(sentence: str) -> Block:
    """Our own word at the end of a text that was cut."""
    return Block(BlockKind.LINE, f"[… {sentence}]", f"[… {sentence}]")


def decoded(body: bytes, content_type: str) -> str:
    """A text file's content, fit to store, whatever system its lines end for.

    `page_charset` makes two line ends of `\\r\\n`. That is all the same to HTML, and a new paragraph to text.
    """
    mark = encoding.codec_from_bom(body)
    if mark:
        body, content_type = body.decode(mark, "replace").removeprefix("\ufeff").encode("utf-8", "replace"), ""
    return storable(page_charset.decode(body.replace(b"\r\n", b"\n"), content_type))


def lines(text: str) -> list[Block]:
    """Text as blocks that keep their lines: paragraphs stand between blank lines. Ends soon after `MAX_CHARS`."""
    blocks: list[Block] = []
    piece: list[str] = []
    chars = 0
    for words in (*map(line, text.split("\n")), ""):
        if words:
            # A line that is too long is two lines, so that the cut is seen.
            piece += filter(None, (words[:MAX_CHARS], words[MAX_CHARS : 2 * MAX_CHARS]))
            chars += len(words)
        if piece and (not words or chars > MAX_CHARS):
            blocks.append(_paragraph(piece))
            piece = []
        if chars > MAX_CHARS:
            break
    return blocks


def _paragraph(piece: list[str]) -> Block:
    found = page_blocks.lines(piece)
    markdown = "\n".join(block.markdown for block in found)
    return Block(BlockKind.PARAGRAPH, markdown, "\n".join(block.text for block in found))


def _title(stated: str, found: list[Block], name: str) -> str:
    headings = (block.text for block in found if block.kind is BlockKind.HEADING)
    return cut(_line(stated) or _line(next(headings, "")) or _line(doc_type.stem(name)), MAX_TITLE_CHARS)


def _line(text: str) -> str:
    return line(storable(text[: 10 * MAX_TITLE_CHARS]))
