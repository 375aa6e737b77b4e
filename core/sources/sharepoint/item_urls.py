"""The URL and the version of an item, made of what `files_map.csv` has; whose URL one is; how a copy is to be read."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import parse_qs, quote, unquote, urlsplit

from core.pages.documents.file_type import CODE_TYPE, MEDIA_TYPES
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.odata import origin_of
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource

_FORM = "/dispform.aspx"
_MEDIA_TYPES = {
    **MEDIA_TYPES,
    **dict.fromkeys(
        ("c", "cpp", "cs", "css", "go", "java", "js", "json", "php", "py", "rb", "sh", "tex", "ts"), CODE_TYPE
    ),
    "doc": "application/msword",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}


def item_url(site_url: str, source_type: SharePointType, server_relative_url: str) -> str:
    """Return the encoded URL that people open, as `sharepoint_map.csv` has it."""
    path, query = server_relative_url, ""
    if source_type is SharePointType.LISTS:
        path, mark, item = server_relative_url.rpartition("?")
        query = f"{mark}{item}"
    return f"{origin_of(site_url)}{quote(path)}{query}"


def is_of(stored: StoredSource, url: str, list_root: str = "") -> bool:
    """Return whether it is the URL of something in the library or list of a source.

    `list_root`: where the list is, if known.
    """
    try:
        parts = urlsplit(url)
        is_same_server = origin_of(url) == origin_of(stored.site_url)
        path = unquote(parts.path, errors="strict").casefold()
    except ValueError:
        return False
    if not is_same_server:
        return False
    if stored.source_type is not SharePointType.LISTS:
        return path.startswith(f"{stored.root_url.rstrip('/')}/".casefold())
    item_id = parse_qs(parts.query).get("ID", [""])[0]
    root = f"{stored.root_url.rstrip('/')}/".casefold()
    is_form = path.startswith(root) and path.endswith(_FORM) and item_id.isdecimal()
    return is_form and (not list_root or path == f"{list_root}{_FORM}".casefold())


def list_root(server_relative_url: str) -> str:
    """Return where a list is whose item has this path; empty for what is no item of a list."""
    path = server_relative_url.rpartition("?")[0]
    return path[: -len(_FORM)] if path.casefold().endswith(_FORM) else ""


def server_relative_of(url: str, source_type: SharePointType) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    return f"{path}?{parts.query}" if source_type is SharePointType.LISTS else path


def ending_of(url: str) -> str:
    return PurePosixPath(unquote(urlsplit(url).path)).suffix.removeprefix(".").lower()


def media_type(path: str) -> str:
    """Return how a local copy is to be read, by its ending."""
    return _MEDIA_TYPES.get(PurePosixPath(path).suffix.removeprefix(".").lower(), "application/octet-stream")


def version_of(row: FileRow) -> str:
    """Return the version that the listing of an item gives.

    With the time of the download: what failed before is read as soon as its file is there.
    """
    return "|".join((row.last_modified_utc, row.file_size, row.sharepoint_unique_file_id, row.downloaded_utc))


def unique_id_of(version: str) -> str:
    """Return SharePoint's id of an item with this version; empty if another kind of source listed it."""
    parts = version.split("|")
    return parts[2] if len(parts) == 4 else ""
