"""Read everything about one item: its record, its sources, a summary of its text, its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from core.errors import NotFound
from core.keys import Keys
from core.registry import field_parsing, verification
from core.registry.io.item_queries import ItemQueries
from core.registry.record import listing_sources
from core.registry.verification import Verification
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.urls.secrets import redact
from core.value_class import value_class

SHOWN_CHARS = 400
MOST_SAME = 50
"""Articles with the same text that are named."""
HIDDEN_FIELDS = frozenset({"fileSignature", "forcedBy"})
"""Internal fields of a record, which are not shown."""


@value_class
class TextSummary:
    """A stored text in short."""

    title: str
    abstract: str
    beginning: str
    characters: int
    language: str
    author: str
    image: str
    published_ts: float


@value_class
class SameText:
    """Another article with the same text; the first one had it before this one."""

    uid: str
    url: str
    title: str
    is_first: bool


@value_class
class ItemDetails:
    """One item."""

    id: str
    record: Mapping[str, str]
    sources: Mapping[str, float | None]
    """When each of its sources checks it next, in epoch seconds; None: not before a reindex."""
    verification: Verification
    text: TextSummary | None
    """None: nothing is stored."""
    chunks: int
    is_waiting_for_vectors: bool
    images: tuple[str, ...]
    aliases: tuple[str, ...]
    same_text: tuple[SameText, ...]


class ItemDetailsReader:
    """Reads one item by any of its names."""

    def __init__(self, client: Client, keys: Keys, tracking_params: tuple[str, ...] = ()) -> None:
        self._client = client
        self._keys = keys
        self._queries = ItemQueries(client, keys, tracking_params)

    async def require(self, name: str) -> ItemDetails:
        """Return the item of an id, an article's uid, a URL or a path; raise NotFound if there is none."""
        resolved = await self._queries.resolve(name, Path("/"))
        details = await self.read(resolved.item_id) if resolved.item_id else None
        if details is None:
            raise NotFound(f"{redact(name)[:200]} is not in the registry. `python -m scripts.why` says why.")
        return details

    async def read(self, item_id: str) -> ItemDetails | None:
        """Return an item, or None."""
        keys = self._keys
        commands = [
            ("HGETALL", keys.item(item_id)),
            ("ZCARD", keys.chunks(item_id)),
            ("ZSCORE", keys.embed_due, item_id),
            ("SMEMBERS", keys.images(item_id)),
        ]
        record, chunks, waiting, images = await read_many(self._client, commands)
        if not record:
            return None
        sources = listing_sources(record.get("sources"))
        uid = field_parsing.text(record.get("articleUid"))
        names = [name for name in (uid, item_id) if name]
        due = [("ZSCORE", keys.due(sid), item_id) for sid in sources]
        *scores, aliases = await read_many(self._client, [*due, ("SUNION", *map(keys.aliases, names))])
        return ItemDetails(
            id=item_id,
            record={name: value for name, value in sorted(record.items()) if name not in HIDDEN_FIELDS},
            sources=dict(zip(sources, scores, strict=True)),
            verification=verification.parse(record),
            text=await self._text(item_id, uid),
            chunks=chunks,
            is_waiting_for_vectors=waiting is not None,
            images=tuple(sorted(texts(images))),
            aliases=tuple(sorted(texts(aliases))),
            same_text=await self._same_text(uid) if uid else (),
        )

    async def _same_text(self, uid: str) -> tuple[SameText, ...]:
        """Return the articles with the same text that are there: the first one, or those that came after this one."""
        keys = self._keys
        commands = [("HGET", keys.article(uid), "duplicate_of"), ("SMEMBERS", keys.duplicates(uid))]
        first, later = await read_many(self._client, commands)
        names = [*filter(None, [first]), *sorted(texts(later))[:MOST_SAME]]
        rows = await read_many(
            self._client, [("HMGET", keys.article(name), "status", "url", "title") for name in names]
        )
        return tuple(
            SameText(str(name), field_parsing.text(url), field_parsing.text(title), is_first=name == first)
            for name, (status, url, title) in zip(names, rows, strict=True)
            if status == "success"
        )

    async def _text(self, item_id: str, uid: str) -> TextSummary | None:
        """Return the text of an article in short; without one, that of a page."""
        for key in [self._keys.article(uid)] * bool(uid) + [self._keys.document(item_id)]:
            stored = cast(dict[str, str], await self._client.hgetall(key))
            if stored.get("markdown"):
                text = {name: field_parsing.text(value) for name, value in stored.items()}
                return TextSummary(
                    *(text.get("title", ""), text.get("abstract", ""), text["markdown"][:SHOWN_CHARS]),
                    len(text["markdown"]),
                    *(text.get("language", ""), text.get("author", ""), text.get("image", "")),
                    field_parsing.timestamp(stored.get("published_ts")),
                )
        return None
