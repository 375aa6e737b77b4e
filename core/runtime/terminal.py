"""Print for people and programs: the only way to standard output and standard error."""

from __future__ import annotations

import sys
from typing import TextIO

from core.pages.text_cleaning import printable


class Styled(str):
    """Text that was made printable, with escape sequences of our own in it."""

    __slots__ = ()


def bold(text: str) -> str:
    """Return the text in bold, for a `Styled` line."""
    return f"\033[1m{printable(text)}\033[0m"


def echo(*values: object, sep: str = " ", file: TextIO | None = None, flush: bool = False) -> None:
    """Print the values; control characters in them are escaped."""
    text = sep.join(value if isinstance(value, Styled) else printable(str(value)) for value in values)
    print(text, file=file or sys.stdout, flush=flush)
