"""Store earlier versions of texts in Redis.

The present version is in the registry record and is not stored twice, so a text that never changes costs nothing.
The texts of earlier versions are kept only where snapshots are (SNAPSHOT_DAYS).
"""

from __future__ import annotations

from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import Item
from core.registry.text_versions import (
    MOST_EARLIER,
    MOST_TITLE_CHARS,
    TextVersion,
    read_text,
    read_version,
    write_text,
    write_version,
)
from core.store.commands import Command
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

_FIELDS = ("title", "text_len", "markdown")


@value_class
class TextHistory:
    """The versions of a text, newest first."""

    versions: tuple[TextVersion, ...]
    kept: frozenset[str]
    """Content hashes of the versions whose text is there."""


class VersionStore:
    """Remembers the versions of texts."""

    def __init__(self, client: Client, keys: Keys, text_seconds: int = 0) -> None:
        """`text_seconds`: how long the texts of earlier versions are kept; 0: not at all."""
        self._client = client
        self._keys = keys
        self._text_seconds = text_seconds

    async def replaced(self, item: Item, *, is_article: bool, now: float) -> list[Command]:
        """Commands that remember the stored version of an item's text; the same commit stores the next one."""
        key = self._keys.article(item.article_uid) if is_article else self._keys.document(item.id)
        names = list(_FIELDS if self._text_seconds else _FIELDS[:2])
        values = [*await self._client.hmget(key, names), ""]
        title, text_len, text = field_parsing.text(values[0]), field_parsing.integer(values[1]), values[2]
        version = TextVersion(
            item.content_hash, title[:MOST_TITLE_CHARS], text_len, round(item.changed_ts, 3), round(now, 3)
        )
        versions, texts = self._keys.versions(item.id), self._keys.version_texts(item.id)
        commands: list[Command] = [
            ("LPUSH", versions, write_version(version)),
            ("LTRIM", versions, 0, MOST_EARLIER - 1),
        ]
        if text:
            commands += [
                ("LPUSH", texts, write_text(item.content_hash, str(text))),
                ("LTRIM", texts, 0, MOST_EARLIER - 1),
                ("EXPIRE", texts, self._text_seconds),
            ]
        return commands

    async def history(self, item_id: str) -> TextHistory:
        """Return the versions of an item's text; without the present one if there is no text now."""
        commands: list[Command] = [
            ("HMGET", self._keys.item(item_id), "contentHash", "changedTs"),
            ("LRANGE", self._keys.versions(item_id), 0, MOST_EARLIER - 1),
            ("LRANGE", self._keys.version_texts(item_id), 0, MOST_EARLIER - 1),
        ]
        (content_hash, changed_ts), earlier, texts = await read_many(self._client, commands)
        versions = [version for stored in earlier if (version := read_version(str(stored)))]
        kept = {str(stored).partition(" ")[0] for stored in texts}
        present = await self._present(item_id, "title", "text_len")
        if present and content_hash:
            title, text_len = field_parsing.text(present[0]), field_parsing.integer(present[1])
            changed, present_hash = field_parsing.timestamp(changed_ts), field_parsing.text(content_hash)
            versions.insert(0, TextVersion(present_hash, title, text_len, changed, replaced_ts=None))
            kept.add(present_hash)
        return TextHistory(tuple(versions), frozenset(kept))

    async def texts(self, item_id: str) -> dict[str, str]:
        """Return the texts that are there, by content hash."""
        commands: list[Command] = [
            ("HGET", self._keys.item(item_id), "contentHash"),
            ("LRANGE", self._keys.version_texts(item_id), 0, MOST_EARLIER - 1),
        ]
        content_hash, stored = await read_many(self._client, commands)
        texts = dict(pair for one in stored if (pair := read_text(str(one))))
        present = await self._present(item_id, "markdown")
        return {**texts, str(content_hash): field_parsing.text(present[0])} if present and content_hash else texts

    async def _present(self, item_id: str, *names: str) -> list[str | None] | None:
        """Return fields of what is stored now, the article or the page's own document; None: there is no text."""
        uid = str(await self._client.hget(self._keys.item(item_id), "articleUid") or "")
        for key in [self._keys.article(uid)] * bool(uid) + [self._keys.document(item_id)]:
            first, *values = await self._client.hmget(key, ["content_hash", *names])
            if first is not None:
                return cast(list[str | None], values)
        return None
