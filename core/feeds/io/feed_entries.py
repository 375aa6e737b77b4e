"""List the links of a feed's last body, with what became of each."""

from __future__ import annotations

from core import ids
from core.keys import Keys
from core.registry import field_parsing
from core.store import scanning
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_LOOKED_AT = 500
"""A sitemap may list 50,000 pages; of more than this only some are looked at."""


@value_class
class FeedEntryState:
    url: str
    title: str
    """The article's title, or the feed's; empty if neither is known."""
    uid: str
    """The uid of its article; empty: there is none."""
    ts: float
    """When the article was stored, or the link was last seen."""


async def entries_of(client: Client, keys: Keys, feed_url: str, category: str, most: int) -> list[FeedEntryState]:
    """Return the links of the feed's last body, those with the newest articles first; `category`: one of its."""
    links: list[str] = []
    async for batch in scanning.set_members(client, keys.feed_links(ids.feed_id(feed_url))):
        links += batch
        if len(links) >= MOST_LOOKED_AT:
            break
    entries = await _read(client, keys, links[:MOST_LOOKED_AT], category)
    return sorted(entries, key=lambda entry: (not entry.uid, -entry.ts, entry.url))[:most]


async def _read(client: Client, keys: Keys, links: list[str], category: str) -> list[FeedEntryState]:
    uids = [ids.article_uid(url) for url in links]
    targets = await read_many(client, [("GET", keys.alias(uid)) for uid in uids])
    shown = [str(target or uid) for uid, target in zip(uids, targets, strict=True)]
    articles = await read_many(client, [("HMGET", keys.article(uid), "title", "fetched_ts") for uid in shown])
    titles = await read_many(client, [("HGET", keys.entry(uid), "title") for uid in uids])
    seen = await read_many(client, [("ZSCORE", keys.category_links_seen(category), url) for url in links])
    return [
        FeedEntryState(
            url,
            str(title or entry_title or ""),
            uid if fetched is not None else "",
            field_parsing.timestamp(fetched or seen_ts),
        )
        for url, uid, (title, fetched), entry_title, seen_ts in zip(links, shown, articles, titles, seen, strict=True)
    ]
