"""Turn a row of a SharePoint list into Markdown; equal cells give equal bytes, so an unchanged row stays unchanged.

The first column is the row's number, the second its heading. Every other column with a value is a line, or a section
of its own where the value has several lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from core.pages.text_cleaning import collapse_whitespace, strip_unstorable
from core.sources.sharepoint.remote_items import ListColumn

ID_COLUMN = ListColumn(name="ID", title="ID", type="Counter")
TITLE_NAME = "Title"
REPEATING_COLUMNS = frozenset(
    (
        *("Edit", "DocIcon", "SelectTitle", "SelectFilename", "LinkTitle", "LinkTitleNoMenu", "LinkTitle2"),
        *("LinkFilename", "LinkFilenameNoMenu", "LinkFilename2", "PermMask", "BaseName", "EncodedAbsUrl"),
    )
)
"""Columns that only show what another one holds, such as the title with a link, or a picture."""
# What every list has comes after what people added.
_BUILT_IN = frozenset(
    (
        *("ContentType", "Modified", "Created", "Author", "Editor", "_UIVersionString", "Attachments"),
        *("ItemChildCount", "FolderChildCount", "AppAuthor", "AppEditor", "_ComplianceFlags", "_ComplianceTag"),
        *("_ComplianceTagWrittenTime", "_ComplianceTagUserId", "_IsRecord", "ComplianceAssetId"),
    )
)


def exported_columns(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Return the columns of the export: the number, the title, those of the list itself, those of every list.

    Titles are made unique by the internal name: SharePoint lets two columns have the same title.
    """
    others = [one for one in columns if one.name != ID_COLUMN.name and one.name not in REPEATING_COLUMNS]
    others.sort(key=lambda one: (one.name != TITLE_NAME, one.name in _BUILT_IN))
    shared = Counter(one.title for one in (ID_COLUMN, *others))
    return (
        ID_COLUMN,
        *(
            ListColumn(one.name, f"{one.title} ({one.name})" if shared[one.title] > 1 else one.title, one.type)
            for one in others
        ),
    )


def export_cells(columns: Sequence[ListColumn], item_id: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return a row's cells in the order of the exported columns."""
    return (item_id, *(clean_value(values.get(one.name, "")) for one in columns[1:]))


def clean_value(value: str) -> str:
    """Return a value with plain line ends, without blanks at the end of lines and without control characters."""
    lines = strip_unstorable(value.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def row_markdown(titles: Sequence[str], cells: Sequence[str]) -> str:
    """Return a row as Markdown; `titles` and `cells` are those of the export."""
    item_id = cells[0]
    heading = collapse_whitespace(cells[1]) if len(cells) > 1 else ""
    # A heading of several lines is not the whole value: then it is a section as well.
    is_whole = len(cells) > 1 and "\n" not in cells[1]
    named = list(zip(titles, cells, strict=False))
    fields = [(title, value) for title, value in named[2 if is_whole else 1 :] if value.strip()]
    lines = [f"- **{_label(title)}:** {value.strip()}" for title, value in fields if "\n" not in value]
    sections = [f"## {_label(title)}\n\n{value}" for title, value in fields if "\n" in value]
    number = f"- **{_label(titles[0])}:** {item_id}"
    return "\n\n".join((f"# {heading or f'Item {item_id}'}", "\n".join((number, *lines)), *sections)) + "\n"


def _label(title: str) -> str:
    return collapse_whitespace(title).replace("*", "\\*")
