"""Read the text of PDF files page by page with pypdf; drawings and scripts are never touched.

A page that cannot be read costs that page alone. pypdf limits what one stream may unpack to, the parse pool limits the
rest.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING

from core.errors import FailCode
from core.models import Document, Failed
from core.pages.documents.file_document import (
    FileProperties,
    build_file_document,
    paragraph_blocks,
    truncation_note,
)
from core.pages.extraction_result import unreadable
from core.pages.text_blocks import MAX_TEXT_CHARS
from core.pages.text_cleaning import collapse_whitespace, strip_unstorable

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES = 2_000
# What programs put where a title should be: `Microsoft Word - draft3.doc`, `untitled`, a path.
_NO_TITLE = re.compile(
    r"(?:microsoft\s+(?:word|powerpoint|excel)\b.*|untitled.*|(?:document|slide|presentation|title)\s*\d*|.*[\\/].*"
    r"|.*\.(?:docx?|pptx?|xlsx?|pdf|indd|qxd|tex|dvi|ps|odt|rtf|pages))",
    re.IGNORECASE,
)
_BROKEN = re.compile(r"([^\W\d_]{2,})[-\xad\u2010]\n[ \t]*([^\W\d_]+)[ \t]*")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
# After these a hyphen at the end of a line is more likely part of the word.
_PREFIXES = frozenset(("self", "well", "non", "ex", "co", "half", "high", "low", "long", "short", "so", "cross"))


def read_pdf(body: bytes, name: str) -> Document | Failed:
    """Return the file's text as a document, or why there is none."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            return unreadable("This PDF opens only with a password.")
        count = len(reader.pages)
    except DependencyError:
        return unreadable("This PDF is encrypted in a way that needs the package `cryptography`.")
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - on broken files it raises anything, its own errors and others
        return unreadable(f"This PDF is broken ({type(error).__name__}).")
    pages, read_pages = _pages(reader, min(count, MAX_PAGES))
    blocks = [block for page in _join_words(pages) for block in paragraph_blocks(page)]
    if not blocks:
        return Failed(FailCode.EMPTY, text=f"{_counted(count)}, and no text layer (a scan?).")
    if read_pages < count:
        blocks.append(truncation_note(f"Only {read_pages:,} of {_counted(count)} are kept."))
    return build_file_document(blocks, name, len(body), _properties(reader))


def _pages(reader: PdfReader, wanted: int) -> tuple[list[str], int]:
    """Return the text of the first pages, and how many could be read; stops once there is enough text."""
    texts: list[str] = []
    unread = chars = 0
    for number in range(wanted):
        try:
            texts.append(strip_unstorable(reader.pages[number].extract_text()))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one broken font or stream is no reason to lose the other pages
            texts.append("")
            unread += 1
        chars += len(texts[-1])
        if chars > MAX_TEXT_CHARS:
            break
    return texts, len(texts) - unread


def _join_words(pages: list[str]) -> Iterator[str]:
    """Yield the pages with words joined that the end of a line cut in two."""
    if not any("-\n" in page or "\xad\n" in page or "\u2010\n" in page for page in pages):
        yield from pages
        return
    known = Counter(word for page in pages for word in _WORD.findall(page.lower()))
    for page in pages:
        yield _BROKEN.sub(lambda match: _whole(match, known), page)


def _whole(match: re.Match[str], known: Counter[str]) -> str:
    """`exam-↵ple` is `example`; `well-↵known` is written so elsewhere, or begins like such a word."""
    left, right = match[1], match[2]
    if "\xad" in match[0]:
        return f"{left}{right}\n"
    if not right.islower() or not left[-1].islower():
        return f"{left}-{right}\n"  # `Anglo-↵Saxon`: the hyphen is the word's
    joined, hyphenated = f"{left}{right}".lower(), f"{left}-{right}".lower()
    has_hyphen = known[hyphenated] > known[joined] or (not known[joined] and left.lower() in _PREFIXES)
    return f"{left}-{right}\n" if has_hyphen else f"{left}{right}\n"


def _properties(reader: PdfReader) -> FileProperties:
    try:
        stated = reader.metadata
        values = (stated.title, stated.author, stated.subject) if stated else ("", "", "")
        title, author, subject = (collapse_whitespace(str(value or "")) for value in values)
    except Exception:  # noqa: BLE001 - metadata is no reason to lose the text
        return FileProperties()
    created = None
    with suppress(Exception):  # people write anything there
        moment = stated.creation_date if stated else None
        created = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() if moment else None
    return FileProperties("" if _NO_TITLE.fullmatch(title[:500]) else title, subject, author, created)


def _counted(count: int) -> str:
    return f"{count:,} page" if count == 1 else f"{count:,} pages"
