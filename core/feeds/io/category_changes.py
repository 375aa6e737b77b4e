"""Rename a category or drop it, with its feeds, links and articles.

Everything is moved in bounded batches, each of which is one step. An interrupted change is written down in
`rss:category_changes`: the same command goes on where it stopped, and so does the next cycle of the ingestor. A worker
that was at work meanwhile may still store articles under the old name; for an hour they follow.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from core import ids
from core.errors import FeedFileError
from core.feeds.category_names import check_category
from core.feeds.io import category_scripts
from core.feeds.io.category_articles import BATCH, CategoryArticles
from core.feeds.io.feed_removal import removal_commands
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.outputs.io.webhook_store import WebhookStore
from core.registry import field_parsing
from core.registry.io.item_forgetter import ForgetCounts, ItemForgetter
from core.registry.io.link_forgetter import AT_ONCE, LinkForgetter
from core.store import connect, scanning
from core.store.commands import Command, batched
from core.store.connect import Client, texts
from core.store.pipeline import read_many

log = logging.getLogger("ingest")

LATE_SECONDS = 3_600.0
"""How long articles of a worker that began before a change are looked for; longer than a run of the fetcher."""
LEASE = "category_changes"
"""One change at a time."""


@dataclass(slots=True)
class ChangeCounts:
    """How much was moved, or would be."""

    feeds: int = 0
    kept_feeds: int = 0
    """How many of these feeds are in other categories too."""
    links: int = 0
    origins: set[str] = field(default_factory=set)
    """Files that had added feeds to the old category."""
    forgotten: ForgetCounts = field(default_factory=ForgetCounts)
    """What a dropped category alone had."""


class CategoryChanges:
    def __init__(self, client: Client, keys: Keys, ttls: Ttls, *, dry_run: bool = False) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._dry_run = dry_run
        self._subscriptions = Subscriptions(client, keys)
        self._forgetter = ItemForgetter(client, keys, dry_run=dry_run)
        self._links = LinkForgetter(self._forgetter)
        self._articles = CategoryArticles(self._forgetter, self._links, ttls)
        self.counts = ChangeCounts(forgotten=self._forgetter.counts)

    @property
    def articles(self) -> int:
        return self._articles.changed

    # ── by a person ──

    async def rename(self, old: str, new: str) -> None:
        """Rename a category; one that exists takes the other in. FeedFileError if a name cannot be."""
        check_category(new)
        if new.startswith(SAMPLE_PREFIX) or old.startswith(SAMPLE_PREFIX):
            raise FeedFileError(f"Names that begin with {SAMPLE_PREFIX} are the sample's, which goes by itself.")
        async with self._alone_at_work():
            old = await self._known(old, new)
            if old == new:
                raise FeedFileError(f"{old} has this name already.")
            if not self._dry_run:
                await self._note(old, new)
            await self._move(old, new)

    async def drop(self, category: str) -> None:
        """Drop a category: its feeds and links; articles that no other category has are forgotten."""
        async with self._alone_at_work():
            category = await self._known(category, "")
            if not self._dry_run:
                await self._note(category, "")
            await self.remove(category)
            if not self._dry_run:
                await self._note(category, "", is_done=True)

    @contextlib.asynccontextmanager
    async def _alone_at_work(self) -> AsyncIterator[None]:
        if self._dry_run:
            yield
            return
        async with self._forgetter.hold(LEASE, "Another category is being renamed or dropped; waiting for its end"):
            yield

    async def _known(self, name: str, to: str) -> str:
        """Return a category that is there, or that this very change was begun with."""
        if not self._dry_run:
            await self._subscriptions.find_categories()
        change = field_parsing.mapping(await self._client.hget(self._keys.category_changes, name))
        return name if change.get("to") == to else await self._subscriptions.require_category(name)

    # ── what is written down ──

    async def _note(self, old: str, new: str, *, is_done: bool = False) -> None:
        """Write down that a change began, or is done; whatever led to the old name leads to the new one now."""
        now = await connect.now(self._client)
        value = {"to": new, "began_ts": int(now), "done_ts": int(now) if is_done else 0}
        commands: list[Command] = [("HSET", self._keys.category_changes, old, json.dumps(value))]
        commands += [("SADD", self._keys.categories, new), ("HDEL", self._keys.category_changes, new)] if new else []
        commands += [("SREM", self._keys.categories, old)] if is_done else []
        await self._forgetter.leases.run(commands)

    async def finish_pending(self, now: float) -> None:
        """Go on with interrupted changes, and let articles follow that a late worker stored under an old name."""
        changes = cast(dict[str, str], await self._client.hgetall(self._keys.category_changes))
        if not changes:
            return
        taken = await self._forgetter.leases.acquire(LEASE)
        if taken is None:  # a person's command is at it
            return
        try:
            async with self._forgetter.leases.keep_alive():
                for old, text in changes.items():
                    await self._finish(old, field_parsing.mapping(text), now)
        finally:
            await self._forgetter.leases.release(taken[0])

    async def _finish(self, old: str, change: dict[str, object], now: float) -> None:
        new, done_ts = str(change.get("to") or ""), field_parsing.timestamp(change.get("done_ts"))
        keys = self._keys
        is_used = done_ts and await self._client.exists(keys.feeds(old), keys.category_links(old))
        if is_used or (done_ts and now - done_ts > LATE_SECONDS):
            await self._client.hdel(keys.category_changes, old)  # the name is in use again, or no worker is late
        elif not done_ts:
            log.info("📇 Going on with %s → %s", old, new or "dropped")
            await (self._move(old, new) if new else self.remove(old))
            await self._note(old, new, is_done=True)
        elif await self._client.exists(keys.articles_by_category(old)):
            await self._articles.change(old, new)
            await self._client.srem(keys.categories, old)

    # ── rename ──

    async def _move(self, old: str, new: str) -> None:
        keys = self._keys
        await self._change_feeds(old, new)
        if self._dry_run:
            self.counts.links += int(await self._client.scard(keys.category_links(old)))
            await self._articles.change(old, new)
            return
        names = [build(name) for name in (old, new) for build in (keys.category_links, keys.category_links_seen)]
        words = (str(BATCH), str(self._ttls.link))
        while moved := int(cast(int, await self._client.eval(category_scripts.MOVE_LINKS, 4, *names, *words))):
            self.counts.links += moved
        await self._articles.change(old, new)
        await WebhookStore(self._client, keys).rename_category(old, new)
        await self._note(old, new, is_done=True)

    # ── drop ──

    async def remove(self, category: str) -> None:
        """Remove a category at once, without writing down that this began."""
        await self._change_feeds(category, "")
        others = [name for name in await self._subscriptions.categories() if name != category]
        async for links in scanning.set_members(self._client, self._keys.category_links(category), BATCH):
            await self._remove_links(category, links, others)
        if not self._dry_run:
            seen = self._keys.category_links_seen(category)
            await self._client.delete(self._keys.category_links(category), seen)
        await self._articles.change(category, "")
        if not self._dry_run:
            await self._client.srem(self._keys.categories, category)

    async def _remove_links(self, category: str, links: list[str], others: Sequence[str]) -> None:
        self.counts.links += len(links)
        only_here = await self._links.in_none(links, [self._keys.category_links(name) for name in others])
        uids = [ids.article_uid(link) for link in only_here]
        stored = await read_many(self._client, [("EXISTS", self._keys.article(uid)) for uid in uids])
        # Articles are decided about by all categories that they are in.
        without = [uid for uid, has_article in zip(uids, stored, strict=True) if not has_article]
        for start in range(0, len(without), AT_ONCE):
            await self._links.articles(dict.fromkeys(without[start : start + AT_ONCE], ""))
        if not self._dry_run:
            sets = (self._keys.category_links(category), self._keys.category_links_seen(category))
            commands = [*batched(("SREM", sets[0]), links), *batched(("ZREM", sets[1]), links)]
            await self._forgetter.leases.run(commands)

    # ── feeds ──

    async def _change_feeds(self, old: str, new: str) -> None:
        """Move the subscriptions of a category, each while its feed is not being polled."""
        by_feed = await self._subscriptions.by_feed()
        imported = self._keys.pattern(self._keys.feeds_imported)
        origins = [key async for found in scanning.keys(self._client, imported) for key in found]
        for url in sorted(texts(await self._client.smembers(self._keys.feeds(old)))):
            left = sorted({*by_feed.get(url, []), new} - {old, ""})
            self.counts.feeds += 1
            self.counts.kept_feeds += bool(left) and not new
            marks = await read_many(self._client, [("SISMEMBER", key, f"{old} {url}") for key in origins])
            owners = [key for key, is_marked in zip(origins, marks, strict=True) if is_marked]
            self.counts.origins |= {key.removeprefix(self._keys.feeds_imported("")) for key in owners}
            if not self._dry_run:
                async with self._forgetter.hold(f"feed_{ids.feed_id(url)}", f"{url} is being polled; waiting"):
                    await self._forgetter.leases.run(await self._feed_commands(url, old, new, left, owners))

    async def _feed_commands(
        self, url: str, old: str, new: str, left: Sequence[str], owners: Sequence[str]
    ) -> list[Command]:
        keys, fid = self._keys, ids.feed_id(url)
        commands: list[Command] = [("SADD", keys.feeds(new), url)] if new else []
        commands.append(("SREM", keys.feeds(old), url))
        for key in owners:
            commands += [("SADD", key, f"{new} {url}")] if new else []
            commands.append(("SREM", key, f"{old} {url}"))
        if not left:
            commands += removal_commands(keys, [fid])
        elif await self._client.exists(keys.feed(fid)):
            commands.append(("HSET", keys.feed(fid), "categories", ",".join(left)))
        return commands
