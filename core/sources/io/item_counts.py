"""Count the items of a source by status, and list some that fail, without reading all of them.

A status is a set of all items of that status, whatever their source. Comparing it with the items of a source costs as
much as the smaller of the two; where both are large, a sample tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from core.keys import Keys
from core.registry.record import Status
from core.sources.io.source_items import SourceItems
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_COMPARED = 5_000
SAMPLE = 200
AT_ONCE = 500
MOST_STEPS = 5
"""Batches of a status that are looked through for items of one source."""


@value_class
class StatusCounts:
    """Items of a source by status, those that are not zero."""

    counts: Mapping[str, int]
    is_estimate: bool
    """Whether a sample was taken."""


class ItemCounts:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def by_status(self, sid: str) -> StatusCounts:
        sizes = [("SCARD", self._keys.status(str(status))) for status in Status]
        total, *cards = await read_many(self._client, [("ZCARD", self._keys.refs(sid)), *sizes])
        small = [status for status, card in zip(Status, cards, strict=True) if min(card, total) <= MOST_COMPARED]
        pairs = [("ZINTERCARD", 2, self._keys.refs(sid), self._keys.status(str(status))) for status in small]
        counts = dict(zip(map(str, small), map(int, await read_many(self._client, pairs)), strict=True))
        large = [str(status) for status in Status if status not in small]
        left = max(total - sum(counts.values()), 0)
        if len(large) == 1:
            counts[large[0]] = left
        elif large:
            counts |= await self._shares(sid, large, left)
        in_order = {str(status): counts.get(str(status), 0) for status in Status}
        return StatusCounts({name: count for name, count in in_order.items() if count}, len(large) > 1)

    async def _shares(self, sid: str, statuses: Sequence[str], total: int) -> dict[str, int]:
        """Share a number among statuses as a sample of the items has them."""
        some = texts(await self._client.zrandmember(self._keys.refs(sid), SAMPLE))
        found = Counter(await read_many(self._client, [("HGET", self._keys.item(one), "status") for one in some]))
        seen = sum(found[status] for status in statuses)
        return {status: round(total * found[status] / seen) for status in statuses} if seen else {}

    async def in_trouble(self, sid: str, status: Status, most: int) -> list[tuple[str, str]]:
        """Return some items of a source with this status: how people know each, and why it could not be read."""
        return await SourceItems(self._client, self._keys).errors_of((await self._some(sid, status, most))[:most])

    async def kept_because(self, sid: str, why: str) -> list[str]:
        """Return how people know the items of a source that are in error for this reason, of the first thousands."""
        item_ids = await self._some(sid, Status.ERROR, MOST_COMPARED)
        errors = await SourceItems(self._client, self._keys).errors_of(item_ids)
        return sorted(shown for shown, message in errors if message == why)

    async def _some(self, sid: str, status: Status, most: int) -> list[str]:
        """Return items of a source with this status, about as many, from the first batches of the status."""
        found: list[str] = []
        cursor = 0
        for _ in range(MOST_STEPS):
            cursor, members = await self._client.sscan(self._keys.status(str(status)), cursor, count=AT_ONCE)
            item_ids = texts(members)
            depths = await self._client.zmscore(self._keys.refs(sid), item_ids) if item_ids else []
            found += [item_id for item_id, depth in zip(item_ids, depths, strict=True) if depth is not None]
            if not cursor or len(found) >= most:
                break
        return found
