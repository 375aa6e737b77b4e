"""Canonical articles: what one visit writes, as commands for one commit (design §6.4).

Nothing here writes by itself but `enter_categories`, which is one idempotent script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redis.asyncio.client import Pipeline

from core import ids
from core.errors import FailCode
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.models import Failed, Link
from core.registry import field_parsing
from core.store.commit import Command, Lease, Leases, Word, flat
from core.store.connect import Client
from core.store.events import EVENTS_KEPT, event
from core.urls.secrets import redact, without_credentials

# KEYS[1] article, KEYS[2] events, then category sets · ARGV[1] uid, ARGV[2] life, ARGV[3] events kept, then the
# categories' names.
# An article that is gone enters nothing. One that a 404 has hidden only notes where it belongs when its page is back.
# Returns 1 when it is there.
_ENTER = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local is_hidden = redis.call('HGET', KEYS[1], 'status') == 'gone'
local listed = redis.call('HGET', KEYS[1], 'categories') or ''
local is_new = false
for i = 3, #KEYS do
  if not is_hidden then
    redis.call('SADD', KEYS[i], ARGV[1])
    redis.call('EXPIRE', KEYS[i], ARGV[2])
  end
  if not string.find(',' .. listed .. ',', ',' .. ARGV[i + 1] .. ',', 1, true) then
    listed = listed == '' and ARGV[i + 1] or listed .. ',' .. ARGV[i + 1]
    redis.call('HSET', KEYS[1], 'categories', listed)
    is_new = true
  end
end
local id = redis.call('HGET', KEYS[1], 'item_id')
if is_new and id then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'type', 'item.listed', 'id', id)
end
return 1
"""


@dataclass(frozen=True, slots=True)
class LinkState:
    """What is known of a link when its visit begins."""

    was_attempted: bool
    is_stored: bool
    """Its own article ttls, though nobody remembers the attempt."""
    article_uid: str
    """A live article of the same page, or empty."""
    has_record: bool
    """The page is an item already: a site lists it, or its article has ended."""
    link: Link
    """With what a feed said about it, and how often it was tried."""


@dataclass(frozen=True, slots=True)
class OriginalArticle:
    """The live article that had a text first."""

    uid: str
    final_url: str


