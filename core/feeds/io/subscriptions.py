"""Categories and the feed URLs in them.

People add feeds by a file, by OPML or by SADD; an import removes only what that same file added before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core import ids
from core.errors import FeedFileError, NotFound
from core.feeds.category_names import category_slug, nearest, nearest_urls
from core.feeds.io.feed_removal import removal_commands
from core.keys import Keys
from core.store import scanning
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.urls.normalise import clean_url
from core.urls.secrets import redact, without_credentials

SAMPLE_PREFIX = "sample_"
"""Reserved: these categories are removed as soon as there is a feed in any other."""
SAMPLE_ORIGIN = "sample"

Categories = Mapping[str, Sequence[str]]


class NotSubscribed(FeedFileError, NotFound):
    """There is no such feed or category; the message names the nearest."""


class Subscriptions:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def categories(self) -> list[str]:
        return sorted(texts(await self._client.smembers(self._keys.categories)))

    async def with_feeds(self) -> list[str]:
        names = await self.categories()
        has_feeds = await read_many(self._client, [("EXISTS", self._keys.feeds(name)) for name in names])
        return [name for name, is_there in zip(names, has_feeds, strict=True) if is_there]

    async def find_categories(self) -> None:
        """Add categories made by hand with SADD, or filled again by a late worker."""
        keys = self._keys
        for family in (keys.feeds, keys.category_links, keys.articles_by_category):
            async for sets in scanning.keys(self._client, keys.pattern(family), kind="SET"):
                if names := [name for name in map(keys.category_of, sets) if name]:
                    await self._client.sadd(keys.categories, *names)

    async def by_category(self) -> dict[str, list[str]]:
        """Return every category with its feed URLs, sorted; categories without feeds are left out."""
        return {name: sorted(urls) for name, urls in (await self.members()).items()}

    async def members(self) -> dict[str, set[str]]:
        """Return the same, the feeds of a category in no order: ten thousand take long to sort."""
        names = await self.categories()
        members = await read_many(self._client, [("SMEMBERS", self._keys.feeds(name)) for name in names])
        return {name: set(urls) for name, urls in zip(names, members, strict=True) if urls}

    async def has_sample(self) -> bool:
        return any(name.startswith(SAMPLE_PREFIX) for name in await self.categories())

    async def by_feed(self) -> dict[str, list[str]]:
        feeds: dict[str, list[str]] = {}
        for category, urls in (await self.by_category()).items():
            for url in urls:
                feeds.setdefault(url, []).append(category)
        return feeds

    async def by_id(self, fid: str) -> tuple[str, list[str]] | None:
        """Return the URL of a feed and its categories; None if there is no subscription."""
        named = str(await self._client.hget(self._keys.feed(fid), "categories") or "").split(",")
        names = await self.categories()
        for some in (named, names):  # the feed itself knows where to look, unless it was not polled yet or has moved
            members = await read_many(self._client, [("SMEMBERS", self._keys.feeds(name)) for name in some])
            found = next((url for urls in members for url in urls if ids.feed_id(url) == fid), None)
            if found is not None:
                listed = await read_many(self._client, [("SISMEMBER", self._keys.feeds(name), found) for name in names])
                return str(found), [name for name, is_listed in zip(names, listed, strict=True) if is_listed]
        return None

    async def require(self, url: str) -> str:
        """Return the subscribed feed of this URL, as written or cleaned; FeedFileError names the nearest."""
        by_feed = await self.by_feed()
        clean = clean_url(url)
        for candidate in (url, clean):
            if isinstance(candidate, str) and candidate in by_feed:
                return candidate
        raise NotSubscribed(_unknown_feed(url, list(by_feed)))

    async def require_category(self, name: str, *, with_feeds: bool = False) -> str:
        """Return a known category by its name or its slug; FeedFileError names the nearest."""
        known = list(await self.by_category()) if with_feeds else await self.categories()
        for candidate in (name, category_slug(name)):
            if candidate in known:
                return candidate
        near = nearest(category_slug(name), known)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`python -m scripts.feeds list` shows what is there."
        raise NotSubscribed(f"There is no category {name}{' with feeds' if with_feeds else ''}. {hint}")

    async def add(self, category: str, url: str, title: str = "") -> None:
        """Subscribe; a feed that was retired is tried again at once. The title names it until its first poll."""
        fid = ids.feed_id(url)
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.sadd(self._keys.categories, category)
            pipe.sadd(self._keys.feeds(category), url)
            pipe.zadd(self._keys.feeds_due, {fid: 0})
            if title:
                pipe.hsetnx(self._keys.feed(fid), "url", without_credentials(url))
                pipe.hsetnx(self._keys.feed(fid), "title", title)
            await pipe.execute()

    async def remove(self, url: str) -> list[str]:
        """Unsubscribe from every category and remove the feed's state; return the categories it was in."""
        categories = (await self.by_feed()).get(url, [])
        async with self._client.pipeline(transaction=True) as pipe:
            for category in categories:
                pipe.srem(self._keys.feeds(category), url)
            for command in removal_commands(self._keys, [ids.feed_id(url)]):
                pipe.execute_command(*command)
            await pipe.execute()
        return categories

    async def sync(self, origin: str, wanted: Categories) -> tuple[int, int]:
        """Make what `origin` (a file) added equal to `wanted`; return how many were added and removed.

        A feed that was there before is not the file's, so the file never removes it.
        """
        remembered = self._keys.feeds_imported(origin)
        # A URL has no space in it; a category made by hand may.
        pairs = (line.rpartition(" ") for line in texts(await self._client.smembers(remembered)))
        ours = {(category, url) for category, _, url in pairs}
        there = {(category, url) for category, urls in (await self.by_category()).items() for url in urls}
        listed = {(category, url) for category, urls in wanted.items() for url in urls}
        added, removed = listed - there, ours - listed
        async with self._client.pipeline(transaction=True) as pipe:
            for category, url in added:
                pipe.sadd(self._keys.categories, category)
                pipe.sadd(self._keys.feeds(category), url)
                pipe.sadd(remembered, f"{category} {url}")
                pipe.zadd(self._keys.feeds_due, {ids.feed_id(url): 0})
            for category, url in removed:
                pipe.srem(self._keys.feeds(category), url)
                pipe.srem(remembered, f"{category} {url}")
            await pipe.execute()
        return len(added), len(removed)

    async def forget_origin(self, origin: str) -> None:
        """Forget what a file added, but keep the feeds."""
        await self._client.delete(self._keys.feeds_imported(origin))


def _unknown_feed(url: str, known: Sequence[str]) -> str:
    """Return a sentence with the feeds whose URLs are most like this one."""
    near = nearest_urls(url, known)
    lines = [f"{redact(url)} is in no category."]
    if near:
        lines += ["Known feeds like it:", *(f"    {redact(other)}" for other in near)]
    address = redact(url).replace("'", "%27")
    lines.append(f"To subscribe to it: python -m scripts.feeds add CATEGORY '{address}'")
    return "\n".join(lines)
