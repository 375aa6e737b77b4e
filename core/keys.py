"""Every Redis key of Freshet, with its type, TTL and purpose. No other file spells one.

`KEY_PREFIX` goes in front of all of them; `KEY_PREFIX={a}:` puts a deployment into one cluster slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from core.settings import Settings

ANY = "any"
"""The type of a key that may have any."""


class DeclaredKey:
    """A key, or keys that are built alike from names."""

    name: str

    def __init__(self, spelling: str, type: str, life: str = "no expiry") -> None:
        """`spelling`: with `<…>` for each name. `type`: as the TYPE command says it, in capitals, or `ANY`.

        `life`: when the key expires, or what bounds it.
        """
        self.spelling = spelling
        self.type = type
        self.life = life

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def parts(self, keys: Keys) -> list[str]:
        """Return what stands around the names, in this deployment."""
        first, *others = re.split(r"<\w+>", self.spelling.replace("<registry>", keys.registry))
        return [f"{keys.prefix}{first}", *others]


class OneKey(DeclaredKey):
    """A key that a deployment has once."""

    def __get__(self, keys: Keys, owner: type) -> str:
        """Return the key; it is kept in the instance, so that this is asked for once."""
        key: str = keys.__dict__.setdefault(self.name, self.parts(keys)[0])
        return key


class KeyOf(DeclaredKey):
    """A key for each name."""

    def __get__(self, keys: Keys, owner: type) -> Callable[[str], str]:
        """Return what builds the key of a name, kept as well."""
        head, tail = self.parts(keys)
        build: Callable[[str], str] = keys.__dict__.setdefault(self.name, lambda name: f"{head}{name}{tail}")
        return build


class KeyOfTwo(DeclaredKey):
    """A key for each pair of names."""

    def __get__(self, keys: Keys, owner: type) -> Callable[[str, str], str]:
        """Return what builds the key of a pair."""
        head, middle, tail = self.parts(keys)
        return lambda first, second: f"{head}{first}{middle}{second}{tail}"


@dataclass(frozen=True)
class Keys:
    """Builds the keys of one deployment."""

    prefix: str = ""
    registry: str = "ingest"
    """The name of the registry's keys (REGISTRY_TABLE_NAME)."""

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """Return the keys of the deployment with these settings."""
        return cls(settings.key_prefix, settings.registry_name)

    # ── categories and feeds ──

    categories = OneKey("rss:categories", "SET")
    """Known categories."""
    feeds = KeyOf("rss:feeds:<category>", "SET")
    """Feed URLs of a category; anyone may SADD."""
    feeds_imported = KeyOf("rss:feeds_imported:<origin>", "SET")
    """`<category> <url>` that this file added, so that its next import removes nothing else."""
    feed = KeyOf("rss:feed:<fid>", "HASH")
    """One feed's health, schedule and validators."""
    feed_links = KeyOf("rss:feed_links:<fid>", "SET")
    """Clean links of the feed's last body, so that an unchanged poll can renew them."""
    feeds_due = OneKey("rss:feeds_due", "ZSET")
    """Feed id by next poll (epoch seconds); 0 means now, inf means retired."""
    feed_summaries = OneKey("rss:feed_summaries", "HASH")
    """By feed id `<status> <last new entry> <title>`, by which lists of feeds are filtered."""
    feeds_broken = OneKey("rss:feeds_broken", "ZSET")
    """Ids of feeds whose last poll failed or retired them, by since when."""
    category_changes = OneKey("rss:category_changes", "HASH")
    """Categories that were renamed or dropped, until late workers are done: name → JSON."""

    # ── links ──

    category_links = KeyOf("rss:category_links:<category>", "SET", "LINK_TTL_SECONDS")
    """Clean URLs; anyone may SADD."""
    category_links_seen = KeyOf("rss:category_links_seen:<category>", "ZSET", "LINK_TTL_SECONDS")
    """Last sighting per URL."""

    # ── canonical articles ──

    attempted = OneKey("rss:canonical_attempted", "SET", "ATTEMPTED_TTL_SECONDS")
    """Uids the canonical fetcher does not try again."""
    attempted_at = OneKey("rss:canonical_attempted_at", "ZSET", "ATTEMPTED_TTL_SECONDS")
    """Uid by last sighting (success) or attempt (failure)."""
    article = KeyOf("rss:article_canonical:<uid>", "HASH", "ARTICLE_TTL_SECONDS")
    """The canonical article."""
    articles_by_category = KeyOf("rss:articles_by_category:<category>", "SET", "ARTICLE_TTL_SECONDS")
    """Uids of a category."""
    alias = KeyOf("rss:alias:<uid>", "STRING", "as the article")
    """Uid of the article that is the same page under another URL."""
    entry = KeyOf("rss:entry:<uid>", "HASH", "LINK_TTL_SECONDS")
    """A feed's title, author, date and text of a link; deleted once stored."""
    content = KeyOf("rss:content:<content_hash>", "STRING", "as the article")
    """Uid of the first article with this text."""
    duplicates = KeyOf("rss:duplicates:<uid>", "SET", "as the article")
    """Uids of later articles with the same text; some may be gone."""
    article_index = OneKey("rss:article_canonical_index", "ZSET")
    """Uid by first fetched_ts; pruned when the article is gone."""
    retry = OneKey("rss:canonical_retry", "ZSET")
    """Uids of transient failures by when to try again."""
    failures = OneKey("rss:canonical_failures", "ZSET", "ATTEMPTED_TTL_SECONDS")
    """`<uid>:<CODE>` by time; removed on success."""
    failure = KeyOf("rss:failure:<uid>", "HASH", "ATTEMPTED_TTL_SECONDS")
    """Url, category, feed, code, detail, http_status, tries, first_ts, last_ts."""
    canonical_stats = OneKey("rss:canonical_stats", "HASH")
    """The canonical fetcher's counters since the beginning; each link once per run."""
    canonical_last_run = OneKey("rss:canonical_stats:last_run", "HASH")
    """The same for the last run."""
    canonical_scan = OneKey("rss:canonical_scan", "HASH")
    """How far the last whole run of the canonical fetcher has looked for new links."""
    prune_cursors = OneKey("rss:canonical_prune", "HASH")
    """Cursors of the cleanup that goes a batch further in each run."""

    # ── the registry ──

    item = KeyOf("<registry>:item:<item_id>", "HASH")
    """The registry record; that of an article is removed 30 d after its end."""
    partition = KeyOf("<registry>:partition:<name>", "SET")
    """Item ids of a host or scheme (PartitionKey)."""
    status = KeyOf("<registry>:status:<name>", "SET")
    """Item ids by status."""
    links = KeyOf("<registry>:links:<item_id>", "SET")
    """A page's outlinks, because a 304 has no body; only of sources that follow links."""
    images = KeyOf("<registry>:images:<item_id>", "SET")
    """Item ids of a page's images."""
    snapshot = KeyOf("<registry>:snapshot:<item_id>", "HASH", "SNAPSHOT_DAYS")
    """A page as it was served (zlib, base64), so that a newer extractor can read it again."""
    versions = KeyOf("<registry>:versions:<item_id>", "LIST")
    """The versions of a text before the present one, newest first, as JSON; deleted with it."""
    version_texts = KeyOf("<registry>:version_texts:<item_id>", "LIST", "SNAPSHOT_DAYS")
    """Texts of these versions: `<content hash> <text>` (zlib, base64)."""
    trust = KeyOf("<registry>:trust:<host>", "HASH")
    """Until when a host's 304 is not believed."""
    untrusted = OneKey("<registry>:untrusted", "ZSET")
    """Hosts that answered 304 for a changed page, by when they are believed; the last 1,000."""
    refresh_stats = OneKey("<registry>:refresh_stats", "HASH")
    """Counters of all refreshes since the beginning."""
    document = KeyOf("index:doc:<item_id>", "HASH")
    """The text of a page or file, also of an article whose page a site lists; deleted with it."""
    chunks = KeyOf("index:chunks:<item_id>", "ZSET")
    """A page's chunks by their order, which search answers from; deleted with the page."""
    chunk = KeyOf("index:chunk:<chunk_id>", "HASH", "an hour until it is live")
    """A chunk's text, headings, level, types, hash, space, created_at."""
    aliases = KeyOf("index:aliases:<name>", "SET", "as the article or page")
    """Other URLs of an article (by its uid) or of a page (by its item id)."""
    vector = KeyOf("index:vector:<chunk_id>", "STRING", "as the chunk")
    """Its vector, float32 bytes."""
    embed_cache = KeyOfTwo("embed:cache:<space>:<text_hash>", "STRING", "30 d")
    """A vector of a text that was just written or removed, or of a space that is being built."""
    embed_due = OneKey("embed:due", "ZSET")
    """Items whose text search does not have yet, by when it changed."""
    embed_away = OneKey("embed:away", "STRING", "until the embedder is back")
    """Why nothing is embedded now."""
    embed_stats = OneKey("embed:stats", "HASH")
    """How many chunks search has (`chunks`); `pages` and `written` since the beginning."""

    # ── sources, domains, runs ──

    sources = OneKey("sources", "SET")
    """Ids of all sources of domains; `rss` and `urls` are always there."""
    sources_due = OneKey("sources:due", "ZSET")
    """Source id by its next listing."""
    source = KeyOf("source:<source>", "HASH")
    """A source's configuration, its last listing, its notes."""
    seen = KeyOf("source:<source>:seen", "ZSET")
    """Items of a source by when they were last listed or linked."""
    listed = KeyOf("source:<source>:listed", "SET")
    """Pages that a sitemap of the source lists; they are kept without a link."""
    refused = KeyOf("source:<source>:refused", "HASH")
    """URLs that a source found and does not take, with the reason; the last thousand."""
    lost = KeyOf("source:<source>:lost", "ZSET", "a day")
    """Items a source has lost, by when; too many in a day stop it."""
    domains = OneKey("kbs", "SET")
    """Ids of all domains (knowledge bases)."""
    domain = KeyOf("kb:<domain>", "HASH")
    """A domain's name, its configuration as JSON, its sources."""
    runs = OneKey("runs", "ZSET")
    """The last thousand runs by their start."""
    runs_of_kind = KeyOf("runs:kind:<kind>", "ZSET")
    """The last hundred runs of a kind by their start."""
    runs_open = OneKey("runs:open", "HASH")
    """Id of the run that has not ended, by what it works on: `source:<sid>`, `domain:<id>`, …"""
    runs_paused = OneKey("runs:paused", "HASH")
    """What is paused (`source:<sid>`, `domain:<id>`, `ingest`) and since when."""
    runs_cancelled = OneKey("runs:cancelled", "HASH")
    """The cancelled run, by what it worked on; no job is sent for that until its next run."""
    run = KeyOf("run:<run_id>", "HASH", "30 d")
    """A run's kind, status, progress, counts; `control` is the flag that pauses or cancels it."""
    run_log = KeyOf("run:<run_id>:log", "LIST", "30 d")
    """The last 200 lines that a run logged."""
    run_failed = KeyOf("run:<run_id>:failed", "HASH", "30 d")
    """Items that failed in a run, with the reason."""
    run_items = KeyOf("run:<run_id>:items", "ZSET", "30 d")
    """What is left of a reindex, by when it was asked for, or of an embedding, by when it changed."""
    run_workers = KeyOf("run:<run_id>:workers", "HASH", "30 d")
    """Workers of a run with their heartbeat and how many items they have in flight."""
    kb_state = KeyOf("kb:<domain>:state", "HASH")
    """The unified state of a domain (knowledge base): job, crawl, processing, metrics."""
    refs = KeyOf("source:<source>:refs", "ZSET")
    """Items of a source by depth; feeds are the source `rss`."""
    due = KeyOf("source:<source>:due", "ZSET")
    """Items of a source by next check."""
    events = OneKey("freshet:events", "STREAM", "capped")
    """Events such as article.stored and item.gone."""

    # ── webhooks ──

    webhooks = OneKey("webhooks", "ZSET")
    """Ids of all webhooks by when they were last changed."""
    webhook = KeyOf("webhook:<webhook_id>", "HASH")
    """A webhook's URL, filter, secret, and how far its deliveries have come."""
    webhook_pending = KeyOf("webhook:<webhook_id>:pending", "STREAM")
    """Messages that wait to be delivered, in order; deleted one by one."""
    webhook_replay = KeyOf("webhook:<webhook_id>:replay", "STREAM")
    """Messages that are delivered once more, before those that wait."""
    webhook_dead = KeyOf("webhook:<webhook_id>:dead", "STREAM", "capped")
    """Messages that were given up after their last attempt, with the reason."""

    # ── counters, leases, versions ──

    ingest_stats = OneKey("rss:ingest_stats", "HASH")
    """The ingestor's counters since the beginning."""
    ingest_last_run = OneKey("rss:ingest_stats:last_run", "HASH")
    """The ingestor's last cycle."""
    lease = KeyOf("<registry>:lease:<item>", "STRING", "lease")
    """Token of the worker that visits it."""
    crashes = KeyOf("<registry>:crashes:<item>", "STRING", "3 d")
    """How many workers leased this item and did not finish; deleted with the next commit."""
    done = KeyOf("<registry>:done:<token>", "STRING", "a minute")
    """The result of a commit, so that a resend after a lost reply gets the same."""
    version = OneKey("freshet:version", "HASH")
    """Schema and normaliser versions of this store."""
    processes = OneKey("freshet:processes", "ZSET")
    """`<name>@<host>:<pid>` of running processes by their last heartbeat; a day is kept."""
    history = OneKey("freshet:history", "STREAM", "the last 2 d")
    """One entry a minute of what the overview shows over time; its id is the minute."""
    quarantine = OneKey("freshet:quarantine", "ZSET", "30 d")
    """Names of keys that hold quarantined data, by when."""
    quarantined = KeyOf("freshet:quarantine:<name>", ANY, "30 d")
    """A key of another type as it was, or a HASH of damaged fields; `<milliseconds>:<key>`."""

    # ── politeness, shared by every process ──

    gate = KeyOf("fetch:gate:<domain>", "HASH", "a day at most")
    """When the next request to a registrable domain (or `host:<host>`) may start, and why."""
    gate_line = KeyOf("fetch:line:<domain>", "ZSET", "minutes")
    """Requests that wait for their turn at this domain, by when it is."""
    gate_busy = KeyOf("fetch:busy:<domain>", "ZSET", "minutes")
    """Requests under way to this domain, by when they count as lost."""
    gates_waiting = OneKey("fetch:waiting", "ZSET", "a day")
    """Gates at which requests wait, or that a server closed, by when that ends; older ones go."""
    paces = OneKey("fetch:pace", "HASH")
    """Gaps, limits and intervals that people set: `<host|feed|source> <name> <who>` → JSON."""
    robots = KeyOf("fetch:robots:<origin>", "HASH", "24 h")
    """robots.txt of an origin as last fetched."""
    robots_unreadable = OneKey("fetch:robots_unreadable", "ZSET", "ten minutes")
    """Origins whose robots.txt cannot be read, by when it is asked for again; older ones go."""

    # ── what follows from a key ──

    def crashes_of(self, lease_key: str) -> str:
        """The crash counter that belongs to a lease."""
        return self.crashes(lease_key.removeprefix(self.lease("")))

    # ── families, for SCAN ──

    def pattern(self, family: Callable[[str], str]) -> str:
        """Glob over a family: `keys.pattern(keys.article)`."""
        return f"{_escaped(family(''))}*"

    @property
    def all_pattern(self) -> str:
        """Glob over every key of this deployment."""
        return f"{_escaped(self.prefix)}*"

    @property
    def index_pattern(self) -> str:
        """Glob over everything that search knows: `document(*)`, `chunks(*)`, `chunk(*)`, `vector(*)`, `aliases(*)`."""
        return f"{_escaped(self.prefix)}index:*"

    def category_of(self, key: str) -> str:
        """Return the category in a key of `feeds`, `category_links` or `articles_by_category`; it may hold colons."""
        return key.removeprefix(self.prefix).split(":", 2)[2]


def _escaped(beginning: str) -> str:
    """Return the text with glob characters escaped: `{a}:` is fine as a prefix, `[a]` is not."""
    return "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in beginning)


DECLARED = tuple(one for one in vars(Keys).values() if isinstance(one, DeclaredKey))
"""Every key, for those who look at all of them."""
