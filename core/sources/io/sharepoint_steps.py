"""The steps of a crawl of one SharePoint source: download, process, embed; and what they would do."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.outputs.vector_store.protocol import VectorStoreMissing, VectorStoreUnavailable
from core.sources.crawl_parameters import StepName
from core.sources.io.dry_run_report import DryRunReport
from core.sources.io.source import COMPLETE, Source
from core.sources.sharepoint.io.download_preview import preview
from core.sources.sharepoint.io.download_step import FULL, SKIPPED, download
from core.sources.sharepoint.io.process_step import process
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.item_urls import item_url
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.remote_items import SharePointUnavailable
from core.sources.sharepoint.step_results import NOT_DOWNLOADED
from core.sources.sharepoint.stored_source import StoredSource

if TYPE_CHECKING:
    from core.runtime.context import Context
    from core.sources.sharepoint.io.step_context import Step

log = logging.getLogger("crawler")


async def prepare(context: Context, stored: StoredSource, step: Step) -> str:
    """Do the download and the process step, if they are named; return why the source was skipped, or nothing.

    Without a download, now or before, there is nothing to process or to embed.
    """
    storage, statistics = CrawlerStorage.of(context.settings), step.statistics
    if StepName.DOWNLOAD in step.names:
        try:
            async with _open_site(context, stored, step.should_stop) as site:
                await download(site, storage, stored, step.mode, step)
        except SharePointUnavailable as error:
            statistics.status, statistics.error = SKIPPED, str(error)
            log.error("❌ Skipped, nothing was changed: %s → %s", error, stored.source_id)
        if statistics.status == SKIPPED:
            return statistics.error
    elif not await asyncio.to_thread(storage.map_file(stored, FileRow).exists):
        log.warning("⚠️ %s → %s", NOT_DOWNLOADED, stored.source_id)
        return NOT_DOWNLOADED
    if StepName.PROCESS in step.names and not step.should_stop():
        await process(storage, stored, step)
    return ""


async def publish(context: Context, stored: StoredSource, step: Step) -> str:
    """Do the embed step; return why it could not be done, or nothing.

    A vector store that cannot be used ends nothing else: what was downloaded and processed stays. Only where nothing
    but the embed step was asked for, a store that does not exist any more is an error.
    """
    # Here, since opening a store needs the table of sources, and that needs this file.
    from core.outputs.vector_store.io.domain_vector_store import open_store
    from core.outputs.vector_store.io.embed_step import embed

    storage = CrawlerStorage.of(context.settings)
    try:
        async with open_store(context, stored.domain_id, step.should_stop, stored.source_id, step.dead_leases) as store:
            await embed(store, storage, stored, step, is_full=step.mode == FULL)
    except (VectorStoreMissing, VectorStoreUnavailable) as error:
        step.statistics.error = str(error)
        log.error("❌ Not embedded: %s → %s", error, stored.source_id)
        if isinstance(error, VectorStoreMissing) and step.names == {StepName.EMBED}:
            raise
        return str(error)
    return ""


async def planned_changes(context: Context, source: Source, stored: StoredSource, mode: str) -> DryRunReport:
    """Tell what a download would do; only temporary map files are written."""
    storage = CrawlerStorage.of(context.settings)
    try:
        async with _open_site(context, stored, lambda: False) as site:
            found = await preview(site, storage, stored, secrets.token_hex(6), mode)
    except SharePointUnavailable as error:
        return DryRunReport(source, how=str(error))
    counts = found.counts
    report = DryRunReport(
        source,
        *(counts.added, counts.changed, counts.removed, counts.unchanged, counts.skipped_types),
        listing_requests=found.requests,
        visits=found.requests_to_download,
        download_bytes=found.bytes_to_download,
        uploads=counts.added + counts.changed,
        how=COMPLETE,
    )
    for change, server_relative_url in found.changes:
        report.name(change.lower(), item_url(stored.site_url, stored.source_type, server_relative_url))
    return report


@asynccontextmanager
async def _open_site(
    context: Context, stored: StoredSource, should_stop: Callable[[], bool]
) -> AsyncIterator[SharePointSite]:
    site = await asyncio.to_thread(SharePointSite.open, context.settings, stored.site_url, should_stop)
    try:
        yield site
    finally:
        await asyncio.to_thread(site.close)
