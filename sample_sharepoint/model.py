"""What a SharePoint has: sites with lists, lists with columns and items, items in folders.

A library is a list whose items are files and folders; a page is a file with columns that hold its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

LIST, LIBRARY, SITE_PAGES = 100, 101, 119


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list."""

    name: str
    """Internal name."""
    title: str
    type: str = "Text"
    is_hidden: bool = False
    is_selected_by_star: bool = True
    """Some columns come only if they are named in `$select`."""


@dataclass(slots=True, eq=False)
class Item:
    """A row of a list, a file or a folder."""

    id: int
    unique_id: str
    name: str
    created: datetime
    modified: datetime
    content: bytes | None = None
    """Of a file."""
    values: dict[str, Any] = field(default_factory=dict)
    """Cells by internal name; lookups and persons are `Reference`s."""
    parent: Item | None = None
    children: dict[str, Item] | None = None
    """Of a folder: by name in lower case."""
    version: int = 1
    is_locked: bool = False
    changed_at: int = 0
    """The number of the last change, for Graph's delta."""

    @property
    def is_folder(self) -> bool:
        return self.children is not None

    @property
    def path(self) -> str:
        """The server-relative URL, not encoded."""
        return f"{self.parent.path}/{self.name}" if self.parent else self.name

    @property
    def etag(self) -> str:
        return f'"{{{self.unique_id.upper()}}},{self.version}"'

    def below(self) -> Iterator[Item]:
        """Return everything in this folder, at any depth."""
        for child in (self.children or {}).values():
            yield child
            yield from child.below()


@dataclass(frozen=True, slots=True)
class Reference:
    """What a lookup or a person column holds."""

    id: int
    title: str


@dataclass(slots=True, eq=False)
class ItemList:
    """A list, a library or the pages of a site."""

    site: Site
    guid: str
    title: str
    template: int
    root: Item
    columns: list[Column]
    items: dict[int, Item] = field(default_factory=dict)
    next_id: int = 1
    removed: list[tuple[int, Item]] = field(default_factory=list)
    """Items that were deleted, with the number of that change."""
    is_over_threshold: bool = False
    """Refuse every filter, as SharePoint does for a column without an index in a list of more than 5,000 items."""

    @property
    def drive_id(self) -> str:
        return f"b!{self.guid}"

    def sorted_items(self) -> list[Item]:
        """Return the items by id, which is how SharePoint pages them."""
        return [self.items[number] for number in sorted(self.items)]

    def column(self, name: str) -> Column | None:
        return next((one for one in self.columns if one.name == name), None)


@dataclass(slots=True, eq=False)
class Site:
    """A site with its lists."""

    path: str
    """Such as `/sites/demo`."""
    guid: str
    title: str
    lists: list[ItemList] = field(default_factory=list)
    death: int = 0
    """Answer everything with this status."""
