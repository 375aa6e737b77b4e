"""Pages and texts of items as they are live now, read from Redis in a few round trips.

The text of an item is that of its article; without one, the document of a page that no feed lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import Item
from core.search.models import IndexedPage
from core.store.connect import Client
from core.urls.normalise import host_of

_ITEM = ("articleUid", "type", "sources", "fetchUrl", "normalizedSource", "contentGroupId")
_DOCUMENT = ("content_hash", "url", "title", "language", "published_ts", "author", "image", "updated_ts", "live")
_ARTICLE = (*_DOCUMENT[:7], "fetched_ts", "status", "categories")
_TEXT = ("title", "url", "markdown", "content_hash", "status")

_Fields = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page that search may show."""

    page: IndexedPage
    has_chunks: bool
    """Chunks of this version are in Redis; else its text has yet to be cut."""
    text_key: str
    """The hash with its `markdown`."""
    article_uid: str = ""


@dataclass(frozen=True, slots=True)
class LiveText:
    """The text of an item, to be embedded."""

    title: str
    url: str
    markdown: str
    content_hash: str


class LivePageReader:
    """Reads the pages and texts of many items."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, item_ids: Sequence[str]) -> dict[str, LivePage]:
        """Return by item id the pages that are live; without items that are gone, hidden, expired or never read."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), _ITEM)
            pipe.hmget(self._keys.document(item_id), _DOCUMENT)
        replies = await pipe.execute() if item_ids else []
        records, documents = replies[::2], replies[1::2]
        for record in records:
            pipe.hmget(self._keys.article(record[0] or "-"), _ARTICLE)
        articles = await pipe.execute() if item_ids else []
        rows = zip(item_ids, records, documents, articles, strict=True)
        pages = {
            item_id: self._page(
                item_id,
                dict(zip(_ITEM, record, strict=True)),
                dict(zip(_DOCUMENT, document, strict=True)),
                dict(zip(_ARTICLE, article, strict=True)),
            )
            for item_id, record, document, article in rows
        }
        return {item_id: page for item_id, page in pages.items() if page}

    def _page(self, item_id: str, record: _Fields, document: _Fields, article: _Fields) -> LivePage | None:
        # An article that has ended leaves what a site has of the same page.
        is_article = article["status"] is not None or document["content_hash"] is None
        uid = (record["articleUid"] or "") if is_article else ""
        source = article if uid else document
        is_hidden = bool(uid) and article["status"] != "success"
        if record["type"] is None or not source["content_hash"] or is_hidden:
            return None
        text = field_parsing.text
        sources = [sid for sid in text(record["sources"]).split(",") if sid]
        page = IndexedPage(
            item_id=item_id,
            version=text(source["content_hash"]),
            url=text(source["url"]) or text(record["fetchUrl"]),
            title=text(source["title"]),
            language=text(source["language"]),
            type=text(record["type"]),
            host=host_of(text(record["normalizedSource"])),
            categories=tuple(filter(None, text(article["categories"]).split(","))) if uid else (),
            domains=tuple(dict.fromkeys(sid.partition(".")[0] for sid in sources if "." in sid)),
            published_ts=field_parsing.timestamp(text(source["published_ts"])),
            updated_ts=field_parsing.timestamp(article["fetched_ts"] if uid else document["updated_ts"]),
            author=text(source["author"]),
            image=text(source["image"]),
            content_group=text(record["contentGroupId"]),
        )
        key = self._keys.article(uid) if uid else self._keys.document(item_id)
        return LivePage(page, document["live"] == source["content_hash"], key, uid)

    async def read_texts(self, items: Sequence[Item]) -> dict[str, LiveText]:
        """Return by item id the texts that the records' hashes belong to; not those that are gone or hidden."""
        articles = await self._read_fields(
            {item.id: self._keys.article(item.article_uid) for item in items if item.article_uid}
        )
        # One that has ended leaves what a site has of the same page.
        articles = {item_id: fields for item_id, fields in articles.items() if fields["status"] is not None}
        others = [item for item in items if item.id not in articles]
        fields_of = articles | await self._read_fields({item.id: self._keys.document(item.id) for item in others})
        texts = {}
        for item in items:
            fields = fields_of[item.id]
            is_hidden = item.id in articles and fields["status"] != "success"
            if fields["markdown"] is not None and fields["content_hash"] == item.content_hash and not is_hidden:
                title, url, markdown = (field_parsing.text(fields[name]) for name in ("title", "url", "markdown"))
                texts[item.id] = LiveText(title, url, markdown, item.content_hash)
        return texts

    async def read_markdown(self, pages: Mapping[str, LivePage]) -> dict[str, str]:
        """Return by item id the Markdown of these pages, without those that have changed since."""
        fields_of = await self._read_fields({item_id: live.text_key for item_id, live in pages.items()})
        return {
            item_id: field_parsing.text(fields["markdown"])
            for item_id, fields in fields_of.items()
            if fields["content_hash"] == pages[item_id].page.version
        }

    async def _read_fields(self, keys: Mapping[str, str]) -> dict[str, _Fields]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys.values():
            pipe.hmget(key, _TEXT)
        replies = await pipe.execute() if keys else []
        return {item_id: dict(zip(_TEXT, row, strict=True)) for item_id, row in zip(keys, replies, strict=True)}
