"""Move articles, with their items and failures, to another category or out of one, in bounded batches.

What is in no other category is forgotten. May be interrupted and called again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

from core.feeds.io import category_scripts
from core.feeds.io.link_store import Ttls
from core.registry import item_keys
from core.registry.io.article_end import ArticleEnd
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.item_store import LeasedItem
from core.registry.io.link_forgetter import AT_ONCE, LinkForgetter
from core.registry.record import ARTICLES_SOURCE
from core.store import scanning
from core.store.commands import Command
from core.store.event_command import EVENTS_KEPT
from core.store.packing import packed_json
from core.store.pipeline import read_many

BATCH = 500


class CategoryArticles:
    """Changes the category of articles; items are leased meanwhile, so that no visit writes the old one back."""

    def __init__(self, forgetter: ItemForgetter, links: LinkForgetter, ttls: Ttls) -> None:
        self._forgetter = forgetter
        self._links = links
        self._client = forgetter.client
        self._keys = forgetter.keys
        self._dry_run = forgetter.dry_run
        self._ttls = ttls
        self._article_end = ArticleEnd(forgetter.client, forgetter.keys)
        self._counted: set[str] = set()
        """Articles that a dry run has counted."""
        self.changed = 0
        """Articles that have another category now, or would have."""

    async def change(self, old: str, new: str) -> None:
        """Give everything that names the old category the new one; without a new one, forget what is in no other."""
        async for uids in scanning.set_members(self._client, self._keys.articles_by_category(old), BATCH):
            items = await read_many(self._client, [("HGET", self._keys.article(uid), "item_id") for uid in uids])
            known = {str(item_id): uid for item_id, uid in zip(items, uids, strict=True) if item_id}
            await self._change(old, new, uids, known)
        # Hidden and expired articles are in no category's set; their items and failures still name it.
        async for names in scanning.zset_members(self._client, self._keys.refs(ARTICLES_SOURCE), BATCH):
            naming = await self._naming(old, names)
            if naming:
                await self._change(old, new, list(naming.values()), naming)
        async for members in scanning.zset_members(self._client, self._keys.failures, BATCH):
            await self._change_failures(old, new, sorted({member.partition(":")[0] for member in members}))

    async def _naming(self, category: str, item_ids: Sequence[str]) -> dict[str, str]:
        """Return those of the items that name a category themselves or by their article, with the article's uid."""
        fields = [("HMGET", self._keys.item(name), "articleUid", "articleCategories") for name in item_ids]
        rows = zip(item_ids, await read_many(self._client, fields), strict=True)
        with_uid = [(name, uid, listed or "") for name, (uid, listed) in rows if uid]
        stored = [("HGET", self._keys.article(uid), "categories") for _, uid, _ in with_uid]
        found = zip(with_uid, await read_many(self._client, stored), strict=True)
        return {name: uid for (name, uid, listed), also in found if category in f"{listed},{also or ''}".split(",")}

    # ── one batch ──

    async def _change(self, old: str, new: str, uids: Sequence[str], items: Mapping[str, str]) -> None:
        """Change articles and their items, under their leases; forget those that are in no other category."""
        if self._dry_run:
            uids = [uid for uid in uids if uid not in self._counted]
            self._counted.update(uids)
            alone = [] if new else await self._alone(old, uids)
            expired: Sequence[str] = ()
        else:
            async with self._leased(sorted(items)):
                alone, expired, _ = await self._replace(old, new, uids, items)
        self.changed += len(uids) - len(alone) - len(expired)
        item_of = {uid: item_id for item_id, uid in items.items()}
        await self._forget([*alone, *(items[item_id] for item_id in expired)], item_of)

    async def _forget(self, uids: Sequence[str], items: Mapping[str, str]) -> None:
        for start in range(0, len(uids), AT_ONCE):
            await self._links.articles({uid: items.get(uid, "") for uid in uids[start : start + AT_ONCE]})

    async def _change_failures(self, old: str, new: str, uids: Sequence[str]) -> None:
        """Change failures; forget links that are in no other category, and of an article only that it failed."""
        if self._dry_run:
            fields = await read_many(self._client, [("HGET", self._keys.failure(uid), "category") for uid in uids])
            alone = [uid for uid, listed in zip(uids, fields, strict=True) if listed == old and not new]
        else:
            *_, alone = await self._replace(old, new, failures=uids)
        stored = await read_many(self._client, [("EXISTS", self._keys.article(uid)) for uid in alone])
        await self._forget([uid for uid, has_article in zip(alone, stored, strict=True) if not has_article], {})
        commands: list[Command] = []
        for uid, has_article in zip(alone, stored, strict=True):
            if has_article:
                members = item_keys.failure_members(uid)
                commands += [("ZREM", self._keys.failures, *members), ("ZREM", self._keys.retry, uid)]
                commands.append(("DEL", self._keys.failure(uid)))
        if commands and not self._dry_run:
            await self._forgetter.leases.run(commands)

    async def _replace(
        self,
        old: str,
        new: str,
        uids: Sequence[str] = (),
        items: Mapping[str, str] | None = None,
        failures: Sequence[str] = (),
    ) -> list[list[str]]:
        keys = self._keys
        request = {
            "old": old,
            "new": new,
            "uids": list(uids),
            "items": list((items or {}).items()),
            "failures": list(failures),
            "article": keys.article(""),
            "item": keys.item(""),
            "failure": keys.failure(""),
            "ttl": self._ttls.article,
            "events_kept": EVENTS_KEPT,
        }
        names = (keys.articles_by_category(old), keys.articles_by_category(new), keys.events)
        reply = await self._client.eval(category_scripts.REPLACE_CATEGORY, len(names), *names, packed_json(request))
        return cast(list[list[str]], reply)

    async def _alone(self, old: str, uids: Sequence[str]) -> list[str]:
        """Return the articles that are in no other category; for a dry run."""
        fields = [("HGET", self._keys.article(uid), "categories") for uid in uids]
        listed = zip(uids, await read_many(self._client, fields), strict=True)
        return [uid for uid, names in listed if names == old]

    @contextlib.asynccontextmanager
    async def _leased(self, item_ids: Sequence[str]) -> AsyncIterator[None]:
        held: list[LeasedItem] = []
        try:
            async for one in self._forgetter.leased(item_ids):
                held.append(one)
            yield
        finally:
            await self._article_end.release(self._forgetter.leases, held)
