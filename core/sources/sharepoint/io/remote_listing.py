"""Read the whole listing of a SharePoint source into tables on the disk, before anything is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from core.sources.sharepoint.coverage import Coverage, count_columns, unread_columns
from core.sources.sharepoint.io.drive_listing import drive_listing
from core.sources.sharepoint.io.item_values import ItemValues
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.list_markdown import export_cells, exported_columns, row_markdown
from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.remote_items import ListColumn, RemoteItem, SharePointStopped
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource


@dataclass(slots=True)
class RemoteListing:
    """Use it as a context manager; complete only after `read` has returned."""

    source: StoredSource
    folder: Path
    coverage: Coverage = field(default_factory=Coverage)
    columns: tuple[ListColumn, ...] = ()
    """The columns of a list's export."""
    is_drive_asked: bool = False
    """Whether the last listing of a library's drive may be reused if Microsoft Graph reports no change."""
    _open: ExitStack = field(default_factory=ExitStack)
    rows: RowTable[SharePointRow] = field(init=False)
    values: ItemValues = field(init=False)

    def __enter__(self) -> Self:
        self.rows = self._open.enter_context(RowTable(self.folder, SharePointRow))
        self.values = self._open.enter_context(ItemValues(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    async def read(self, site: SharePointSite, should_stop: Callable[[], bool]) -> None:
        """Read the listing to its end. Raises SharePointUnavailable, SharePointStopped; then it is not complete."""
        unread: Sequence[ListColumn] = ()
        if self.source.source_type is SharePointType.LISTS:
            columns = await asyncio.to_thread(site.list_columns, self.source.list_name)
            self.columns, unread = exported_columns(columns), unread_columns(columns)
        pages = self._pages(site)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            if should_stop():
                raise SharePointStopped
            await asyncio.to_thread(self._add, page, unread)

    def _pages(self, site: SharePointSite) -> Iterator[list[RemoteItem]]:
        source = self.source
        if source.source_type is SharePointType.LISTS:
            return site.list_items(source.list_name, source.filter)
        if source.source_type is SharePointType.SITE_PAGES:
            return site.pages(source.sharepoint_url_part, source.filter)
        if source.drive_id and self.is_drive_asked:
            return drive_listing(site, source, self.folder)
        return site.library(source.sharepoint_url_part, source.filter)

    def _add(self, page: list[RemoteItem], unread: Sequence[ListColumn]) -> None:
        if not self.source.source_type.is_processed:
            self.rows.add_all(item.row for item in page)
            return
        self.rows.add_all(self._sized(item) for item in page)
        self.values.add_all(
            (item.row.sharepoint_unique_file_id, item.row.sharepoint_listitem_id, item.values) for item in page
        )
        for item in page:
            count_columns(self.coverage, unread, item.values)

    def _sized(self, item: RemoteItem) -> SharePointRow:
        """Return the row; the size of a list's row is that of its Markdown, which is what is embedded."""
        if self.source.source_type is not SharePointType.LISTS:
            return item.row
        cells = export_cells(self.columns, item.row.sharepoint_listitem_id, item.values)
        markdown = row_markdown([one.title for one in self.columns], cells)
        return replace(item.row, file_size=str(len(markdown.encode())))
