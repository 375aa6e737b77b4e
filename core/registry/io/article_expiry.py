"""Find items whose article's TTL has ended: expiry fires no event, so a bounded round looks for them.

Their items come to their end at once; records that nobody else lists are forgotten when the memory of their link is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.feeds.io.link_store import Ttls
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.article_end import ArticleEnd
from core.registry.io.items import ItemStore, LeasedItem
from core.registry.io.remover import RemovableItem, Remover
from core.registry.record import ARTICLES_SOURCE, Status
from core.store import scanning
from core.store.commit import Answer, Leases, Work
from core.store.connect import Client

BATCH = 1_000
AT_ONCE = 100
"""LeasedItem together."""
BATCHES = 10
"""In one run; a store with more articles needs several."""
CURSOR_FIELD = "items"

# KEYS[1] what feeds list · ARGV[1] and [2] how keys of records and of articles begin, then ids of items. For each of
# them without a live article: the id and five fields of its record, empty where there is none. What is of another type
# is left to the doctor. One script: nearly all of them live, and need not travel.
_WITHOUT_ARTICLE = """
local found = {}
for i = 3, #ARGV do
  local record = redis.pcall('HMGET', ARGV[1] .. ARGV[i], 'status', 'articleUid', 'sources', 'goneTs', 'checkedTs')
  local uid = not record.err and record[2] or ''
  if not record.err and (uid == '' or redis.call('EXISTS', ARGV[2] .. uid) == 0) then
    local row = {ARGV[i]}
    for n = 1, 5 do row[n + 1] = record[n] or '' end
    found[#found + 1] = row
  end
end
return found
"""


class ArticleExpiry:
    """Called with every tick of the timer and every run of the canonical fetcher."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._items = ItemStore(client, keys)
        self._remover = Remover(client, keys)
        self._article_end = ArticleEnd(client, keys)
        self._leases = Leases(client, keys)

    async def run(self, now: float) -> int:
        """One bounded round over what feeds list; how many came to their end or were forgotten."""
        count = 0
        for _ in range(BATCHES):
            refs, cursors = self._keys.refs(ARTICLES_SOURCE), self._keys.prune_cursors
            item_ids = await scanning.next_zset_members(self._client, refs, cursors, CURSOR_FIELD, BATCH)
            # Every id is ASCII; what is not is the doctor's to find.
            count += await self._look([name for name in dict.fromkeys(item_ids) if name.isascii()], now)
            if str(await self._client.hget(cursors, CURSOR_FIELD) or "0") == "0":  # once around
                break
        return count

    async def _look(self, item_ids: Sequence[str], now: float) -> int:
        ended = await self._ended(item_ids)
        old = {item_id: fields for item_id, fields in ended.items() if self._is_old(fields, now)}
        fresh = [item_id for item_id, fields in ended.items() if item_id not in old and _is_news(fields)]
        known = {record.id: record for record in await self._remover.read(list(old))}
        expected = {name: ("status", fields[0] or "0") for name, fields in old.items()}
        count = await self._remover.remove([known.get(name, RemovableItem(name)) for name in old], expected)
        for start in range(0, len(fresh), AT_ONCE):
            count += await self._end(fresh[start : start + AT_ONCE], now)
        return count

    async def _ended(self, item_ids: Sequence[str]) -> dict[str, list[str]]:
        """By id the fields of those that have no article any more."""
        if not item_ids:
            return {}
        refs, before = self._keys.refs(ARTICLES_SOURCE), (self._keys.item(""), self._keys.article(""))
        rows = cast(list[list[str]], await self._client.eval(_WITHOUT_ARTICLE, 1, refs, *before, *item_ids))
        return {item_id: fields for item_id, *fields in rows}

    def _is_old(self, fields: Sequence[str], now: float) -> bool:
        """Nothing of it is wanted any more; a name without a record never was."""
        status, _, sources, gone_ts, checked_ts = fields
        if not status:
            return True
        if _others(sources):
            return False
        if status == Status.GONE and field_parsing.timestamp(gone_ts):
            return now - field_parsing.timestamp(gone_ts) > self._ttls.attempted
        return (
            bool(field_parsing.timestamp(checked_ts))
            and now - field_parsing.timestamp(checked_ts) > self._ttls.article + self._ttls.attempted
        )

    # ── ending ──

    async def _end(self, item_ids: Sequence[str], now: float) -> int:
        """End those that no worker has now; the others have their turn in the next round."""
        leased = await self._items.lease(self._leases, item_ids, now)
        try:
            works = [
                Work(one.lease, await self._article_end.commands(one.item, now), self._article_end.expected(one.item))
                for one in leased
                if not one.article  # it came back meanwhile
            ]
            answers = await self._leases.commit_many(works) if works else []
        except BaseException:
            await self._leases.release_many([one.lease for one in leased])
            raise
        await self._release(leased, works, answers)
        return answers.count(Answer.WRITTEN)

    async def _release(self, leased: Sequence[LeasedItem], works: Sequence[Work], answers: Sequence[Answer]) -> None:
        done = [work.lease for work, answer in zip(works, answers, strict=True) if answer is not Answer.MOVED_ON]
        left = [one for one in leased if one.lease not in done]
        unlocked = [self._items.unlocked(one.item) for one in left]
        if left:
            await self._leases.release_many([one.lease for one in left], unlocked)


def _is_news(fields: Sequence[str]) -> bool:
    """Had it an article, and has its end not been noted yet? What a 404 or 410 took away says so itself."""
    status, uid, sources, *_ = fields
    return bool(uid) and status in set(Status) and (status != Status.GONE or bool(_others(sources)))


def _others(sources: str) -> list[str]:
    return [name for name in sources.split(",") if name and name != ARTICLES_SOURCE]
