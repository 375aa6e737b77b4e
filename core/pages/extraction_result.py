"""The result of extracting a body, and the extractor's version; importing this loads no parser."""

from __future__ import annotations

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.value_class import value_class

EXTRACTOR_VERSION = "8"
"""Raise it when the same bytes give another text: stored pages are then read again."""


def unreadable(sentence: str) -> Failed:
    """Return the failure of a body that is none of the kinds that can be read."""
    return Failed(FailCode.PARSE, FailDetail.TYPE, sentence)


DATA_NOT_TEXT = unreadable("This is data (JSON), not a text.")
BINARY_DATA = unreadable("This is binary data, whatever its server says.")


@value_class
class Extraction:
    """What a visit learns from a body; the links also where there is no document, because a page of links leads on."""

    result: Document | Failed
    links: tuple[str, ...] = ()
    is_noindex: bool = False
    """The page asks robots not to keep it; the caller decides."""
