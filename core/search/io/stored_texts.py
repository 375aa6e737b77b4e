"""Read whole texts with everything that is known of them: for `freshet read`, `freshet export` and the API.

An article, a page of a site and a file have the same fields; docs/export.md describes them. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.item_queries import ItemQueries
from core.search.io.live_pages import LivePage, LivePageReader
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

_FIELDS = (
    *("content_hash", "markdown", "clean_text", "abstract", "category", "feed", "duplicate_of", "final_url"),
    *("canonical_url", "fetched_ts", "updated_ts", "text_len"),
)
LONGEST_CHAIN = 30
"""Of aliases that lead to aliases."""


@value_class
class StoredText:
    """An article, a page or a file with its text. Every value can be written as JSON; unknown times are None."""

    kind: str
    """`article`: a feed listed it; `page`: of a site or a repository; `file`: of a folder."""
    id: str
    """Of its item in the registry."""
    uid: str
    """Of an article; empty: it is none."""
    url: str
    """Or the path of a file."""
    title: str
    author: str
    abstract: str
    image: str
    language: str
    host: str
    feed: str
    """The feed that listed an article first."""
    category: str
    categories: tuple[str, ...]
    domains: tuple[str, ...]
    published_ts: float | None
    fetched_ts: float | None
    """When an article was first stored; None of pages and files."""
    updated_ts: float | None
    """When the text or metadata last changed."""
    verified_ts: float | None
    """When it was last proved that this is still the text of the page."""
    verified_by: str
    """`read`, `hash`, `304`, `listing` or `feed`."""
    checked_ts: float | None
    """The last visit, also one that failed."""
    content_hash: str
    text_len: int
    final_url: str
    """Where redirects led, of an article."""
    canonical_url: str
    """What an article says its URL is."""
    aliases: tuple[str, ...]
    """Other URLs of the same page."""
    duplicate_of: str
    """Uid of the article that had the same text first."""
    text: str
    """The clean text of an article; of pages and files the same as `markdown`."""
    markdown: str


def stored_text_json(text: StoredText) -> dict[str, object]:
    """Return it as plain values, as exports and the API print it."""
    return asdict(text)


class StoredTextReader:
    """Reads whole texts."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._pages = LivePageReader(client, keys)

    async def read(self, item_ids: Sequence[str]) -> list[StoredText]:
        """Return the texts of these items, in order; without items that have none now."""
        pages = await self._pages.read(item_ids)
        hashes = await read_many(self._client, [("HMGET", live.text_key, *_FIELDS) for live in pages.values()])
        names = [filter(None, (item_id, live.article_uid)) for item_id, live in pages.items()]
        aliases = await read_many(self._client, [("SUNION", *map(self._keys.aliases, pair)) for pair in names])
        texts = {
            live.page.item_id: _stored_text(live, dict(zip(_FIELDS, row, strict=True)), urls)
            for live, row, urls in zip(pages.values(), hashes, aliases, strict=True)
            if row[0] is not None
        }
        return [texts[item_id] for item_id in item_ids if item_id in texts]

    async def find(self, name: str, folder: Path, tracking_params: tuple[str, ...] = ()) -> StoredText | None:
        """Return the text of an article's uid, an item's id, any URL of a page, or a path (relative to `folder`)."""
        resolved = await ItemQueries(self._client, self._keys, tracking_params).resolve(name, folder)
        item_id = resolved.item_id
        for _ in range(LONGEST_CHAIN):
            if not item_id:
                return None
            if found := await self.read([item_id]):
                return found[0]
            item_id = str(await self._client.hget(self._keys.item(item_id), "aliasOf") or "")
        return None


def _stored_text(live: LivePage, fields: Mapping[str, str | None], aliases: Sequence[str]) -> StoredText:
    page, proof = live.page, live.verification
    text = {name: field_parsing.text(value) for name, value in fields.items()}
    return StoredText(
        kind="article" if live.article_uid else "file" if page.type == "file" else "page",
        id=page.item_id,
        uid=live.article_uid,
        url=page.url,
        title=page.title,
        author=page.author,
        abstract=text["abstract"],
        image=page.image,
        language=page.language,
        host=page.host,
        feed=text["feed"],
        category=text["category"],
        categories=page.categories,
        domains=page.domains,
        published_ts=page.published_ts or None,
        fetched_ts=field_parsing.timestamp(fields["fetched_ts"]) or None,
        updated_ts=field_parsing.timestamp(fields["updated_ts"] or fields["fetched_ts"]) or None,
        verified_ts=proof.verified_ts or None,
        verified_by=proof.verified_by,
        checked_ts=proof.checked_ts or None,
        content_hash=text["content_hash"],
        text_len=field_parsing.integer(fields["text_len"]),
        final_url=text["final_url"],
        canonical_url=text["canonical_url"],
        aliases=tuple(sorted({field_parsing.text(url) for url in aliases} - {page.url})),
        duplicate_of=text["duplicate_of"],
        text=text["clean_text"] or text["markdown"],
        markdown=text["markdown"],
    )
