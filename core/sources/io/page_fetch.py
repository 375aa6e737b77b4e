"""Ask a web server for the page of an item: its validators, a HEAD before large binaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from core.models import Deferred, Fetched, FetchRequest, FetchResult
from core.registry.record import Item

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher

MAX_WAIT_SECONDS = 60.0
LARGE_BYTES = 1_000_000
_TEXTS = ("text/", "application/xhtml")


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
    """Return whether it is the file we know, by the same URL's etag, or by its date and length."""
    if answer.final_url != item.validators_url:
        return False
    if item.etag and answer.header("etag") == item.etag:
        return True
    # Mirrors of one file often differ in their etags alone.
    length = answer.header("content-length")
    is_same_date = bool(item.last_modified) and answer.header("last-modified") == item.last_modified
    return is_same_date and length == str(item.content_length)
