"""Turn the JSON of a file, a list item or a page into a row of `sharepoint_map.csv` and its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.odata import MOST_TEXT_CHARS, Entity, text_of
from core.sources.sharepoint.remote_items import ListColumn, RemoteItem, SharePointUnavailable
from core.sources.sharepoint.time_stamps import timestamp_of, timestamp_text, utc_text

FOLDER = 1
MOST_BYTES = 1 << 50
_GUID = re.compile(r"\{?([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\}?")
_OLD_DATE = re.compile(r"/Date\((-?\d{1,15})[^)]*\)/")
_PAGE_TEXTS = ("CanvasContent1", "LayoutWebpartsContent", "WikiField")


def read_file(entity: Entity, origin: str) -> RemoteItem | None:
    """Return a file of a library; None for a folder."""
    if _is_folder(entity):
        return None
    return RemoteItem(_file_row(entity, origin))


def read_site_page(entity: Entity, origin: str) -> RemoteItem | None:
    """Return a page with all its plain values; None for a folder."""
    if _is_folder(entity):
        return None
    values = {name: text_of(value) for name, value in entity.items() if isinstance(value, str | int | float)}
    row = _file_row(entity, origin, size_if_unknown=sum(len(values.get(name, "").encode()) for name in _PAGE_TEXTS))
    return RemoteItem(row, values)


def read_list_item(entity: Entity, columns: Sequence[ListColumn], origin: str, list_root: str) -> RemoteItem | None:
    """Return an item of a list with the cells of these columns; None for a folder.

    Its size is left empty: it is that of the text that is made of it.
    """
    if _is_folder(entity):
        return None
    item_id = _item_id(entity)
    if not item_id:
        raise _unreadable("an item of the list has no ID")
    modified = _moment(entity.get("Modified"), f"item {item_id}")
    # The form that shows one item; it is the address that people can open.
    path = f"{list_root}/DispForm.aspx"
    row = SharePointRow(
        sharepoint_listitem_id=item_id,
        sharepoint_unique_file_id=_unique_id(entity.get("GUID") or entity.get("UniqueId")) or f"item-{item_id}",
        filename=f"{item_id}.md",
        file_type="md",
        url=f"{origin}{quote(path)}?ID={item_id}",
        raw_url=f"{origin}{path}?ID={item_id}",
        server_relative_url=f"{path}?ID={item_id}",
        last_modified_utc=utc_text(modified),
        last_modified_timestamp=timestamp_text(modified),
    )
    return RemoteItem(row, {column.name: _cell(entity, column.name) for column in columns})


def _file_row(entity: Entity, origin: str, size_if_unknown: int | None = None) -> SharePointRow:
    file = _object(entity.get("File"))
    path = text_of(file.get("ServerRelativeUrl")) or text_of(entity.get("FileRef"))
    if not path.startswith("/") or len(path) > MOST_TEXT_CHARS:
        raise _unreadable("a file has no path")
    name = text_of(file.get("Name")) or text_of(entity.get("FileLeafRef")) or path.rpartition("/")[2]
    unique_id = _unique_id(file.get("UniqueId") or entity.get("UniqueId") or entity.get("GUID"))
    if not unique_id or len(name) > MOST_TEXT_CHARS:
        raise _unreadable(f"{path[:200]!r} has no UniqueId")
    size = file.get("Length", entity.get("File_x0020_Size", size_if_unknown))
    modified = _moment(file.get("TimeLastModified") or entity.get("Modified"), repr(path[:200]))
    stem, dot, extension = name.rpartition(".")
    return SharePointRow(
        sharepoint_listitem_id=_item_id(entity),
        sharepoint_unique_file_id=unique_id,
        filename=name,
        file_type=extension.lower() if dot and stem else "",
        file_size=str(_size(size, path)),
        url=f"{origin}{quote(path)}",
        raw_url=f"{origin}{path}",
        server_relative_url=path,
        last_modified_utc=utc_text(modified),
        last_modified_timestamp=timestamp_text(modified),
    )


def _is_folder(entity: Entity) -> bool:
    kind = entity.get("FSObjType", entity.get("FileSystemObjectType"))
    if kind is None and text_of(entity.get("ContentTypeId")).startswith("0x0120"):
        return True
    return text_of(kind) == str(FOLDER)


def _object(value: object) -> Entity:
    """Return an expanded object; one that the server left out is empty."""
    return value if isinstance(value, dict) and "__deferred" not in value else {}


def _item_id(entity: Entity) -> str:
    number = text_of(entity.get("ID", entity.get("Id")))
    return number if number.isascii() and number.isdigit() and len(number) <= 19 else ""


def _unique_id(value: object) -> str:
    text = text_of(value).strip()
    found = _GUID.fullmatch(text)
    if found:
        return found[1].lower()
    return text if text.isprintable() and len(text) <= 200 else ""


def _size(value: object, path: str) -> int:
    text = text_of(value)
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > MOST_BYTES:
        raise _unreadable(f"the size of {path[:200]!r} is {text[:40]!r}")
    return int(text)


def _moment(value: object, whose: str) -> float:
    """Return a time in seconds since 1970, UTC; SharePoint writes `2024-01-15T10:30:00Z`, or the old form of JSON."""
    text = text_of(value)
    old = _OLD_DATE.fullmatch(text)
    ts = int(old[1]) / 1000 if old else timestamp_of(text)
    try:
        if ts is not None and datetime.fromtimestamp(ts, UTC).year > 1:
            return ts
    except (ValueError, OverflowError, OSError):
        pass
    raise _unreadable(f"the time of {whose} is {text[:40]!r}")


def _cell(entity: Entity, name: str) -> str:
    """Return a cell as text. `FieldValuesAsText` writes each underscore of a name as `_x005f_`."""
    texts = _object(entity.get("FieldValuesAsText"))
    escaped = name.replace("_", "_x005f_")
    for spelling in (name, f"OData_{escaped}", escaped, f"OData_{name}"):
        if spelling in texts:
            return text_of(texts[spelling])
    for spelling in (name, f"OData_{name}"):
        if spelling in entity:
            return text_of(entity[spelling])
    return ""


def _unreadable(what: str) -> SharePointUnavailable:
    return SharePointUnavailable(
        f"The listing has a row that cannot be read: {what}. Nothing was removed; tell the owner of the site, or leave "
        "the item out by `filter`."
    )
