"""Make the failures of a run due again: items, feeds or links, whatever the run works on."""

from __future__ import annotations

from collections.abc import Sequence

from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import FailedLinks, Ttls
from core.keys import Keys
from core.registry.io.due import DueItems
from core.registry.io.reindex_items import ReindexItems
from core.runs.io.run_store import RunStore
from core.runs.run import FailedItem, Run, RunKind
from core.settings import Settings
from core.store.commit import Leases
from core.store.connect import Client

AT_ONCE = 1_000


async def make_failed_due(
    settings: Settings, client: Client, keys: Keys, run: Run, failed: Sequence[FailedItem], now: float
) -> int:
    """Make failed items of a run due; return how many there still are."""
    names = [one.item_id for one in failed]
    if run.kind is RunKind.INGEST:  # a second poll is another poll, and counts as one
        await FeedStore(client, keys, Ttls.of(settings)).make_due([one.url for one in failed])
        return len(failed)
    if run.kind is RunKind.CANONICAL:
        await FailedLinks(client, keys).retry(names, now)
        return len(failed)
    due, count = DueItems(client, keys), 0
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        known = [item_id for item_id, is_known in zip(some, await due.make_due(some, now), strict=True) if is_known]
        count += len(known)
        if run.kind is RunKind.REINDEX:
            await ReindexItems(client, keys, Leases(client, keys)).add(run, known, now, are_known=True)
    if count:  # visited again, they are counted again
        await RunStore(client, keys).uncount_failed(run.id, count)
    return count
