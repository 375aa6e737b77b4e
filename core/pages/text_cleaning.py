"""Text made fit to store, measured and cut. Knows nothing of HTML."""

from __future__ import annotations

import hashlib
import re
import unicodedata

# Controls but tab and line feed, lone surrogates, non-characters: nobody wants them, and some clients choke on them.
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Windows-1252 punctuation written as C1 control characters, as old editors did.
_C1 = {code: bytes((code,)).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_C1_CHAR = re.compile("[\x80-\x9f]")
# Invisible marks that split words for search: soft hyphen, zero-width space and no-break space, word joiner.
_INVISIBLE = re.compile("[\xad\u200b\u2060\ufeff]")


def strip_unstorable(text: str) -> str:
    """The text without what cannot be stored; carriage returns and form feeds become spaces."""
    if text.replace("\n", "").isprintable():
        return text
    if "\r" in text or "\f" in text:
        text = text.replace("\r", " ").replace("\f", " ")
    text = _UNSTORABLE.sub("", text)
    return text if text.isascii() or not _C1_CHAR.search(text) else text.translate(_C1)


def strip_invisible(text: str) -> str:
    """The text without marks that nobody sees."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def collapse_whitespace(text: str) -> str:
    """One line: every run of whitespace becomes a space, invisible marks go."""
    return " ".join(strip_invisible(text).split())


def truncate(text: str, limit: int) -> str:
    """At most `limit` characters, ending with a whole word where there is one, and an ellipsis where something went."""
    if len(text) <= limit:
        return text
    head, space, _ = text[:limit].rpartition(" ")
    return (head if space and len(head) > limit // 2 else text[: limit - 1]).rstrip(" ,;:–-") + "…"


def content_hash(text: str) -> str:
    """sha256 over the NFC form with whitespace collapsed: equal for equal words (trap T61)."""
    normal = text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)
    words = normal.strip().replace("\n\n", " ").replace("\n", " ")
    if "  " in words or "\t" in words:  # blocks are lines already, only code has runs of spaces
        words = " ".join(words.split())
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()
