"""Export articles, pages and files one by one, in bounded memory, however many there are.

`export_lines` yields JSON Lines, which `freshet export` prints and the API streams; docs/export.md describes them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

from core.errors import FreshetError, NotFound
from core.keys import Keys
from core.pages.text_cleaning import printable
from core.registry import field_parsing
from core.registry.io.article_list import ArticleList
from core.registry.io.item_queries import ItemQueries
from core.search.io.stored_texts import StoredText, StoredTextReader, stored_text_json
from core.sources.io.domain_store import DomainStore
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

_TEXTS_AT_ONCE = 20
"""Texts in memory; each may have megabytes."""


@value_class
class ExportFilter:
    """What is exported; empty: everything that has a text."""

    category: str = ""
    """Articles of this category."""
    domain: str = ""
    """Pages and files of this domain, and articles that it lists too."""
    since_ts: float | None = None
    """Stored or changed at this time or later."""
    until_ts: float | None = None

    def has(self, updated_ts: float) -> bool:
        """Return whether it was stored or changed within these times."""
        return (self.since_ts is None or updated_ts >= self.since_ts) and (
            self.until_ts is None or updated_ts <= self.until_ts
        )


async def export_lines(client: Client, keys: Keys, wanted: ExportFilter) -> AsyncIterator[str]:
    """Yield a line of JSON for each text, without its line feed; raise FreshetError for names that do not exist."""
    async for text in export_texts(client, keys, wanted):
        # Without what some programs take for the end of a line, such as U+2028.
        yield printable(json.dumps(stored_text_json(text), ensure_ascii=False))


async def export_texts(client: Client, keys: Keys, wanted: ExportFilter) -> AsyncIterator[StoredText]:
    """Yield each text once: articles newest first, then pages and files, in no order."""
    exporter = Exporter(client, keys, wanted)
    await exporter.check()
    async for text in exporter.texts():
        yield text


class Exporter:
    """Walks over what is exported."""

    def __init__(self, client: Client, keys: Keys, wanted: ExportFilter) -> None:
        self._client = client
        self._keys = keys
        self._wanted = wanted
        self._queries = ItemQueries(client, keys)
        self._reader = StoredTextReader(client, keys)

    async def check(self) -> None:
        """Raise FreshetError if there is no such category or domain, before the first line is written."""
        wanted = self._wanted
        if wanted.category and wanted.domain:
            raise FreshetError("Export a category or a domain, not both: a category has articles, a domain pages.")
        if wanted.category and not await self._queries.has_category(wanted.category):
            raise NotFound(f"There is no category {wanted.category}. `freshet status` shows what there is.")
        if wanted.domain:
            await DomainStore(self._client, self._keys).require(wanted.domain)

    async def texts(self) -> AsyncIterator[StoredText]:
        """Yield the texts."""
        if not self._wanted.domain:
            async for uids in ArticleList(self._client, self._keys).uids(self._wanted.category):
                async for text in self._articles(uids):
                    yield text
        if not self._wanted.category:
            async for item_ids in self._items():
                async for text in self._pages(item_ids):
                    yield text

    async def _items(self) -> AsyncIterator[list[str]]:
        if not self._wanted.domain:
            async for item_ids in self._queries.of_all():
                yield item_ids
            return
        domain = await DomainStore(self._client, self._keys).require(self._wanted.domain)
        async for item_ids in self._queries.of_sources(domain.sources):
            yield item_ids

    async def _articles(self, uids: Sequence[str]) -> AsyncIterator[StoredText]:
        fields = ("item_id", "fetched_ts", "updated_ts")
        rows = await read_many(self._client, [("HMGET", self._keys.article(uid), *fields) for uid in uids])
        item_ids = [str(row[0]) for row in rows if row[0] and self._is_wanted(row[2] or row[1])]
        async for text in self._read(item_ids):
            yield text

    async def _pages(self, item_ids: Sequence[str]) -> AsyncIterator[StoredText]:
        """Yield the texts of items; of a domain also articles, which otherwise have been exported before."""
        if self._wanted.since_ts is not None or self._wanted.until_ts is not None:
            item_ids = await self._changed(item_ids)
        async for text in self._read(item_ids):
            if self._wanted.domain or text.kind != "article":
                yield text

    async def _changed(self, item_ids: Sequence[str]) -> list[str]:
        """Return the items whose text may have changed in time, so that the others need not be read."""
        commands = [("HGET", self._keys.document(one), "updated_ts") for one in item_ids]
        commands += [("HGET", self._keys.item(one), "articleUid") for one in item_ids]
        rows = await read_many(self._client, commands)
        changed, uids = rows[: len(item_ids)], rows[len(item_ids) :]
        return [
            item_id
            for item_id, updated, uid in zip(item_ids, changed, uids, strict=True)
            if uid or self._is_wanted(updated)
        ]

    async def _read(self, item_ids: Sequence[str]) -> AsyncIterator[StoredText]:
        for start in range(0, len(item_ids), _TEXTS_AT_ONCE):
            for text in await self._reader.read(item_ids[start : start + _TEXTS_AT_ONCE]):
                if self._wanted.has(text.updated_ts or 0.0):
                    yield text

    def _is_wanted(self, updated: object) -> bool:
        return self._wanted.has(field_parsing.timestamp(updated))
