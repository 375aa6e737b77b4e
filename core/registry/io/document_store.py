"""Build the commands that write the texts of items, with images, outlinks and snapshot.

Builds commands only, to be committed with the decision they belong to.
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
from core.models import Fetched, Image, Link, TextSource
from core.registry import article_fields
from core.registry.decide import Decision, TextAction, VisitResult
from core.registry.io import image_records
from core.registry.io.article_store import ArticleStore
from core.registry.io.item_store import LeasedItem
from core.registry.io.removal_commands import Remover
from core.registry.io.version_store import VersionStore
from core.registry.outcomes import Changed, Moved
from core.registry.record import ARTICLES_SOURCE, Item, Status
from core.runs.io.state_tally import KbTally
from core.store.commands import Command, Word, batched, flat
from core.store.connect import Client

DAY_SECONDS = 86_400


class DocumentStore:
    """Builds the commands that a decision means for a text."""

    def __init__(
        self, client: Client, keys: Keys, ttls: Ttls, snapshot_days: float, partition_strategy: str = "host"
    ) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._snapshot_seconds = int(snapshot_days * DAY_SECONDS)
        self._strategy = partition_strategy
        self._remover = Remover(client, keys)
        self._articles = ArticleStore(client, keys, ttls)
        self._versions = VersionStore(client, keys, self._snapshot_seconds)
        self._tally = KbTally(keys)

    async def apply(self, leased: LeasedItem, decision: Decision, outcome: object, now: float) -> list[Command]:
        """Commands for the text of an item, as decided."""
        match decision.text:
            case TextAction.REPLACE if isinstance(outcome, Changed):
                return await self._replace(leased, decision, outcome, now)
            case TextAction.HIDE:
                return [*self._hide_article(leased), *await self._remover.visible_text(leased.item)]
            case TextAction.DELETE:
                return await self._delete(leased, outcome)
        return await self._copy_article(leased, now)

    # ── replace ──

    async def _replace(self, leased: LeasedItem, decision: Decision, outcome: Changed, now: float) -> list[Command]:
        item, document = leased.item, outcome.document
        commands = self._texts(leased, decision, outcome, now)
        commands += self._tally.stored(item.sources, len(document.markdown), is_new=not item.has_text)
        if decision.status is Status.CRAWLED:
            commands.append(("ZADD", self._keys.embed_due, f"{now:.3f}", item.id))
        if item.alias_of:  # a page of its own again
            commands.append(("SREM", self._keys.aliases(item.alias_of), item.fetch_url))
        replaced = {leased.article.get("content_hash", "")} - {"", document.content_hash}
        commands += await self._remover.first_texts(replaced, {item.article_uid})
        is_other_text = document.content_hash != item.content_hash
        if item.content_hash and decision.count is VisitResult.CHANGED and (item.has_text or is_other_text):
            commands += await self._versions.replaced(item, is_article=bool(leased.article), now=now)
        return [*commands, *await self.replace_images(item, document.images, now)]

    def _texts(self, leased: LeasedItem, decision: Decision, outcome: Changed, now: float) -> list[Command]:
        """The article that feeds listed, and the document for other sources of the page, for when the article ends."""
        item, document, article = leased.item, outcome.document, leased.article
        is_news = decision.count is VisitResult.CHANGED or not item.has_text
        updated = article_fields.updated(now) if is_news else {}
        commands: list[Command] = []
        if leased.is_article:
            link = leased.link
            if link is None:
                categories = tuple(filter(None, article["categories"].split(","))) or (article["category"],)
                link = Link(article["url"], item.article_uid, categories, is_first_visit=False)
            fields = article_fields.article(link, item, document, outcome.visit, article, now)
            if article:
                commands += self._articles.correct(link, fields | updated, article)
            else:
                commands += self._articles.store(link, fields, now)
        if not leased.is_article or (_outlives_article(item) and document.source is not TextSource.FEED):
            fields = article_fields.document(item, document, now) | updated
            commands.append(("HSET", self._keys.document(item.id), *flat(fields)))
        return commands

    async def _copy_article(self, leased: LeasedItem, now: float) -> list[Command]:
        """Store the article's text as the page's own too, where a site lists the page, for when the article ends."""
        item, article = leased.item, leased.article
        is_of_page = article.get("status") == "success" and article.get("text_source") != TextSource.FEED
        if not is_of_page or not _outlives_article(item) or item.text_hash == article["content_hash"]:
            return []
        values = await self._client.hmget(self._keys.article(item.article_uid), list(article_fields.SHARED))
        if values[0] is None:  # it has just expired
            return []
        fields: dict[str, Word] = {"id": item.id, "url": item.fetch_url, "updated_ts": f"{now:.3f}"}
        fields |= {name: str(value or "") for name, value in zip(article_fields.SHARED, values, strict=True)}
        fields["text_sha1"] = article_fields.text_sha1(str(fields["content_hash"]), str(fields["markdown"]))
        return [("HSET", self._keys.document(item.id), *flat(fields))]

    async def metadata(self, item: Item) -> dict[str, str]:
        """Return title, author, date, image and abstract of a document as they are stored."""
        names = list(article_fields.METADATA)
        values = await self._client.hmget(self._keys.document(item.id), names)
        return {name: str(value or "") for name, value in zip(names, values, strict=True)}

    # ── hide and delete ──

    def _hide_article(self, leased: LeasedItem) -> list[Command]:
        """Take an article out of categories and index; it keeps its text until it expires or is gone for good."""
        uid = leased.item.article_uid
        if not leased.article:
            return []
        categories = filter(None, leased.article.get("categories", "").split(","))
        return [
            ("HSET", self._keys.article(uid), "status", "gone"),
            ("EXPIRE", self._keys.article(uid), self._ttls.article, "NX"),
            ("ZREM", self._keys.article_index, uid),
            *(("SREM", self._keys.articles_by_category(category), uid) for category in categories),
        ]

    async def _delete(self, leased: LeasedItem, outcome: object) -> list[Command]:
        """Delete a text for good; an article's link stays attempted, so that it does not bring the article back."""
        item, commands = leased.item, await self._remover.text(leased.item)
        if leased.article:
            commands += await self._remover.articles([item.article_uid], [item.content_hash], keep_attempted=True)
        if isinstance(outcome, Moved):
            commands.append(("SADD", self._keys.aliases(outcome.target_id), item.fetch_url))
            if item.alias_of and item.alias_of != outcome.target_id:
                commands.append(("SREM", self._keys.aliases(item.alias_of), item.fetch_url))
        return commands

    # ── images ──

    async def replace_images(self, page: Item, images: Sequence[Image], now: float) -> list[Command]:
        """Commands that make the images of a page those that it shows now."""
        records = image_records.image_records(page, images, self._strategy)
        is_new = page.stored_status == "0"  # a page without a record has no images yet; the commit expects that
        old = {} if is_new else await self._remover.images_of(page.id)
        left = {name: partition for name, partition in old.items() if name not in records}
        commands = image_records.write(self._keys, page, records, now, is_first=is_new)
        if left:
            commands += [("SREM", self._keys.images(page.id), *left), *self._remover.images(left)]
        return [*commands, ("HSET", self._keys.item(page.id), "imageCount", len(records))]

    # ── outlinks and snapshots ──

    def outlinks(self, item: Item, links: Sequence[str], scope_version: str) -> list[Command]:
        """Commands that store a page's outlinks, if they or the scope have changed."""
        joined = "\n".join((scope_version, *sorted(links)))
        fingerprint = hashlib.sha256(joined.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        if fingerprint == item.links_hash:
            return []
        key = self._keys.links(item.id)
        stored: list[Command] = [("DEL", key), *batched(("SADD", key), list(links))]
        return [*stored, ("HSET", self._keys.item(item.id), "linksHash", fingerprint)]

    def snapshot(self, item: Item, answer: Fetched) -> list[Command]:
        """Commands that store the page as it was served, if snapshots are kept."""
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
        """Return the page as it was served when its text was stored; None if there is none, or of another version."""
        kept = cast(dict[str, str], await self._client.hgetall(self._keys.snapshot(item.id)))
        if not kept or kept["body_hash"] != item.body_hash:
            return None
        body = zlib.decompress(base64.b64decode(kept["body"]))
        headers = {"content-type": kept["content_type"], "etag": item.etag, "last-modified": item.last_modified}
        return Fetched(kept["url"], kept["url"], 200, headers, body)


def _outlives_article(item: Item) -> bool:
    """Return whether another source than a feed lists it."""
    return any(source != ARTICLES_SOURCE for source in item.sources)
