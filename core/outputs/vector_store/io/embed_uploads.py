"""Upload what is new or changed, wait for it, and write down what became of it.

The new version is in the store before the old one goes, so that search never lacks the item. A file that cannot be
embedded goes to `03_failed`, and both map files say so. One that could not be uploaded just now stays where it is: the
next run tries it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.outputs.vector_store.embed_changes import EmbedChange, embedded_row, failed_row
from core.outputs.vector_store.file_attributes import attribute_url, attributes_of, next_generation, url_of
from core.outputs.vector_store.io.begun_uploads import BegunUploads
from core.outputs.vector_store.io.embed_step_context import EmbedStepContext
from core.outputs.vector_store.io.local_content import LocalContent
from core.outputs.vector_store.protocol import BegunUpload, FileStatus, StoredFile, UploadRequest, UploadResult
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.value_class import value_class

log = logging.getLogger("crawler")

_NOT_YET = "It is not embedded yet; the next run looks again."


@value_class
class EmbedItem:
    """An item of the source, and what has to happen to it in the store."""

    file: FileRow
    row: VectorStoreRow | None
    """As it was embedded before."""
    change: EmbedChange
    local: LocalContent
    content_hash: str = ""
    stored: StoredFile | None = None
    """The file in the store; for a new item one that a killed process uploaded already."""


@value_class
class _Outcome:
    candidate: EmbedItem
    stored: StoredFile | None = None
    error: str = ""
    pending: StoredFile | None = None
    """It is in the store and not embedded yet: another try waits for it, and uploads nothing."""
    is_refused: bool = False
    """The store has seen the bytes and does not take them."""


class EmbedUploads:
    """Uploads candidates in batches, and keeps those that failed for the next batch."""

    def __init__(self, one: EmbedStepContext) -> None:
        self._pass = one
        self._begun = BegunUploads(one.storage.source_folder(one.source))
        self._failed: list[_Outcome] = []
        self.is_down = False
        """A whole batch could not be uploaded: the store is not tried any more in this run."""

    async def forget_begun(self) -> None:
        """Delete uploads of killed processes that no map file names."""
        mark, uploads = await asyncio.to_thread(self._begun.read)
        if uploads:
            count = await self._pass.store.forget_unrecorded(mark, uploads, self._pass.named.has)
            if count:
                log.info("🧹 Deleted %d uploads of an interrupted run", count)
        await asyncio.to_thread(self._begun.clear)

    async def add(self, candidates: Sequence[EmbedItem]) -> None:
        """Embed these; what fails is kept for another try."""
        for outcome in await self._embed(candidates):
            if outcome.stored is None:
                self._failed.append(outcome)
            else:
                await self._settle(outcome.candidate, outcome.stored)
        await asyncio.to_thread(self._pass.maps.flush)

    async def finish(self, at_once: int) -> None:
        """Try again what failed, as often as asked for; then write down what failed in the end."""
        for _ in range(1, self._pass.step.retry_batches):
            again, self._failed, self.is_down = self._failed, [], False
            for start in range(0, len(again), at_once):
                if self._pass.step.should_stop() or self.is_down:
                    self._failed += again[start:]
                    break
                await self.add([replace(one.candidate, stored=one.pending) for one in again[start : start + at_once]])
        for outcome in self._failed:
            # After a stop only the refusals are known; the next run tries the others.
            if outcome.is_refused or not self._pass.step.should_stop():
                await self._settle_failure(outcome)
        await asyncio.to_thread(self._pass.maps.flush)

    # ── the store ──

    async def _embed(self, candidates: Sequence[EmbedItem]) -> list[_Outcome]:
        new = [one for one in candidates if one.stored is None]
        results = await self._upload(new)
        known = {one.file.sharepoint_unique_file_id: one.stored for one in candidates if one.stored}
        ids = {result.unique_id: result.file_id for result in results if result.file_id}
        ids |= {unique_id: stored.file_id for unique_id, stored in known.items()}
        waited = {one.file_id: one for one in await self._pass.store.wait(list(ids.values()))} if ids else {}
        by_item = {result.unique_id: result for result in results}
        outcomes = []
        for candidate in candidates:
            unique_id = candidate.file.sharepoint_unique_file_id
            result = by_item.get(unique_id) or UploadResult(unique_id, known[unique_id].file_id)
            if unique_id in known:
                result = replace(result, uploaded_ts=known[unique_id].uploaded_ts)
            outcomes.append(await self._outcome(candidate, result, waited.get(result.file_id)))
        return outcomes

    async def _upload(self, candidates: Sequence[EmbedItem]) -> list[UploadResult]:
        if not candidates:
            return []
        requests = await asyncio.to_thread(lambda: [self._request(one) for one in candidates])
        mark = await self._pass.store.upload_mark()
        begun = [BegunUpload(one.local.path.name, one.local.size_bytes) for one in candidates]
        if mark:
            await asyncio.to_thread(self._begun.add, mark, begun)
        results = await self._pass.store.upload(requests)
        is_unclear = [bool(result.error) and not result.is_final for result in results]
        self._pass.counts.uploaded += sum(bool(result.file_id) for result in results)
        self.is_down = all(is_unclear) and len(is_unclear) > 1
        if not any(is_unclear):
            await asyncio.to_thread(self._begun.clear)
        return results

    def _request(self, one: EmbedItem) -> UploadRequest:
        source, unique_id = self._pass.source, one.file.sharepoint_unique_file_id
        listed = self._pass.maps.listed.get(unique_id)
        generation = next_generation(self._pass.files_of(unique_id))
        url = attribute_url(source, one.file, listed)
        attributes = attributes_of(source, one.file, url, one.content_hash, generation)
        full_url, path = url_of(source, one.file, listed), one.local.path
        return UploadRequest(unique_id, str(path), path.name, full_url, one.content_hash, attributes)

    async def _outcome(self, candidate: EmbedItem, result: UploadResult, stored: StoredFile | None) -> _Outcome:
        """Tell what became of an upload; one that failed is taken out of the store and of the global storage."""
        if stored is None:
            return _Outcome(candidate, None, result.error, is_refused=result.is_final)
        if stored.status is FileStatus.MISSING:
            return _Outcome(candidate, None, stored.error or _NOT_YET)
        if stored.status is FileStatus.IN_PROGRESS:
            pending = replace(stored, uploaded_ts=result.uploaded_ts or stored.uploaded_ts)
            return _Outcome(candidate, None, stored.error or _NOT_YET, pending)
        if stored.status is FileStatus.COMPLETED:
            return _Outcome(candidate, replace(stored, uploaded_ts=result.uploaded_ts or stored.uploaded_ts))
        await self._pass.store.delete(stored.file_id)
        await self._pass.store.detach(stored.file_id)
        await asyncio.to_thread(self._pass.listing.remove, stored.file_id)
        return _Outcome(candidate, None, stored.error or f"Its status is {stored.status}.", is_refused=True)

    # ── the maps ──

    async def _settle(self, candidate: EmbedItem, stored: StoredFile) -> None:
        """Write down that a file is embedded, then remove what the store had of it before."""
        file = await asyncio.to_thread(self._brought_back, candidate)
        row = embedded_row(file, stored, self._pass.store.id)
        await asyncio.to_thread(self._pass.maps.put_row, row)
        await asyncio.to_thread(self._pass.listing.add_all, [stored])
        self._pass.counts.embedded += 1
        await self._remove_others(candidate, stored.file_id)

    async def _settle_failure(self, outcome: _Outcome) -> None:
        candidate, maps = outcome.candidate, self._pass.maps
        self._pass.counts.failed += 1
        self._pass.warn(f"{candidate.file.filename} could not be embedded: {outcome.error}")
        if not outcome.is_refused:
            row = failed_row(candidate.file, outcome.error)
            if candidate.row is not None and candidate.row.openai_file_id:
                # What was embedded before is still there, and of the version that its row says.
                row = replace(candidate.row, embedding_error=outcome.error)
            await asyncio.to_thread(maps.put_row, row)
            return
        place = self._pass.paths.failed(candidate.file)
        file = replace(candidate.file, file_relative_path=self._pass.paths.to_map(place))
        # In this order: after a kill between two of them the next run begins again with the upload.
        await self._remove_others(candidate, "")
        await asyncio.to_thread(self._write_failure, candidate, file, outcome.error)
        log.warning("📁 Moved → %s", file.file_relative_path)

    def _write_failure(self, candidate: EmbedItem, file: FileRow, error: str) -> None:
        maps = self._pass.maps
        maps.put_row(failed_row(file, error))
        maps.flush()
        maps.put_file(file)
        maps.flush()
        self._move(candidate.local.path, file)

    def _brought_back(self, candidate: EmbedItem) -> FileRow:
        """Move a file that was embedded at last out of `03_failed`, and return its row."""
        file, paths = candidate.file, self._pass.paths
        wanted = paths.to_map(paths.embedded(file))
        if file.file_relative_path == wanted:
            return file
        file = replace(file, file_relative_path=wanted)
        self._pass.maps.put_file(file)
        self._pass.maps.flush()
        self._move(candidate.local.path, file)
        return file

    def _move(self, path: Path, file: FileRow) -> None:
        place = self._pass.paths.from_map(file.file_relative_path)
        assert place is not None
        target = self._pass.storage.crawler / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path != target:
            path.replace(target)

    async def _remove_others(self, candidate: EmbedItem, kept_id: str) -> None:
        files = await asyncio.to_thread(self._pass.files_of, candidate.file.sharepoint_unique_file_id)
        ids = {one.file_id for one in files}
        if candidate.row is not None and candidate.row.openai_file_id:
            ids.add(candidate.row.openai_file_id)
        for file_id in sorted(ids - {kept_id}):
            await self._pass.remove_file(file_id)
