"""The copies of a SharePoint source on this disk, as its download and process steps leave them, made by hand."""

from __future__ import annotations

import json
import os
from itertools import count
from typing import Any

from core.runs.run import RunKind
from core.runtime.context import Context
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.sources.sharepoint.io.map_files import rewrite
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.item_urls import item_url
from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.sharepoint.time_stamps import timestamp_text, utc_text
from core.store import connect

SITE = "https://contoso.sharepoint.com/sites/Demo"
DOMAIN = "DOMAIN01"
OLD = 1_700_000_000
_PLACES: dict[SharePointType, dict[str, str]] = {
    SharePointType.FILES: {"sharepoint_url_part": "/Shared Documents"},
    SharePointType.LISTS: {"list_name": "Project Tasks"},
    SharePointType.SITE_PAGES: {"sharepoint_url_part": "/SitePages"},
}


class LocalLibrary:
    """One source with verbs."""

    def __init__(
        self, context: Context, source_type: SharePointType = SharePointType.FILES, domain: str = DOMAIN
    ) -> None:
        self.context, self.source_type, self.domain = context, source_type, domain
        self.config = {"source_id": "docs", "site_url": SITE, **_PLACES[source_type]}
        self.stored = StoredSource.of(domain, "docs", source_type, self.config)
        self.storage = CrawlerStorage.of(context.settings)
        self.paths = LocalPaths(domain, source_type, "docs", self.stored.root_url, self.stored.list_name)
        self.sid = f"{domain}.docs"
        self.rows: dict[str, FileRow] = {}
        self._seconds = count(OLD)

    async def add(self, index: str = "redis") -> None:
        """Add its domain."""
        domain = parse_domain(json.dumps({"id": self.domain, "index": index, self.source_type: [self.config]}), "/")
        await add_domain(self.context.settings, self.context.client, self.context.keys, domain)

    async def source(self) -> Source:
        """Return it, opened."""
        return await OpenSources(self.context, await connect.now(self.context.client)).require(self.sid)

    def place(self, name: str) -> str:
        """Return the server-relative URL of a name; of a list the name is the item's ID."""
        if self.source_type is SharePointType.LISTS:
            return f"/sites/Demo/Lists/Project Tasks/DispForm.aspx?ID={name}"
        return f"{self.stored.root_url}/{name}"

    def url(self, name: str) -> str:
        """Return the URL that people open."""
        return item_url(SITE, self.source_type, self.place(name))

    def put(self, name: str, content: bytes | str, *, folder: str = "embedded", unique_id: str = "") -> FileRow:
        """Put a copy on the disk, and its row into the map."""
        body = content.encode() if isinstance(content, str) else content
        moment = next(self._seconds)
        row = FileRow(
            sharepoint_listitem_id=name if name.isdecimal() else "7",
            sharepoint_unique_file_id=unique_id or f"id-{name}",
            filename=name.rpartition("/")[2],
            file_type=name.rpartition(".")[2],
            server_relative_url=self.place(name),
            file_size=str(len(body)),
            last_modified_utc=utc_text(moment),
            last_modified_timestamp=timestamp_text(moment),
            downloaded_utc=utc_text(moment + 1),
            downloaded_timestamp=timestamp_text(moment + 1),
        )
        path = self.paths.embedded(row) if folder == "embedded" else self.paths.failed(row)
        local = self.storage.crawler / path
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(body)
        os.utime(local, (moment, moment))
        return self.put_row(FileRow.from_cells(_cells(row) | {"file_relative_path": self.paths.to_map(path)}))

    def put_row(self, row: FileRow) -> FileRow:
        """Put a row into the map, whatever is on the disk."""
        self.rows[row.sharepoint_unique_file_id] = row
        self.write_map()
        return row

    def remove(self, unique_id: str) -> None:
        """Remove a copy and its row."""
        path = self.paths.from_map(self.rows.pop(unique_id).file_relative_path)
        if path:
            (self.storage.crawler / path).unlink()
        self.write_map()

    def write_map(self) -> None:
        """Write files_map.csv."""
        path = self.storage.map_file(self.stored, FileRow)
        path.parent.mkdir(parents=True, exist_ok=True)
        rewrite(path, FileRow, self.rows.values())

    async def embed(self, mode: CrawlMode = CrawlMode.INCREMENTAL, **more: Any) -> dict[str, str]:
        """Run the embed step alone: register, read and remove from the local copies; return the run's fields."""
        now, runs = await connect.now(self.context.client), self.context.runs
        run, _ = await runs.open(
            RunKind.CRAWL, now, source=self.sid, domain=self.domain, mode=str(mode), parameters={"steps": "embed"}
        )
        return dict(await crawl_source(self.context, self.sid, mode, run_id=run.id, **more))


def _cells(row: FileRow) -> dict[str, str]:
    return dict(zip(row.columns(), row.cells(), strict=True))
