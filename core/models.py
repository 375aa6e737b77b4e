"""The values that stages pass to each other. Nothing here needs a clock, the network or Redis.

An expected failure is a value too: a fetch returns `Fetched`, `Failed` or `Deferred` and raises no exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from itertools import takewhile

from core.errors import FailCode, FailDetail
from core.value_class import value_class

# ── fetching ────────────────────────────────────────────────────────────────────────────────────


@value_class
class FetchRequest:
    """A request to the fetcher."""

    url: str
    method: str = "GET"
    """HEAD only for large binaries whose server ignores validators."""
    headers: Mapping[str, str] = field(default_factory=dict)
    conditional: Mapping[str, str] = field(default_factory=dict)
    """Validators; sent to `conditional_url` alone, which is the first hop or a redirect's target."""
    conditional_url: str = ""
    max_bytes: int | None = None
    """Cap on the decompressed body; None takes the setting."""
    respect_robots: bool = True
    """False only for what a person named: their feeds, robots.txt itself."""
    max_wait_seconds: float = 60.0
    """How long the request may wait for the domain's gate before the result is `Deferred`."""
    is_api: bool = False
    """A service with its own rate limit: no gap between requests. Its Retry-After is respected."""


PERMANENT_REDIRECTS = frozenset({301, 308})


@value_class
class Hop:
    """One redirect: the URL that was requested, without its credentials, and the status."""

    url: str
    status: int


@value_class
class Fetched:
    """An HTTP answer of any status, body complete and within its cap."""

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    """Names are always in lower case."""
    body: bytes
    """Plain, unless `packing` says otherwise."""
    hops: tuple[Hop, ...] = ()
    """Redirects in order, without the final answer."""
    is_signed: bool = False
    """A redirect led to a URL with credentials, which are left out here: the URL cannot be fetched again."""
    packing: str = ""
    """The content coding in which the body still is, for those who asked for it as it came (`BodySlot`)."""

    @property
    def is_moved_for_good(self) -> bool:
        """Did permanent redirects alone lead here, to a URL that can be fetched again?"""
        return bool(self.hops) and not self.is_signed and all(hop.status in PERMANENT_REDIRECTS for hop in self.hops)

    @property
    def permanent_target(self) -> str:
        """Where a chain of 301 and 308 leads; empty if its first hop is temporary or there is none.

        A target with credentials is empty too: it is stored nowhere, so it could not be fetched again.
        """
        if self.is_signed or not self.hops:
            return ""
        permanent = len(list(takewhile(lambda hop: hop.status in PERMANENT_REDIRECTS, self.hops)))
        return [*(hop.url for hop in self.hops), self.final_url][permanent] if permanent else ""

    def header(self, name: str) -> str:
        """Return the header's value, or an empty string; case does not matter."""
        return self.headers.get(name.lower(), "")


@value_class
class Failed:
    """An expected failure, for people and for the schedule."""

    code: FailCode
    detail: FailDetail = FailDetail.NONE
    text: str = ""
    http_status: int = 0
    retry_after_seconds: float | None = None


@value_class
class Deferred:
    """The fetch must wait: for the domain's gate, a Retry-After or an unreadable robots.txt."""

    wait_seconds: float
    reason: str


STOPPED = Deferred(0.0, "the run was paused or stopped")
"""No request was sent, because the run was asked to pause or to stop; nothing is to be counted against anybody."""

FetchResult = Fetched | Failed | Deferred


# ── feeds ───────────────────────────────────────────────────────────────────────────────────────


class FeedKind(StrEnum):
    """Every format the ingestor reads."""

    RSS = "rss"
    ATOM = "atom"
    JSON = "json"
    CDF = "cdf"
    SITEMAP = "sitemap"
    NEWS_SITEMAP = "news_sitemap"
    SITEMAP_INDEX = "sitemap_index"


@value_class
class FeedEntry:
    """One item of a feed, as the publisher wrote it: links made absolute, nothing cleaned yet."""

    link: str = ""
    id: str = ""
    title: str = ""
    published_ts: float | None = None
    updated_ts: float | None = None
    author: str = ""
    content: str = ""
    """The item's own text or HTML, the richest the feed has; may be empty."""
    source_url: str = ""


@value_class
class PublisherHints:
    """What a feed says about how often to poll it."""

    ttl_seconds: float | None = None
    update_period_seconds: float | None = None
    skip_hours: tuple[int, ...] = ()
    """Hours of the UTC day (0-23) in which not to poll."""
    skip_days: tuple[int, ...] = ()
    """Days of the week (Monday = 0) on which not to poll."""


@value_class
class ParsedFeed:
    """A parsed feed: its metadata and entries."""

    kind: FeedKind
    title: str = ""
    entries: tuple[FeedEntry, ...] = ()
    hints: PublisherHints = field(default_factory=PublisherHints)
    parser: str = "fast"
    """`fast` (lxml, json) or `feedparser`."""
    children: tuple[str, ...] = ()
    """Sitemaps named by a sitemap index, newest first."""
    left_out: int = 0
    """How many entries were not read."""


@value_class
class FeedText:
    """What a feed says about one of its links: enough for an article when the page itself cannot be read."""

    title: str = ""
    author: str = ""
    published_ts: float | None = None
    html: str = ""


@value_class
class RejectedUrl:
    """A URL that is not taken, and why."""

    url: str
    reason: str


