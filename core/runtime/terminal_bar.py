"""tqdm's bar, with names and reasons as they may be printed."""

from __future__ import annotations

from tqdm import tqdm

from core.pages.text_cleaning import printable_line


class TerminalBar(tqdm):  # type: ignore[type-arg] # not subscriptable at run time
    """Shows names and reasons as they may be printed."""

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        super().set_description(printable_line(desc or ""), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        super().set_postfix_str(printable_line(s), refresh)
