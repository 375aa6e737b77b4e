"""Freshet's own index as a vector store: a domain works with no account anywhere.

An upload embeds the item in this process, beside the embed workers: the holder of an item's lease embeds it. What a
crawl removes is out of the index already, and so is what was renamed; there is nothing to detach or to delete.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from core.errors import SettingsError
from core.models import Ref
from core.outputs.vector_store.protocol import (
    FileStatus,
    StoredFile,
    UploadRequest,
    UploadResult,
    VectorStore,
    VectorStoreUnavailable,
)
from core.registry import field_parsing
from core.registry.io.registrar import item_id_of
from core.registry.record import Item, Status
from core.runtime.context import Context
from core.search.io.item_embedder import ItemEmbedder, embed_lease
from core.search.io.item_embedder_setup import open_item_embedder
from core.search.protocols import EmbedderUnavailable
from core.sources.sharepoint.item_urls import unique_id_of
from core.sources.sharepoint.step_results import NO_COPY
from core.store.clock import ServerClock
from core.store.pipeline import read_many

log = logging.getLogger("crawler")

STORE_ID = "redis"
WAIT_SECONDS = 120.0
"""For pages that another process is embedding; one that died elsewhere gives them up within a minute."""
PAUSE_SECONDS = 0.5
_HASH_CHARS = 12
_READ = (Status.CRAWLED, Status.INDEXED)
_LISTED = ("status", "contentHash", "indexedHash", "bodyHash", "listedVersion", "fetchUrl", "lastIndexed")
_NOT_READ_YET = "It was not read yet; the next crawl reads and embeds it."
_NO_ADDRESS = "Its URL is too long to be an address, so search cannot name it."
_CHANGED = "It changed while it was embedded; the next crawl reads it again."
_STILL_WAITING = f"Another process had it for {WAIT_SECONDS:.0f} s; the next crawl looks again."


@asynccontextmanager
async def open_redis_store(
    context: Context,
    domain_id: str,
    sids: Sequence[str],
    should_stop: Callable[[], bool] = lambda: False,
    dead_leases: Collection[str] = (),
) -> AsyncIterator[RedisStore]:
    """Open the index for a domain with these sources; what killed processes were embedding is free at once."""
    clock = await ServerClock.ask(context.client)
    try:
        async with open_item_embedder(context.settings, context.client, context.keys, context.leases, clock) as run:
            yield RedisStore(context, clock, run, domain_id, sids, should_stop, dead_leases)
            for kb_id in sorted(run.kb_ids):
                await context.state_saver.save_index(kb_id, clock.now())
    except SettingsError as error:
        raise VectorStoreUnavailable(str(error)) from error


class RedisStore(VectorStore):
    """Takes nothing out and changes no name: the registry does that by itself, and an upload leaves no orphan."""

    id = STORE_ID

    def __init__(
        self,
        context: Context,
        clock: ServerClock,
        run: ItemEmbedder,
        domain_id: str,
        sids: Sequence[str],
        should_stop: Callable[[], bool],
        dead_leases: Collection[str] = (),
    ) -> None:
        self._context = context
        self._clock = clock
        self._run = run
        self._domain_id = domain_id
        self._sids = sids
        self._should_stop = should_stop
        self._dead_leases = dead_leases

    # ── what is there ──

    async def files(self) -> AsyncIterator[StoredFile]:
        """Yield every item of the domain's sources that search knows."""
        for sid in self._sids:
            async for item_ids in self._context.source_items.batches(sid):
                asked = [("HMGET", self._context.keys.item(item_id), *_LISTED) for item_id in item_ids]
                rows = zip(item_ids, await read_many(self._context.client, asked), strict=True)
                for item_id, values in rows:
                    stored = self._stored(sid, item_id, *(value or "" for value in values))
                    if stored:
                        yield stored

    def _stored(
        self, sid: str, item_id: str, status: str, text: str, indexed: str, body: str, version: str, url: str, at: str
    ) -> StoredFile | None:
        """Return an item as a file of the store, by what its record says; None if search does not know its text."""
        if status not in _READ or not text or text != indexed:
            return None
        attributes = {
            "domain": self._domain_id,
            "source_id": sid.removeprefix(f"{self._domain_id}."),
            "unique_id": unique_id_of(version),
            "content_hash": body,
            "url": url,
        }
        indexed_ts = field_parsing.iso_timestamp(at) or 0.0
        return StoredFile(file_id_of(item_id, body), FileStatus.COMPLETED, "", indexed_ts, indexed_ts, attributes)

    async def _indexed_ts(self, items: Sequence[Item]) -> list[float]:
        asked = [("HGET", self._context.keys.item(item.id), "lastIndexed") for item in items]
        found = await read_many(self._context.client, asked) if asked else []
        return [field_parsing.iso_timestamp(text) or 0.0 for text in found]

    # ── embedding ──

    async def upload(self, requests: Sequence[UploadRequest]) -> list[UploadResult]:
        """Embed the items of these files."""
        names = [_item_id(request.url) for request in requests]
        items = dict(zip(names, await self._context.items.read(names), strict=True)) if names else {}
        found = [items[name] for name in names]
        await self._embed([item.id for item in found if item and item.status in _READ])
        return [self._uploaded(request, item) for request, item in zip(requests, found, strict=True)]

    def _uploaded(self, request: UploadRequest, item: Item | None) -> UploadResult:
        if not _item_id(request.url):
            return UploadResult(request.unique_id, error=_NO_ADDRESS, is_final=True)
        if item is None or item.status in (Status.PENDING, Status.GONE):
            return UploadResult(request.unique_id, error=_NOT_READ_YET)
        if item.status in _READ and item.body_hash != request.content_hash:
            return UploadResult(request.unique_id, error=_CHANGED)
        return UploadResult(request.unique_id, file_id_of(item.id, request.content_hash))

    async def _embed(self, item_ids: Sequence[str]) -> None:
        try:
            await self._run.embed_many(list(dict.fromkeys(item_ids)), self._should_stop)
        except (EmbedderUnavailable, SettingsError) as error:
            raise VectorStoreUnavailable(str(error)) from error

    async def wait(self, file_ids: Sequence[str]) -> list[StoredFile]:
        """Wait until search knows all of these; what cannot be read has failed, what others have is in progress."""
        ends_at = time.monotonic() + WAIT_SECONDS
        while True:
            found = await self._look(file_ids)
            waiting = [one for one in found if one.status is FileStatus.IN_PROGRESS]
            if not waiting or self._should_stop():
                return found
            if time.monotonic() > ends_at:
                late = {one.file_id: replace(one, error=_STILL_WAITING) for one in waiting}
                return [late.get(one.file_id, one) for one in found]
            await asyncio.sleep(PAUSE_SECONDS)
            item_ids = [_item_id_of_file(one.file_id) for one in waiting]
            await self._free(item_ids)
            await self._embed(item_ids)

    async def _free(self, item_ids: Sequence[str]) -> None:
        """Take from killed processes what they were embedding; else it is free within a minute."""
        for prefix in self._dead_leases:
            for item_id in item_ids:
                await self._context.leases.release_of(embed_lease(item_id), prefix)

    async def _look(self, file_ids: Sequence[str]) -> list[StoredFile]:
        names = [_item_id_of_file(file_id) for file_id in file_ids]
        items = await self._context.items.read(names) if names else []
        stamps = await self._indexed_ts([item or Item(name) for name, item in zip(names, items, strict=True)])
        rows = zip(file_ids, names, items, stamps, strict=True)
        return [await self._status(file_id, name, item, stamp) for file_id, name, item, stamp in rows]

    async def _status(self, file_id: str, item_id: str, item: Item | None, indexed_ts: float) -> StoredFile:
        if item is None or item.status not in _READ:
            reason = await self._context.source_items.error_of(item_id) or _NOT_READ_YET
            # The copy that was missing is another source's: this one has a file to upload.
            status = FileStatus.MISSING if reason == NO_COPY else FileStatus.FAILED
            return StoredFile(file_id, status, reason)
        is_done = _is_indexed(item) and file_id == file_id_of(item.id, item.body_hash)
        status = FileStatus.COMPLETED if is_done else FileStatus.IN_PROGRESS
        return StoredFile(file_id, status, "", indexed_ts, indexed_ts if is_done else 0.0)


def file_id_of(item_id: str, content_hash: str) -> str:
    """Return the id that a version of an item has in `vectorstore_map.csv`."""
    return f"{STORE_ID}-{item_id}-{content_hash[:_HASH_CHARS]}"


def _item_id_of_file(file_id: str) -> str:
    return file_id.removeprefix(f"{STORE_ID}-").rpartition("-")[0]


def _item_id(url: str) -> str:
    with contextlib.suppress(ValueError):
        return item_id_of(Ref(url))
    return ""


def _is_indexed(item: Item) -> bool:
    return item.status in _READ and bool(item.content_hash) and item.indexed_hash == item.content_hash
