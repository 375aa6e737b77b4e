"""List items by status, source, domain or host, page by page, without reading their texts.

A page ends with a cursor. It stays valid while items come and go: what is there all the time comes at least once, what
comes or goes meanwhile may be in the list or not, as with Redis's own SCAN.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.errors import FreshetError
from core.keys import Keys
from core.registry import field_parsing, verification
from core.registry.record import Status, listing_sources
from core.registry.verification import Verification
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_ITEMS = 1_000
"""On one page of the list."""
MOST_READ = 10_000
"""Records that are read for one page. Where filters pass few of them, the page is short and its cursor goes on."""
_AT_ONCE = 500
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,20})\.((?:url|file)_[a-z2-7]{0,40})?")
_FIELDS = (
    *("status", "type", "displaySource", "fetchUrl", "sourceHost", "sources", "parentPageId", "errorMessage"),
    *("nextCrawlAt", "lastChanged", "language", "mimeType", "contentHash", "articleUid"),
    *verification.FIELDS,
)


class InvalidItemCursor(FreshetError):
    """A cursor is none of ours."""


@value_class
class ItemFilter:
    """What a list is limited to; empty: every item."""

    statuses: tuple[Status, ...] = ()
    sources: tuple[str, ...] = ()
    """Items of any of these sources; a domain is all of its sources."""
    host: str = ""
    with_images: bool = False


@value_class
class ListedItem:
    """An item without its text."""

    id: str
    status: str
    type: str
    url: str
    """Or the path."""
    host: str
    sources: tuple[str, ...]
    language: str
    mime_type: str
    article_uid: str
    parent_id: str
    """The page of an image; empty for everything else."""
    error: str
    next_check_at: str
    """ISO 8601; empty: not before a reindex."""
    changed_at: str
    verification: Verification


@value_class
class ItemListPage:
    """Some items, and where the list goes on."""

    items: tuple[ListedItem, ...]
    cursor: str
    """For the next page; empty: there are no more."""


@value_class
class _IdSet:
    """A key that holds ids of items."""

    key: str
    is_sorted: bool = False
    earlier: frozenset[str] = frozenset()
    """Sources that the list has been through: their items have come already."""


class ItemList:
    """Reads the list of items."""

    def __init__(self, client: Client, keys: Keys, partition_strategy: str = "host") -> None:
        self._client = client
        self._keys = keys
        self._strategy = partition_strategy

    async def page(self, wanted: ItemFilter, limit: int = 50, cursor: str = "") -> ItemListPage:
        """Return up to `limit` items after the cursor; fewer, also none, if a filter passes few of many."""
        limit = min(max(limit, 1), MOST_ITEMS)
        id_sets = self._id_sets(wanted)
        place, scan, after = _parse_cursor(cursor)
        found: list[ListedItem] = []
        read = 0
        while place < len(id_sets):
            next_scan, item_ids = await self._scan(id_sets[place], scan)
            item_ids = sorted(one for one in set(item_ids) if one > after)
            for start in range(0, len(item_ids), limit):  # ten items need not read five hundred records
                rows = await self._read(item_ids[start : start + limit])
                found += [row for row in rows if _passes(row, wanted, id_sets[place].earlier)]
                if len(found) >= limit:
                    return ItemListPage(tuple(found[:limit]), f"{place}.{scan}.{found[limit - 1].id}")
            read += len(item_ids)
            scan, after = next_scan, ""
            place += scan == 0
            if read >= MOST_READ and place < len(id_sets):
                return ItemListPage(tuple(found), f"{place}.{scan}.")
        return ItemListPage(tuple(found), "")

    def _id_sets(self, wanted: ItemFilter) -> list[_IdSet]:
        """Return the keys to go through: those of the filter that passes least."""
        if wanted.sources:
            return [
                _IdSet(self._keys.refs(sid), is_sorted=True, earlier=frozenset(wanted.sources[:place]))
                for place, sid in enumerate(wanted.sources)
            ]
        if wanted.host and self._strategy == "host":
            return [_IdSet(self._keys.partition(wanted.host.lower()))]
        return [_IdSet(self._keys.status(str(status))) for status in wanted.statuses or tuple(Status)]

    async def _scan(self, id_set: _IdSet, cursor: int) -> tuple[int, list[str]]:
        if id_set.is_sorted:
            next_cursor, rows = await self._client.zscan(id_set.key, cursor, count=_AT_ONCE)
            return int(next_cursor), [str(item_id) for item_id, _ in rows]
        next_cursor, members = await self._client.sscan(id_set.key, cursor, count=_AT_ONCE)
        return int(next_cursor), texts(members)

    async def _read(self, item_ids: Sequence[str]) -> list[ListedItem]:
        rows = await read_many(self._client, [("HMGET", self._keys.item(one), *_FIELDS) for one in item_ids])
        records = [(one, dict(zip(_FIELDS, row, strict=True))) for one, row in zip(item_ids, rows, strict=True)]
        return [_item(one, record) for one, record in records if record["status"] is not None]


def _item(item_id: str, record: dict[str, str | None]) -> ListedItem:
    text = {name: field_parsing.text(value) for name, value in record.items()}
    return ListedItem(
        id=item_id,
        status=text["status"],
        type=text["type"] or "url",
        url=text["displaySource"] or text["fetchUrl"],
        host=text["sourceHost"],
        sources=listing_sources(record["sources"]),
        language=text["language"],
        mime_type=text["mimeType"],
        article_uid=text["articleUid"],
        parent_id=text["parentPageId"],
        error=text["errorMessage"],
        next_check_at=text["nextCrawlAt"],
        changed_at=text["lastChanged"],
        verification=verification.parse(record),
    )


def _passes(item: ListedItem, wanted: ItemFilter, earlier: frozenset[str]) -> bool:
    if earlier.intersection(item.sources) or (item.parent_id and not wanted.with_images):
        return False
    if wanted.host and item.host != wanted.host.lower():
        return False
    return not wanted.statuses or item.status in wanted.statuses


def _parse_cursor(cursor: str) -> tuple[int, int, str]:
    if not cursor:
        return 0, 0, ""
    parts = _CURSOR.fullmatch(cursor)
    if parts is None or int(parts[2]) >= 2**64:
        raise InvalidItemCursor("This cursor is not one that a list has returned; leave it out to begin anew.")
    return int(parts[1]), int(parts[2]), parts[3] or ""