class ArticleStore:
    """Commands for stored articles, aliases and failures."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls

    async def count_attempted(self, links: Sequence[str]) -> int:
        """How many of these another run has meanwhile brought to an end."""
        uids = [ids.article_uid(url) for url in links]
        return sum(await self._client.smismember(self._keys.attempted, uids)) if uids else 0

    # ── before a visit ──

    async def lease(self, leases: Leases, link: Link, item_id: str) -> tuple[Lease, int, LinkState] | None:
        """Take the link's page, and learn all the visit wants to know in the same round trip."""

        def ask(pipe: Pipeline) -> None:
            pipe.sismember(self._keys.attempted, link.uid)
            pipe.exists(self._keys.article(link.uid))
            pipe.hget(self._keys.item(item_id), "articleUid")
            pipe.hget(self._keys.failure(link.uid), "tries")
            pipe.hgetall(self._keys.entry(link.uid))

        acquired, (attempted, is_stored, uid, tries, entry) = await leases.acquire_and(ask, item_id)
        if acquired is None:
            return None
        is_live = bool(uid) and bool(await self._client.exists(self._keys.article(uid)))
        known = replace(link, entry=entry, earlier_tries=field_parsing.integer(tries))
        before = LinkState(bool(attempted), bool(is_stored), uid if is_live else "", uid is not None, known)
        return *acquired, before

    async def lease_text(
        self, leases: Leases, lease: Lease, content_hash: str, uid: str
    ) -> tuple[Lease, OriginalArticle | None] | None:
        """Take the text beside the page, and learn which other live article had it first.

        Two pages with one text at the same moment: who has the text's lease is the original. First come, first
        served, and it stays so: which of two duplicates is the original does not flip (trap R12).
        """
        item = f"text_{content_hash}"
        acquired, (first,) = await leases.acquire_and(
            lambda pipe: pipe.get(self._keys.content(content_hash)), item, lease.token
        )
        if acquired is None:
            return None
        wider = lease.with_key(self._keys.lease(item))
        final_url = await self._client.hget(self._keys.article(first), "final_url") if first and first != uid else None
        return wider, None if final_url is None else OriginalArticle(str(first), str(final_url))

    async def live_article(self, item_id: str) -> str:
        """The uid of an item's article, or empty when it has none that ttls."""
        uid = await self._client.hget(self._keys.item(item_id), "articleUid")
        return str(uid) if uid and await self._client.exists(self._keys.article(str(uid))) else ""

    # ── success ──

    def store(self, link: Link, fields: Mapping[str, Word], now: float) -> list[Command]:
        """The article under its link's uid, in its categories and in the global index (at its first time only)."""
        article = self._keys.article(link.uid)
        return [
            ("HSET", article, *flat(fields)),
            ("EXPIRE", article, self._ttls.article),
            ("DEL", self._keys.alias(link.uid)),
            ("ZADD", self._keys.article_index, "NX", now, link.uid),
            *self._first_with(str(fields["content_hash"]), link.uid, str(fields["duplicate_of"])),
            *self._indexed(link.uid, link.categories),
            *self._settled(link.uid, now),
            *(self.counted("duplicate" if fields["duplicate_of"] else "stored") if link.is_first_visit else ()),
            event(
                self._keys,
                "article.stored",
                uid=link.uid,
                id=str(fields["item_id"]),
                url=without_credentials(link.url),
                category=link.categories[0],
            ),
        ]

    def correct(self, link: Link, fields: Mapping[str, Word], before: Mapping[str, str]) -> list[Command]:
        """The article in place: what its publisher corrected, under the uid and in the categories it has."""
        key = self._keys.article(link.uid)
        commands: list[Command] = [
            ("HSET", key, *flat(fields)),
            # It may have ended while we fetched: then it begins a new life instead of living for ever.
            ("EXPIRE", key, self._ttls.article, "NX"),
            ("SET", self._keys.content(str(fields["content_hash"])), link.uid, "NX", "EX", self._ttls.article),
        ]
        if before.get("status") == "success":
            return commands
        # It was hidden, and is found again where it was.
        again: Command = (
            "ZADD",
            self._keys.article_index,
            "NX",
            field_parsing.timestamp(before.get("fetched_ts")),
            link.uid,
        )
        return [*commands, again, *self._indexed(link.uid, link.categories)]

    def remember(self, link: Link, now: float) -> list[Command]:
        """An article that is there but not remembered or not indexed: repaired, not fetched again (trap T11)."""
        return [
            ("ZADD", self._keys.article_index, "NX", now, link.uid),
            ("EXPIRE", self._keys.article(link.uid), self._ttls.article),
            *self._settled(link.uid, now),
        ]

    def _first_with(self, content_hash: str, uid: str, original: str) -> list[Command]:
        key = self._keys.content(content_hash)
        return [("EXPIRE", key, self._ttls.article)] if original else [("SET", key, uid, "EX", self._ttls.article)]

    def alias(self, link: Link, target_uid: str, now: float) -> list[Command]:
        """Another name of a stored article; its categories are entered by `enter_categories`."""
        return [
            ("SET", self._keys.alias(link.uid), target_uid, "EX", self._ttls.article),
            ("SADD", self._keys.aliases(target_uid), without_credentials(link.url)),
            ("EXPIRE", self._keys.aliases(target_uid), self._ttls.article),
            *self._settled(link.uid, now),
            *self.counted("alias"),
        ]

    async def enter_categories(self, uid: str, categories: Sequence[str]) -> bool:
        """Put a stored article into these categories as well; False when it is gone."""
        sets = [self._keys.articles_by_category(category) for category in categories]
        keys = [self._keys.article(uid), self._keys.events, *sets]
        told = (uid, str(self._ttls.article), str(EVENTS_KEPT), *categories)
        return bool(await self._client.eval(_ENTER, len(keys), *keys, *told))

    def _indexed(self, uid: str, categories: Sequence[str]) -> list[Command]:
        sets = [self._keys.articles_by_category(category) for category in categories]
        return [command for key in sets for command in (("SADD", key, uid), ("EXPIRE", key, self._ttls.article))]

    def _settled(self, uid: str, now: float) -> list[Command]:
        """Attempted, and no failure any more."""
        return [
            *self._attempted(uid, now),
            ("ZREM", self._keys.retry, uid),
            ("ZREM", self._keys.failures, *(f"{uid}:{code}" for code in FailCode)),
            ("DEL", self._keys.failure(uid), self._keys.entry(uid)),
        ]

    def _attempted(self, uid: str, now: float) -> list[Command]:
        return [
            ("SADD", self._keys.attempted, uid),
            ("ZADD", self._keys.attempted_at, "GT", now, uid),
            ("EXPIRE", self._keys.attempted, self._ttls.attempted),
            ("EXPIRE", self._keys.attempted_at, self._ttls.attempted),
        ]

    # ── sightings ──

    async def renewal(self, categories: Sequence[str], links: Sequence[str], now: float) -> list[Command]:
        """Commands that keep stored articles of these links alive: their memory and their life (design §6.2).

        A failure is not renewed: it ages from its attempt, so that it is tried again.
        An article seen in a category it was not in enters it at once.
        """
        commands: list[Command] = []
        for uid, article_uid, listed in await self._stored([ids.article_uid(url) for url in links]):
            if not set(categories) <= set(listed.split(",")):
                await self.enter_categories(article_uid, categories)
            commands += self._kept_alive(uid, article_uid, now)
        return commands + self._sets_kept_alive(categories) if commands else []

    async def _stored(self, uids: Sequence[str]) -> list[tuple[str, str, str]]:
        """Of these uids those that lead to a live article: uid, the article's own uid, its categories."""
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.get(self._keys.alias(uid))
        targets = [target or uid for uid, target in zip(uids, await pipe.execute() if uids else [], strict=True)]
        for target in targets:
            pipe.hget(self._keys.article(target), "categories")
        listed = await pipe.execute() if uids else []
        return [row for row in zip(uids, targets, listed, strict=True) if row[2] is not None]

    def _kept_alive(self, uid: str, article_uid: str, now: float) -> list[Command]:
        # XX: what was forgotten meanwhile is not remembered by a renewal.
        return [
            ("EXPIRE", self._keys.article(article_uid), self._ttls.article),
            ("EXPIRE", self._keys.alias(uid), self._ttls.article),
            ("EXPIRE", self._keys.aliases(article_uid), self._ttls.article),
            ("ZADD", self._keys.attempted_at, "XX", "GT", now, uid),
            ("ZADD", self._keys.attempted_at, "XX", "GT", now, article_uid),
        ]

    def _sets_kept_alive(self, categories: Sequence[str]) -> list[Command]:
        kept: list[Command] = [("EXPIRE", self._keys.articles_by_category(c), self._ttls.article) for c in categories]
        attempted = (self._keys.attempted, self._keys.attempted_at)
        return kept + [("EXPIRE", key, self._ttls.attempted) for key in attempted]

    # ── failure ──

    def fail(self, link: Link, failed: Failed, tries: int, retry_at: float | None, now: float) -> list[Command]:
        """A failure with its story; with a time to try again, or remembered as attempted."""
        key = self._keys.failure(link.uid)
        story: dict[str, Word] = {
            "url": without_credentials(link.url).encode("utf-8", "replace").decode(),
            "category": ",".join(link.categories),
            "feed": link.feed,
            "code": str(failed.code),
            "detail": str(failed.detail),
            "text": redact(failed.text),
            "http_status": failed.http_status or "",
            "tries": tries,
            "last_ts": int(now),
        }
        others = [f"{link.uid}:{code}" for code in FailCode if code is not failed.code]
        return [
            ("HSET", key, *flat(story)),
            ("HSETNX", key, "first_ts", int(now)),
            ("EXPIRE", key, self._ttls.attempted),
            ("ZREM", self._keys.failures, *others),
            ("ZADD", self._keys.failures, now, f"{link.uid}:{failed.code}"),
            ("EXPIRE", self._keys.failures, self._ttls.attempted),
            *self._again_or_never(link.uid, retry_at, now),
        ]

    def _again_or_never(self, uid: str, retry_at: float | None, now: float) -> list[Command]:
        if retry_at is not None:
            return [("ZADD", self._keys.retry, retry_at, uid), *self.counted("retry")]
        return [("ZREM", self._keys.retry, uid), *self._attempted(uid, now), *self.counted("failed")]

    def reject(self, link: Link, failed: Failed, now: float) -> list[Command]:
        """A member of a link set that is no link: told like a failure, counted as rejected."""
        told = [c for c in self.fail(link, failed, 1, None, now) if c[0] != "HINCRBY"]
        return [*told, *self._plus({"found": 1, "rejected": 1})]

    # ── counting ──

    def counted(self, outcome: str) -> list[Command]:
        """One link found, new, and come to this end."""
        return self._plus({"found": 1, "new": 1, outcome: 1})

    def _plus(self, counts: Mapping[str, int]) -> list[Command]:
        return [("HINCRBY", self._keys.canonical_stats, name, count) for name, count in counts.items()]

    async def record_run(self, counts: Mapping[str, int], now: float, seconds: float) -> None:
        """The last run's counters, and those that no commit has counted: known and deferred links."""
        last = self._keys.canonical_last_run
        known, deferred = counts["known"], counts["deferred"]
        rest = {"found": known + deferred, "new": deferred, "known": known, "deferred": deferred}
        commands: list[Command] = [
            ("DEL", last),
            ("HSET", last, *flat(counts), "ts", int(now), "seconds", f"{seconds:.1f}"),
            *self._plus(rest),
        ]
        await Leases(self._client, self._keys).run(commands)
