"""Collect the log lines of runs: what the task of a run logs, and the tasks that it starts, and runs within it."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from core.pages.text_cleaning import printable_line

MOST_LINES = 200
LINE_CHARS = 500


class LogLines:
    """The last lines that nobody has taken yet."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def add(self, line: str) -> None:
        """Add a line, cut to what is kept of it."""
        self._lines.append(line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…")

    def take(self) -> list[str]:
        """Return the lines and forget them."""
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def put_back(self, lines: Sequence[str]) -> None:
        """Keep lines after all, before those that came since."""
        later = list(self._lines)
        self._lines.clear()
        self._lines.extend([*lines, *later])


_current: ContextVar[tuple[LogLines, ...]] = ContextVar("log_lines", default=())
"""Of the run that the task works on, and of the runs that this one is a part of."""


@contextlib.contextmanager
def capture(lines: LogLines) -> Iterator[None]:
    """Collect what this task logs meanwhile, and the tasks that it starts."""
    token = _current.set((*_current.get(), lines))
    try:
        yield
    finally:
        _current.reset(token)


class CaptureHandler(logging.Handler):
    """Adds each record to the lines of the run whose task logged it, and of the runs around that."""

    def emit(self, record: logging.LogRecord) -> None:
        """Format the record, if its task belongs to a run."""
        collected = _current.get()
        if not collected:
            return
        try:
            line = printable_line(self.format(record))
        except ValueError:
            self.handleError(record)
            return
        for lines in collected:
            lines.add(line)
