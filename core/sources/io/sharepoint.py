"""SharePoint libraries, lists and site pages as sources: listed and read from their local copies.

`prepare` brings the copies up to date, `publish` the vector store. Between them a source of this kind is like a folder:
what `files_map.csv` names is there, under the URL that it has in SharePoint, and a visit reads a file and sends no
request. A row whose download failed is listed too, so that nothing known is lost.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Self

from core.errors import FailCode, FailDetail
from core.models import Failed, FetchResult, ListingBatch, ListingEnd, Ref, RejectedUrl
from core.registry.record import Item
from core.settings import Settings
from core.sources.io.local_files import LocalFiles
from core.sources.io.sharepoint_map import MapErrors, map_digest
from core.sources.io.source import UNCHANGED, Source
from core.sources.sharepoint import item_urls
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.map_files import read_rows
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.source_configs import FileSourceConfig, ListSourceConfig, SitePageSourceConfig
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import NO_COPY, NOT_DOWNLOADED
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.source_record import SourceState
from core.urls.normalise import public_url
from core.urls.scope import EXCLUDED, NOT_EMBEDDED, Judgement

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot
    from core.runtime.context import Context
    from core.sources.io.dry_run_report import DryRunReport
    from core.sources.sharepoint.io.step_context import Step

BATCH_ITEMS = 500
_TYPES = CFG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES
_ELSEWHERE = "of another place"


class SharePointSource(Source):
    source_type: ClassVar[SharePointType]
    is_listing_evidence = True
    interval_setting = "sharepoint_list_seconds"
    needs_no_requests = True
    has_steps = True

    def __init__(self, stored: StoredSource, context: Context) -> None:
        self._stored = stored
        self._context = context
        self._storage = CrawlerStorage.of(context.settings)
        self._paths = stored.paths
        self._folder = self._storage.source_folder(stored).absolute()
        self._map_file = self._storage.map_file(stored, FileRow)
        self._files = LocalFiles(self._folder, context.settings.fetch_max_bytes, type_of=item_urls.media_type)
        self._errors = MapErrors(self._map_file)

    @classmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        return cls(_stored(cls.source_type, state), context)

    @classmethod
    def judge(cls, state: SourceState, settings: Settings, address: str, depth: int, now: float) -> Judgement | None:
        stored = _stored(cls.source_type, state)
        if not item_urls.is_of(stored, address, state.memory.get("list_root", "")):
            return None
        return Judgement() if _is_taken(stored, address) else Judgement(NOT_EMBEDDED, ", ".join(_TYPES))

    def exclusion_reason(self, address: str) -> str:
        if not item_urls.is_of(self._stored, address):
            return _ELSEWHERE
        return "" if _is_taken(self._stored, address) else EXCLUDED

    # ── steps ──

    # Imported where they run: every process knows all sources, and the steps with the parsers are a fifth of its start.

    async def prepare(self, step: Step) -> str:
        """Download what has changed, and make of it what is embedded; a site that cannot be asked is skipped."""
        from core.sources.io import sharepoint_steps

        return await sharepoint_steps.prepare(self._context, self._stored, step)

    async def publish(self, step: Step) -> str:
        from core.sources.io import sharepoint_steps

        return await sharepoint_steps.publish(self._context, self._stored, step)

    async def planned_changes(self, mode: str) -> DryRunReport:
        """List the source and compare, in temporary map files; nothing is downloaded."""
        from core.sources.io import sharepoint_steps

        return await sharepoint_steps.planned_changes(self._context, self, self._stored, mode)

    # ── listing ──

    async def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List every row of `files_map.csv`, with its file or without."""
        digest = await asyncio.to_thread(map_digest, self._map_file)
        if not digest:
            yield ListingEnd(False, NOT_DOWNLOADED)
            return
        known = str(await self._context.source_items.count(self.sid))
        if (memory.get("map"), memory.get("items")) == (digest, known):
            yield ListingEnd(False, UNCHANGED, dict(memory))
            return
        count, list_root = 0, ""
        rows = read_rows(self._map_file, FileRow)
        try:
            while batch := await asyncio.to_thread(lambda: tuple(islice(rows, BATCH_ITEMS))):
                listed = [self._entry(row) for row in batch]
                refs = tuple(one for one in listed if isinstance(one, Ref))
                yield ListingBatch(refs, tuple(one for one in listed if isinstance(one, RejectedUrl)))
                count += len(refs)
                list_root = list_root or item_urls.list_root(batch[0].server_relative_url)
        except (MapFileDamaged, OSError) as error:
            yield ListingEnd(False, f"{CFG.FILE_MAP_CSV} cannot be read: {error}; the next download makes it anew")
            return
        finally:
            await asyncio.to_thread(rows.close)
        yield ListingEnd(True, memory={"map": digest, "items": str(count), "list_root": list_root})

    def _entry(self, row: FileRow) -> Ref | RejectedUrl:
        address = item_urls.item_url(self._stored.site_url, self.source_type, row.server_relative_url)
        cleaned = public_url(address)
        if isinstance(cleaned, RejectedUrl):
            return RejectedUrl(address[:500], cleaned.reason)
        depth = max(row.server_relative_url.count("/") - self._stored.root_url.count("/") - 1, 0)
        return Ref(address, depth=depth, version=item_urls.version_of(row))

    # ── one item ──

    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Return the local copy as an HTTP answer; a row without one as the failure that the map names."""
        if slot is not None:
            await slot.take()
        headers = {name.lower(): value for name, value in conditional.items()}
        # Another version may have the size and time of the one before: then the listing alone knows.
        is_same_version = item.listed_version == item.visited_version
        known = headers.get("if-none-match", "") if is_same_version else ""
        return await asyncio.to_thread(self._fetch, item.fetch_url, known)

    async def has_copy(self, item: Item) -> bool:
        """Return whether the copy of an item is on this disk. Another source of the same library has one of its own."""
        paths = self._candidates(item.fetch_url)
        return await asyncio.to_thread(lambda: any(Path(self._local(path)).is_file() for path in paths))

    async def hash_of(self, item: Item) -> str | None:
        """Hash a file that is too large to be read at once; return None if that takes too long."""
        stop = threading.Event()
        try:
            for path in self._candidates(item.fetch_url):
                hashed = await asyncio.to_thread(self._files.hash_of, self._local(path), stop.is_set)
                if hashed:
                    return hashed
        finally:
            stop.set()  # we may have been cancelled; the thread would read on
        return None

    def _fetch(self, url: str, known: str) -> FetchResult:
        for path in self._candidates(url):
            answer = self._files.fetch(self._local(path), known)
            if isinstance(answer, Failed) and answer.detail is FailDetail.REFUSED:
                break  # there is no folder yet: nothing is known of SharePoint's own server
            if isinstance(answer, Failed):
                return answer
            if answer.status != 404:
                return replace(answer, url=url, final_url=url)
        # A missing copy says nothing about SharePoint: what is gone there is missing from the listing.
        error = self._errors.of_url(url, self._stored) or NO_COPY
        return Failed(FailCode.HTTP, FailDetail.RESET, error)

    def _candidates(self, url: str) -> Sequence[PurePosixPath]:
        """Return where the copy may be: a file whose embedding failed is in another folder."""
        if not item_urls.is_of(self._stored, url):
            return []
        found = (self._paths.embedded_of_url(url), self._paths.failed_of_url(url))
        return [path for path in dict.fromkeys(found) if path is not None]

    def _local(self, path: PurePosixPath) -> str:
        return str(self._storage.crawler.absolute() / path)


class SharePointFiles(SharePointSource):
    config_model = FileSourceConfig
    source_type = SharePointType.FILES


class SharePointList(SharePointSource):
    config_model = ListSourceConfig
    source_type = SharePointType.LISTS


class SharePointPages(SharePointSource):
    config_model = SitePageSourceConfig
    source_type = SharePointType.SITE_PAGES


def _stored(source_type: SharePointType, state: SourceState) -> StoredSource:
    record = state.record
    own_name = record.sid.removeprefix(f"{record.domain}.")
    return StoredSource.of(record.domain, own_name, source_type, record.config)


def _is_taken(stored: StoredSource, address: str) -> bool:
    if stored.source_type is not SharePointType.FILES:
        return True
    return item_urls.ending_of(address) in _TYPES
