"""For `freshet why`: read which feeds, link sets, sources and pages name a URL. Bounded, and reads only.

Ten thousand feeds are ten thousand SISMEMBERs in a few round trips. Pages are looked at only in sources that take the
URL, and not more than `MOST_PAGES` of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from core import ids
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.registry import field_parsing
from core.registry.why_listing import CategoryLink, LinkingPage, ListingFeed, SourceListing
from core.settings import Settings
from core.sources.io import source_kinds
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError, SourceRecord, SourceState
from core.store.connect import Client
from core.store.pipeline import read_many
from core.urls.scope import Judgement

AT_ONCE = 2_000
MOST_PAGES = 20_000
MOST_SHOWN = 20
_SOURCE = ("config", "notes", "root_id", "full", "held", "last_listed_ts", "next_listing_ts")


class ListingReader:
    def __init__(self, client: Client, keys: Keys, settings: Settings, now: float) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._now = now
        self._ttls = Ttls.of(settings)
        self._states: dict[str, SourceState] = {}
        self.pages_read = 0
        self.is_cut = False

    # ── feeds ──

    async def feeds(self, spellings: Sequence[str], entry: Mapping[str, str]) -> list[ListingFeed]:
        """Return the feeds whose last body has the link, and the one that said something about it."""
        fids = await FeedStore(self._client, self._keys, self._ttls).all_ids() if spellings else []
        listing: list[str] = []
        for start in range(0, len(fids), AT_ONCE):
            some = fids[start : start + AT_ONCE]
            commands = [("SMISMEMBER", self._keys.feed_links(fid), *spellings) for fid in some]
            replies = await read_many(self._client, commands)
            listing += [fid for fid, hits in zip(some, replies, strict=True) if any(hits)]
        rows = await read_many(
            self._client, [("HMGET", self._keys.feed(fid), "url", "categories") for fid in listing[:MOST_SHOWN]]
        )
        feeds = [ListingFeed(url or "", tuple(filter(None, (names or "").split(",")))) for url, names in rows]
        named = entry.get("feed", "")
        if named and named not in {feed.url for feed in feeds}:
            feeds.append(ListingFeed(named, is_in_last_body=False))
        return feeds

    async def links(self, spellings: Sequence[str]) -> list[CategoryLink]:
        categories = await Subscriptions(self._client, self._keys).categories() if spellings else []
        links: list[CategoryLink] = []
        for start in range(0, len(categories), AT_ONCE):
            some = categories[start : start + AT_ONCE]
            members = [("SMISMEMBER", self._keys.category_links(name), *spellings) for name in some]
            times = [("ZMSCORE", self._keys.category_links_seen(name), *spellings) for name in some]
            replies = await read_many(self._client, [*members, *times])
            for name, hits, stamps in zip(some, replies, replies[len(some) :], strict=False):
                if any(hits):
                    seen = max((field_parsing.timestamp(stamp) for stamp in stamps if stamp is not None), default=0.0)
                    links.append(CategoryLink(name, seen, seen + self._ttls.link if seen else 0.0))
        return links

    # ── sources ──

    async def sources(self, address: str, item_id: str) -> list[SourceListing]:
        """Return the sources that list the item, or whose configuration has something to say about its address."""
        store = SourceStore(self._client, self._keys)
        sids = await store.ids() if address else []
        listings: list[SourceListing] = []
        for start in range(0, len(sids), AT_ONCE):
            some = sids[start : start + AT_ONCE]
            hashes = [("HMGET", self._keys.source(sid), *_SOURCE) for sid in some]
            depths = [("ZSCORE", self._keys.refs(sid), item_id) for sid in some]
            replies = await read_many(self._client, [*hashes, *depths])
            for sid, values, depth in zip(some, replies, replies[len(some) :], strict=False):
                fields = {name: value or "" for name, value in zip(_SOURCE, values, strict=True)}
                listing = self._listing(sid, fields, depth, address, item_id)
                if listing.has_it or listing.judgement or listing.problem:
                    listings.append(await self._with_details(listing, address, item_id))
        return sorted(listings, key=lambda listing: listing.distance)

    def _listing(self, sid: str, fields: Mapping[str, str], depth: object, address: str, item_id: str) -> SourceListing:
        known_depth = None if depth is None else int(field_parsing.number(depth))
        values: dict[str, Any] = {
            "sid": sid,
            "domain": sid.partition(".")[0],
            "depth": known_depth,
            "is_root": bool(item_id) and fields["root_id"] == item_id,
            "full": fields["full"],
            "held": fields["held"],
            "listed_ts": field_parsing.timestamp(fields["last_listed_ts"]),
            "next_listing_ts": field_parsing.timestamp(fields["next_listing_ts"]),
        }
        try:
            record = SourceRecord.from_json(fields["config"])
            state = self._states[sid] = SourceState(record, notes=field_parsing.mapping(fields["notes"]))
            judgement = self._judge(state, address, known_depth or 0)
            values["follows_links"] = source_kinds.source_class(record.kind).follows_links
            return SourceListing(location=source_kinds.location(record), judgement=judgement, **values)
        except (DomainFileError, ValueError, KeyError, TypeError) as error:
            return SourceListing(location="", problem=str(error), **values)

    def judged_at_depth(self, listing: SourceListing, address: str, pages: Sequence[LinkingPage]) -> SourceListing:
        """Return the listing with what the source says of the address where its own pages link to it."""
        depths = [page.depth + 1 for page in pages if page.sid == listing.sid]
        if listing.has_it or not depths or listing.problem:
            return listing
        return replace(listing, judgement=self._judge(self._states[listing.sid], address, min(depths)))

    def _judge(self, state: SourceState, address: str, depth: int) -> Judgement | None:
        kind = source_kinds.source_class(state.record.kind)
        return kind.judge(state, self._settings, address, depth, self._now)

    async def _with_details(self, listing: SourceListing, address: str, item_id: str) -> SourceListing:

        sid = listing.sid
        seen, is_listed, refusal, lost = await read_many(
            self._client,
            [
                ("ZSCORE", self._keys.seen(sid), item_id),
                ("SISMEMBER", self._keys.listed(sid), item_id),
                ("HGET", self._keys.refused(sid), address[:500]),
                ("ZSCORE", self._keys.lost(sid), item_id),
            ],
        )
        return replace(
            listing,
            seen_ts=field_parsing.timestamp(seen),
            is_in_sitemap=bool(is_listed),
            refusal=refusal or "",
            is_lost=lost is not None,
        )

    # ── pages that link to it ──

    async def pages(self, sources: Sequence[SourceListing], spellings: Sequence[str]) -> list[LinkingPage]:
        """Return pages of these sources that link to the URL, the nearest to the root first, a few of them."""
        pages: list[LinkingPage] = []
        for source in sources:
            if spellings:
                pages += await self._pages_of(source.sid, spellings, MOST_SHOWN - len(pages))
        return pages

    async def _pages_of(self, sid: str, spellings: Sequence[str], most: int) -> list[LinkingPage]:
        found: list[tuple[str, int]] = []
        start = 0
        while len(found) < most:
            if self.pages_read >= MOST_PAGES:
                self.is_cut = True
                break
            stop = start + min(AT_ONCE, MOST_PAGES - self.pages_read) - 1
            reply = await self._client.zrange(self._keys.refs(sid), start, stop, withscores=True)
            rows = cast(list[tuple[str, float]], reply)
            if not rows:
                break
            commands = [("SMISMEMBER", self._keys.links(item_id), *spellings) for item_id, _ in rows]
            replies = await read_many(self._client, commands)
            found += [(page, int(depth)) for (page, depth), hits in zip(rows, replies, strict=True) if any(hits)]
            self.pages_read += len(rows)
            start += len(rows)
        urls = await read_many(
            self._client, [("HGET", self._keys.item(item_id), "fetchUrl") for item_id, _ in found[:most]]
        )
        return [
            LinkingPage(url or item_id, sid, depth) for (item_id, depth), url in zip(found[:most], urls, strict=True)
        ]

    # ── it is a feed itself ──

    async def feed_categories(self, url: str) -> list[str]:
        """Return the categories that subscribe to this URL as a feed."""
        categories = await Subscriptions(self._client, self._keys).categories()
        replies = await read_many(self._client, [("SISMEMBER", self._keys.feeds(name), url) for name in categories])
        return [name for name, is_member in zip(categories, replies, strict=True) if is_member]

    async def is_feed_known(self, url: str) -> bool:
        return bool(await self._client.exists(self._keys.feed(ids.feed_id(url))))
