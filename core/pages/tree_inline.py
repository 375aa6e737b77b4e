"""Read the words of an element of the extractor's tree; code inside a sentence keeps its place among them.

Such code is put between two control characters, which no parsed tree can hold, until it is known whether the words
become Markdown or plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from core.pages.text_blocks import escape_html
from core.pages.text_cleaning import collapse_whitespace

BLOCK_TAGS = frozenset(("p", "head", "list", "quote", "code", "table", "item", "row", "cell", "div", "ab"))
_CODE_BEGINS, _CODE_ENDS = "\x02", "\x03"
_CODE = re.compile(f"{_CODE_BEGINS}([^{_CODE_BEGINS}{_CODE_ENDS}]*){_CODE_ENDS}")


class BlockElement(Protocol):
    """An element of the extractor's tree: lxml's, or of `html_blocks`."""

    @property
    def tag(self) -> Any: ...
    @property
    def text(self) -> str | None: ...
    @property
    def tail(self) -> str | None: ...
    def get(self, name: str, /) -> str | None: ...
    def __iter__(self) -> Iterator[Any]: ...


def inline_text(element: BlockElement) -> str:
    """The element's text; `lb` becomes a line feed, inner blocks are set off by spaces, code by its two marks."""
    pieces = ["\n" if element.tag == "lb" else "", element.text or ""]
    for child in element:
        if child.tag == "code":
            pieces.append(inline_code(child))
        elif child.tag in BLOCK_TAGS:
            pieces += (" ", inline_text(child), " ")
        else:
            pieces.append(inline_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def inline_code(element: BlockElement) -> str:
    return f"{_CODE_BEGINS}{inline_text(element)}{_CODE_ENDS}"


def has_marks(text: str) -> bool:
    return _CODE_BEGINS in text or _CODE_ENDS in text


def without_marks(text: str) -> str:
    """Return the text as it stands, line feeds and all."""
    return text.replace(_CODE_BEGINS, "").replace(_CODE_ENDS, "") if has_marks(text) else text


def to_words(text: str) -> str:
    """Return the text as one line of plain text."""
    return collapse_whitespace(without_marks(text))


def to_markdown_and_words(text: str, escape_begin: Callable[[str], str]) -> tuple[str, str]:
    """Return the text as one line of Markdown and of plain text; `escape_begin` is for the words that stand first.

    Code becomes a span of code, unless the text has backticks of its own, which would end or begin spans elsewhere.
    """
    words = to_words(text)
    if _CODE_BEGINS not in text or "`" in text:
        return escape_begin(words), words
    pieces: list[str] = []
    # The split gives words and code in turns.
    for number, piece in enumerate(_CODE.split(collapse_whitespace(text))):
        if number % 2:
            code = piece.strip()
            pieces.append(f"`{code}`" if code else piece)
        else:
            between = without_marks(piece)
            pieces.append(escape_html(between) if pieces else escape_begin(between))
    return " ".join("".join(pieces).split(" ")), words
