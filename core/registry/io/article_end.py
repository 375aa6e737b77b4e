"""End an item's article, because its TTL is over (which fires no event) or because it was removed.

A page that another source lists too falls back to its own text, or is read again at once. Any other item becomes Gone:
out of search, not due, restorable by a reindex, and purged when its link is no longer remembered as attempted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.keys import Keys
from core.registry.io.item_store import ItemStore, LeasedItem
from core.registry.io.removal_commands import Remover
from core.registry.record import ARTICLES_SOURCE, Item, Status, iso
from core.store.commands import Command, flat
from core.store.connect import Client
from core.store.event_command import event
from core.store.leases import Commit, CommitResult, Leases

ENDED = "The article's TTL ended."
_NO_VALIDATORS = {"httpEtag": "", "httpLastModified": "", "validatorsUrl": "", "bodyHash": "", "visitedVersion": ""}
"""They belong to the article's text; without them the next visit reads the whole page."""


class ArticleEnd:
    """Ends articles under the leases of their items."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._keys = keys
        self._items = ItemStore(client, keys)
        self._remover = Remover(client, keys)

    async def commit(self, leases: Leases, leased: Sequence[LeasedItem], now: float) -> list[LeasedItem]:
        """End the articles of these items and return those that were written.

        An item that was listed or embedded meanwhile is left as it is; every lease is released.
        """
        try:
            works = [Commit(one.lease, await self.commands(one.item, now), self.expected(one.item)) for one in leased]
            answers = await leases.commit_many(works) if works else []
        except BaseException:
            await leases.release_many([one.lease for one in leased])
            raise
        results = list(zip(leased, answers, strict=True))
        await self.release(leases, [one for one, answer in results if answer is CommitResult.OUTDATED])
        return [one for one, answer in results if answer is CommitResult.WRITTEN]

    async def release(self, leases: Leases, leased: Sequence[LeasedItem]) -> None:
        """Release items without a result."""
        if leased:
            unlocked = [self._items.unlocked(one.item) for one in leased]
            await leases.release_many([one.lease for one in leased], unlocked)

    def expected(self, item: Item) -> tuple[str, ...]:
        """Return what the record must still say at the commit: it was not listed or embedded since."""
        key = self._keys.item(item.id)
        same = (*self._items.expected(item, item.generation), key, "contentHash", item.content_hash)
        return (*same, key, "indexedHash", item.indexed_hash) if item.indexed_hash else same

    async def commands(self, item: Item, now: float, why: str = ENDED) -> list[Command]:
        """Commands that end an item's article."""
        article = await self._remover.articles([item.article_uid], [item.content_hash], keep_attempted=True)
        if any(source != ARTICLES_SOURCE for source in item.sources):
            return [*article, *await self._fall_back(item, now)]
        if item.status is Status.GONE:
            return [*article, self._items.unlocked(item)]
        return [*article, *await self._gone(item, now, why)]

    async def _gone(self, item: Item, now: float, why: str) -> list[Command]:
        fields = {"errorMessage": why, "goneTs": f"{now:.3f}", "nextCrawlAt": "", "lockedUntil": ""}
        return [
            *await self._remover.text(item),
            *self._set_status(item, Status.GONE, fields),
            ("ZREM", self._keys.due(ARTICLES_SOURCE), item.id),
            self._expired(item),
        ]

    async def _fall_back(self, item: Item, now: float) -> list[Command]:
        """The page stays with its other sources."""
        no_article = {"articleUid": "", "articleUrl": "", "articleCategories": ""}
        commands = [*self._items.unlist(item, ARTICLES_SOURCE), self._set(item, no_article)]
        if item.text_hash and item.text_hash == item.content_hash:
            return commands  # the same text under another key: search has it already
        if item.text_hash:
            # Search goes on with the page's own text; its chunks are swapped when they are embedded.
            hashes = {"contentHash": item.text_hash, "textHash": item.text_hash}
            commands += [
                self._set(item, _NO_VALIDATORS | hashes),
                ("ZADD", self._keys.embed_due, f"{now:.3f}", item.id),
                event(self._keys, "item.changed", id=item.id, source=item.source),
            ]
        elif item.status is not Status.GONE:
            commands += await self._remover.visible_text(item)
            commands += [self._set(item, _NO_VALIDATORS | {"contentHash": "", "textHash": ""}), self._expired(item)]
        if item.status not in (Status.CRAWLED, Status.INDEXED):
            return commands  # in trouble: its next check is set, and not earlier
        status = Status.CRAWLED if item.text_hash else Status.PENDING
        commands += self._set_status(item, status, {"nextCrawlAt": iso(now)})
        others = [source for source in item.sources if source != ARTICLES_SOURCE]
        return [*commands, *(("ZADD", self._keys.due(source), int(now), item.id) for source in others)]

    def _set_status(self, item: Item, status: Status, fields: Mapping[str, str]) -> list[Command]:
        return [
            self._set(item, {**fields, "status": str(status)}),
            ("SREM", self._keys.status(str(item.status)), item.id),
            ("SADD", self._keys.status(str(status)), item.id),
        ]

    def _set(self, item: Item, fields: Mapping[str, str]) -> Command:
        return ("HSET", self._keys.item(item.id), *flat(fields))

    def _expired(self, item: Item) -> Command:
        return event(self._keys, "item.gone", id=item.id, source=item.source, deleted="true", reason="expired")
