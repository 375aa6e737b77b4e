"""Build the commands that remove an item, an article or only a text, with everything that belongs to it.

Forget, purge, prune, a page that is gone and an article's end all remove through here; the caller decides whether the
commands run under a lease, with a visit's commit, or on their own. The keys come from `item_keys`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core import ids
from core.feeds.io import links_to_fetch
from core.keys import Keys
from core.registry import item_keys
from core.registry.record import Item, iso, listing_sources
from core.runs.io.state_tally import KbTally
from core.search.io.chunk_remover import ChunkRemover
from core.store import connect
from core.store.commands import Command, batched
from core.store.connect import Client, texts
from core.store.event_command import event
from core.store.leases import LEASE_SECONDS, Commit, CommitResult, Leases
from core.store.pipeline import read_many
from core.value_class import value_class

AT_ONCE = 100
"""Items that are leased and removed together."""
_FIELDS = (
    *("normalizedSource", "sources", "PartitionKey", "articleUid"),
    *("contentHash", "aliasOf", "fetchUrl", "lastSource"),
)


@value_class
class RemovableItem:
    """What a removal needs to know of an item; the defaults are those of an id without a record."""

    id: str
    source: str = ""
    sources: tuple[str, ...] = ()
    partition: str = ""
    article_uid: str = ""
    content_hash: str = ""
    alias_of: str = ""
    fetch_url: str = ""
    last_source: str = ""
    """The source that was the last to unlist it."""
    has_text: bool = False
    """It has a text of its own, or an article that search finds."""
    images: Mapping[str, str] | None = None
    """Ids of its images with their partitions."""


class Remover:
    """Builds the commands of a removal."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._chunks = ChunkRemover(client, keys)
        self._tally = KbTally(keys)

    # ── items ──

    async def read(self, item_ids: Sequence[str]) -> list[RemovableItem]:
        """Return those of the items that have a record."""
        records = [("HMGET", self._keys.item(item_id), *_FIELDS) for item_id in item_ids]
        documents = [("HEXISTS", self._keys.document(item_id), "content_hash") for item_id in item_ids]
        replies = await read_many(self._client, [*records, *documents])
        rows = zip(item_ids, replies[: len(item_ids)], replies[len(item_ids) :], strict=True)
        existing = [row for row in rows if row[1][0] is not None]
        # An article that a 404 has hidden is not found by search.
        uids = sorted({fields[3] for _, fields, _ in existing if fields[3]})
        statuses = await read_many(self._client, [("HGET", self._keys.article(uid), "status") for uid in uids])
        findable = {uid for uid, status in zip(uids, statuses, strict=True) if status == "success"}
        images = await self._images_of([item_id for item_id, _, _ in existing])
        items = []
        for item_id, fields, has_document in existing:
            source, _, partition, uid, content_hash, alias_of, fetch_url, last = (value or "" for value in fields)
            record = (partition, uid, content_hash, alias_of, fetch_url, last)
            has_text, sources = bool(has_document) or uid in findable, listing_sources(fields[1])
            items.append(RemovableItem(item_id, source, sources, *record, has_text, images[item_id]))
        return items

    async def items(self, records: Sequence[RemovableItem]) -> list[Command]:
        """Commands that remove items from everywhere, with an event for each; their articles are left."""
        keys, names = self._keys, [record.id for record in records]
        stored = await self._chunks.stored(names)
        chunks = {name: ref for refs in stored.values() for name, ref in refs.items()}
        commands = batched(("DEL",), [key for name in names for key in item_keys.item_keys(keys, name)])
        commands += [*self._chunks.remove_chunks(chunks), *self._unlisted(records)]
        for record in records:
            commands += self.images(record.images or {})
            commands += self._tally.removed(record.sources, len(stored[record.id]))
            if record.alias_of:
                commands.append(("SREM", keys.aliases(record.alias_of), record.fetch_url))
            if record.has_text:
                commands.append(event(keys, "item.gone", id=record.id, source=record.source, deleted="true"))
            else:
                commands.append(event(keys, "item.forgotten", id=record.id))
        return commands

    def _unlisted(self, records: Sequence[RemovableItem]) -> list[Command]:
        """Commands that take items out of every set that lists them, one command per set."""
        members: dict[tuple[str, str], list[str]] = {}
        for record in records:
            for key in item_keys.item_sets(self._keys, record.partition, record.sources):
                members.setdefault(("SREM", key), []).append(record.id)
            for key in item_keys.item_ranks(self._keys, record.sources):
                members.setdefault(("ZREM", key), []).append(record.id)
        return [command for head, names in members.items() for command in batched(head, names)]

    async def remove(self, records: Sequence[RemovableItem], field: str, values: Mapping[str, str]) -> int:
        """Remove items and their articles, except those that a worker has leased or that have changed; how many.

        An item has changed if `field` of its record is not what `values` has for it; a missing field counts as `0`.
        """
        removed = 0
        for start in range(0, len(records), AT_ONCE):
            removed += await self._remove(records[start : start + AT_ONCE], field, values)
        return removed

    async def _remove(self, records: Sequence[RemovableItem], field: str, values: Mapping[str, str]) -> int:
        leases = Leases(self._client, self._keys)
        until = iso(await connect.now(self._client) + LEASE_SECONDS)
        acquired = await leases.acquire_many([record.id for record in records], until)
        leased = [(record, taken[0]) for record, taken in zip(records, acquired, strict=True) if taken]
        works = []
        try:
            relist = await self.relist({source for record, _ in leased for source in record.sources})
            for record, lease in leased:
                article = await self.articles([record.article_uid], [record.content_hash], keep_attempted=True)
                expected = (self._keys.item(record.id), field, values[record.id])
                works.append(Commit(lease, [*await self.items([record]), *article], expected))
            answers = await leases.commit_many(works, relist) if works else []
        except BaseException:
            await leases.release_many([lease for _, lease in leased])
            raise
        if changed := [
            work.lease for work, answer in zip(works, answers, strict=True) if answer is CommitResult.OUTDATED
        ]:
            await leases.release_many(changed)
        return answers.count(CommitResult.WRITTEN)

    async def relist(self, sources: Iterable[str]) -> list[Command]:
        """Commands that make sources forget their last listing, so that they find again what still exists."""
        names = sorted(sources)
        known = await read_many(self._client, [("HEXISTS", self._keys.source(sid), "config") for sid in names])
        return [
            ("HSET", self._keys.source(sid), "links_dirty", "1", "memory", "{}")
            for sid, is_known in zip(names, known, strict=True)
            if is_known
        ]

    # ── texts ──

    async def text(self, item: Item) -> list[Command]:
        """Commands that remove an item's text for good: document, snapshot, aliases, images, chunks."""
        return await self._without(item, item_keys.text_keys(self._keys, item.id))

    async def visible_text(self, item: Item) -> list[Command]:
        """Commands that take an item's text out of search and keep what makes its return cheap."""
        return await self._without(item, item_keys.visible_keys(self._keys, item.id))

    async def _without(self, item: Item, names: Sequence[str]) -> list[Command]:
        images = self.images(await self.images_of(item.id))
        fields: Command = ("HSET", self._keys.item(item.id), "imageCount", 0, "indexedHash", "")
        stored = (await self._chunks.stored([item.id]))[item.id]
        chunks = [*self._chunks.remove_stored(item.id, stored), *self._tally.removed(item.sources, len(stored))]
        return [("DEL", *names), *images, fields, *chunks]

    # ── images ──

    async def images_of(self, item_id: str) -> dict[str, str]:
        """Return the ids of a page's images with their partitions."""
        return (await self._images_of([item_id]))[item_id]

    async def _images_of(self, item_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        sets = await read_many(self._client, [("SMEMBERS", self._keys.images(item_id)) for item_id in item_ids])
        names = [name for members in sets for name in texts(members)]
        replies = await read_many(self._client, [("HGET", self._keys.item(name), "PartitionKey") for name in names])
        partitions = dict(zip(names, replies, strict=True))
        return {
            item_id: {name: partitions[name] or "" for name in texts(members)}
            for item_id, members in zip(item_ids, sets, strict=True)
        }

    def images(self, images: Mapping[str, str]) -> list[Command]:
        """Commands that remove the records of images; they have no text and are in no source."""
        commands: list[Command] = []
        for name, partition in images.items():
            commands.append(("DEL", *item_keys.item_keys(self._keys, name)))
            commands += [("SREM", key, name) for key in item_keys.item_sets(self._keys, partition, ())]
        return commands

    # ── articles ──

    async def articles(
        self, uids: Iterable[str], content_hashes: Iterable[str] = (), *, keep_attempted: bool = False
    ) -> list[Command]:
        """Commands that remove the articles, aliases and failures of these uids.

        `content_hashes`: of articles that have expired, whose own hash can no longer be read. With `keep_attempted`
        the uids stay attempted, so that a link does not bring back what is gone.
        """
        names = sorted(set(uids) - {""})
        if not names:
            return []
        hashes, categories, aliases = await self._around(names)
        originals = await read_many(self._client, [("HGET", self._keys.article(uid), "duplicate_of") for uid in names])
        commands = batched(("DEL",), [key for uid in names for key in item_keys.article_keys(self._keys, uid)])
        commands += batched(("DEL",), [self._keys.alias(alias) for alias in aliases])
        for key in item_keys.article_ranks(self._keys):
            commands += batched(("ZREM", key), names)
        failures = [member for uid in names for member in item_keys.failure_members(uid)]
        commands += batched(("ZREM", self._keys.failures), failures)
        for category in categories:
            commands += batched(("SREM", self._keys.articles_by_category(category)), names)
        commands += await self.first_texts({*hashes, *content_hashes} - {""}, set(names))
        same = [(self._keys.duplicates(first), uid) for uid, first in zip(names, originals, strict=True) if first]
        commands += [("SREM", key, uid) for key, uid in same]
        # Links that were other URLs of these articles may still lead somewhere: the next run fetches them.
        forgotten = aliases if keep_attempted else [*names, *aliases]
        commands += batched(("SREM", self._keys.attempted), forgotten)
        commands += batched(("ZREM", self._keys.attempted_at), forgotten)
        if not keep_attempted:
            commands.append(links_to_fetch.reset(self._keys))  # a link that is still in its set is new again
        return commands

    async def _around(self, uids: Sequence[str]) -> tuple[set[str], list[str], list[str]]:
        """Return the articles' content hashes, the categories that may list them and the uids of their aliases."""
        keys = self._keys
        stored = [("HMGET", keys.article(uid), "content_hash", "categories") for uid in uids]
        urls = [("SMEMBERS", keys.aliases(uid)) for uid in uids]
        *replies, known = await read_many(self._client, [*stored, *urls, ("SMEMBERS", keys.categories)])
        articles, url_sets = replies[: len(uids)], replies[len(uids) :]
        categories = {name for _, listed in articles for name in (listed or "").split(",")} | set(texts(known))
        candidates = sorted({ids.article_uid(str(url)) for urls in url_sets for url in urls})
        # A candidate may have become an article of its own since.
        targets = await self._client.mget([keys.alias(uid) for uid in candidates]) if candidates else []
        aliases = [uid for uid, target in zip(candidates, targets, strict=True) if target in uids]
        return {content_hash or "" for content_hash, _ in articles}, sorted(categories - {""}), aliases

    async def first_texts(self, hashes: set[str], uids: set[str]) -> list[Command]:
        """Commands that forget which article had these texts first, where it was one of these."""
        names = [self._keys.content(content_hash) for content_hash in sorted(hashes)]
        firsts = await self._client.mget(names) if names else []
        return [("DEL", name) for name, first in zip(names, firsts, strict=True) if first in uids]
