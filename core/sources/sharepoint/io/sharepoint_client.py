"""One SharePoint site: its libraries, lists and pages, listed page by page, and its files, downloaded.

Everything here blocks: call it in threads. One object serves all threads of a pass over a source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.settings import Settings
from core.sources.sharepoint import odata
from core.sources.sharepoint.io.sample_server import settings_for
from core.sources.sharepoint.io.scratch_database import SeenIds
from core.sources.sharepoint.io.throttle_gate import ShouldStop
from core.sources.sharepoint.odata import Entity, query
from core.sources.sharepoint.refusals import RequestRefused, check_site_url, listing_advice
from core.sources.sharepoint.remote_items import ListColumn, RemoteItem, SharePointUnavailable
from core.sources.sharepoint.sharepoint_responses import read_file, read_list_item, read_site_page

if TYPE_CHECKING:
    from core.sources.sharepoint.io.graph_delta import DriveState
    from core.sources.sharepoint.io.sharepoint_requests import SiteRequests

FILES_IN_PAGE = 2_000
LIST_ITEMS_IN_PAGE = 500
SITE_PAGES_IN_PAGE = 100
"""Pages carry their whole text."""

_FILE = "File/UniqueId,File/Name,File/Length,File/ServerRelativeUrl,File/TimeLastModified,File/ETag"
_FILE_QUERIES = (
    {"select": f"ID,FSObjType,FileRef,FileLeafRef,{_FILE}", "expand": "File"},
    # For servers that do not expand files of this list.
    {"select": "ID,FileRef,FileLeafRef,UniqueId,FSObjType,Modified,File_x0020_Size", "expand": ""},
)
_PAGE_QUERIES = (
    {"select": f"*,EncodedAbsUrl,FSObjType,FileRef,FileLeafRef,{_FILE}", "expand": "File"},
    {"select": "*,EncodedAbsUrl,FileRef,FileLeafRef,UniqueId", "expand": ""},
)
_LIST_QUERY = {"select": "*,FieldValuesAsText", "expand": "FieldValuesAsText"}


class SharePointSite:
    """A site, with its token, its connections and its share of the server's patience."""

    def __init__(self, requests: SiteRequests, site_url: str, should_stop: ShouldStop) -> None:
        self._requests = requests
        self._site_url = site_url
        self._origin = odata.origin_of(site_url)
        self._should_stop = should_stop
        self._columns: dict[str, list[ListColumn]] = {}

    @classmethod
    def open(cls, settings: Settings, site_url: str, should_stop: ShouldStop = lambda: False) -> SharePointSite:
        """Return the site; nothing is asked yet. `SharePointUnavailable` if settings are missing."""
        url = check_site_url(site_url)
        try:
            from core.sources.sharepoint.io.sharepoint_requests import SiteRequests
        except ImportError as error:
            raise SharePointUnavailable(f"{error.name} is not installed. Install it: ./scripts/setup") from error
        return cls(SiteRequests(settings_for(settings, url), url), url, should_stop)

    def close(self) -> None:
        self._requests.session.close()

    @property
    def request_count(self) -> int:
        """How many requests were sent, those for tokens and those that failed too."""
        return self._requests.session.request_count

    # ── listings ──

    def library(self, url_part: str, odata_filter: str = "") -> Iterator[list[RemoteItem]]:
        """Yield the files of a library, page by page; it ends only after the last page."""
        items = self._library_items(url_part)
        pages = self._shaped(items, _FILE_QUERIES, odata_filter, FILES_IN_PAGE, url_part)
        return self._rows(pages, lambda entity: read_file(entity, self._origin))

    def pages(self, url_part: str, odata_filter: str = "") -> Iterator[list[RemoteItem]]:
        """Yield the pages of a library with their text; it ends only after the last page."""
        items = self._library_items(url_part)
        pages = self._shaped(items, _PAGE_QUERIES, odata_filter, SITE_PAGES_IN_PAGE, url_part)
        return self._rows(pages, lambda entity: read_site_page(entity, self._origin))

    def drive_state(self, drive_id: str, link: str) -> DriveState:
        """Return whether a drive is as it was when Microsoft Graph gave this link, and a link for the next time."""
        from core.sources.sharepoint.io.graph_delta import drive_state

        graph_url = self._requests.graph_url
        return drive_state(lambda url: self._requests.graph_json(url, self._should_stop), graph_url, drive_id, link)

    def list_columns(self, list_name: str) -> list[ListColumn]:
        """Return the visible columns of a list; they are asked for once."""
        if list_name in self._columns:
            return self._columns[list_name]
        url = f"{self._list_address(list_name)}/Fields{query(odata_filter='Hidden eq false')}"
        entities = [entity for page in self._entity_pages(url, list_name) for entity in page]
        self._columns[list_name] = odata.read_columns(entities)
        return self._columns[list_name]

    def list_items(self, list_name: str, odata_filter: str = "") -> Iterator[list[RemoteItem]]:
        """Yield the items of a list with the cells of its visible columns; it ends only after the last page."""
        columns = self.list_columns(list_name)
        root = self._list_root(list_name)
        items = f"{self._list_address(list_name)}/items"
        pages = self._shaped(items, (_LIST_QUERY,), odata_filter, LIST_ITEMS_IN_PAGE, list_name)
        yield from self._rows(pages, lambda entity: read_list_item(entity, columns, self._origin, root))

    # ── downloads ──

    def download(self, item: RemoteItem, target: Path, should_stop: ShouldStop) -> int:
        """Write the file to `target`, which the caller renames, and return its size.

        `DownloadFailed` says why it cannot be had; `SharePointStopped` if the run was stopped. No half file stays.
        """
        from core.sources.sharepoint.io.file_download import download_file

        return download_file(self._requests, item, target, should_stop)

    # ── addresses ──

    def _library_items(self, url_part: str) -> str:
        path = odata.server_relative(self._site_url, url_part)
        return f"{self._requests.list_address(path)}/items"

    def _list_address(self, list_name: str) -> str:
        return str(self._requests.context.web.lists.get_by_title(list_name).resource_url)

    def _list_root(self, list_name: str) -> str:
        """Return the path of a list; where the server does not say, the one that SharePoint gives to new lists."""
        try:
            answer = self._requests.json(f"{self._list_address(list_name)}/RootFolder", self._should_stop)
        except RequestRefused as refused:
            if refused.status not in (400, 404):
                raise SharePointUnavailable(listing_advice(refused, list_name, self._site_url)) from refused
            answer = {}
        path = odata.text_of(odata.read_entity(answer).get("ServerRelativeUrl"))
        is_path = path.startswith("/") and len(path) <= odata.MOST_TEXT_CHARS
        return path.rstrip("/") if is_path else odata.server_relative(self._site_url, f"Lists/{list_name}")

    # ── pages of answers ──

    def _rows(
        self, pages: Iterator[list[Entity]], read: Callable[[Entity], RemoteItem | None]
    ) -> Iterator[list[RemoteItem]]:
        """Yield the rows of each page without those of an earlier one: what moves during a listing comes twice."""
        with SeenIds() as seen:
            for entities in pages:
                items = [item for item in map(read, entities) if item is not None]
                yield [item for item in items if seen.add(item.row.sharepoint_unique_file_id)]

    def _shaped(
        self, url: str, shapes: tuple[dict[str, str], ...], odata_filter: str, top: int, what: str
    ) -> Iterator[list[Entity]]:
        """Yield the pages by the first of these queries that the server understands."""
        for number, shape in enumerate(shapes, start=1):
            address = url + query(**shape, odata_filter=odata_filter, top=top)
            try:
                first = self._requests.json(address, self._should_stop)
            except RequestRefused as refused:
                if refused.status == 400 and number < len(shapes):
                    continue
                raise SharePointUnavailable(listing_advice(refused, what, self._site_url)) from refused
            yield from self._entity_pages(address, what, first)
            return

    def _entity_pages(self, url: str, what: str, first: Any = None) -> Iterator[list[Entity]]:
        """Yield page after page; an error on any of them ends the listing with an exception, never quietly."""
        asked = {url}
        answer = first if first is not None else self._ask(url, what)
        while True:
            page = odata.read_page(answer)
            yield list(page.entities)
            link = odata.next_address(page, url)
            if not link:
                return
            if link in asked:
                raise SharePointUnavailable(f"The listing of {what} leads back to a page that was read already.")
            asked.add(link)
            answer = self._ask(link, what)

    def _ask(self, url: str, what: str) -> Any:
        try:
            return self._requests.json(url, self._should_stop)
        except RequestRefused as refused:
            raise SharePointUnavailable(listing_advice(refused, what, self._site_url)) from refused
