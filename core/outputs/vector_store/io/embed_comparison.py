"""Compare the files of a source with what the store has, item by item, and do what follows from it."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

from core.outputs.vector_store.embed_changes import EmbedChange, change_of, has_moved, renamed_row, uploaded_since
from core.outputs.vector_store.file_attributes import attribute_url, attributes_of, generation_of, newest_live
from core.outputs.vector_store.io.embed_step_context import EmbedStepContext
from core.outputs.vector_store.io.embed_uploads import EmbedItem, EmbedUploads
from core.outputs.vector_store.io.local_content import LocalState, content_hash, look_at
from core.outputs.vector_store.protocol import StoredFile, VectorStoreUnavailable
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.value_class import value_class

FILES_AT_ONCE = 100
_WITH_A_FILE = (EmbedChange.ADDED, EmbedChange.CHANGED, EmbedChange.RENAMED, EmbedChange.UNCHANGED)


@value_class
class _WithoutFile:
    """An item that has nothing to embed, so no local file was looked at."""

    file: FileRow
    row: VectorStoreRow | None
    change: EmbedChange


class EmbedComparison:
    def __init__(self, one: EmbedStepContext, uploads: EmbedUploads) -> None:
        self._pass = one
        self._maps = one.maps
        self._counts = one.counts
        self._uploads = uploads

    async def run(self) -> None:
        """Compare everything; what is new or changed is uploaded in batches."""
        total, done = len(self._maps.files), 0
        batch: list[EmbedItem] = []
        files = iter(self._maps.files)
        while page := await asyncio.to_thread(lambda: tuple(itertools.islice(files, FILES_AT_ONCE))):
            for decision in await asyncio.to_thread(lambda page=page: [self._decide(file) for file in page]):  # type: ignore[misc]
                if self._pass.step.should_stop():
                    break
                batch += await self._apply(decision)
            done += len(page)
            if len(batch) >= FILES_AT_ONCE:
                await self._uploads.add(batch)
                batch = []
            await self._pass.step.progress(done, total, f"Embedding {self._pass.source.source_id}")
            if self._pass.step.should_stop() or self._uploads.is_down:
                break
        if not self._pass.step.should_stop():
            await self._uploads.add(batch)

    # ── looking ──

    def _decide(self, file: FileRow) -> EmbedItem | _WithoutFile:
        row = self._maps.rows.get(file.sharepoint_unique_file_id)
        is_done = row is not None and uploaded_since(row, self._pass.step.began_ts)
        change = change_of(file, row, is_full=self._pass.is_full and not is_done)
        if change not in _WITH_A_FILE:
            return _WithoutFile(file, row, change)
        local = look_at(self._pass.storage, self._pass.paths, file)
        decision = EmbedItem(file, row, change, local)
        if local.state is not LocalState.SOUND or change is EmbedChange.UNCHANGED:
            return decision
        try:
            return self._with_content(decision, content_hash(local.path))
        except OSError:
            return replace(decision, local=replace(local, state=LocalState.DAMAGED))

    def _with_content(self, decision: EmbedItem, digest: str) -> EmbedItem:
        """Look for the bytes of a file in the store: perhaps no upload is needed."""
        row, files = decision.row, self._pass.files_of(decision.file.sharepoint_unique_file_id)
        current = self._pass.listing.get(row.openai_file_id) if row and row.openai_file_id else None
        decision = replace(decision, content_hash=digest, stored=current)
        if decision.change is EmbedChange.RENAMED:
            return decision
        is_same = current is not None and current.attributes.get("content_hash") == digest
        if is_same and decision.change is EmbedChange.CHANGED and not self._pass.is_full:
            return replace(decision, change=EmbedChange.RENAMED)
        others = [one for one in files if current is None or one.file_id != current.file_id]
        if self._pass.is_full:
            began_ts = self._pass.step.began_ts
            others = [one for one in others if 0 < began_ts <= one.uploaded_ts]
        return replace(decision, stored=newest_live(others, digest))

    # ── doing ──

    async def _apply(self, decision: EmbedItem | _WithoutFile) -> list[EmbedItem]:
        if isinstance(decision, _WithoutFile):
            await self._without_file(decision)
            return []
        if decision.local.state is not LocalState.SOUND:
            await self._skip(decision.file, decision.local.state)
            return []
        if decision.change is EmbedChange.UNCHANGED:
            self._counts.unchanged += 1
            return []
        if decision.change is EmbedChange.RENAMED:
            await self._rename(decision)
            return []
        if decision.change is EmbedChange.ADDED:
            self._counts.added += 1
        else:
            self._counts.changed += 1
        return [decision]

    async def _without_file(self, decision: _WithoutFile) -> None:
        file, row = decision.file, decision.row
        if decision.change is EmbedChange.REMOVED and row is not None:
            await self._pass.remove_item(row)
        elif decision.change is EmbedChange.FAILED:
            await asyncio.to_thread(self._finish_move, file)
        else:
            self._counts.skipped += 1
            self._pass.warn(f"{file.filename} is not embedded: it has no file yet. {file.sharepoint_error}".strip())

    def _finish_move(self, file: FileRow) -> None:
        """Move a file to `03_failed` that a killed process wrote down as moved."""
        place = self._pass.paths.from_map(file.file_relative_path)
        before = self._pass.storage.crawler / self._pass.paths.embedded(file)
        after = self._pass.storage.crawler / (place or "")
        if place is not None and before != after and before.is_file() and not after.exists():
            after.parent.mkdir(parents=True, exist_ok=True)
            before.replace(after)

    async def _skip(self, file: FileRow, state: LocalState) -> None:
        self._counts.skipped += 1
        self._pass.warn(f"{file.filename} is not embedded: {state}.")
        if state is LocalState.DAMAGED:
            # Without a path the next download brings it; what the store has of it stays until then.
            marked = replace(file, file_relative_path="", sharepoint_error=f"{state[0].upper()}{state[1:]}.")
            await asyncio.to_thread(self._maps.put_file, marked)

    async def _rename(self, decision: EmbedItem) -> None:
        file, row, stored = decision.file, decision.row, decision.stored
        assert row is not None
        if not has_moved(file, row):
            self._counts.unchanged += 1
        else:
            try:
                await self._update_attributes(file, decision.content_hash, stored, row)
            except VectorStoreUnavailable as error:
                self._counts.failed += 1
                self._pass.warn(f"{file.filename} keeps its old name in the vector store for now: {error}")
                return
            self._counts.renamed += 1
        await asyncio.to_thread(self._maps.put_row, renamed_row(file, row))

    async def _update_attributes(
        self, file: FileRow, digest: str, stored: StoredFile | None, row: VectorStoreRow
    ) -> None:
        listed = await asyncio.to_thread(self._maps.listed.get, file.sharepoint_unique_file_id)
        known = stored.attributes if stored else {}
        url = attribute_url(self._pass.source, file, listed)
        # The bytes of an unchanged file are not read again; their hash is known since the upload.
        digest = known.get("content_hash") or digest
        generation = max(generation_of(known), 1)
        attributes = attributes_of(self._pass.source, file, url, digest, generation)
        await self._pass.store.update_attributes(row.openai_file_id, {**known, **attributes})