@value_class
class Link:
    """A link of the link sets, and what is known of it before its article is written."""

    url: str
    uid: str
    categories: tuple[str, ...]
    entry: Mapping[str, str] = field(default_factory=dict)
    """What a feed said about it: its own title, author, date, text and address."""
    earlier_tries: int = 0
    is_first_visit: bool = True
    """False: its article expired or was gone, and a reindex asks for it again."""
    duplicate_of: str = ""
    """Uid of the live article that had the same text first."""

    @property
    def feed(self) -> str:
        """The feed that listed it; empty if someone added it by hand."""
        return self.entry.get("feed", "")


class LinkResult(StrEnum):
    """The result of a link's visit; each link has exactly one per run."""

    STORED = "stored"
    FAILED = "failed"
    RETRY = "retry"
    ALIAS = "alias"
    DUPLICATE = "duplicate"
    DEFERRED = "deferred"
    KNOWN = "known"
    REJECTED = "rejected"


@value_class
class FeedLinks:
    """The clean links of a feed's body, in order and each once, and the rejected ones."""

    kind: FeedKind
    title: str = ""
    links: tuple[str, ...] = ()
    texts: tuple[FeedText, ...] = ()
    """One for each link, in the same order."""
    rejected: tuple[RejectedUrl, ...] = ()
    """The first few, as examples."""
    rejected_count: int = 0
    hints: PublisherHints = field(default_factory=PublisherHints)
    children: tuple[str, ...] = ()
    parser: str = "fast"
    left_out: int = 0
    """How many entries were not read."""


@value_class
class DiscoveredFeed:
    """A feed that a page links to; `type` is empty where only its address says that it is one."""

    url: str
    title: str = ""
    type: str = ""


# ── pages ───────────────────────────────────────────────────────────────────────────────────────


class TextSource(StrEnum):
    """Where a document's text comes from, best first."""

    PAGE = "page"
    """The page's main text."""
    ALL_TEXT = "all_text"
    """All text of the page: it has no main text, or none was wanted."""
    FEED = "feed"
    """The feed's own text: the page kept it from us, or has less of it."""


class DateSource(StrEnum):
    """Who says when an article was published."""

    PAGE = "page"
    """The page states it."""
    FEED = "feed"
    GUESS = "guess"
    """Read from the page's address or text."""


@value_class
class Image:
    """An image of a page's content: no icon, no tracking pixel, no ornament."""

    url: str
    alt: str = ""
    width: int = 0
    height: int = 0
    """0: the page does not say."""
    mime_type: str = ""
    """By its file extension; empty if that says nothing."""


@value_class
class Document:
    """The content of a page, fit to store: no NUL, no lone surrogate, no control character."""

    title: str = ""
    markdown: str = ""
    """Headings, lists, tables, code and quotes kept; this is what is chunked."""
    clean_text: str = ""
    """The same as plain text, a blank line between blocks."""
    abstract: str = ""
    image: str = ""
    author: str = ""
    published_ts: float | None = None
    """What the page states or shows, unchecked."""
    is_date_guessed: bool = False
    """The page states no time of publication: it is read from the address or the text, and a feed knows better."""
    language: str = ""
    """ISO 639 code, lower case, without region."""
    canonical_url: str = ""
    """What the page states: absolute and clean, not checked (see `trusted_canonical`)."""
    is_amp: bool = False
    raw_len: int = 0
    """Bytes of the body."""
    text_len: int = 0
    """Characters of `clean_text`."""
    content_hash: str = ""
    """sha256 of the text without regard to whitespace; the title is not part of it."""
    extractor_version: str = ""
    source: TextSource = TextSource.PAGE
    images: tuple[Image, ...] = ()
    """In the order of the page, each once."""
    links: tuple[str, ...] = ()
    """Clean http(s) URLs that the page links to, each once, in order; only if wanted."""


# ── sources ─────────────────────────────────────────────────────────────────────────────────────


@value_class
class Ref:
    """Something a source lists."""

    address: str
    """What is fetched: a clean URL, or the absolute path of a file."""
    type: str = "url"
    """`url` or `file`."""
    depth: int = 0
    version: str = ""
    """What the listing says about its content: mtime and size, blob sha, lastmod. Empty: nothing."""


@value_class
class ListingBatch:
    """A part of a listing."""

    refs: tuple[Ref, ...] = ()
    refused: tuple[RejectedUrl, ...] = ()
    """A URL or file that exists but is not taken, and why."""


@value_class
class ListingEnd:
    """The last value of a listing; a listing without one was interrupted, and removes nothing."""

    is_complete: bool
    """Whether absence from this listing means that something is gone."""
    reason: str = ""
    """Why it is not complete, for people."""
    memory: Mapping[str, str] = field(default_factory=dict)
    """Handed back to the source at its next listing; opaque to everything else."""


# ── search ──────────────────────────────────────────────────────────────────────────────────────


@value_class
class Chunk:
    """A piece of a text that is embedded and found as one."""

    id: str
    """Made of item, heading path, text, n-th occurrence and chunker version: equal pieces keep it through edits."""
    text: str
    """As in the text, without title and headings around it, so that its hash survives a rename."""
    headings: tuple[str, ...] = ()
    """The path of headings above it, outermost first."""
    order: int = 0
    text_hash: str = ""
    level: int = 0
    """Level of the heading above it: 1 to 6; 0: there is none."""
    types: tuple[str, ...] = ()
    """What it is made of, in order: `text`, `list`, `table`, `code`, `heading` (one with nothing below it)."""


@value_class
class VectorSpace:
    """Vectors of one space can be compared; of two spaces never."""

    model: str
    dimension: int
    chunker_version: str

    @property
    def name(self) -> str:
        """As used in keys: letters, digits, `-`, `_` and `.`."""
        model = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in self.model)
        return f"{model}-{self.dimension}-c{self.chunker_version}"
