"""Build the commands that write canonical articles, their aliases and failures, for one commit.

Only `enter_categories` writes by itself, in one idempotent script (docs/architecture.md#one-commit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core import ids
from core.errors import FailCode
from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.models import Failed, Link
from core.registry import field_parsing, item_keys
from core.store.commands import Command, Word, flat
from core.store.connect import Client
from core.store.event_command import EVENTS_KEPT, event
from core.store.leases import Leases
from core.store.pipeline import read_many
from core.urls.secrets import redact, without_credentials

# KEYS[1] article, KEYS[2] events, then category sets · ARGV[1] uid, ARGV[2] TTL, ARGV[3] events kept, then the
# categories' names.
# An article that a 404 has hidden only notes its categories, for when its page is back. Returns 0 if there is none.
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


class ArticleStore:
    """Commands for stored articles, aliases and failures."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls

    async def count_attempted(self, links: Sequence[str]) -> int:
        """Return how many of these links another run has attempted meanwhile."""
        uids = [ids.article_uid(url) for url in links]
        return sum(await self._client.smismember(self._keys.attempted, uids)) if uids else 0

    # ── success ──

    def store(self, link: Link, fields: Mapping[str, Word], now: float) -> list[Command]:
        """Commands that store an article under its link's uid, in its categories and in the global index."""
        article, content = self._keys.article(link.uid), self._keys.content(str(fields["content_hash"]))
        original = str(fields["duplicate_of"])
        is_duplicate = bool(original)
        same: list[Command] = [
            ("SADD", self._keys.duplicates(original), link.uid),
            ("EXPIRE", self._keys.duplicates(original), self._ttls.article),
        ]
        first: Command = ("SET", content, link.uid, "EX", self._ttls.article)
        return [
            ("HSET", article, *flat(fields)),
            ("EXPIRE", article, self._ttls.article),
            ("DEL", self._keys.alias(link.uid)),
            ("ZADD", self._keys.article_index, "NX", now, link.uid),
            ("EXPIRE", content, self._ttls.article) if is_duplicate else first,
            *(same if is_duplicate else ()),
            *self._indexed(link.uid, link.categories),
            *self._settled(link.uid, now),
            *(self._counted("duplicate" if is_duplicate else "stored") if link.is_first_visit else ()),
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
        """Commands that correct an article in place, under the uid and in the categories it has."""
        key = self._keys.article(link.uid)
        commands: list[Command] = [
            ("HSET", key, *flat(fields)),
            # It may have expired during the visit: then it gets a new TTL instead of none.
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
        """Commands that repair an article that is stored, but not remembered as attempted or not indexed."""
        return [
            ("ZADD", self._keys.article_index, "NX", now, link.uid),
            ("EXPIRE", self._keys.article(link.uid), self._ttls.article),
            *self._settled(link.uid, now),
        ]

    def alias(self, link: Link, target_uid: str, now: float) -> list[Command]:
        """Commands that make a link an alias of a stored article; `enter_categories` enters its categories."""
        return [
            ("SET", self._keys.alias(link.uid), target_uid, "EX", self._ttls.article),
            ("SADD", self._keys.aliases(target_uid), without_credentials(link.url)),
            ("EXPIRE", self._keys.aliases(target_uid), self._ttls.article),
            *self._settled(link.uid, now),
            *self._counted("alias"),
        ]

    async def enter_categories(self, uid: str, categories: Sequence[str]) -> bool:
        """Put a stored article into these categories as well; False if it is gone."""
        sets = [self._keys.articles_by_category(category) for category in categories]
        keys = [self._keys.article(uid), self._keys.events, *sets]
        words = (uid, str(self._ttls.article), str(EVENTS_KEPT), *categories)
        return bool(await self._client.eval(_ENTER, len(keys), *keys, *words))

    def _indexed(self, uid: str, categories: Sequence[str]) -> list[Command]:
        sets = [self._keys.articles_by_category(category) for category in categories]
        return [command for key in sets for command in (("SADD", key, uid), ("EXPIRE", key, self._ttls.article))]

    def _settled(self, uid: str, now: float) -> list[Command]:
        return [
            *self._attempted(uid, now),
            ("ZREM", self._keys.retry, uid),
            ("ZREM", self._keys.failures, *item_keys.failure_members(uid)),
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
        """Commands that renew the TTLs of stored articles of these links, and when they were last seen.

        A failure is not renewed: it ages from its attempt, so that it is tried again. An article seen in a category it
        was not in enters it at once (docs/architecture.md#ageing).
        """
        uids = [ids.article_uid(url) for url in links]
        aliased = await read_many(self._client, [("GET", self._keys.alias(uid)) for uid in uids])
        article_uids = [target or uid for uid, target in zip(uids, aliased, strict=True)]
        stored = await read_many(
            self._client, [("HGET", self._keys.article(uid), "categories") for uid in article_uids]
        )
        commands: list[Command] = []
        for uid, article_uid, listed in zip(uids, article_uids, stored, strict=True):
            if listed is None:
                continue
            if not set(categories) <= set(listed.split(",")):
                await self.enter_categories(article_uid, categories)
            # XX: what was forgotten meanwhile is not remembered by a renewal.
            commands += [
                ("EXPIRE", self._keys.article(article_uid), self._ttls.article),
                ("EXPIRE", self._keys.alias(uid), self._ttls.article),
                ("EXPIRE", self._keys.aliases(article_uid), self._ttls.article),
                ("EXPIRE", self._keys.duplicates(article_uid), self._ttls.article),
                ("ZADD", self._keys.attempted_at, "XX", "GT", now, uid),
                ("ZADD", self._keys.attempted_at, "XX", "GT", now, article_uid),
            ]
        if commands:
            commands += [("EXPIRE", self._keys.articles_by_category(name), self._ttls.article) for name in categories]
            commands += [
                ("EXPIRE", key, self._ttls.attempted) for key in (self._keys.attempted, self._keys.attempted_at)
            ]
        return commands

    # ── failure ──

    def fail(self, link: Link, failed: Failed, tries: int, retry_at: float | None, now: float) -> list[Command]:
        """Commands that record a failure; with a time to retry, or as attempted."""
        key = self._keys.failure(link.uid)
        fields: dict[str, Word] = {
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
        end = [("ZREM", self._keys.retry, link.uid), *self._attempted(link.uid, now), *self._counted("failed")]
        if retry_at is not None:
            end = [("ZADD", self._keys.retry, retry_at, link.uid), *self._counted("retry")]
        return [
            ("HSET", key, *flat(fields)),
            ("HSETNX", key, "first_ts", int(now)),
            ("EXPIRE", key, self._ttls.attempted),
            ("ZREM", self._keys.failures, *others),
            ("ZADD", self._keys.failures, now, f"{link.uid}:{failed.code}"),
            ("EXPIRE", self._keys.failures, self._ttls.attempted),
            *end,
        ]

    def reject(self, link: Link, failed: Failed, now: float) -> list[Command]:
        """Commands that record a member of a link set that is no link: as a failure, counted as rejected."""
        commands = [command for command in self.fail(link, failed, 1, None, now) if command[0] != "HINCRBY"]
        return [*commands, *self._plus({"found": 1, "rejected": 1})]

    # ── counting ──

    def _counted(self, result: str) -> list[Command]:
        return self._plus({"found": 1, "new": 1, result: 1})

    def _plus(self, counts: Mapping[str, int]) -> list[Command]:
        return [("HINCRBY", self._keys.canonical_stats, name, count) for name, count in counts.items()]

    async def record_run(self, counts: Mapping[str, int], now: float, seconds: float) -> None:
        """Write the last run's counters, and add what no commit has counted: known and deferred links."""
        last = self._keys.canonical_last_run
        known, deferred = counts["known"], counts["deferred"]
        rest = {"found": known + deferred, "new": deferred, "known": known, "deferred": deferred}
        commands: list[Command] = [
            ("DEL", last),
            ("HSET", last, *flat(counts), "ts", int(now), "seconds", f"{seconds:.1f}"),
            *self._plus(rest),
        ]
        await Leases(self._client, self._keys).run(commands)
