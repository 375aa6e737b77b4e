"""What a source has and nobody can search for."""

from __future__ import annotations

from core.sources.sharepoint.coverage import (
    MOST_NAMES,
    Coverage,
    count_columns,
    count_file_type,
    count_web_parts,
    coverage_text,
    unread_columns,
)
from core.sources.sharepoint.remote_items import ListColumn

COLUMNS = [
    ListColumn("Title", "Task", "Text"),
    ListColumn("LinkTitle", "Task", "Computed"),
    ListColumn("Attachments", "Attachments", "Attachments"),
]


def test_columns_are_counted_where_they_hold_something() -> None:
    """Attached files count per row that has some; what only repeats the title does not."""
    coverage, unread = Coverage(), unread_columns(COLUMNS)
    for values in ({"Attachments": "Yes", "LinkTitle": "a"}, {"Attachments": "No"}, {"LinkTitle": "b"}):
        count_columns(coverage, unread, values)

    assert coverage.columns == {"Attachments": 1}


def test_text_names_the_most_frequent_first() -> None:
    """One line says what is not searchable; nothing if everything is."""
    coverage = Coverage()
    assert coverage_text(coverage) == ""
    for file_type in ("jpg", "zip", "jpg", ""):
        count_file_type(coverage, file_type)
    count_web_parts(coverage, {"Events": 2})

    assert coverage_text(coverage) == "file types: jpg (2), (none) (1), zip (1); web parts: Events (2)"


def test_names_are_bounded() -> None:
    """A thousand made-up types do not make a thousand entries, and every file is counted."""
    coverage = Coverage()
    for number in range(1000):
        count_file_type(coverage, f"t{number}")

    assert len(coverage.file_types) == MOST_NAMES + 1
    assert sum(coverage.file_types.values()) == 1000
