"""Plain tables and times for people."""

from __future__ import annotations

from collections.abc import Sequence

from core.pages.printable import printable_line


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell, the last one free."""
    lines = [tuple(printable_line(str(cell)) for cell in line) for line in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def span(seconds: float) -> str:
    """A length of time in its two largest units: `3h 20m`."""
    if seconds == float("inf"):
        return "never"
    left = int(abs(seconds))
    words: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not words):
            words.append(f"{count}{unit}")
    return " ".join(words[:2])


def ago(stamp: float, now: float) -> str:
    """How long ago, or a dash for never."""
    return f"{span(now - stamp)} ago" if stamp else "–"


def ahead(stamp: float, now: float) -> str:
    """How far ahead."""
    if stamp == float("inf"):
        return "never"
    return f"in {span(stamp - now)}" if stamp > now else "now"
