"""Count what a source has that cannot be searched: columns, web parts and types of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.sources.sharepoint.remote_items import ListColumn


@dataclass(slots=True)
class Coverage:
    """What a source has that cannot be searched."""

    columns: dict[str, int] = field(default_factory=dict)
    """Columns of a list that are not in its Markdown, with how many rows have a value there."""
    web_parts: dict[str, int] = field(default_factory=dict)
    """Web parts of pages without text of their own."""
    file_types: dict[str, int] = field(default_factory=dict)


ATTACHMENTS_TYPE = "Attachments"
NO_TYPE = "(none)"
MOST_NAMES = 200
"""Distinct names that are counted of each kind; the rest is counted as one."""
OTHERS = "(others)"
_NOTHING = frozenset(("", "0", "false", "no"))


def unread_columns(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Return the columns whose content is not in the Markdown: the files that are attached to rows."""
    return tuple(one for one in columns if one.type == ATTACHMENTS_TYPE)


def count_columns(coverage: Coverage, unread: Sequence[ListColumn], values: Mapping[str, str]) -> None:
    for column in unread:
        if values.get(column.name, "").strip().casefold() not in _NOTHING:
            _count(coverage.columns, column.title or column.name)


def count_web_parts(coverage: Coverage, web_parts: Mapping[str, int]) -> None:
    for name, count in web_parts.items():
        _count(coverage.web_parts, name, count)


def count_file_type(coverage: Coverage, file_type: str) -> None:
    _count(coverage.file_types, file_type or NO_TYPE)


def coverage_text(coverage: Coverage) -> str:
    """Return what is not searchable in one line, most frequent first; empty if everything is."""
    parts = (
        ("file types", coverage.file_types),
        ("columns", coverage.columns),
        ("web parts", coverage.web_parts),
    )
    return "; ".join(f"{label}: {_ranked(counts)}" for label, counts in parts if counts)


def _ranked(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} ({count:,})" for name, count in ranked)


def _count(counts: dict[str, int], name: str, count: int = 1) -> None:
    known = name if name in counts or len(counts) < MOST_NAMES else OTHERS
    counts[known] = counts.get(known, 0) + count
