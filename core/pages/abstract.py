"""Choose the abstract of an article."""

from __future__ import annotations

from core.pages.boilerplate import is_byline
from core.pages.text_blocks import TextBlock, TextBlockKind
from core.pages.text_cleaning import truncate

ABSTRACT_CHARS = 500
_MIN_PARAGRAPH_CHARS = 40


def choose_abstract(blocks: list[TextBlock], description: str, text: str) -> str:
    """Return the first real paragraph, else the page's own description, else the beginning of its text."""
    paragraphs = (block.text for block in blocks if block.kind is TextBlockKind.PARAGRAPH)
    first = next((p for p in paragraphs if len(p) > _MIN_PARAGRAPH_CHARS and not is_byline(p)), "")
    return truncate(first or description or " ".join(text[: 2 * ABSTRACT_CHARS].split()), ABSTRACT_CHARS)
