"""Every Redis key of Freshet: type, life and purpose. No other file spells one.

`KEY_PREFIX` goes in front of all of them; `KEY_PREFIX={a}:` puts a deployment into one cluster slot.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Builds keys for one deployment."""

    prefix: str = ""

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
        """ZSET, no expiry: feed id by next poll (epoch seconds); a lease moves the score ahead."""
        return f"{self.prefix}rss:feeds_due"

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
        """SET, ATTEMPTED_TTL_SECONDS: uids the canonical fetcher need not try again."""
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
        """STRING, as its article: uid of the same story under another URL."""
        return f"{self.prefix}rss:alias:{uid}"

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
        return f"{self.prefix}ingest:lease:{item}"

    def crashes(self, item: str) -> str:
        """STRING, 3 d: how many workers took this item and did not come to an end; gone with the next commit."""
        return f"{self.prefix}ingest:crashes:{item}"

    def crashes_of(self, lease_key: str) -> str:
        """The crash counter that belongs to a lease."""
        return self.crashes(lease_key.removeprefix(self.lease("")))

    @property
    def version(self) -> str:
        """HASH, no expiry: schema and normaliser versions of this store."""
        return f"{self.prefix}freshet:version"

    # ── politeness, shared by every process ──

    def gate(self, domain: str) -> str:
        """HASH, a day at most: when the next request to this registrable domain may start, and why."""
        return f"{self.prefix}fetch:gate:{domain}"

    def gate_line(self, domain: str) -> str:
        """ZSET, minutes: requests that wait for their turn at this domain, by when it comes."""
        return f"{self.prefix}fetch:line:{domain}"

    def gate_busy(self, domain: str) -> str:
        """ZSET, minutes: requests under way to this domain, by when they count as lost."""
        return f"{self.prefix}fetch:busy:{domain}"

    def robots(self, origin: str) -> str:
        """HASH, 24 h: robots.txt of an origin as last fetched."""
        return f"{self.prefix}fetch:robots:{origin}"

    # ── families, for SCAN ──

    @property
    def feeds_pattern(self) -> str:
        """Glob over `feeds(*)`."""
        return self._glob("rss:feeds:")

    @property
    def category_links_pattern(self) -> str:
        """Glob over `category_links(*)`."""
        return self._glob("rss:category_links:")

    def category_of(self, key: str) -> str:
        """The category in a `feeds` or `category_links` key; it may itself hold colons."""
        return key.removeprefix(self.prefix).split(":", 2)[2]

    def _glob(self, family: str) -> str:
        # Glob characters in the prefix ({a}: is fine, [a] is not) must match themselves.
        escaped = "".join(f"\\{c}" if c in "*?[]\\^" else c for c in self.prefix)
        return f"{escaped}{family}*"
