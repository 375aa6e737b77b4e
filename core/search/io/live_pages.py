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

_ITEM_FIELDS = ("articleUid", "type", "sources", "fetchUrl", "normalizedSource", "contentGroupId")
_DOCUMENT_FIELDS = ("content_hash", "url", "title", "language", "published_ts", "updated_ts", "live", "author", "image")
_ARTICLE_FIELDS = (
    *("status", "content_hash", "url", "title", "language", "published_ts", "fetched_ts", "categories"),
    *("author", "image"),
)
_TEXT_FIELDS = ["title", "url", "markdown", "content_hash", "status"]


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page that may be found."""

    page: IndexedPage
    has_chunks: bool
    """Chunks of this version are in Redis; else its text has to be cut by whoever wants it."""
    text_key: str
    """The hash with its `markdown`."""
    article_uid: str = ""


class LivePageReader:
    """Reads pages as they are now. An item without a live text is None: gone, hidden, expired, never read."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, item_ids: Sequence[str]) -> dict[str, LivePage | None]:
        """By item id."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), _ITEM_FIELDS)
            pipe.hmget(self._keys.document(item_id), _DOCUMENT_FIELDS)
        answers = await pipe.execute() if item_ids else []
        records, documents = answers[::2], answers[1::2]
        for record in records:
            pipe.hmget(self._keys.article(record[0] or "-"), _ARTICLE_FIELDS)
        articles = await pipe.execute() if item_ids else []
        rows = zip(item_ids, records, documents, articles, strict=True)
        return {item_id: self._live(item_id, *found) for item_id, *found in rows}

    def _live(
        self,
        item_id: str,
        record: Sequence[str | None],
        document: Sequence[str | None],
        article: Sequence[str | None],
    ) -> LivePage | None:
        # An article that has ended leaves what a site has of the same page.
        uid = (record[0] or "") if article[0] is not None or document[0] is None else ""
        content_hash = (article[1] if article[0] == "success" else None) if uid else document[0]
        if record[1] is None or not content_hash:
            return None
        live = document[6] or ""
        said = article[2:6] if uid else document[1:5]
        url, title, language, published = map(field_parsing.text, said)
        stamp = article[6] if uid else document[5]
        sources = [sid for sid in field_parsing.text(record[2]).split(",") if sid]
        page = IndexedPage(
            item_id=item_id,
            version=field_parsing.text(content_hash),
            url=url or field_parsing.text(record[3]),
            title=title,
            language=language,
            type=field_parsing.text(record[1]),
            host=host_of(field_parsing.text(record[4])),
            categories=tuple(filter(None, field_parsing.text(article[7]).split(","))) if uid else (),
            domains=tuple(dict.fromkeys(sid.partition(".")[0] for sid in sources if "." in sid)),
            published_ts=field_parsing.timestamp(published),
            updated_ts=field_parsing.timestamp(stamp),
            author=field_parsing.text(article[8] if uid else document[7]),
            image=field_parsing.text(article[9] if uid else document[8]),
            group=field_parsing.text(record[5]),
        )
        key = self._keys.article(uid) if uid else self._keys.document(item_id)
        return LivePage(page, live == content_hash, key, uid)


@dataclass(frozen=True, slots=True)
class LiveText:
    """What is to be embedded of an item."""

    title: str
    url: str
    markdown: str
    content_hash: str


class LiveTextReader:
    """Reads `markdown` and what belongs to it, many in a few round trips."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, items: Sequence[Item]) -> dict[str, LiveText]:
        """By item id, the texts that the records' hashes belong to; not those that are not there, or hidden."""
        articles = await self._said(
            {item.id: self._keys.article(item.article_uid) for item in items if item.article_uid}
        )
        # One that has ended leaves what a site has of the same page.
        shown = {item_id: said for item_id, said in articles.items() if said[4] is not None}
        documents = await self._said({item.id: self._keys.document(item.id) for item in items if item.id not in shown})
        said, found = documents | shown, dict[str, LiveText]()
        for item in items:
            title, url, markdown, content_hash, status = said[item.id]
            is_hidden = item.id in shown and status != "success"
            if markdown is not None and content_hash == item.content_hash and not is_hidden:
                found[item.id] = LiveText(
                    field_parsing.text(title), field_parsing.text(url), field_parsing.text(markdown), content_hash
                )
        return found

    async def read_markdown(self, places: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
        """By item id the Markdown in the hashes at these places, if it is of this version."""
        said = await self._said(places)
        return {item_id: field_parsing.text(row[2]) for item_id, row in said.items() if row[3] == versions[item_id]}

    async def _said(self, places: Mapping[str, str]) -> dict[str, list[str | None]]:
        pipe = self._client.pipeline(transaction=False)
        for key in places.values():
            pipe.hmget(key, _TEXT_FIELDS)
        return dict(zip(places, await pipe.execute() if places else [], strict=True))
