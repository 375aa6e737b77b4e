"""All sites of a SharePoint, and every change to them.

Ids and times are counted, never drawn or read from a clock, so that two servers that were told the same are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sample_sharepoint.model import Column, Item, ItemList, Site

FIRST_TIME = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
TICK = timedelta(minutes=1)
GUIDS = uuid.UUID("6e0d8e9c-3f1b-4b0e-9d5a-0f2b5a1c7d10")


class Tenant:
    """All sites, and every change to them."""

    def __init__(self) -> None:
        self.sites: dict[str, Site] = {}
        self.now = FIRST_TIME
        self.changes = 0
        self._guids = 0
        self._by_id: dict[str, tuple[ItemList, Item]] = {}

    def guid(self) -> str:
        """Return the next id; the same at each run."""
        self._guids += 1
        return str(uuid.uuid5(GUIDS, str(self._guids)))

    def tick(self) -> datetime:
        """Let a minute pass, and return the time."""
        self.now += TICK
        return self.now

    def add_site(self, path: str, title: str = "") -> Site:
        site = Site(path, self.guid(), title or path.rpartition("/")[2])
        self.sites[path.lower()] = site
        return site

    def add_list(self, site: Site, title: str, path: str, template: int, columns: list[Column]) -> ItemList:
        """Add a list at this path below the site; a library's title may differ from it."""
        root = Item(0, self.guid(), f"{site.path}/{path}", self.now, self.now, children={})
        found = ItemList(site, self.guid(), title, template, root, columns)
        site.lists.append(found)
        self._by_id[root.unique_id] = found, root
        return found

    # ── items ──

    def add_row(self, where: ItemList, values: dict[str, Any], modified: datetime | None = None) -> Item:
        """Add a row to a list."""
        item = Item(0, self.guid(), "", self.tick(), modified or self.now, values=values)
        item = self._register(where, item)
        item.name, item.parent = f"{item.id}_.000", where.root
        return item

    def add_file(
        self, where: ItemList, path: str, content: bytes, modified: datetime | None = None, **values: Any
    ) -> Item:
        """Add a file at this path below the library's root; its folders are made."""
        folder, name = self.folder(where, path.rpartition("/")[0]), path.rpartition("/")[2]
        if name.lower() in (folder.children or {}):
            raise ValueError(f"{folder.path}/{name} is there already")
        item = Item(0, self.guid(), name, self.tick(), modified or self.now, content=content, values=values)
        self.attach(item, folder, name)
        return self._register(where, item)

    def folder(self, where: ItemList, path: str) -> Item:
        """Return the folder at this path below the library's root; it is made if it is missing."""
        folder = where.root
        for name in filter(None, path.split("/")):
            child = (folder.children or {}).get(name.lower())
            if child is None:
                child = Item(0, self.guid(), name, self.tick(), self.now, children={})
                self.attach(child, folder, name)
                self._register(where, child)
            folder = child
        return folder

    def attach(self, item: Item, folder: Item, name: str) -> None:
        """Put an item into a folder by this name, out of the one it was in."""
        if item.parent and item.parent.children is not None:
            item.parent.children.pop(item.name.lower(), None)
        item.name, item.parent = name, folder
        assert folder.children is not None, f"{folder.path} is no folder"
        folder.children[name.lower()] = item

    def remove(self, where: ItemList, item: Item) -> None:
        """Delete an item, and all that is in it."""
        for one in [*item.below(), item]:
            where.items.pop(one.id, None)
            self._by_id.pop(one.unique_id, None)
            self.changes += 1
            where.removed.append((self.changes, one))
        if item.parent and item.parent.children is not None:
            item.parent.children.pop(item.name.lower(), None)

    def restore(self, where: ItemList, item: Item) -> None:
        """Bring a deleted item back as it was, with its ids and its old time."""
        assert item.parent is not None, "only what was in a folder can come back"
        self.attach(item, item.parent, item.name)
        where.items[item.id] = item
        self._by_id[item.unique_id] = where, item
        self.touch(item)

    def touch(self, item: Item) -> None:
        """Note that the item changed, for Graph's delta."""
        self.changes += 1
        item.changed_at = self.changes

    def _register(self, where: ItemList, item: Item) -> Item:
        item.id, where.next_id = where.next_id, where.next_id + 1
        where.items[item.id] = item
        self._by_id[item.unique_id] = where, item
        self.touch(item)
        return item

    # ── looking up ──

    def all_lists(self) -> Iterator[ItemList]:
        for site in self.sites.values():
            yield from site.lists

    def find_path(self, path: str) -> tuple[ItemList, Item] | None:
        """Return the item at this server-relative path, which is compared without case."""
        wanted = path.rstrip("/").lower()
        for where in self.all_lists():
            root = where.root.path.lower()
            if wanted == root:
                return where, where.root
            if wanted.startswith(root + "/"):
                item: Item | None = where.root
                for name in wanted.removeprefix(root + "/").split("/"):
                    item = (item.children or {}).get(name) if item else None
                return (where, item) if item else None
        return None

    def find_id(self, unique_id: str) -> tuple[ItemList, Item] | None:
        """Return the item with this unique id."""
        return self._by_id.get(unique_id.lower().strip("{}"))
