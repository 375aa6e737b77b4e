"""Single items: articles of feeds, and URLs, files and blobs that someone registered. Nobody lists them.

A blob is a file behind HTTP: it is fetched with the SAS token of the settings, which is stored nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult, ListingBatch, ListingEnd
from core.registry.record import Item
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.folder import FolderSource
from core.sources.io.source import Source
from core.sources.source_state import SourceState
from core.urls import file_paths

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher
    from core.runtime.context import Context

MAX_WAIT_SECONDS = 60.0
LARGE_BYTES = 1_000_000
_TEXTS = ("text/", "application/xhtml")


class SingleItemSource(Source):
    """Fetches single items with validators; a large binary is checked by HEAD before it is fetched."""

    def __init__(self, fetcher: Fetcher, settings: Settings) -> None:
        self._fetcher = fetcher
        self._settings = settings

    @classmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        return cls(context.fetcher, context.settings)

    async def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List nothing: who registers them knows them."""
        yield ListingEnd(is_complete=False, reason="nobody lists single pages")

    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Fetch one item; robots.txt and politeness are the fetcher's."""
        if item.type != "file":
            return await look_and_fetch(self._fetcher, item, page_request(item, conditional), slot)
        if file_paths.file_identity(item.fetch_url).kind == "blob":
            return await self._blob(item, page_request(item, conditional), slot)
        refusal = read_permission.file_refusal(self._settings, item.fetch_url, item.file_signature)
        folder = FolderSource(Path(item.fetch_url).parent, max_bytes=self._settings.fetch_max_bytes, refusal=refusal)
        return await folder.fetch(item, conditional, slot)

    async def _blob(self, item: Item, request: FetchRequest, slot: BodySlot | None) -> FetchResult:
        sas = self._settings.blob_sas_token
        token = sas.get_secret_value().lstrip("?") if sas else ""
        signed = f"{item.fetch_url}?{token}" if token else item.fetch_url
        request = replace(request, url=signed, conditional_url=signed, respect_robots=False, is_api=True)
        answer = await self._fetcher.fetch(request, slot)
        match answer:
            case Fetched():
                return replace(answer, url=item.fetch_url, final_url=item.fetch_url, hops=())
            case Failed() if token:
                return replace(answer, text=answer.text.replace(token, "…"))
        return answer


def page_request(item: Item, conditional: Mapping[str, str]) -> FetchRequest:
    """Return the request for a page: validators only to the URL they came from; past all caches when forced."""
    return FetchRequest(
        item.fetch_url,
        headers={"Cache-Control": "no-cache"} if item.is_forced else {},
        conditional=conditional,
        conditional_url=item.validators_url,
        max_wait_seconds=MAX_WAIT_SECONDS,
    )


async def look_and_fetch(
    fetcher: Fetcher, item: Item, request: FetchRequest, slot: BodySlot | None = None
) -> FetchResult:
    """Send a GET; before it a HEAD for large binaries: some servers send megabytes whatever validators say."""
    mime_type = item.mime_type.lower()
    is_large_binary = item.content_length > LARGE_BYTES and bool(mime_type) and not mime_type.startswith(_TEXTS)
    if request.conditional and is_large_binary:
        answer = await fetcher.fetch(replace(request, method="HEAD"))
        if isinstance(answer, Deferred):
            return answer
        if isinstance(answer, Fetched) and (answer.status == 304 or (answer.status == 200 and _is_same(answer, item))):
            return replace(answer, status=304, body=b"")
    return await fetcher.fetch(request, slot)


def _is_same(answer: Fetched, item: Item) -> bool:
    """Is it the file we know, by the same URL's etag, or by its date and length?"""
    if answer.final_url != item.validators_url:
        return False
    if item.etag and answer.header("etag") == item.etag:
        return True
    # Mirrors of one file often differ in their etags alone.
    length = answer.header("content-length")
    is_same_date = bool(item.last_modified) and answer.header("last-modified") == item.last_modified
    return is_same_date and length == str(item.content_length)
