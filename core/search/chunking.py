"""Cut a text into chunks: each below one heading, small enough for the embedder, and the same after an edit elsewhere.

Title, URL and headings are no part of a chunk's text: they are put before it when it is embedded, so that a rename
changes no hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable

from core.models import Chunk
from core.pages.text_cleaning import content_hash, strip_unstorable, truncate
from core.search import markdown_sections
from core.search.chunk_boundaries import Cutter
from core.search.readable_address import readable_address
from core.value_class import value_class

CHUNKER_VERSION = "1"
"""Part of every chunk id and of the vector space: anything that moves cuts needs a new one."""
LETTERS_VERSION = "2"
"""The same for texts that are cut by letters."""
MOST_TOKENS = 230
"""Of all-MiniLM-L6-v2's 256, two of which are marks; the rest is for title and headings."""
WINDOW_TOKENS = 254
PREFIX_TOKENS = WINDOW_TOKENS - MOST_TOKENS
MOST_LETTERS = 850
"""About what 230 tokens of English are."""

# About what WordPiece makes of a text: long words in parts, foreign scripts in small parts, Chinese one by one.
_TOKEN = re.compile(
    r"[A-Za-z]{1,7}|[0-9]{1,2}"
    r"|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W\d_]{1,2}|[^\s]"
)
# Letters that are a syllable or a word by themselves: two of them say what four to five Latin ones do.
_WIDE_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_CHARS_PER_TOKEN = 4


def count_letters(text: str) -> int:
    """Return the length of a text in letters; those of Chinese, Japanese and Korean count twice."""
    return len(text) if text.isascii() else len(text) + len(_WIDE_LETTER.findall(text))


@value_class
class ChunkSize:
    """How long chunks are, and how that is counted."""

    count: Callable[[str], int]
    most: int
    version: str = CHUNKER_VERSION


BY_LETTERS = ChunkSize(count_letters, MOST_LETTERS, LETTERS_VERSION)
"""For other languages than English, of which an English tokenizer makes a token of every second letter."""


def chunks(
    item_id: str,
    markdown: str,
    count_tokens: Callable[[str], int],
    most_tokens: int = MOST_TOKENS,
    version: str = CHUNKER_VERSION,
) -> list[Chunk]:
    """Return the chunks of a text in order; none has more than `most_tokens`, and no word is lost or in two of them."""
    text = strip_unstorable(markdown.replace("\r\n", "\n").replace("\r", "\n")).removeprefix("\ufeff")
    cutter = Cutter(count_tokens, most_tokens)
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    chunks: list[Chunk] = []
    for headings, blocks, level in markdown_sections.read_sections(text):
        for body, kinds in cutter.cut(blocks):
            text_hash = content_hash(body)
            seen[headings, text_hash] += 1
            cid = chunk_id(item_id, headings, text_hash, seen[headings, text_hash], version)
            types = tuple(map(str, kinds))
            chunks.append(Chunk(cid, body, headings, len(chunks), text_hash, level, types))
    return chunks


def chunk_id(
    item_id: str, headings: tuple[str, ...], text_hash: str, occurrence: int, version: str = CHUNKER_VERSION
) -> str:
    """Return `c_…`: 130 bits of sha256; the n-th time that a text stands below the same headings has its own id."""
    parts = (version, item_id, text_hash, str(occurrence), *headings)
    # Lengths go in front, so that no two lists of parts are the same bytes.
    source = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(source.encode("utf-8", "surrogateescape")).digest()
    return f"c_{base64.b32encode(digest).decode().lower()[:26]}"


def embedded_text(
    chunk: Chunk,
    title: str,
    url: str = "",
    count_tokens: Callable[[str], int] | None = None,
    window_tokens: int = WINDOW_TOKENS,
) -> str:
    """Return the whole text with as much of title, headings and URL in front as the model has room for."""
    count = count_tokens or estimate_tokens
    room = window_tokens - count(chunk.text)
    context = _context(title, url, chunk.headings)
    kept: dict[int, str] = {}
    # The title first, then the nearest heading, then those above it, the address last.
    for place in [0, *range(len(context) - 2, 0, -1), len(context) - 1]:
        words = context[place] if place else _shortened(context[place], room, count)
        needed = count(words) + 1
        if words and needed <= room:
            kept[place] = words
            room -= needed
    return "\n".join(part for part in (" › ".join(kept[place] for place in sorted(kept)), chunk.text) if part)


def estimate_tokens(text: str) -> int:
    """Return about as many tokens as a WordPiece tokenizer would make, for when there is none."""
    return len(_TOKEN.findall(text))


def _context(title: str, url: str, headings: tuple[str, ...]) -> list[str]:
    """Return title, headings and what the address says; a first heading that repeats the title is left out."""
    title = " ".join(title.split())
    below = headings[1:] if headings and headings[0].casefold() == title.casefold() else headings
    return [title, *below, readable_address(url)]


def _shortened(title: str, room: int, count: Callable[[str], int]) -> str:
    """Return as much of a title as fits."""
    most_chars = room * _CHARS_PER_TOKEN
    while most_chars > 1 and count(title) >= room:
        title, most_chars = truncate(title, most_chars), most_chars // 2
    return title
