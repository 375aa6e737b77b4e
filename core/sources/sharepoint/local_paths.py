"""Map an item of SharePoint to its path on this disk: a function of its address alone, so that anybody can find a file.

Paths are relative to the crawler's folder. Two addresses never have one path, and no path leaves its source's folder.
`server_relative_url` is taken as SharePoint gives it, decoded already: `a%20b.txt` and `a b.txt` are two files.
Only the library's own root is compared without regard to case, as SharePoint does.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.value_class import value_class


@value_class
class DiskFile:
    path: PurePosixPath
    """Relative to the crawler's folder."""
    size: int
    modified_ns: int
    changed_ts: float
    """When it was put where it is."""
    is_regular: bool = True
    """Whether it is not a symlink, pipe or device."""


MOST_NAME_BYTES = 255
MOST_PATH_BYTES = 3_584
"""Linux takes 4,096 bytes; the rest is for the folder of all data. SharePoint's own limit is 400 characters."""

ORIGINALS = CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
EMBEDDED = CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER
FAILED = CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
SUBFOLDERS = (ORIGINALS, EMBEDDED, FAILED)

_KEPT_STEM_BYTES = 120
_MOST_EXTENSION_BYTES = 20
_SHORTENED = re.compile(r".*~[0-9a-f]{64}(\.[^.]*)?", re.DOTALL)
_PAGE, _PROCESSED_PAGE, _PROCESSED_OTHER = ".aspx", ".html", ".htm"
_UNSAFE_IN_TITLE = re.compile(r"[%/\\\x00-\x1f\x7f\ud800-\udfff]")


MapItem = SharePointRow | FileRow
"""What a path is made of."""


class PathRefused(ValueError):
    """An item's address cannot be a path on this disk; the message says why, for `sharepoint_error`."""


