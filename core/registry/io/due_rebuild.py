"""Rebuild the due sets of all sources from the records, for a store whose schedule was lost or edited by hand.

An item of a source is due when its record says so (`nextCrawlAt`), and in no due set when its record names no time.
What a job holds back for the moment stays as it is. May be interrupted and called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import HOLD_SECONDS
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.store import scanning
from core.store.connect import Client, texts
from core.store.packing import packed_json
from core.store.pipeline import read_many

AT_ONCE = 500

# KEYS[1] due, KEYS[2] refs, then records · ARGV[1] JSON: for each record its id, the `nextCrawlAt` that was read, and
# the score that follows from it (empty: none). Changes only what still says the same. Returns how many were added,
# moved and removed.
_REBUILD = """
local call, added, moved, removed = redis.call, 0, 0, 0
for i, entry in ipairs(cjson.decode(ARGV[1])) do
  local id, next_at, score = unpack(entry)
  local is_listed = call('ZSCORE', KEYS[2], id)
  if not is_listed or score == '' then
    if not is_listed or call('HGET', KEYS[i + 2], 'nextCrawlAt') == next_at then
      removed = removed + call('ZREM', KEYS[1], id)
    end
  elseif call('HGET', KEYS[i + 2], 'nextCrawlAt') == next_at then
    local is_new = call('ZADD', KEYS[1], 'NX', score, id) == 1
    added = added + (is_new and 1 or 0)
    moved = moved + (is_new and 0 or call('ZADD', KEYS[1], 'XX', 'CH', score, id))
  end
end
return {added, moved, removed}
"""


@dataclass(slots=True)
class DueCounts:
    """What a rebuild has changed, or would change."""

    sources: int = 0
    items: int = 0
    added: int = 0
    """Items that were in no due set, though their record names a time."""
    moved: int = 0
    """Items that were due at another time than their record says."""
    removed: int = 0
    """Items that were due, though their record names no time or the source does not list them."""


class DueRebuild:
    """Compares due sets with records."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self.counts = DueCounts()

    async def run(
        self,
        now: float,
        *,
        dry_run: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        watch: Callable[[DueCounts], object] = lambda counts: None,
    ) -> DueCounts:
        """Go through all sources; `watch` is called after each batch."""
        named = sorted(texts(await self._client.smembers(self._keys.sources)))
        for sid in (ARTICLES_SOURCE, URLS_SOURCE, *named):
            for key in (self._keys.refs(sid), self._keys.due(sid)):  # what is due and not listed goes too
                async for item_ids in scanning.zset_members(self._client, key, AT_ONCE):
                    if should_stop():
                        return self.counts
                    await self._rebuild(sid, item_ids, now, is_count=key == self._keys.refs(sid), dry_run=dry_run)
                    watch(self.counts)
            self.counts.sources += 1
        return self.counts

    async def _rebuild(self, sid: str, item_ids: Sequence[str], now: float, *, is_count: bool, dry_run: bool) -> None:
        keys = self._keys
        times = await read_many(self._client, [("HGET", keys.item(item_id), "nextCrawlAt") for item_id in item_ids])
        scores = await self._client.zmscore(keys.due(sid), list(item_ids))
        listed = await self._client.zmscore(keys.refs(sid), list(item_ids))
        self.counts.items += len(item_ids) if is_count else 0
        wrong = []
        for item_id, next_at, score, depth in zip(item_ids, times, scores, listed, strict=True):
            wanted = None if depth is None else field_parsing.iso_timestamp(next_at)
            if not _is_right(score, wanted, now):
                wrong.append((item_id, next_at or "", wanted, score))
        if dry_run:
            self.counts.added += sum(score is None for _, _, _, score in wrong)
            self.counts.removed += sum(wanted is None for _, _, wanted, _ in wrong)
            self.counts.moved += sum(wanted is not None and score is not None for _, _, wanted, score in wrong)
        elif wrong:
            entries = [(item_id, next_at, "" if wanted is None else wanted) for item_id, next_at, wanted, _ in wrong]
            names = [keys.due(sid), keys.refs(sid), *(keys.item(item_id) for item_id, *_ in wrong)]
            counts = await self._client.eval(_REBUILD, len(names), *names, packed_json(entries))
            added, moved, removed = cast(list[int], counts)
            self.counts.added += added
            self.counts.moved += moved
            self.counts.removed += removed


def _is_right(score: float | None, wanted: float | None, now: float) -> bool:
    """Return whether an item is due when its record says so.

    Records have whole seconds; a job holds back what it works on.
    """
    if score is None or wanted is None:
        return score is None and wanted is None
    is_held = wanted <= now < score <= now + HOLD_SECONDS
    return is_held or abs(score - wanted) < 1.0 or (score <= now and wanted <= now)
