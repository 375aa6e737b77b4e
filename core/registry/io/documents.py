"""The texts of items: a page's own document, or the article that a feed listed; with images, outlinks and snapshot.

Commands only, to be committed with the decision they belong to.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Sequence
from typing import cast

from core import ids
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.models import Document, Fetched, Link, TextSource
from core.registry import stored_fields
from core.registry.decide import Decision, TextAction, VisitResult
from core.registry.io.articles import ArticleStore
from core.registry.io.images import ImageStore
from core.registry.io.items import LeasedItem
from core.registry.io.remover import Remover
from core.registry.outcomes import Changed, Moved
from core.registry.record import ARTICLES_SOURCE, Item, Status
from core.store.commit import Command, Word, batched, flat
from core.store.connect import Client

DAY_SECONDS = 86_400


class DocumentStore:
    """What a decision does to a text."""

    def __init__(
        self, client: Client, keys: Keys, ttls: Ttls, snapshot_days: float, partition_strategy: str = "host"
    ) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._snapshot_seconds = int(snapshot_days * DAY_SECONDS)
        self._remover = Remover(client, keys)
        self._images = ImageStore(client, keys, partition_strategy)
        self._articles = ArticleStore(client, keys, ttls)

    async def apply(self, leased: LeasedItem, decision: Decision, outcome: object, now: float) -> list[Command]:
        """Commands for the text of an item, as decided."""
        match decision.text:
            case TextAction.REPLACE if isinstance(outcome, Changed):
                return await self._replace(leased, decision, outcome, now)
            case TextAction.HIDE:
                return [*self._hidden(leased), *await self._remover.visible_text(leased.item.id)]
            case TextAction.DELETE:
                return [*await self._deleted(leased), *self._named(leased.item, outcome)]
        return await self._copied(leased, now)

    # ── writing ──

    async def _replace(self, leased: LeasedItem, decision: Decision, outcome: Changed, now: float) -> list[Command]:
        item, document = leased.item, outcome.document
        written = self._texts(leased, decision, outcome, now)
        if decision.status is Status.CRAWLED:
            written.append(("ZADD", self._keys.embed_due, f"{now:.3f}", item.id))
        if item.alias_of:  # a page of its own again
            written.append(("SREM", self._keys.aliases(item.alias_of), item.fetch_url))
        left = {leased.article.get("content_hash", "")} - {"", document.content_hash}
        written += await self._remover.first_texts(left, {item.article_uid})
        return [*written, *await self.replace_images(item, document, now)]

    def _texts(self, leased: LeasedItem, decision: Decision, outcome: Changed, now: float) -> list[Command]:
        """The article that feeds listed; and the document of whoever else lists the page, for when the article ends."""
        item, document = leased.item, outcome.document
        is_news = decision.count is VisitResult.CHANGED or not item.has_text
        updated = stored_fields.updated(now) if is_news else {}
        written: list[Command] = []
        if leased.is_article:
            link = leased.link or _link_of(leased)
            fields = stored_fields.article(link, item, document, outcome.visit, leased.article, now)
            if leased.article:
                written += self._articles.correct(link, fields | updated, leased.article)
            else:
                written += self._articles.store(link, fields, now)
        is_own = not leased.is_article or (_outlives_article(item) and document.source is not TextSource.FEED)
        if is_own:
            fields = stored_fields.document(item, document, now) | updated
            written.append(("HSET", self._keys.document(item.id), *flat(fields)))
        return written

    async def _copied(self, leased: LeasedItem, now: float) -> list[Command]:
        """A page of a feed and a site: the article's text is the page's own, too, for when the article ends."""
        item, uid, article = leased.item, leased.item.article_uid, leased.article
        is_of_page = article.get("status") == "success" and article.get("text_source") != TextSource.FEED
        if not is_of_page or not _outlives_article(item):
            return []
        if item.text_hash == article["content_hash"]:
            return []
        said = await self._client.hmget(self._keys.article(uid), list(stored_fields.SHARED))
        if said[0] is None:  # it has just ended
            return []
        fields: dict[str, Word] = {"id": item.id, "url": item.fetch_url, "updated_ts": f"{now:.3f}"}
        fields |= {name: str(value or "") for name, value in zip(stored_fields.SHARED, said, strict=True)}
        fields["text_sha1"] = stored_fields.text_sha1(str(fields["content_hash"]), str(fields["markdown"]))
        return [("HSET", self._keys.document(item.id), *flat(fields))]

    async def metadata(self, item: Item) -> dict[str, str]:
        """Title, author, date, image and abstract of a document as they are stored."""
        names = list(stored_fields.METADATA)
        values = await self._client.hmget(self._keys.document(item.id), names)
        return {name: str(value or "") for name, value in zip(names, values, strict=True)}

    # ── taking away ──

    def _hidden(self, leased: LeasedItem) -> list[Command]:
        """Out of category and index; an article keeps its text until it ends or is gone for good."""
        if not leased.article:
            return []
        key = self._keys.article(leased.item.article_uid)
        hidden: list[Command] = [("HSET", key, "status", "gone"), ("EXPIRE", key, self._ttls.article, "NX")]
        return hidden + self._unindexed(leased)

    async def _deleted(self, leased: LeasedItem) -> list[Command]:
        """The text for good; an article's link is still known, so that it does not bring the article back."""
        item, gone = leased.item, await self._remover.text(leased.item.id)
        if leased.article:
            gone += await self._remover.articles([item.article_uid], [item.content_hash], keep_attempted=True)
        return gone

    def _named(self, item: Item, outcome: object) -> list[Command]:
        """An alias is told to the page whose other name it is, and no longer to the one that it named before."""
        if not isinstance(outcome, Moved):
            return []
        told: list[Command] = [("SADD", self._keys.aliases(outcome.target_id), item.fetch_url)]
        if item.alias_of and item.alias_of != outcome.target_id:
            told.append(("SREM", self._keys.aliases(item.alias_of), item.fetch_url))
        return told

    def _unindexed(self, leased: LeasedItem) -> list[Command]:
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
    return any(source != ARTICLES_SOURCE for source in item.sources)


def _link_of(leased: LeasedItem) -> Link:
    """The link of an article that is stored."""
    item, article = leased.item, leased.article
    categories = tuple(filter(None, article["categories"].split(","))) or (article["category"],)
    return Link(article["url"], item.article_uid, categories, is_first_visit=False)