class LocalPaths:
    def __init__(
        self, domain_id: str, source_type: SharePointType, source_id: str, root_url: str, list_name: str = ""
    ) -> None:
        """`root_url` is the server-relative root of the library; `list_name` is the title of a list."""
        for name in (domain_id, source_id):
            _check_name(name)
        self.source_type = source_type
        self.folder = PurePosixPath(domain_id, source_type.folder, source_id)
        """The folder of the source, with its map files."""
        self._folder_bytes = len(str(self.folder / ORIGINALS).encode())
        self._root = f"/{root_url.strip('/')}/" if root_url.strip("/") else "/"
        self._list_file = f"{_title_as_name(list_name)}.csv"

    # ── from an item to its paths ──

    def original(self, row: MapItem) -> PurePosixPath:
        """Return where the download of a list or page is; of a library it is the file itself."""
        if self.source_type is SharePointType.FILES:
            return self.embedded(row)
        if self.source_type is SharePointType.LISTS:
            return self.folder / ORIGINALS / self._list_file
        parts = self._parts(row)
        return self._shortened(parts, row) if self.is_too_long(row) else self.folder.joinpath(ORIGINALS, *parts)

    def embedded(self, row: MapItem) -> PurePosixPath:
        """Return where the file that is embedded is. A path that is too long becomes a short one in `03_failed`."""
        return self._below(EMBEDDED, self._embedded_parts(row), row)

    def failed(self, row: MapItem) -> PurePosixPath:
        parts = self._embedded_parts(row)
        # A short name chosen in SharePoint must not be that of another item.
        is_like_shortened = len(parts) == 1 and _SHORTENED.fullmatch(parts[0])
        return self._shortened(parts, row) if is_like_shortened else self._below(FAILED, parts, row)

    def downloaded(self, row: MapItem) -> PurePosixPath:
        return self.original(row) if self.source_type.is_processed else self.embedded(row)

    def is_too_long(self, row: MapItem) -> bool:
        """Return whether a name or the path of the item is longer than a file system takes.

        If so, its content is in `03_failed`.
        """
        # No other path of the item is longer: the name in `02_embedded` has what was there, or more.
        return self._is_too_long(self._embedded_parts(row))

    def embedded_of_url(self, url: str) -> PurePosixPath | None:
        """Return the path in `02_embedded` of an item's encoded URL; None if it is not of this source."""
        item = self._item_of_url(url)
        return self.embedded(item) if item else None

    def failed_of_url(self, url: str) -> PurePosixPath | None:
        """Return the path in `03_failed` of an item's encoded URL; None if it is not of this source."""
        item = self._item_of_url(url)
        return self.failed(item) if item else None

    # ── map files ──

    def to_map(self, path: PurePosixPath) -> str:
        return "\\".join(path.parts)

    def from_map(self, text: str) -> PurePosixPath | None:
        """Return the path of a `file_relative_path`; None for text that names no file in this source's folders."""
        parts = text.split("\\")
        depth = len(self.folder.parts)
        if tuple(parts[:depth]) != self.folder.parts or len(parts) < depth + 2 or parts[depth] not in SUBFOLDERS:
            return None
        return None if any(_name_problem(part) for part in parts) else PurePosixPath(*parts)

    # ── parts ──

    def _parts(self, row: MapItem) -> tuple[str, ...]:
        url, root = row.server_relative_url, self._root
        if url[: len(root)].casefold() != root.casefold():
            raise PathRefused(f"{url!r} is not below {root!r}, the root of the library")
        parts = tuple(url[len(root) :].split("/"))
        for part in parts:
            _check_name(part)
        return parts

    def _embedded_parts(self, row: MapItem) -> tuple[str, ...]:
        if self.source_type is SharePointType.LISTS:
            number = row.sharepoint_listitem_id
            if not (number.isascii() and number.isdigit()):
                raise PathRefused(f"{number!r} is not the ID of a list item")
            return (f"{number}.md",)
        *folders, name = self._parts(row)
        if self.source_type is SharePointType.FILES:
            return (*folders, name)
        # `Home.aspx` and `Home` must not become one file: only what was a page becomes .html.
        processed = name[: -len(_PAGE)] + _PROCESSED_PAGE if name.endswith(_PAGE) else name + _PROCESSED_OTHER
        return (*folders, processed)

    def _below(self, subfolder: str, parts: tuple[str, ...], row: MapItem) -> PurePosixPath:
        return self._shortened(parts, row) if self._is_too_long(parts) else self.folder.joinpath(subfolder, *parts)

    def _is_too_long(self, parts: tuple[str, ...]) -> bool:
        sizes = [len(part.encode()) for part in parts]
        return max(sizes) > MOST_NAME_BYTES or self._folder_bytes + sum(sizes) + len(sizes) > MOST_PATH_BYTES

    def _shortened(self, parts: tuple[str, ...], row: MapItem) -> PurePosixPath:
        stem, dot, extension = parts[-1].rpartition(".")
        if not dot or not stem or len(extension.encode()) > _MOST_EXTENSION_BYTES:
            stem, extension = parts[-1], ""
        kept = stem.encode()[:_KEPT_STEM_BYTES].decode(errors="ignore")
        is_list = self.source_type is SharePointType.LISTS
        key = row.sharepoint_listitem_id if is_list else "/".join(self._parts(row))
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / FAILED / f"{kept}~{digest}{'.' + extension if extension else ''}"

    def _item_of_url(self, url: str) -> MapItem | None:
        try:
            parts = urlsplit(url)
            path, item_id = unquote(parts.path, errors="strict"), parse_qs(parts.query).get("ID", [""])[0]
            item = FileRow(server_relative_url=path, sharepoint_listitem_id=item_id)
            self._embedded_parts(item)
        except ValueError:
            return None
        return item


def _name_problem(name: str) -> str:
    """Return why a name cannot be one folder's or file's; empty if it can."""
    if name in ("", ".", ".."):
        return f"a part of the path is {name!r}"
    if set(name) & {"/", "\\", "\0"}:
        return "a name has a character that no file can have here"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "a name is not valid Unicode"
    return ""


def _check_name(name: str) -> None:
    if problem := _name_problem(name):
        raise PathRefused(f"{name!r} cannot be kept as a file: {problem}")


def _title_as_name(title: str) -> str:
    """Return the title of a list as the name of a file; there is one list in a source."""
    name = _UNSAFE_IN_TITLE.sub(lambda found: f"%{ord(found[0]):02X}", title)
    return name.encode()[:_KEPT_STEM_BYTES].decode(errors="ignore") or "list"
