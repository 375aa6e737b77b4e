"""Text that others wrote, on its way to a terminal, a log or a file: it can neither move a cursor nor pretend to be us.

Titles, file names, categories and URLs may hold escape sequences (ESC, C1 controls), bells and overrides of the
writing direction. They are written out as `\\u001b`, which is also how JSON writes them, so that JSON stays JSON.
"""

from __future__ import annotations

import re

# Controls but for tab and line feed, DEL and C1, line separators, bidi embeddings, overrides and isolates, lone
# surrogates (bytes of a file name that are no UTF-8).
_DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]")
_BREAKS = re.compile("[\t\n\x0b-\r\x1c-\x1e\x85\u2028\u2029]+")


def printable(text: str) -> str:
    """The text with every character that a terminal would act on written out; line feeds and tabs stay."""
    return _DANGEROUS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable_line(text: str) -> str:
    """The same without line feeds and tabs: a name in a table or a list makes no lines of its own."""
    return printable(_BREAKS.sub(" ", text))
