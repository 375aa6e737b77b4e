"""Make text fit to store and safe to print; measure it and cut it. Knows nothing of HTML.

Text that others wrote (titles, file names, URLs) may hold escape sequences, bells and overrides of the writing
direction. On its way to a terminal, a log or a file they are written out as `\\u001b`, which is also how JSON writes
them, so that JSON stays JSON.
"""

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
_INVISIBLE = "\xad\u200b\u2060\ufeff"
# Controls but for tab and line feed, DEL and C1, line separators, bidi embeddings, overrides and isolates, lone
# surrogates (bytes of a file name that are no UTF-8).
_DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]")
_BREAKS = re.compile("[\t\n\x0b-\r\x1c-\x1e\x85\u2028\u2029]+")
_NOT_LETTERS = re.compile(r"\W+|_")


def strip_unstorable(text: str) -> str:
    """Remove what cannot be stored; carriage returns and form feeds become spaces."""
    if text.replace("\n", "").isprintable():
        return text
    if "\r" in text or "\f" in text:
        text = text.replace("\r", " ").replace("\f", " ")
    text = _UNSTORABLE.sub("", text)
    return text if text.isascii() or not _C1_CHAR.search(text) else text.translate(_C1)


def strip_invisible(text: str) -> str:
    """Remove invisible marks."""
    if text.isascii():
        return text
    for mark in _INVISIBLE:  # four looks for one character take a fifth of the time of a pattern of four
        if mark in text:
            text = text.replace(mark, "")
    return text


def collapse_whitespace(text: str) -> str:
    """Return one line: every run of whitespace becomes a space, invisible marks go."""
    return " ".join(strip_invisible(text).split())


def bare_letters(text: str) -> str:
    """Return only letters and digits, caseless: what two spellings of one title share."""
    return _NOT_LETTERS.sub("", text).casefold()


def truncate(text: str, limit: int) -> str:
    """Cut to at most `limit` characters, at the end of a word where possible, with an ellipsis where something went."""
    if len(text) <= limit:
        return text
    head, space, _ = text[:limit].rpartition(" ")
    return (head if space and len(head) > limit // 2 else text[: limit - 1]).rstrip(" ,;:–-") + "…"


def content_hash(text: str) -> str:
    """Return the sha256 of the NFC form with whitespace collapsed: equal for equal words."""
    normal = text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)
    words = normal.strip().replace("\n\n", " ").replace("\n", " ")
    if "  " in words or "\t" in words:  # blocks are lines already, only code has runs of spaces
        words = " ".join(words.split())
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()


def printable(text: str) -> str:
    """Write out every character that a terminal would act on; line feeds and tabs stay."""
    return _DANGEROUS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable_line(text: str) -> str:
    """Do the same without line feeds and tabs, for a name in a table or a list."""
    return printable(_BREAKS.sub(" ", text))
