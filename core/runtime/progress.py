"""A progress bar on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from typing import NoReturn, TypeAlias

from tqdm import tqdm

from core.pages.text_cleaning import printable_line

Bar: TypeAlias = "tqdm[NoReturn]"


class _Bar(tqdm):  # type: ignore[type-arg] # not subscriptable at run time
    """Shows names and reasons as they may be printed."""

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        super().set_description(printable_line(desc or ""), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        super().set_postfix_str(printable_line(s), refresh)


def bar(total: int, what: str) -> Bar:
    """Return a bar that counts to `total`; hidden unless standard error is a terminal."""
    is_hidden = not sys.stderr.isatty()
    return _Bar(total=total, desc=printable_line(what), unit="", disable=is_hidden, leave=False, dynamic_ncols=True)
