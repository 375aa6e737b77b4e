"""What search may know of an item now: its live version, its page, its text. Read from Redis in a few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.keys import Keys
from core.registry import field_parsing
from core.search.io.protocols import Page
from core.store.connect import Client
from core.urls.normalise import host_of

_ITEM = ("articleUid", "type", "sources", "fetchUrl", "normalizedSource", "contentGroupId")
_TEXT = ("content_hash", "url", "title", "language", "published_ts", "updated_ts", "live", "author", "image")
_ARTICLE = (
    *("status", "content_hash", "url", "title", "language", "published_ts", "fetched_ts", "categories"),
    *("author", "image"),
)


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page that may be found."""

    page: Page
    has_chunks: bool
    """Chunks of this version are in Redis; else its text has to be cut by whoever wants it."""
    text_key: str
    """The hash with its `markdown`."""
    article_uid: str = ""


class PageReader:
    """Reads pages as they are now. An item without a live text is None: gone, hidden, expired, never read."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, item_ids: Sequence[str]) -> dict[str, LivePage | None]:
        """By item id."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), _ITEM)
            pipe.hmget(self._keys.document(item_id), _TEXT)
        answers = await pipe.execute() if item_ids else []
        records, documents = answers[::2], answers[1::2]
        for record in records:
            pipe.hmget(self._keys.article(record[0] or "-"), _ARTICLE)
        articles = await pipe.execute() if item_ids else []
        rows = zip(item_ids, records, documents, articles, strict=True)
        return {item_id: self._live(item_id, *found) for item_id, *found in rows}

    async def versions(self, item_ids: Sequence[str]) -> dict[str, str]:
        """The one version of each item that may be shown; an item that is not there may not."""
        return {item_id: live.page.version for item_id, live in (await self.read(item_ids)).items() if live}

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
        page = Page(
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
