"""The cells of an item: as values, as OData sends them, and as text.

`FieldValuesAsText` spells names in its own way: each underscore is `_x005f_`, so that `File_x0020_Size` is
`File_x005f_x0020_x005f_Size`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from sample_sharepoint.model import Column, Item, ItemList, Reference

SOMEBODY = Reference(7, "Ada Sample")


def time_text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def text_name(name: str) -> str:
    """Return a column's name as `FieldValuesAsText` has it."""
    return ("OData_" if name.startswith("_") else "") + name.replace("_", "_x005f_")


def odata_name(column: Column) -> str:
    """Return a column's name as items have it: references by their id, a leading underscore behind `OData_`."""
    name = f"OData_{column.name}" if column.name.startswith("_") else column.name
    return f"{name}Id" if column.type in ("User", "Lookup", "UserMulti", "LookupMulti") and _is_own(column) else name


def _is_own(column: Column) -> bool:
    """Is it a reference to another item? Some hidden columns of SharePoint only say they are."""
    return column.name not in ("UniqueId", "FSObjType", "FileRef", "FileDirRef", "File_x0020_Size") and (
        column.name != "SMTotalFileStreamSize"
    )


def raw_value(where: ItemList, item: Item, name: str, origin: str = "") -> Any:
    """Return the value of a column by its internal name; a `Reference`, a time, text, a number or a list of these."""
    if name in item.values:
        return item.values[name]
    if name == "EncodedAbsUrl":
        return origin + quote(item.path, safe="/!$&'()*+,;=:@~")
    find = _BUILT_IN.get(name)
    return find(item) if find else None


def _other_guid(unique_id: str) -> str:
    """An item's GUID is another than its unique id."""
    return f"{unique_id[:-4]}{int(unique_id[-4:], 16) ^ 0xFFFF:04x}"


def _size(item: Item) -> str | None:
    return None if item.content is None else str(len(item.content))


def _kind(item: Item, folder: str, file: str, row: str) -> str:
    return folder if item.is_folder else file if item.content is not None else row


_BUILT_IN: dict[str, Callable[[Item], Any]] = {
    "ID": lambda item: item.id,
    "Id": lambda item: item.id,
    "Modified": lambda item: item.modified,
    "Created": lambda item: item.created,
    "Author": lambda item: SOMEBODY,
    "Editor": lambda item: SOMEBODY,
    "_UIVersionString": lambda item: f"{item.version}.0",
    "owshiddenversion": lambda item: item.version,
    "GUID": lambda item: _other_guid(item.unique_id),
    "UniqueId": lambda item: item.unique_id,
    "FSObjType": lambda item: int(item.is_folder),
    "FileSystemObjectType": lambda item: int(item.is_folder),
    "ContentTypeId": lambda item: _kind(item, "0x0120", "0x0101", "0x01"),
    "ContentType": lambda item: _kind(item, "Folder", "Document", "Item"),
    "FileRef": lambda item: item.path,
    "FileLeafRef": lambda item: item.name,
    "FileDirRef": lambda item: item.parent.path if item.parent else "",
    "File_x0020_Size": _size,
    "SMTotalFileStreamSize": _size,
    "FileSizeDisplay": _size,
    "File_x0020_Type": lambda item: item.name.rpartition(".")[2] if "." in item.name else None,
    "LinkFilename": lambda item: item.name,
    "LinkTitle": lambda item: item.values.get("Title"),
    "Attachments": lambda item: False,
}


def odata_value(value: Any) -> Any:
    """Return a value as verbose JSON has it."""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Reference):
        return value.id
    if isinstance(value, list):
        kind = "Edm.Int32" if value and isinstance(value[0], Reference) else "Edm.String"
        return {"__metadata": {"type": f"Collection({kind})"}, "results": [odata_value(one) for one in value]}
    return value


def text_value(value: Any) -> str:
    """Return a value as people see it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, datetime):
        clock = f"{value.hour % 12 or 12}:{value.minute:02} {'AM' if value.hour < 12 else 'PM'}"
        return f"{value.month}/{value.day}/{value.year} {clock}"
    if isinstance(value, Reference):
        return value.title
    if isinstance(value, list):
        return ("; " if value and isinstance(value[0], Reference) else ", ").join(text_value(one) for one in value)
    if isinstance(value, dict):
        return f"{value.get('Url', '')}, {value.get('Description', '')}"
    return f"{value:,}" if isinstance(value, float) else str(value)
