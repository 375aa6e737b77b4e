"""Plain tables, counts and times for people."""

from __future__ import annotations

from collections.abc import Sequence

from core.pages.text_cleaning import printable_line
from core.registry.io.item_forgetter import ForgetCounts


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with columns as wide as their widest cell, the last one free."""
    lines = [tuple(printable_line(str(cell)) for cell in line) for line in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def counted(count: int, noun: str) -> str:
    """Return `1 item`, `2 items`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def removal_summary(counts: ForgetCounts) -> str:
    """Return how much was removed, or would be, as a sentence."""
    nouns = {
        "source": counts.sources,
        "item": counts.items,
        "text": counts.texts,
        "image": counts.images,
        "article": counts.articles,
        "alias": counts.aliases,
        "link": counts.links,
        "run": counts.runs,
    }
    removed = ", ".join(counted(count, noun) for noun, count in nouns.items() if count) or "nothing"
    if not counts.kept:
        return f"{removed}."
    pronoun = "it" if counts.kept == 1 else "them"
    return f"{removed}; {counted(counts.kept, 'item')} kept, because other sources list {pronoun}."


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: `3h 20m`."""
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
    """Return how long ago, or a dash for never."""
    return f"{span(now - stamp)} ago" if stamp else "–"


def ahead(stamp: float, now: float) -> str:
    """Return how far ahead."""
    if stamp == float("inf"):
        return "never"
    return f"in {span(stamp - now)}" if stamp > now else "now"
