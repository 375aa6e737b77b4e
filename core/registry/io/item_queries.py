"""Find items: one by any of its names, or many by what they have in common, in batches."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from core import ids
from core.ids import domain_of_source
from core.keys import Keys
from core.models import RejectedUrl
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, listing_sources
from core.store import scanning
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.urls import file_paths
from core.urls.normalise import clean_url, normalise_url, public_url
from core.urls.tracking_parameters import tracker_matcher
from core.value_class import value_class

_UID = re.compile(r"[0-9a-f]{16}")
_WEB = re.compile(r"https?:", re.IGNORECASE)


@value_class
class ResolvedName:
    """The item and article that a name stands for; empty where nothing is known."""

    item_id: str = ""
    uid: str = ""
    """The uid of an article, an alias or a link."""


@value_class
class ItemSummary:
    """What a selection needs to know of an item."""

    item_id: str
    type: str
    status: str
    host: str
    sources: tuple[str, ...]
    extractor_version: str
    is_image: bool = False
    """An image is visited and removed with its page, never alone."""


def one_domain_of(items: Iterable[ItemSummary]) -> str:
    """Return the domain that all the sources of these items belong to; empty if there is no such one."""
    domains = {domain_of_source(sid) for row in items for sid in row.sources}
    return domains.pop() if len(domains) == 1 else ""


class ItemQueries:
    """Finds items; writes nothing."""

    def __init__(self, client: Client, keys: Keys, tracking_params: tuple[str, ...] = ()) -> None:
        self._client = client
        self._keys = keys
        self._trackers = tracker_matcher(tracking_params)

    # ── one ──

    async def resolve(self, name: str, folder: Path) -> ResolvedName:
        """Return the item of an id, an article's uid, a URL or a path (relative to `folder`)."""
        if await self._exists(name):
            return ResolvedName(name)
        if _UID.fullmatch(name):
            return ResolvedName(await self._of_article(name), name)
        if _WEB.match(name.strip()):
            return await self._of_url(name.strip())
        return ResolvedName(await self._of_path(name, folder))

    async def resolve_many(self, names: Sequence[str]) -> dict[str, str]:
        """Return the item id of each name, empty where the registry has none; ids are checked in one round trip."""
        exists = await read_many(self._client, [("EXISTS", self._keys.item(name)) for name in names])
        known = {name: name if is_known else "" for name, is_known in zip(names, exists, strict=True)}
        return {name: item_id or (await self.resolve(name, Path("/"))).item_id for name, item_id in known.items()}

    async def parent_of(self, item_id: str) -> str:
        """Return the page of an image; empty for everything else."""
        return str(await self._client.hget(self._keys.item(item_id), "parentPageId") or "") if item_id else ""

    async def _of_url(self, url: str) -> ResolvedName:
        cleaned = public_url(url, self._trackers)
        if isinstance(cleaned, RejectedUrl):
            return ResolvedName()
        # As it may be in a link set: from a feed, added by hand, or from before the settings changed.
        spellings = (cleaned, url, clean_url(url), clean_url(url, self._trackers))
        for uid in dict.fromkeys(ids.article_uid(one) for one in spellings if isinstance(one, str)):
            if item_id := await self._of_article(uid):
                return ResolvedName(item_id, uid)
        for normalised in dict.fromkeys((normalise_url(cleaned), normalise_url(url))):
            item_id = ids.item_id("url", normalised)
            if await self._exists(item_id):
                return ResolvedName(item_id, ids.article_uid(cleaned))
        return ResolvedName(await self._of_path(url, Path("/")), ids.article_uid(cleaned))

    async def _of_article(self, uid: str) -> str:
        """Return the item of an article, also by the uid of an alias."""
        target = str(await self._client.get(self._keys.alias(uid)) or uid)
        item_id = str(await self._client.hget(self._keys.article(target), "item_id") or "")
        return item_id if item_id and await self._exists(item_id) else ""

    async def _of_path(self, path: str, folder: Path) -> str:
        for tried in (path, str(folder / path)):
            try:
                item_id = ids.item_id("file", file_paths.file_identity(tried).normalised)
            except ValueError:
                continue
            if await self._exists(item_id):
                return item_id
        return ""

    async def _exists(self, item_id: str) -> bool:
        return bool(item_id) and bool(await self._client.exists(self._keys.item(item_id)))

    # ── many ──

    async def has_category(self, category: str) -> bool:
        """Return whether there is such a category."""
        return bool(await self._client.sismember(self._keys.categories, category))

    async def of_category(self, category: str) -> AsyncIterator[list[str]]:
        """Items of the articles of a category."""
        async for uids in scanning.set_members(self._client, self._keys.articles_by_category(category)):
            item_ids = await read_many(self._client, [("HGET", self._keys.article(uid), "item_id") for uid in uids])
            yield [item_id for item_id in item_ids if item_id]

    async def of_sources(self, sources: Sequence[str]) -> AsyncIterator[list[str]]:
        """Items of these sources, each once."""
        for place, source in enumerate(sources):
            async for some in scanning.zset_members(self._client, self._keys.refs(source)):
                earlier = set(sources[:place])
                yield [row.item_id for row in await self.summaries(some) if not earlier.intersection(row.sources)]

    async def of_all(self) -> AsyncIterator[list[str]]:
        """Everything that any source lists."""
        named = sorted(texts(await self._client.smembers(self._keys.sources)))
        async for some in self.of_sources((ARTICLES_SOURCE, URLS_SOURCE, *named)):
            yield some

    async def of_host(self, host: str, partition_strategy: str) -> AsyncIterator[list[str]]:
        """Items of a host."""
        names = (host,) if partition_strategy == "host" else ("http", "https")
        for name in names:
            async for some in scanning.set_members(self._client, self._keys.partition(name)):
                yield [row.item_id for row in await self.summaries(some) if row.host == host and not row.is_image]

    async def of_status(self, status: Status) -> AsyncIterator[list[str]]:
        """Items of a status."""
        async for some in scanning.set_members(self._client, self._keys.status(str(status))):
            yield [row.item_id for row in await self.summaries(some) if not row.is_image]

    async def count(self, status: Status) -> int:
        """How many items are of a status."""
        return int(await self._client.scard(self._keys.status(str(status))))

    async def stale(self) -> AsyncIterator[list[str]]:
        """Items whose text an older extractor made."""
        async for some in self.of_all():
            rows = await self.summaries(some)
            yield [row.item_id for row in rows if row.extractor_version not in ("", EXTRACTOR_VERSION)]

    async def summaries(self, item_ids: Sequence[str]) -> list[ItemSummary]:
        """Return those of the items that exist, in order."""
        fields = ("type", "status", "sourceHost", "sources", "extractorVersion", "parentPageId")
        records = await read_many(self._client, [("HMGET", self._keys.item(item_id), *fields) for item_id in item_ids])
        return [
            ItemSummary(
                item_id, kind or "url", status, host or "", listing_sources(sources), version or "", bool(parent)
            )
            for item_id, (kind, status, host, sources, version, parent) in zip(item_ids, records, strict=True)
            if status is not None
        ]
