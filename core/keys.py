"""Every Redis key of Freshet, with its type, TTL and purpose. No other file spells one.

`KEY_PREFIX` goes in front of all of them; `KEY_PREFIX={a}:` puts a deployment into one cluster slot.
"""

from __future__ import annotations

from collections.abc import Callable

from core.settings import Settings
from core.value_class import value_class


@value_class
class Keys:
    """Builds keys for one deployment."""

    prefix: str = ""
    registry: str = "ingest"
    """The name of the registry's keys (REGISTRY_TABLE_NAME)."""

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """Return the keys of the deployment with these settings."""
        return cls(settings.key_prefix, settings.registry_name)

    # ── categories and feeds ──

    @property
    def categories(self) -> str:
        """SET, no expiry: known categories."""
        return f"{self.prefix}rss:categories"

    def feeds(self, category: str) -> str:
        """SET, no expiry: feed URLs of a category; anyone may SADD."""
        return f"{self.prefix}rss:feeds:{category}"

    def feeds_imported(self, origin: str) -> str:
        """SET, no expiry: `<category> <url>` that this file added, so that its next import removes nothing else."""
        return f"{self.prefix}rss:feeds_imported:{origin}"

    def feed(self, fid: str) -> str:
        """HASH, no expiry: one feed's health, schedule and validators."""
        return f"{self.prefix}rss:feed:{fid}"

    def feed_links(self, fid: str) -> str:
        """SET, no expiry: clean links of the feed's last body, so that an unchanged poll can renew them."""
        return f"{self.prefix}rss:feed_links:{fid}"

    @property
    def feeds_due(self) -> str:
        """ZSET, no expiry: feed id by next poll (epoch seconds); 0 means now, inf means retired."""
        return f"{self.prefix}rss:feeds_due"

    @property
    def feed_summaries(self) -> str:
        """HASH, no expiry: by feed id `<status> <last new entry> <title>`, by which lists of feeds are filtered."""
        return f"{self.prefix}rss:feed_summaries"

    @property
    def feeds_broken(self) -> str:
        """ZSET, no expiry: ids of feeds whose last poll failed or retired them, by since when."""
        return f"{self.prefix}rss:feeds_broken"

    @property
    def category_changes(self) -> str:
        """HASH, no expiry: categories that were renamed or dropped, until late workers are done: name → JSON."""
        return f"{self.prefix}rss:category_changes"

    # ── links ──

    def category_links(self, category: str) -> str:
        """SET, LINK_TTL_SECONDS: clean URLs; anyone may SADD."""
        return f"{self.prefix}rss:category_links:{category}"

    def category_links_seen(self, category: str) -> str:
        """ZSET, LINK_TTL_SECONDS: last sighting per URL."""
        return f"{self.prefix}rss:category_links_seen:{category}"

    # ── canonical articles ──

    @property
    def attempted(self) -> str:
        """SET, ATTEMPTED_TTL_SECONDS: uids the canonical fetcher does not try again."""
        return f"{self.prefix}rss:canonical_attempted"

    @property
    def attempted_at(self) -> str:
        """ZSET, ATTEMPTED_TTL_SECONDS: uid by last sighting (success) or attempt (failure)."""
        return f"{self.prefix}rss:canonical_attempted_at"

    def article(self, uid: str) -> str:
        """HASH, ARTICLE_TTL_SECONDS: the canonical article."""
        return f"{self.prefix}rss:article_canonical:{uid}"

    def articles_by_category(self, category: str) -> str:
        """SET, ARTICLE_TTL_SECONDS: uids of a category."""
        return f"{self.prefix}rss:articles_by_category:{category}"

    def alias(self, uid: str) -> str:
        """STRING, as the article: uid of the article that is the same page under another URL."""
        return f"{self.prefix}rss:alias:{uid}"

    def entry(self, uid: str) -> str:
        """HASH, LINK_TTL_SECONDS: a feed's title, author, date and text of a link; deleted once stored."""
        return f"{self.prefix}rss:entry:{uid}"

    def content(self, content_hash: str) -> str:
        """STRING, as the article: uid of the first article with this text."""
        return f"{self.prefix}rss:content:{content_hash}"

    def duplicates(self, uid: str) -> str:
        """SET, as the article: uids of later articles with the same text; some may be gone."""
        return f"{self.prefix}rss:duplicates:{uid}"

    @property
    def article_index(self) -> str:
        """ZSET, no expiry: uid by first fetched_ts; pruned when the article is gone."""
        return f"{self.prefix}rss:article_canonical_index"

    @property
    def retry(self) -> str:
        """ZSET, no expiry: uids of transient failures by when to try again."""
        return f"{self.prefix}rss:canonical_retry"

    @property
    def failures(self) -> str:
        """ZSET, ATTEMPTED_TTL_SECONDS: `<uid>:<CODE>` by time; removed on success."""
        return f"{self.prefix}rss:canonical_failures"

    def failure(self, uid: str) -> str:
        """HASH, ATTEMPTED_TTL_SECONDS: url, category, feed, code, detail, http_status, tries, first_ts, last_ts."""
        return f"{self.prefix}rss:failure:{uid}"

    @property
    def canonical_stats(self) -> str:
        """HASH, no expiry: the canonical fetcher's counters since the beginning; each link once per run."""
        return f"{self.prefix}rss:canonical_stats"

    @property
    def canonical_last_run(self) -> str:
        """HASH, no expiry: the same for the last run."""
        return f"{self.prefix}rss:canonical_stats:last_run"

    @property
    def canonical_scan(self) -> str:
        """HASH, no expiry: how far the last whole run of the canonical fetcher has looked for new links."""
        return f"{self.prefix}rss:canonical_scan"

    @property
    def prune_cursors(self) -> str:
        """HASH, no expiry: cursors of the cleanup that goes a batch further in each run."""
        return f"{self.prefix}rss:canonical_prune"

    # ── the registry ──

    def item(self, item_id: str) -> str:
        """HASH, no expiry: the registry record; that of an article is removed 30 d after its end."""
        return f"{self.prefix}{self.registry}:item:{item_id}"

    def partition(self, name: str) -> str:
        """SET, no expiry: item ids of a host or scheme (PartitionKey)."""
        return f"{self.prefix}{self.registry}:partition:{name}"

    def status(self, name: str) -> str:
        """SET, no expiry: item ids by status."""
        return f"{self.prefix}{self.registry}:status:{name}"

    def links(self, item_id: str) -> str:
        """SET, no expiry: a page's outlinks, because a 304 has no body; only of sources that follow links."""
        return f"{self.prefix}{self.registry}:links:{item_id}"

    def images(self, item_id: str) -> str:
        """SET, no expiry: item ids of a page's images."""
        return f"{self.prefix}{self.registry}:images:{item_id}"

    def snapshot(self, item_id: str) -> str:
        """HASH, SNAPSHOT_DAYS: a page as it was served (zlib, base64), so that a newer extractor can read it again."""
        return f"{self.prefix}{self.registry}:snapshot:{item_id}"

    def versions(self, item_id: str) -> str:
        """LIST, no expiry: the versions of a text before the present one, newest first, as JSON; deleted with it."""
        return f"{self.prefix}{self.registry}:versions:{item_id}"

    def version_texts(self, item_id: str) -> str:
        """LIST, SNAPSHOT_DAYS: texts of these versions: `<content hash> <text>` (zlib, base64)."""
        return f"{self.prefix}{self.registry}:version_texts:{item_id}"

    def trust(self, host: str) -> str:
        """HASH, no expiry: until when a host's 304 is not believed."""
        return f"{self.prefix}{self.registry}:trust:{host}"

    @property
    def untrusted(self) -> str:
        """ZSET, no expiry: hosts that answered 304 for a changed page, by when they are believed; the last 1,000."""
        return f"{self.prefix}{self.registry}:untrusted"

    @property
    def refresh_stats(self) -> str:
        """HASH, no expiry: counters of all refreshes since the beginning."""
        return f"{self.prefix}{self.registry}:refresh_stats"

    def document(self, item_id: str) -> str:
        """HASH, no expiry: the text of a page or file, also of an article whose page a site lists; deleted with it."""
        return f"{self.prefix}index:doc:{item_id}"

    def chunks(self, item_id: str) -> str:
        """ZSET, no expiry: a page's chunks by their order, which search answers from; deleted with the page."""
        return f"{self.prefix}index:chunks:{item_id}"

    def chunk(self, chunk_id: str) -> str:
        """HASH, an hour until it is live: a chunk's text, headings, level, types, hash, space, created_at."""
        return f"{self.prefix}index:chunk:{chunk_id}"

    def aliases(self, name: str) -> str:
        """SET, as the article or page: other URLs of an article (by its uid) or of a page (by its item id)."""
        return f"{self.prefix}index:aliases:{name}"

    def vector(self, chunk_id: str) -> str:
        """STRING, as the chunk: its vector, float32 bytes."""
        return f"{self.prefix}index:vector:{chunk_id}"

    def embed_cache(self, space: str, text_hash: str) -> str:
        """STRING, 30 d: a vector of a text that was just written or removed, or of a space that is being built."""
        return f"{self.prefix}embed:cache:{space}:{text_hash}"

    @property
    def embed_due(self) -> str:
        """ZSET, no expiry: items whose text search does not have yet, by when it changed."""
        return f"{self.prefix}embed:due"

    @property
    def embed_away(self) -> str:
        """STRING, until the embedder is back: why nothing is embedded now."""
        return f"{self.prefix}embed:away"

    @property
    def embed_stats(self) -> str:
        """HASH, no expiry: how many chunks search has (`chunks`); `pages` and `written` since the beginning."""
        return f"{self.prefix}embed:stats"

    # ── sources, domains, runs ──

    @property
    def sources(self) -> str:
        """SET, no expiry: ids of all sources of domains; `rss` and `urls` are always there."""
        return f"{self.prefix}sources"

    @property
    def sources_due(self) -> str:
        """ZSET, no expiry: source id by its next listing."""
        return f"{self.prefix}sources:due"

    def source(self, source: str) -> str:
        """HASH, no expiry: a source's configuration, its last listing, its notes."""
        return f"{self.prefix}source:{source}"

    def seen(self, source: str) -> str:
        """ZSET, no expiry: items of a source by when they were last listed or linked."""
        return f"{self.prefix}source:{source}:seen"

    def listed(self, source: str) -> str:
        """SET, no expiry: pages that a sitemap of the source lists; they are kept without a link."""
        return f"{self.prefix}source:{source}:listed"

    def refused(self, source: str) -> str:
        """HASH, no expiry: URLs that a source found and does not take, with the reason; the last thousand."""
        return f"{self.prefix}source:{source}:refused"

    def lost(self, source: str) -> str:
        """ZSET, a day: items a source has lost, by when; too many in a day stop it."""
        return f"{self.prefix}source:{source}:lost"

    @property
    def domains(self) -> str:
        """SET, no expiry: ids of all domains (knowledge bases)."""
        return f"{self.prefix}kbs"

    def domain(self, domain: str) -> str:
        """HASH, no expiry: a domain's name, its configuration as JSON, its sources."""
        return f"{self.prefix}kb:{domain}"

    @property
    def runs(self) -> str:
        """ZSET, no expiry: the last thousand runs by their start."""
        return f"{self.prefix}runs"

    def runs_of_kind(self, kind: str) -> str:
        """ZSET, no expiry: the last hundred runs of a kind by their start."""
        return f"{self.prefix}runs:kind:{kind}"

    @property
    def runs_open(self) -> str:
        """HASH, no expiry: id of the run that has not ended, by what it works on: `source:<sid>`, `domain:<id>`, …"""
        return f"{self.prefix}runs:open"

    @property
    def runs_paused(self) -> str:
        """HASH, no expiry: what is paused (`source:<sid>`, `domain:<id>`, `ingest`) and since when."""
        return f"{self.prefix}runs:paused"

    @property
    def runs_cancelled(self) -> str:
        """HASH, no expiry: the cancelled run, by what it worked on; no job is sent for that until its next run."""
        return f"{self.prefix}runs:cancelled"

    def run(self, run_id: str) -> str:
        """HASH, 30 d: a run's kind, status, progress, counts; `control` is the flag that pauses or cancels it."""
        return f"{self.prefix}run:{run_id}"

    def run_log(self, run_id: str) -> str:
        """LIST, 30 d: the last 200 lines that a run logged."""
        return f"{self.prefix}run:{run_id}:log"

    def run_failed(self, run_id: str) -> str:
        """HASH, 30 d: items that failed in a run, with the reason."""
        return f"{self.prefix}run:{run_id}:failed"

    def run_items(self, run_id: str) -> str:
        """ZSET, 30 d: what is left of a reindex, by when it was asked for, or of an embedding, by when it changed."""
        return f"{self.prefix}run:{run_id}:items"

    def run_workers(self, run_id: str) -> str:
        """HASH, 30 d: workers of a run with their heartbeat and how many items they have in flight."""
        return f"{self.prefix}run:{run_id}:workers"

    def kb_state(self, domain: str) -> str:
        """HASH, no expiry: the unified state of a domain (knowledge base): job, crawl, processing, metrics."""
        return f"{self.prefix}kb:{domain}:state"

    def refs(self, source: str) -> str:
        """ZSET, no expiry: items of a source by depth; feeds are the source `rss`."""
        return f"{self.prefix}source:{source}:refs"

    def due(self, source: str) -> str:
        """ZSET, no expiry: items of a source by next check."""
        return f"{self.prefix}source:{source}:due"

    @property
    def events(self) -> str:
        """STREAM, capped: events such as article.stored and item.gone."""
        return f"{self.prefix}freshet:events"

    # ── webhooks ──

    @property
    def webhooks(self) -> str:
        """ZSET, no expiry: ids of all webhooks by when they were last changed."""
        return f"{self.prefix}webhooks"

    def webhook(self, webhook_id: str) -> str:
        """HASH, no expiry: a webhook's URL, filter, secret, and how far its deliveries have come."""
        return f"{self.prefix}webhook:{webhook_id}"

    def webhook_pending(self, webhook_id: str) -> str:
        """STREAM, no expiry: messages that wait to be delivered, in order; deleted one by one."""
        return f"{self.prefix}webhook:{webhook_id}:pending"

    def webhook_replay(self, webhook_id: str) -> str:
        """STREAM, no expiry: messages that are delivered once more, before those that wait."""
        return f"{self.prefix}webhook:{webhook_id}:replay"

    def webhook_dead(self, webhook_id: str) -> str:
        """STREAM, capped: messages that were given up after their last attempt, with the reason."""
        return f"{self.prefix}webhook:{webhook_id}:dead"

    # ── runs, leases, versions ──

    @property
    def ingest_stats(self) -> str:
        """HASH, no expiry: the ingestor's counters since the beginning."""
        return f"{self.prefix}rss:ingest_stats"

    @property
    def ingest_last_run(self) -> str:
        """HASH, no expiry: the ingestor's last cycle."""
        return f"{self.prefix}rss:ingest_stats:last_run"

    def lease(self, item: str) -> str:
        """STRING, lease: token of the worker that visits it."""
        return f"{self.prefix}{self.registry}:lease:{item}"

    def crashes(self, item: str) -> str:
        """STRING, 3 d: how many workers leased this item and did not finish; deleted with the next commit."""
        return f"{self.prefix}{self.registry}:crashes:{item}"

    def done(self, token: str) -> str:
        """STRING, a minute: the result of a commit, so that a resend after a lost reply gets the same."""
        return f"{self.prefix}{self.registry}:done:{token}"

    def crashes_of(self, lease_key: str) -> str:
        """The crash counter that belongs to a lease."""
        return self.crashes(lease_key.removeprefix(self.lease("")))

    @property
    def version(self) -> str:
        """HASH, no expiry: schema and normaliser versions of this store."""
        return f"{self.prefix}freshet:version"

    @property
    def processes(self) -> str:
        """ZSET, no expiry: `<name>@<host>:<pid>` of running processes by their last heartbeat; a day is kept."""
        return f"{self.prefix}freshet:processes"

    @property
    def history(self) -> str:
        """STREAM, the last 2 d: one entry a minute of what the overview shows over time; its id is the minute."""
        return f"{self.prefix}freshet:history"

    @property
    def quarantine(self) -> str:
        """ZSET, 30 d: names of keys that hold quarantined data, by when."""
        return f"{self.prefix}freshet:quarantine"

    def quarantined(self, name: str) -> str:
        """Any type, 30 d: a key of another type as it was, or a HASH of damaged fields; `<milliseconds>:<key>`."""
        return f"{self.prefix}freshet:quarantine:{name}"

    # ── politeness, shared by every process ──

    def gate(self, domain: str) -> str:
        """HASH, a day at most: when the next request to a registrable domain (or `host:<host>`) may start, and why."""
        return f"{self.prefix}fetch:gate:{domain}"

    def gate_line(self, domain: str) -> str:
        """ZSET, minutes: requests that wait for their turn at this domain, by when it is."""
        return f"{self.prefix}fetch:line:{domain}"

    def gate_busy(self, domain: str) -> str:
        """ZSET, minutes: requests under way to this domain, by when they count as lost."""
        return f"{self.prefix}fetch:busy:{domain}"

    @property
    def gates_waiting(self) -> str:
        """ZSET, a day: gates at which requests wait, or that a server closed, by when that ends; older ones go."""
        return f"{self.prefix}fetch:waiting"

    @property
    def paces(self) -> str:
        """HASH, no expiry: gaps, limits and intervals that people set: `<host|feed|source> <name> <who>` → JSON."""
        return f"{self.prefix}fetch:pace"

    def robots(self, origin: str) -> str:
        """HASH, 24 h: robots.txt of an origin as last fetched."""
        return f"{self.prefix}fetch:robots:{origin}"

    @property
    def robots_unreadable(self) -> str:
        """ZSET, ten minutes: origins whose robots.txt cannot be read, by when it is asked for again; older ones go."""
        return f"{self.prefix}fetch:robots_unreadable"

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
