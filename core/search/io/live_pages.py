"""Pages and texts of items as they are live now, read from Redis in a few round trips.

The text of an item is that of its article; without one, the document of a page that no feed lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.keys import Keys
from core.registry import field_parsing, verification
from core.registry.record import Item
from core.registry.verification import NEVER_VERIFIED, Verification
from core.search.models import IndexedPage
from core.store.connect import Client
from core.store.pipeline import read_many
from core.urls.normalise import host_of
from core.value_class import value_class

_ITEM = ("articleUid", "type", "sources", "fetchUrl", "normalizedSource", "contentGroupId", *verification.FIELDS)
_DOCUMENT = ("content_hash", "url", "title", "language", "published_ts", "author", "image", "updated_ts", "live")
_ARTICLE = (*_DOCUMENT[:7], "fetched_ts", "status", "categories")
_NO_ARTICLE = dict.fromkeys(_ARTICLE)
_TEXT = ("title", "url", "markdown", "content_hash", "status", "language")
_SHOWN = ("title", "url", "markdown", "language")

_Fields = Mapping[str, str | None]


@value_class
class LivePage:
    """A page that search may show."""

    page: IndexedPage
    has_chunks: bool
    """Chunks of this version are in Redis; else its text has yet to be cut."""
    text_key: str
    """The hash with its `markdown`."""
    article_uid: str = ""
    verification: Verification = NEVER_VERIFIED


@value_class
class LiveText:
    """The text of an item, to be embedded."""

    title: str
    url: str
    markdown: str
    content_hash: str
    stated_language: str = ""


class LivePageReader:
    """Reads the pages and texts of many items."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, item_ids: Sequence[str]) -> dict[str, LivePage]:
        """Return by item id the pages that are live; without items that are gone, hidden, expired or never read."""
        items = [(self._keys.item(item_id), _ITEM) for item_id in item_ids]
        hashes = await self._read([*items, *((self._keys.document(item_id), _DOCUMENT) for item_id in item_ids)])
        records, documents = hashes[: len(items)], hashes[len(items) :]
        uids = [record["articleUid"] for record in records]
        found = iter(await self._read([(self._keys.article(uid), _ARTICLE) for uid in uids if uid]))
        articles = [next(found) if uid else _NO_ARTICLE for uid in uids]
        rows = zip(item_ids, records, documents, articles, strict=True)
        pages = {row[0]: self._page(*row) for row in rows}
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
        return LivePage(page, document["live"] == source["content_hash"], key, uid, verification.parse(record))

    async def read_texts(self, items: Sequence[Item]) -> dict[str, LiveText]:
        """Return by item id the texts that the records' hashes belong to; not those that are gone or hidden."""
        with_article = [item for item in items if item.article_uid]
        articles = await self._read([(self._keys.article(item.article_uid), _TEXT) for item in with_article])
        # One that has ended leaves what a site has of the same page.
        shown = {
            item.id: fields for item, fields in zip(with_article, articles, strict=True) if fields["status"] is not None
        }
        others = [item for item in items if item.id not in shown]
        documents = await self._read([(self._keys.document(item.id), _TEXT) for item in others])
        fields_of = shown | {item.id: fields for item, fields in zip(others, documents, strict=True)}
        texts = {}
        for item in items:
            fields = fields_of[item.id]
            is_hidden = item.id in shown and fields["status"] != "success"
            if fields["markdown"] is not None and fields["content_hash"] == item.content_hash and not is_hidden:
                title, url, markdown, stated = (field_parsing.text(fields[name]) for name in _SHOWN)
                texts[item.id] = LiveText(title, url, markdown, item.content_hash, stated)
        return texts

    async def read_markdown(self, pages: Mapping[str, LivePage]) -> dict[str, str]:
        """Return by item id the Markdown of these pages, without those that have changed since."""
        hashes = await self._read([(live.text_key, _TEXT) for live in pages.values()])
        return {
            item_id: field_parsing.text(fields["markdown"])
            for (item_id, live), fields in zip(pages.items(), hashes, strict=True)
            if fields["content_hash"] == live.page.version
        }

    async def _read(self, wanted: Sequence[tuple[str, tuple[str, ...]]]) -> list[_Fields]:
        """Read these fields of these hashes in one round trip."""
        rows = await read_many(self._client, [("HMGET", key, *names) for key, names in wanted])
        return [dict(zip(names, row, strict=True)) for (_, names), row in zip(wanted, rows, strict=True)]
