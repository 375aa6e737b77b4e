"""A progress bar on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, Self

from core.pages.text_cleaning import printable_line


class Bar(Protocol):
    """What is done with a bar: those of tqdm, and the hidden one."""

    n: float
    total: float | None
    disable: bool | None

    def update(self, n: float = 1) -> bool | None: ...
    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None: ...
    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class _HiddenBar:
    """A bar that nobody sees. tqdm's own would cost a worker 10 ms at its start, for its modules and locks."""

    def __init__(self, total: int) -> None:
        self.disable: bool | None = True
        self.n = 0.0
        self.total: float | None = total

    def update(self, n: float = 1) -> None:
        self.n += n

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        pass

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def bar(total: int, what: str) -> Bar:
    """Return a bar that counts to `total`; hidden unless standard error is a terminal."""
    if not sys.stderr.isatty():
        return _HiddenBar(total)
    from core.runtime.terminal_bar import TerminalBar

    return TerminalBar(total=total, desc=printable_line(what), unit="", leave=False, dynamic_ncols=True)
