"""Plain text: its lines and paragraphs as they are. A first line that stands alone is its title."""

from __future__ import annotations

import re

from core.documents import assemble as doc_assemble
from core.documents.assemble import About
from core.models import Document
from core.pages.text import line

_MAX_TITLE_CHARS = 120
_UNDERLINE = re.compile(r"([=~*#-])\1{2,}$")


def read(body: bytes, name: str, content_type: str) -> Document:
    """The text of the file."""
    text = doc_assemble.decoded(body, content_type)
    return doc_assemble.document(doc_assemble.lines(text), name, len(body), About(_title(text)))


def _title(text: str) -> str:
    """The first line, if an empty one or an underline follows it; empty if the text just begins."""
    first, second, *_ = (*map(line, text.lstrip()[:1000].split("\n", 2)), "", "")
    is_alone = not second or _UNDERLINE.fullmatch(second) is not None
    has_more = len(text.strip()) > len(first) + 5
    return first if first and is_alone and has_more and len(first) <= _MAX_TITLE_CHARS else ""
