"""Rows of a list as Markdown and as CSV."""

from __future__ import annotations

import io

import pytest

from core.sources.sharepoint.list_csv import ListExportDamaged, decode_export, encode_export
from core.sources.sharepoint.list_markdown import clean_value, export_cells, exported_columns, row_markdown
from core.sources.sharepoint.remote_items import ListColumn

COLUMNS = [
    ListColumn("Modified", "Modified", "DateTime"),
    ListColumn("ContentType", "Content Type", "Computed"),
    ListColumn("Status", "Status", "Choice"),
    ListColumn("Title", "Task", "Text"),
    ListColumn("LinkTitle", "Task", "Computed"),
    ListColumn("Body", "Notes", "Note"),
    ListColumn("Notes0", "Notes", "Note"),
    ListColumn("ID", "ID", "Counter"),
]
VALUES = {
    "Title": "Fix  the pump",
    "Status": "Active",
    "Body": "First line  \r\n\r\nSecond *line*\r\n",
    "Notes0": "",
    "LinkTitle": "Fix the pump",
}


def markdown(item_id: str = "12", **values: str) -> str:
    columns = exported_columns(COLUMNS)
    return row_markdown([one.title for one in columns], export_cells(columns, item_id, VALUES | values))


def test_row_becomes_markdown() -> None:
    """The title is the heading, one line a line, several lines a section; what is empty is left out."""
    assert markdown() == (
        "# Fix the pump\n\n- **ID:** 12\n- **Status:** Active\n\n## Notes (Body)\n\nFirst line\n\nSecond *line*\n"
    )


def test_markdown_is_deterministic() -> None:
    """Line ends, blanks at their end and the order of the values make no difference; a changed cell does."""
    assert markdown(Body="First line\n\nSecond *line*") == markdown()
    assert markdown(Status="Done") != markdown()


def test_row_without_title_has_its_number_as_heading() -> None:
    """A row always has a heading, and one of several lines is not cut."""
    assert markdown(Title=" ").startswith("# Item 12\n")
    assert markdown(Title="One\nTwo").startswith(
        "# One Two\n\n- **ID:** 12\n- **Status:** Active\n\n## Task\n\nOne\nTwo"
    )


def test_every_visible_column_is_exported() -> None:
    """Number, title, custom columns, then those that every list has; two columns of one title stay two."""
    titles = [one.title for one in exported_columns(COLUMNS)]

    assert titles == ["ID", "Task", "Status", "Notes (Body)", "Notes (Notes0)", "Modified", "Content Type"]


@pytest.mark.parametrize(
    "value",
    ["=1+1", "'=1", "+49 30", "-5", "@x", "a,b", 'q"q', "two\nlines", "x\ty", "", "Ünï 😀", "x" * 200_000, "'"],
)
def test_cells_are_read_back(value: str) -> None:
    """Whatever a cell holds is read back, and a spreadsheet executes none."""
    text = "".join(encode_export(("ID", "A"), [("1", value), ("2", "end")]))

    assert list(decode_export(io.StringIO(text, newline=""))) == [("ID", "A"), ("1", value), ("2", "end")]
    assert not any(line.startswith(('"1","=', '"1","+', '"1","@')) for line in text.splitlines())


@pytest.mark.parametrize("text", ["", '"ID","A"\n"1"\n', '"ID","A"\n"1","x'])
def test_damaged_export_is_refused(text: str) -> None:
    """An export that is cut or uneven is an error, not a shorter list."""
    with pytest.raises(ListExportDamaged):
        list(decode_export(io.StringIO(text, newline="")))


def test_control_characters_go() -> None:
    """What cannot be stored is left out of a value."""
    assert clean_value("a\x00b\x07\r\nc \n\n") == "ab\nc"
