"""What becomes of an item when its article has ended: by its TTL, which fires no event, or because it was removed.

A page that another source lists too falls back to the text that is its own, or is read anew at once. Any other is
Gone: out of search, not due, restorable by a reindex, and forgotten when the memory of its link is.
"""

from __future__ import annotations

from core.keys import Keys
from core.registry.io.items import ItemStore
from core.registry.io.remover import Remover
from core.registry.record import ARTICLES_SOURCE, Item, Status, iso
from core.store.commit import Command
from core.store.connect import Client
from core.store.events import event

ENDED = "The article's TTL ended."
_WELL = (Status.CRAWLED, Status.INDEXED)
_NO_VALIDATORS = {"httpEtag": "", "httpLastModified": "", "validatorsUrl": "", "bodyHash": "", "visitedVersion": ""}
"""They belong to the article's text; without them the next visit reads the whole page."""


class ArticleEnd:
    """Says what to write."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._keys = keys
        self._items = ItemStore(client, keys)
        self._remover = Remover(client, keys)

    def expected(self, item: Item) -> tuple[str, ...]:
        """What the record has to say still, for a commit of `commands`: nobody has listed or embedded it since."""
        key = self._keys.item(item.id)
        same = (*self._items.expected(item, item.generation), key, "contentHash", item.content_hash)
        return (*same, key, "indexedHash", item.indexed_hash) if item.indexed_hash else same

    async def commands(self, item: Item, now: float, why: str = ENDED) -> list[Command]:
        """Commands that end an item's article, for a commit under the item's lease."""
        hashes = [item.content_hash]
        article = await self._remover.articles([item.article_uid], hashes, keeps_memory=True)
        if any(source != ARTICLES_SOURCE for source in item.sources):
            return [*article, *await self._fall_back(item, now)]
        if item.status is Status.GONE:
            return [*article, self._items.unlocked(item)]
        return [*article, *await self._gone(item, now, why)]

    async def _gone(self, item: Item, now: float, why: str) -> list[Command]:
        fields = {"errorMessage": why, "goneTs": f"{now:.3f}", "nextCrawlAt": "", "lockedUntil": ""}
        return [
            *await self._remover.text(item.id),
            *self._in_status(item, Status.GONE, fields),
            ("ZREM", self._keys.due(ARTICLES_SOURCE), item.id),
            event(self._keys, "item.gone", id=item.id, source=item.source, deleted="true", reason="expired"),
        ]

    async def _fall_back(self, item: Item, now: float) -> list[Command]:
        """The page stays with its other sources."""
        no_article = ("articleUid", "", "articleUrl", "", "articleCategories", "")
        commands = [*self._items.unlist(item, ARTICLES_SOURCE), ("HSET", self._keys.item(item.id), *no_article)]
        if item.text_hash and item.text_hash == item.content_hash:
            return commands  # the same text under another key: search knows it already
        if item.text_hash:
            commands += self._other_text(item, now)
        elif item.status is not Status.GONE:
            commands += await self._no_text(item)
        if item.status not in _WELL:
            return commands  # in trouble: its next check is known, and not earlier
        status = Status.CRAWLED if item.text_hash else Status.PENDING
        commands += self._in_status(item, status, {"nextCrawlAt": iso(now)})
        others = [source for source in item.sources if source != ARTICLES_SOURCE]
        return [*commands, *(("ZADD", self._keys.due(source), int(now), item.id) for source in others)]

    def _other_text(self, item: Item, now: float) -> list[Command]:
        """Search answers from the page's own text; its chunks are swapped when they are embedded."""
        fields = _NO_VALIDATORS | {"contentHash": item.text_hash, "textHash": item.text_hash}
        return [
            ("HSET", self._keys.item(item.id), *(word for pair in fields.items() for word in pair)),
            ("ZADD", self._keys.embed_due, f"{now:.3f}", item.id),
            event(self._keys, "item.changed", id=item.id, source=item.source),
        ]

    async def _no_text(self, item: Item) -> list[Command]:
        fields = _NO_VALIDATORS | {"contentHash": "", "textHash": ""}
        return [
            *await self._remover.shown(item.id),
            ("HSET", self._keys.item(item.id), *(word for pair in fields.items() for word in pair)),
            event(self._keys, "item.gone", id=item.id, source=item.source, deleted="true", reason="expired"),
        ]

    def _in_status(self, item: Item, status: Status, fields: dict[str, str]) -> list[Command]:
        fields = fields | {"status": str(status)}
        return [
            ("HSET", self._keys.item(item.id), *(word for pair in fields.items() for word in pair)),
            ("SREM", self._keys.status(str(item.status)), item.id),
            ("SADD", self._keys.status(str(status)), item.id),
        ]
