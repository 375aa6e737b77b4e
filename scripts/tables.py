"""Format plain tables, counts and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from core.pages.text_cleaning import printable_line
from core.registry.time_formatting import ago, ahead, span

if TYPE_CHECKING:  # every command prints a table, few of them remove anything
    from core.registry.io.item_forgetter import ForgetCounts

__all__ = ["ago", "ahead", "counted", "removal_summary", "span", "table"]


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
        "local file": counts.files,
    }
    removed = ", ".join(counted(count, noun) for noun, count in nouns.items() if count) or "nothing"
    if not counts.kept:
        return f"{removed}."
    pronoun = "it" if counts.kept == 1 else "them"
    return f"{removed}; {counted(counts.kept, 'item')} kept, because other sources list {pronoun}."


def removal_json(name: str, counts: ForgetCounts, *, dry_run: bool) -> dict[str, object]:
    """Return how much was removed, or would be, for programs."""
    told = asdict(counts) | {"comes_back_by": sorted(counts.comes_back_by)}
    return {"name": name, "dry_run": dry_run, **told}
