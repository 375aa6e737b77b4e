"""The texts of items: a page's own document, or the article that a feed listed; with images, outlinks and snapshot.

Commands only, to be committed with the decision they belong to.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import cast

from core import ids, registry
from core.decide import Decision, Text
from core.keys import Keys
from core.models import Document, Fetched
from core.outcomes import Changed, Moved
from core.registry import Item
from core.stores.commit import Command, Word, batched, flat
from core.stores.connect import Client
from core.stores.images import ImageStore
from core.stores.items import Leased
from core.stores.links import Lives
from core.stores.removing import Removing

DAY_SECONDS = 86_400
DOCUMENT_FIELDS = (
    *("content_hash", "title", "markdown", "abstract", "image", "author", "published_ts", "language", "text_len"),
)
"""What an article and a page's own text have in common."""


class DocumentStore:
    """What a decision does to a text."""

    def __init__(
        self, client: Client, keys: Keys, lives: Lives, snapshot_days: float, partition_strategy: str = "host"
    ) -> None:
        self._client = client
        self._keys = keys
        self._lives = lives
        self._snapshot_seconds = int(snapshot_days * DAY_SECONDS)
        self._removing = Removing(client, keys)
        self._images = ImageStore(client, keys, partition_strategy)

    async def apply(self, leased: Leased, decision: Decision, outcome: object, now: float) -> list[Command]:
        """Commands for the text of an item, as decided."""
        match decision.text:
            case Text.REPLACE if isinstance(outcome, Changed):
                return await self._replace(leased, outcome, now)
            case Text.HIDE:
                return [*self._hidden(leased), *await self._removing.shown(leased.item.id)]
            case Text.DELETE:
                return [*await self._deleted(leased), *self._named(leased.item, outcome)]
        return await self._copied(leased, now)

    # ── writing ──

    async def _replace(self, leased: Leased, outcome: Changed, now: float) -> list[Command]:
        item, document = leased.item, outcome.document
        written = self._article(leased, outcome, now) if leased.article else []
        if not leased.article or _outlives_article(item):
            written += self._document(item, document, now)
        due: Command = ("ZADD", self._keys.embed_due, f"{now:.3f}", item.id)
        if item.alias_of:  # a page of its own again
            written.append(("SREM", self._keys.aliases(item.alias_of), item.fetch_url))
        left = {leased.article.get("content_hash", "")} - {"", document.content_hash}
        written += await self._removing.first_texts(left, {item.article_uid})
        return [*written, due, *await self.replace_images(item, document, now)]

    async def _copied(self, leased: Leased, now: float) -> list[Command]:
        """A page of a feed and a site: the article's text is the page's own, too, for when the article ends."""
        item, uid = leased.item, leased.item.article_uid
        if leased.article.get("status") != "success" or not _outlives_article(item):
            return []
        own_hash = await self._client.hget(self._keys.document(item.id), "content_hash")
        if own_hash == leased.article["content_hash"]:
            return []
        said = await self._client.hmget(self._keys.article(uid), list(DOCUMENT_FIELDS))
        if said[0] is None:  # it has just ended
            return []
        fields: dict[str, Word] = {"id": item.id, "url": item.fetch_url, "updated_ts": f"{now:.3f}"}
        fields |= {name: str(value or "") for name, value in zip(DOCUMENT_FIELDS, said, strict=True)}
        return [("HSET", self._keys.document(item.id), *flat(fields))]

    def _document(self, item: Item, document: Document, now: float) -> list[Command]:
        fields: dict[str, Word] = {
            "id": item.id,
            "url": item.fetch_url,
            "title": document.title,
            "markdown": document.markdown,
            "abstract": document.abstract,
            "image": document.image,
            "author": document.author,
            "published_ts": "" if document.published_ts is None else int(document.published_ts),
            "language": document.language,
            "content_hash": document.content_hash,
            "text_len": document.text_len,
            "updated_ts": f"{now:.3f}",
        }
        return [("HSET", self._keys.document(item.id), *flat(fields))]

    def _article(self, leased: Leased, outcome: Changed, now: float) -> list[Command]:
        """The article in place: what its publisher corrected, under the uid and in the categories it has."""
        item, before = leased.item, leased.article
        document, visit = outcome.document, outcome.visit
        uid, key = item.article_uid, self._keys.article(item.article_uid)
        fields: dict[str, Word] = {
            "uid": uid,
            "status": "success",
            "url": before["url"],
            "category": before["category"],
            "categories": before["categories"],
            "fetched_ts": before["fetched_ts"],
            "item_id": item.id,
            "duplicate_of": before["duplicate_of"],
            "title": document.title or before["title"],
            "author": document.author or before["author"],
            "published_ts": before["published_ts"]
            or ("" if document.published_ts is None else int(document.published_ts)),
            "abstract": document.abstract,
            "clean_text": document.clean_text,
            "markdown": document.markdown,
            "image": document.image,
            "language": document.language,
            "raw_len": document.raw_len,
            "text_len": document.text_len,
            "canonical_url": document.canonical_url,
            "content_hash": document.content_hash,
            "extractor_version": document.extractor_version,
            "text_source": document.source,
            "final_url": visit.fetched_url,
            "etag": visit.etag,
            "last_modified": visit.last_modified,
            "updated_ts": f"{now:.3f}",
        }
        content = self._keys.content(document.content_hash)
        commands: list[Command] = [
            ("HSET", key, *flat(fields)),
            # It may have ended while we fetched: then it begins a new life instead of living for ever.
            ("EXPIRE", key, self._lives.article, "NX"),
            ("SET", content, uid, "NX", "EX", self._lives.article),
        ]
        return commands + self._indexed(uid, before) if before["status"] != "success" else commands

    def _indexed(self, uid: str, article: Mapping[str, str]) -> list[Command]:
        """An article that was hidden is found again where it was."""
        sets = [self._keys.articles_by_category(name) for name in article["categories"].split(",") if name]
        again: list[Command] = [("ZADD", self._keys.article_index, "NX", article["fetched_ts"] or 0, uid)]
        return again + [c for key in sets for c in (("SADD", key, uid), ("EXPIRE", key, self._lives.article))]

    # ── taking away ──

    def _hidden(self, leased: Leased) -> list[Command]:
        """Out of category and index; an article keeps its text until it ends or is gone for good."""
        if not leased.article:
            return []
        key = self._keys.article(leased.item.article_uid)
        hidden: list[Command] = [("HSET", key, "status", "gone"), ("EXPIRE", key, self._lives.article, "NX")]
        return hidden + self._unindexed(leased)

    async def _deleted(self, leased: Leased) -> list[Command]:
        """The text for good; an article's link is still known, so that it does not bring the article back."""
        item, gone = leased.item, await self._removing.text(leased.item.id)
        if leased.article:
            gone += await self._removing.articles([item.article_uid], [item.content_hash], keeps_memory=True)
        return gone

    def _named(self, item: Item, outcome: object) -> list[Command]:
        """An alias is told to the page whose other name it is."""
        return [("SADD", self._keys.aliases(outcome.target_id), item.fetch_url)] if isinstance(outcome, Moved) else []

    def _unindexed(self, leased: Leased) -> list[Command]:
        uid = leased.item.article_uid
        categories = filter(None, leased.article.get("categories", "").split(","))
        return [
            ("ZREM", self._keys.article_index, uid),
            *(("SREM", self._keys.articles_by_category(category), uid) for category in categories),
        ]

    # ── images, children of their page ──

    async def replace_images(self, item: Item, document: Document, now: float) -> list[Command]:
        """Commands that make a page's children those that it shows now."""
        return await self._images.replace(item, document.images, now)

    # ── outlinks and snapshots ──

    def outlinks(self, item: Item, links: Sequence[str], scope_version: str) -> list[Command]:
        """The commands that store a page's outlinks, if they are others than before or for another scope."""
        joined = "\n".join((scope_version, *sorted(links)))
        fingerprint = hashlib.sha256(joined.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        if fingerprint == item.links_hash:
            return []
        key = self._keys.links(item.id)
        stored: list[Command] = [("DEL", key), *batched(("SADD", key), list(links))]
        return [*stored, ("HSET", self._keys.item(item.id), "linksHash", fingerprint)]

    def snapshot(self, item: Item, answer: Fetched) -> list[Command]:
        """The page as it was served, if snapshots are kept."""
        if not self._snapshot_seconds:
            return []
        key = self._keys.snapshot(item.id)
        fields: dict[str, Word] = {
            "url": answer.final_url,
            "content_type": answer.header("content-type"),
            "body_hash": ids.body_hash(answer.body),
            "body": base64.b64encode(zlib.compress(answer.body, 6)).decode(),
        }
        return [("HSET", key, *flat(fields)), ("EXPIRE", key, self._snapshot_seconds)]

    async def read_snapshot(self, item: Item) -> Fetched | None:
        """The page as it was served when its text was stored; None if there is none, or of another version."""
        kept = cast(dict[str, str], await self._client.hgetall(self._keys.snapshot(item.id)))
        if not kept or kept["body_hash"] != item.body_hash:
            return None
        body = zlib.decompress(base64.b64decode(kept["body"]))
        headers = {"content-type": kept["content_type"], "etag": item.etag, "last-modified": item.last_modified}
        return Fetched(kept["url"], kept["url"], 200, headers, body)


def _outlives_article(item: Item) -> bool:
    """Does another source than a feed list it?"""
    return any(source != registry.ARTICLES_SOURCE for source in item.sources)
