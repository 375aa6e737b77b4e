"""Read plain text with its lines and paragraphs as they are. A first line that stands alone is its title."""

from __future__ import annotations

import re

from core.documents.file_document import FileProperties, build_file_document, decode_text, paragraph_blocks
from core.models import Document
from core.pages.text_cleaning import collapse_whitespace

_MAX_TITLE_CHARS = 120
_UNDERLINE = re.compile(r"([=~*#-])\1{2,}$")


def read_text(body: bytes, name: str, content_type: str) -> Document:
    """Return the text of the file as a document."""
    text = decode_text(body, content_type)
    return build_file_document(paragraph_blocks(text), name, len(body), FileProperties(_title(text)))


def _title(text: str) -> str:
    """Return the first line if a blank line or an underline follows it, else an empty string."""
    first, second, *_ = (*map(collapse_whitespace, text.lstrip()[:1000].split("\n", 2)), "", "")
    is_alone = not second or _UNDERLINE.fullmatch(second) is not None
    has_more = len(text.strip()) > len(first) + 5
    return first if first and is_alone and has_more and len(first) <= _MAX_TITLE_CHARS else ""
