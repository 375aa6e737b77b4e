"""List the commands that remove feeds which nobody subscribes to any more; every removal uses this list.

A new key that is named after a feed is added here.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.net import pace_store
from core.store.commands import Command


def removal_commands(keys: Keys, fids: Sequence[str]) -> list[Command]:
    """Return the commands, for at least one feed. A lease stays: it belongs to whoever removes or polls the feed."""
    # Only a poll that ends well forgets the deaths before it, and there will be none.
    named = [build(fid) for fid in fids for build in (keys.feed, keys.feed_links)]
    deaths = [keys.crashes(f"feed_{fid}") for fid in fids]
    return [
        ("ZREM", keys.feeds_due, *fids),
        ("ZREM", keys.feeds_broken, *fids),
        ("HDEL", keys.feed_summaries, *fids),
        ("DEL", *named, *deaths),
        pace_store.removed_feeds(keys, fids),
    ]
