"""For `freshet why`: read all that the store knows of one URL or item, and build the stations of its trail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from core import ids
from core.errors import FailDetail
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.why_content_reader import ContentReader, LinkFacts, RecordFacts
from core.registry.io.why_fetch_reader import FetchReader
from core.registry.io.why_listing_reader import ListingReader
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.registry.why_content import content_stations
from core.registry.why_feed import feed_station
from core.registry.why_fetch import connection_station, fetch_stations, gate_station, pause_station
from core.registry.why_listing import ListingFacts, listing_station
from core.registry.why_scope import scope_station
from core.registry.why_verdict import Station
from core.registry.why_visit import VisitFacts, next_check_station, run_station, visit_station
from core.runs.run import RunKind, domain_scope, scope_of, source_scope
from core.settings import Settings
from core.store.connect import Client
from core.urls.secrets import without_credentials
from core.value_class import value_class


@value_class
class KnownUrl:
    """A URL or path, the spellings under which links may have it, and what is stored under its ids."""

    url: str
    item_id: str
    """The id that it has or would have; empty if it can have none."""
    link: LinkFacts
    record: RecordFacts
    spellings: Sequence[str] = field(default_factory=tuple)

    @property
    def is_stored(self) -> bool:
        """Whether anything is stored under its ids."""
        return self.link.is_known or self.record.item is not None


class StationReader:
    def __init__(self, client: Client, keys: Keys, settings: Settings, now: float) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._now = now
        self._content = ContentReader(client, keys, settings, now)
        self._listing = ListingReader(client, keys, settings, now)
        self._fetch = FetchReader(client, keys, settings, now)

    async def stations(self, known: KnownUrl) -> tuple[list[Station], bool]:
        """Return all stations behind the address, and whether anything names or knows the URL."""
        record, item = known.record, known.record.item
        alias = await self._content.alias(known.link, item)
        link = await self._with_article(known)
        listing = await self._listing_facts(known)
        name = known.url or link.uid
        content = await self._content.content(name, link, record, alias)
        content = replace(content, held=next((one.held for one in listing.sources if one.has_it and one.held), ""))
        fetch = await self._fetch.read(
            known.url, known.item_id, _scopes(listing, record), _robots_refused_ts(link, record)
        )
        fetch = replace(fetch, is_by_api=_is_by_api(listing, record))
        visit = VisitFacts(
            name=name,
            record=record.record,
            item=item,
            failure=link.failure,
            is_attempted=link.is_attempted,
            attempted_ts=link.attempted_ts,
            attempted_ttl_seconds=Ttls.of(self._settings).attempted,
            retry_ts=link.retry_ts,
            is_link=bool(listing.feeds or listing.links),
            has_text=content.has_text,
            has_article=bool(link.article),
            is_alias=alias is not None,
            is_leased=bool(fetch.lease_seconds),
            crashes=fetch.crashes,
            due=record.due,
            canonical_run_ts=await self._content.canonical_run_ts(),
            runs=await self._content.runs(item, link),
        )
        is_named_elsewhere = visit.is_link or URLS_SOURCE in listing.listed_by or link.is_known
        now = self._now
        stations = [
            listing_station(listing, known.url, now),
            scope_station(listing, is_named_elsewhere=is_named_elsewhere),
            *fetch_stations(fetch, now),
            visit_station(visit, now),
            *content_stations(content, now),
            next_check_station(visit, now),
            run_station(visit),
        ]
        return stations, known.is_stored or listing.is_listed

    async def _with_article(self, known: KnownUrl) -> LinkFacts:
        """Return its link with the article of its page, which feeds may list under another URL."""
        link, item = known.link, known.record.item
        uid = link.alias_of or (item.article_uid if item else "")
        other = await self._content.link(uid) if uid and not link.article else LinkFacts("")
        if not other.article:
            return link
        return replace(link, article=other.article, article_seconds_left=other.article_seconds_left)

    async def _listing_facts(self, known: KnownUrl) -> ListingFacts:
        link, item, listing = known.link, known.record.item, self._listing
        sources = await listing.sources(known.url, known.item_id)
        stored = (item.fetch_url, item.article_url) if item else ()
        names = list(dict.fromkeys([*known.spellings, *filter(None, stored)])) if known.spellings else []
        pages = await listing.pages([source for source in sources if source.follows_links], names)
        return ListingFacts(
            feeds=await listing.feeds(names, link.entry),
            links=await listing.links(names),
            sources=[listing.judged_at_depth(source, known.url, pages) for source in sources],
            pages=pages,
            pages_read=listing.pages_read,
            is_cut=listing.is_cut,
            listed_by=item.sources if item else (),
            is_known=known.is_stored,
        )

    # ── a feed ──

    async def feed(self, spellings: Sequence[str]) -> list[Station] | None:
        """Return the stations of a URL that is a feed; None if it is none."""
        for url in spellings:
            categories = await self._listing.feed_categories(url)
            if not categories and not await self._listing.is_feed_known(url):
                continue
            [state] = await FeedStore(self._client, self._keys, Ttls.of(self._settings)).states([url])
            lease = f"feed_{ids.feed_id(url)}"
            fetch = await self._fetch.read(state.address, lease, [scope_of(RunKind.INGEST)], 0.0)
            state = replace(state, url=without_credentials(state.url))
            station = feed_station(state, categories, bool(fetch.lease_seconds), self._now)
            # robots.txt is not asked for what a person named.
            return [station, connection_station(fetch), pause_station(fetch), gate_station(fetch.gate, self._now)]
        return None


# ── what follows from the facts ──


def _scopes(listing: ListingFacts, record: RecordFacts) -> list[str]:
    """Return what the work on the URL belongs to, as pauses name it."""
    nearest = min((source.distance for source in listing.sources), default=0)
    sids = {source.sid for source in listing.sources if source.distance == nearest}
    sids |= set(record.item.sources) if record.item else set()
    domains = {sid.partition(".")[0] for sid in sids if "." in sid}
    scopes = [*map(source_scope, sorted(sids)), *map(domain_scope, sorted(domains))]
    if record.item is None and (listing.feeds or listing.links):
        scopes += [scope_of(RunKind.CANONICAL), scope_of(RunKind.INGEST)]
    return scopes


def _is_by_api(listing: ListingFacts, record: RecordFacts) -> bool:
    """Return whether it is read through its source's own interface. If so, robots.txt does not apply."""
    having = [source for source in listing.sources if source.has_it]
    others = {ARTICLES_SOURCE, URLS_SOURCE} & set(record.item.sources if record.item else ())
    return bool(having) and not others and not any(source.follows_links for source in having)


def _robots_refused_ts(link: LinkFacts, record: RecordFacts) -> float:
    """Return when the last visit was refused by robots.txt; 0 if it was not."""
    if link.failure.get("detail") == FailDetail.ROBOTS:
        return field_parsing.timestamp(link.failure.get("last_ts"))
    if record.item is not None and record.record.get("httpRobotsAllowed") == "false":
        return record.item.checked_ts
    return 0.0
