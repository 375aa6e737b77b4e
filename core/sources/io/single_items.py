"""The source of single items, which no listing has: articles of feeds, and URLs, files and blobs that were registered.

A blob is a file behind HTTP: it is fetched with the SAS token of the settings, which is stored nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from core.models import Failed, Fetched, FetchRequest, FetchResult, ListingBatch, ListingEnd
from core.registry.record import Item
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.page_fetch import look_and_fetch, page_request
from core.sources.io.source import Source
from core.sources.source_record import SourceState
from core.urls import file_paths

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher
    from core.runtime.context import Context


class SingleItemSource(Source):
    """Fetches single items with validators; a large binary is checked by HEAD before it is fetched."""

    is_built_in = True

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
        from core.sources.io.folder import FolderSource  # brings Pydantic, which articles do without

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
