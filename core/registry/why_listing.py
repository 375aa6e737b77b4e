"""`freshet why`, stations that list a URL: feeds, pages, sitemaps, people, sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.registry.record import URLS_SOURCE
from core.registry.time_formatting import ago, ahead, span
from core.registry.why_verdict import Station, StationName, StationState, iso_or_empty
from core.urls.scope import NO_ADDRESS, OUTSIDE, Judgement
from core.value_class import value_class


@value_class
class ListingFeed:
    url: str
    categories: tuple[str, ...] = ()
    is_in_last_body: bool = True
    """False: it named it once, and what it said is kept until the page is read."""


@value_class
class CategoryLink:
    category: str
    seen_ts: float = 0.0
    """0: someone added it by hand, and no run has noticed yet."""
    expires_ts: float = 0.0


@value_class
class SourceListing:
    """A source of a domain, and how the URL relates to it."""

    sid: str
    domain: str
    location: str
    """The root, folder or repository."""
    judgement: Judgement | None = None
    """What its configuration says; None: the URL is of another place."""
    depth: int | None = None
    """How deep the item lies in it; None: it does not list it."""
    seen_ts: float = 0.0
    is_in_sitemap: bool = False
    is_root: bool = False
    follows_links: bool = False
    refusal: str = ""
    """Why it was not taken when it was last found."""
    full: str = ""
    held: str = ""
    listed_ts: float = 0.0
    next_listing_ts: float = 0.0
    problem: str = ""
    """Why its record cannot be read."""
    is_lost: bool = False
    """It counts as lost within the last day."""

    @property
    def has_it(self) -> bool:
        return self.depth is not None

    @property
    def distance(self) -> int:
        """How far the URL is from being an item: 0 is one, 1 would be taken, 2 excluded by a rule, 3 out of scope."""
        if self.has_it:
            return 0
        reason = self.judgement.reason if self.judgement else NO_ADDRESS
        return 1 if not reason else 3 if reason in (*OUTSIDE.values(), NO_ADDRESS) else 2


@value_class
class LinkingPage:
    url: str
    sid: str
    depth: int


@value_class
class ListingFacts:
    feeds: Sequence[ListingFeed] = ()
    links: Sequence[CategoryLink] = ()
    sources: Sequence[SourceListing] = ()
    pages: Sequence[LinkingPage] = ()
    pages_read: int = 0
    is_cut: bool = False
    """Not all pages were looked at."""
    listed_by: Sequence[str] = ()
    """Ids of the sources in its record, `rss` and `urls` among them."""
    is_known: bool = False
    """There is a record, an article or an attempt."""

    @property
    def is_listed(self) -> bool:
        """Whether anything names it now."""
        has_source = any(source.has_it for source in self.sources) or URLS_SOURCE in self.listed_by
        return bool(self.feeds or self.links or self.pages or has_source)


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


def listing_station(listing: ListingFacts, clean: str, now: float) -> Station:
    """Return the station that says what names the URL."""
    parts = [*_by_feeds(listing, now), *_by_sources(listing), *_by_pages(listing)]
    if URLS_SOURCE in listing.listed_by:
        parts.append("registered by hand as a single page")
    facts = _listing_facts(listing)
    if parts:
        return Station(StationName.LISTING, StationState.PASSED, f"{_capital('; '.join(parts))}.", facts)
    if listing.is_known:
        sentence = "Nothing that is read now names it any more."
        return Station(StationName.LISTING, StationState.UNKNOWN, sentence, facts)
    taking = [source for source in listing.sources if source.judgement and not source.judgement.reason]
    refusing = [
        source for source in listing.sources if (source.judgement and source.judgement.reason) or source.refusal
    ]
    if refusing and not taking:
        sentence = f"No feed names it, and no page{_how_many(listing)} links to it."
        if not any(source.follows_links for source in refusing):
            sentence = f"It lies in the place of {refusing[0].sid}, which does not take it."
        return Station(StationName.LISTING, StationState.UNKNOWN, sentence, facts)
    if taking:
        return _unlinked(taking[0], listing, facts, now)
    sentence, advice = _NOBODY if clean.startswith("http") else _NO_FOLDER
    return Station(StationName.LISTING, StationState.STOPPED, sentence, facts, advice.format(clean=clean))


_NOBODY = (
    "No feed, page, sitemap or source that Freshet reads names it.",
    "It would be cleaned to {clean}. Bring it in with a feed that lists it (python -m scripts.feeds add CATEGORY URL),"
    " or with its site (python -m scripts.domain add URL).",
)
_NO_FOLDER = ("It lies in no folder that Freshet reads.", "Add its folder: python -m scripts.domain add FOLDER.")


def _unlinked(source: SourceListing, listing: ListingFacts, facts: Mapping[str, object], now: float) -> Station:
    if not source.listed_ts:
        sentence = f"{source.sid} would take it, and has not been crawled yet."
        advice = f"python -m scripts.domain crawl {source.domain}"
        return Station(StationName.LISTING, StationState.WAITING, sentence, facts, advice)
    soon = f"Its next listing is {ahead(source.next_listing_ts, now)}." if source.next_listing_ts else ""
    sentence = f"{source.sid} would take it, but its last listing, {ago(source.listed_ts, now)}, did not have it."
    advice = soon
    if source.follows_links:
        sentence = f"{source.sid} would take it, but no page{_how_many(listing)} links there and no sitemap lists it."
        advice = f"Link to it from a page of {source.location}, or list it in the sitemap. {soon}".strip()
    return Station(StationName.LISTING, StationState.STOPPED, sentence, facts, advice)


def _how_many(listing: ListingFacts) -> str:
    if listing.is_cut:
        return f" of the first {listing.pages_read:,} (the others were not looked at)"
    return f" of the {listing.pages_read:,} that were read" if listing.pages_read else ""


def _by_feeds(listing: ListingFacts, now: float) -> list[str]:
    parts = []
    for feed in listing.feeds[:3]:
        place = f" ({', '.join(feed.categories)})" if feed.categories else ""
        verb = "listed by" if feed.is_in_last_body else "listed once by"
        parts.append(f"{verb} the feed {feed.url}{place}")
    if len(listing.feeds) > 3:
        parts.append(f"and by {len(listing.feeds) - 3} more feeds")
    for link in listing.links:
        seen = f"seen {ago(link.seen_ts, now)}" if link.seen_ts else "added by hand"
        left = f", stays {span(link.expires_ts - now)} more" if link.expires_ts > now else ""
        parts.append(f"in the link set of {link.category} ({seen}{left})")
    return parts


def _by_sources(listing: ListingFacts) -> list[str]:
    parts = []
    for source in listing.sources:
        if source.has_it:
            how = (
                "its root" if source.is_root else "in its sitemap" if source.is_in_sitemap else f"depth {source.depth}"
            )
            parts.append(f"listed by {source.sid} ({how})")
    return parts


def _by_pages(listing: ListingFacts) -> list[str]:
    if not listing.pages:
        return []
    first, others = listing.pages[0], len(listing.pages) - 1
    return [f"linked from {first.url}" + (f" and {others} more pages" if others else "")]


def _listing_facts(listing: ListingFacts) -> dict[str, object]:
    return {
        "feeds": [
            {"url": feed.url, "categories": list(feed.categories), "in_last_body": feed.is_in_last_body}
            for feed in listing.feeds
        ],
        "link_sets": [
            {
                "category": link.category,
                "seen_at": iso_or_empty(link.seen_ts),
                "expires_at": iso_or_empty(link.expires_ts),
            }
            for link in listing.links
        ],
        "pages": [{"url": page.url, "source": page.sid, "depth": page.depth} for page in listing.pages],
        "pages_looked_at": listing.pages_read,
        "pages_left_out": listing.is_cut,
        "sources": [source.sid for source in listing.sources if source.has_it],
        "record_sources": list(listing.listed_by),
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
