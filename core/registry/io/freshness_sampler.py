"""Read the times of a few random records: how fresh the store is, without a scan.

Each read adds some records to those of the last minutes, so that a process that is asked every few seconds knows some
hundreds. 250 of them put the median within about three percentiles of that of all items, and the 95th percentile within
about one and a half, however many items there are.
"""

from __future__ import annotations

from collections import deque
from typing import cast

from core.keys import Keys
from core.registry import field_parsing, verification
from core.registry.freshness import Freshness, SampledRecord, summarise
from core.registry.record import MAY_HAVE_TEXT, Status
from core.store.connect import Client

FIRST_ITEMS = 250
"""How many items are sampled by a process that was not asked before, or not for a long time."""
MORE_ITEMS = 25
KEPT_ITEMS = 400
KEPT_SECONDS = 600.0
"""What was verified since it was sampled seems older than it is, by no more than this."""

# KEYS sets of item ids by status · ARGV: how many records, beginning of record keys.
# Each set is sampled by its share. Returns for each record its id, times and status.
_SAMPLE = """
local sizes, total, rows = {}, 0, {}
for i, key in ipairs(KEYS) do
  sizes[i] = redis.call('SCARD', key)
  total = total + sizes[i]
end
for i, key in ipairs(KEYS) do
  local wanted = math.ceil(tonumber(ARGV[1]) * sizes[i] / math.max(total, 1))
  local ids = wanted > 0 and redis.call('SRANDMEMBER', key, wanted) or {}
  for _, id in ipairs(ids) do
    local times = redis.call('HMGET', ARGV[2] .. id, 'verifiedTs', 'checkedTs', 'changedTs', 'status')
    table.insert(times, 1, id)
    rows[#rows + 1] = times
  end
end
return rows
"""
_NAMES = ("verifiedTs", "checkedTs", "changedTs", "status")


class FreshnessSampler:
    """Samples records."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._records: deque[tuple[float, str, SampledRecord]] = deque(maxlen=KEPT_ITEMS)
        """Each with when it was sampled, and its item."""

    async def read(self, now: float) -> Freshness:
        """Return what random items of the last minutes say; images and links of other types do not count."""
        while self._records and now - self._records[0][0] > KEPT_SECONDS:
            self._records.popleft()
        count = MORE_ITEMS if len(self._records) >= FIRST_ITEMS else FIRST_ITEMS
        sets = [self._keys.status(str(status)) for status in MAY_HAVE_TEXT]
        rows = await self._client.eval(_SAMPLE, len(sets), *sets, str(count), self._keys.item(""))
        for item_id, *values in cast(list[list[str | None]], rows):
            fields = dict(zip(_NAMES, values, strict=True))
            proof = verification.parse(fields)
            has_failed = fields["status"] == Status.ERROR
            if proof.verified_ts or (has_failed and proof.checked_ts):
                changed_ts = field_parsing.timestamp(fields["changedTs"])
                record = SampledRecord(proof.verified_ts, proof.checked_ts, changed_ts, has_failed)
                self._records.append((now, str(item_id), record))
        # In a small store an item is sampled repeatedly: its last sample counts.
        return summarise(list({item_id: record for _, item_id, record in self._records}.values()), now)
