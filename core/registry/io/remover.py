"""The one way to remove: an item with everything that belongs to it, an article with everything, or only a text.

Returns commands; who calls decides whether they run under a lease, with a visit's commit, or by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core import ids
from core.keys import Keys
from core.registry import key_lists
from core.registry.record import ARTICLES_SOURCE, iso
from core.search.io.chunk_remover import ChunkRemover
from core.store import connect
from core.store.commit import LEASE_SECONDS, Answer, Command, Leases, Work, batched
from core.store.connect import Client, texts
from core.store.events import event

AT_ONCE = 100
_FIELDS = (
    "normalizedSource",
    "sources",
    "PartitionKey",
    "articleUid",
    "contentHash",
    "aliasOf",
    "fetchUrl",
    "lastSource",
)


@dataclass(frozen=True, slots=True)
class RemovableItem:
    """What a removal has to know of an item; the defaults are those of an id without a record."""

    id: str
    source: str = ""
    sources: tuple[str, ...] = ()
    partition: str = ""
    article_uid: str = ""
    content_hash: str = ""
    alias_of: str = ""
    fetch_url: str = ""
    has_text: bool = False
    """A text of its own, or an article that can be found."""
    last_source: str = ""
    """The source that listed it until it was the last to unlist it."""
    images: Mapping[str, str] | None = None
    """Ids of its images, its children, with their partitions."""


class Remover:
    """Says what to delete."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._chunks = ChunkRemover(client, keys)

    # ── items ──

    async def read(self, item_ids: Sequence[str]) -> list[RemovableItem]:
        """The records of those that exist."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), list(_FIELDS))
            pipe.hexists(self._keys.document(item_id), "content_hash")
        answers = await pipe.execute() if item_ids else []
        rows = [row for row in zip(item_ids, answers[::2], answers[1::2], strict=True) if row[1][0] is not None]
        shown = await self._shown({str(fields[3]) for _, fields, _ in rows if fields[3]})
        images = await self._images_of([item_id for item_id, _, _ in rows])
        return [
            _record(item_id, fields, bool(own) or fields[3] in shown, images[item_id]) for item_id, fields, own in rows
        ]

    async def _shown(self, uids: Iterable[str]) -> set[str]:
        """Those of the articles that can be found."""
        wanted = list(uids)
        pipe = self._client.pipeline(transaction=False)
        for uid in wanted:
            pipe.hget(self._keys.article(uid), "status")
        found = zip(wanted, await pipe.execute() if wanted else [], strict=True)
        return {uid for uid, status in found if status == "success"}

    async def items(self, records: Sequence[RemovableItem]) -> list[Command]:
        """Commands that remove records from everywhere, and tell it."""
        keys, names = self._keys, [record.id for record in records]
        old = await self._chunks.old_of(names)
        chunks = {name: what for own in old.values() for name, what in own.known.items()}
        commands = batched(("DEL",), [key for name in names for key in key_lists.item_keys(keys, name)])
        commands += self._chunks.let_go(chunks)
        commands += self._unlisted(records)
        for record in records:
            commands += self.children(record.images or {})
            if record.alias_of:
                commands.append(("SREM", keys.aliases(record.alias_of), record.fetch_url))
            commands.append(self._told(record))
        return commands

    def _unlisted(self, records: Sequence[RemovableItem]) -> list[Command]:
        """Commands that take records out of every set that lists them, a command for each set."""
        places: dict[tuple[str, str], list[str]] = {}
        for record in records:
            for key in key_lists.item_sets(self._keys, record.partition, record.sources):
                places.setdefault(("SREM", key), []).append(record.id)
            for key in key_lists.item_ranks(self._keys, record.sources):
                places.setdefault(("ZREM", key), []).append(record.id)
        return [command for head, names in places.items() for command in batched(head, names)]

    def _told(self, record: RemovableItem) -> Command:
        if record.has_text:
            return event(self._keys, "item.gone", id=record.id, source=record.source, deleted="true")
        return event(self._keys, "item.forgotten", id=record.id)

    async def forget(self, item_ids: Sequence[str]) -> None:
        """Remove items from everywhere, whoever works on them; their articles are another's."""
        await Leases(self._client, self._keys).run(await self.items(await self.read(item_ids)))

    async def remove(self, records: Sequence[RemovableItem], expected: Mapping[str, Sequence[str]]) -> int:
        """Remove items and their articles, but none that a worker has now or that is not as expected; how many.

        `expected`: by item id, fields of the record and their values, in turn.
        """
        removed = 0
        for start in range(0, len(records), AT_ONCE):
            removed += await self._remove(records[start : start + AT_ONCE], expected)
        return removed

    async def _remove(self, records: Sequence[RemovableItem], expected: Mapping[str, Sequence[str]]) -> int:
        leases = Leases(self._client, self._keys)
        until = iso(await connect.now(self._client) + LEASE_SECONDS)
        taken = await leases.acquire_many([record.id for record in records], until)
        held = {record.id: (record, got[0]) for record, got in zip(records, taken, strict=True) if got}
        works = []
        try:
            anew = await self.look_anew({source for record, _ in held.values() for source in record.sources})
            for record, lease in held.values():
                ended = await self.articles([record.article_uid], [record.content_hash], keeps_memory=True)
                commands = [*await self.items([record]), *ended]
                works.append(Work(lease, commands, self._expected(record.id, expected.get(record.id, ()))))
            answers = await leases.commit_many(works, anew) if works else []
        except BaseException:
            await leases.release_many([lease for _, lease in held.values()])
            raise
        left = [work.lease for work, answer in zip(works, answers, strict=True) if answer is Answer.MOVED_ON]
        if left:
            await leases.release_many(left)
        return answers.count(Answer.WRITTEN)

    def _expected(self, item_id: str, fields: Sequence[str]) -> tuple[str, ...]:
        key = self._keys.item(item_id)
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return tuple(word for name, value in pairs for word in (key, name, value))

    async def look_anew(self, sources: Iterable[str]) -> list[Command]:
        """Commands that make sources forget what they remember of their last listing: what still exists, they find."""
        wanted = sorted(sources)
        pipe = self._client.pipeline(transaction=False)
        for sid in wanted:
            pipe.hexists(self._keys.source(sid), "config")
        known = zip(wanted, await pipe.execute() if wanted else [], strict=True)
        return [
            ("HSET", self._keys.source(sid), "links_dirty", "1", "memory", "{}") for sid, is_known in known if is_known
        ]

    # ── texts ──

    async def text(self, item_id: str) -> list[Command]:
        """Commands that remove an item's text for good: document, snapshot, aliases, images, chunks."""
        return await self._without(item_id, key_lists.text_keys(self._keys, item_id))

    async def shown(self, item_id: str) -> list[Command]:
        """Commands that take an item's text out of search, and keep what makes its return cheap."""
        return await self._without(item_id, key_lists.shown_keys(self._keys, item_id))

    async def _without(self, item_id: str, names: Sequence[str]) -> list[Command]:
        images = (await self._images_of([item_id]))[item_id]
        counted: Command = ("HSET", self._keys.item(item_id), "imageCount", 0, "indexedHash", "")
        return [("DEL", *names), *self.children(images), counted, *await self._chunks.of(item_id)]

    # ── images, children of their page ──

    async def _images_of(self, item_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """By item id: its images and their partitions."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.smembers(self._keys.images(item_id))
        lists = [texts(found) for found in (await pipe.execute() if item_ids else [])]
        names = [name for found in lists for name in found]
        for name in names:
            pipe.hget(self._keys.item(name), "PartitionKey")
        partitions = dict(zip(names, await pipe.execute() if names else [], strict=True))
        return {
            item_id: {name: str(partitions[name] or "") for name in found}
            for item_id, found in zip(item_ids, lists, strict=True)
        }

    async def children_of(self, item_id: str) -> dict[str, str]:
        """The images of a page and their partitions."""
        return (await self._images_of([item_id]))[item_id]

    def children(self, images: Mapping[str, str]) -> list[Command]:
        """Commands that remove the records of images from everywhere; they are in no source and have no text."""
        commands: list[Command] = []
        for name, partition in images.items():
            commands.append(("DEL", *key_lists.item_keys(self._keys, name)))
            commands += [("SREM", key, name) for key in key_lists.item_sets(self._keys, partition, ())]
        return commands

    # ── articles ──

    async def articles(
        self, uids: Iterable[str], content_hashes: Iterable[str] = (), *, keeps_memory: bool = False
    ) -> list[Command]:
        """Commands that remove articles, aliases or failures of these uids from everywhere.

        `content_hashes`: of articles that have ended, whose own hash is not there to be asked. With `keeps_memory`
        the uids stay attempted, so that a link does not bring back what is gone.
        """
        names = sorted(set(uids) - {""})
        if not names:
            return []
        hashes, categories, others = await self._around(names)
        commands = batched(("DEL",), [key for uid in names for key in key_lists.article_keys(self._keys, uid)])
        commands += batched(("DEL",), [self._keys.alias(other) for other in others])
        for key in key_lists.article_ranks(self._keys):
            commands += batched(("ZREM", key), names)
        told = [member for uid in names for member in key_lists.failure_members(uid)]
        commands += batched(("ZREM", self._keys.failures), told)
        for category in categories:
            commands += batched(("SREM", self._keys.articles_by_category(category)), names)
        commands += await self.first_texts({*hashes, *content_hashes} - {""}, set(names))
        # Links that were other URLs of these articles may lead to something still: the next run asks them.
        forgotten = others if keeps_memory else [*names, *others]
        commands += batched(("SREM", self._keys.attempted), forgotten)
        commands += batched(("ZREM", self._keys.attempted_at), forgotten)
        return commands

    async def _around(self, uids: Sequence[str]) -> tuple[set[str], list[str], list[str]]:
        """Content hashes of these articles, categories that may list them, uids of their other URLs."""
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hmget(self._keys.article(uid), ["content_hash", "categories"])
            pipe.smembers(self._keys.aliases(uid))
        pipe.smembers(self._keys.categories)
        *answers, known = await pipe.execute()
        named = {name for _, listed in answers[::2] for name in (listed or "").split(",")}
        others = {ids.article_uid(str(url)) for urls in answers[1::2] for url in urls}
        own = {str(content_hash or "") for content_hash, _ in answers[::2]}
        return own, sorted({*named, *texts(known)} - {""}), await self._aliases_to(sorted(others), set(uids))

    async def _aliases_to(self, candidates: Sequence[str], uids: set[str]) -> list[str]:
        """Those that stand for one of these articles; another may have become an article of its own."""
        targets = await self._client.mget([self._keys.alias(uid) for uid in candidates]) if candidates else []
        return [uid for uid, target in zip(candidates, targets, strict=True) if target in uids]

    async def first_texts(self, hashes: set[str], uids: set[str]) -> list[Command]:
        """Commands that forget who had these texts first, if it was one of these articles."""
        names = [self._keys.content(content_hash) for content_hash in sorted(hashes)]
        found = zip(names, await self._client.mget(names) if names else [], strict=True)
        return [("DEL", name) for name, first in found if first in uids]


def _record(item_id: str, fields: Sequence[str | None], has_text: bool, images: Mapping[str, str]) -> RemovableItem:
    source, sources, partition, uid, content_hash, alias_of, fetch_url, last = (value or "" for value in fields)
    # A record without the field was written before there were other sources than feeds.
    listed = (ARTICLES_SOURCE,) if fields[1] is None else tuple(filter(None, sources.split(",")))
    return RemovableItem(
        item_id, source, listed, partition, uid, content_hash, alias_of, fetch_url, has_text, last, images
    )
