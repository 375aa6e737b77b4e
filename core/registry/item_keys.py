"""List the keys that belong to one item and to one article; every removal uses this list.

A new key that is named after an item or an article is added here; then forget, purge, prune and expiry delete it.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import FailCode
from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status

# ── an item, by its id ──


def item_keys(keys: Keys, item_id: str) -> list[str]:
    """Return the keys named after an item; its chunks have names of their own and are removed one by one."""
    # The leases too: the commit of a worker that visits or embeds it now is refused.
    work = [build(name) for name in (item_id, f"embed_{item_id}") for build in (keys.lease, keys.crashes)]
    return [keys.item(item_id), keys.links(item_id), *text_keys(keys, item_id), *work]


def text_keys(keys: Keys, item_id: str) -> list[str]:
    """Return those of the keys that hold its text: a tombstone has none of them."""
    history = [keys.versions(item_id), keys.version_texts(item_id)]
    return [*visible_keys(keys, item_id), keys.snapshot(item_id), keys.aliases(item_id), *history]


def visible_keys(keys: Keys, item_id: str) -> list[str]:
    """Return those of the keys that search and people see: a page that is missing for now has none of them."""
    return [keys.document(item_id), keys.images(item_id), keys.chunks(item_id)]


def item_sets(keys: Keys, partition: str, sources: Iterable[str]) -> list[str]:
    """Return the SETs that list an item."""
    statuses = [keys.status(str(status)) for status in Status]
    return [*statuses, keys.partition(partition), *map(keys.listed, every_source(sources))]


def item_ranks(keys: Keys, sources: Iterable[str]) -> list[str]:
    """Return the ZSETs that list an item."""
    places = (keys.refs, keys.due, keys.seen)
    return [keys.embed_due, *(place(source) for source in every_source(sources) for place in places)]


def every_source(sources: Iterable[str]) -> list[str]:
    """Return these sources and those that always exist."""
    return sorted({ARTICLES_SOURCE, URLS_SOURCE, *sources})


# ── an article or a link, by its uid ──


def article_keys(keys: Keys, uid: str) -> list[str]:
    """Return the keys named after an article or a link."""
    names = (keys.article, keys.alias, keys.aliases, keys.duplicates, keys.failure, keys.entry)
    return [build(uid) for build in names]


def article_ranks(keys: Keys) -> list[str]:
    """Return the ZSETs that list a uid."""
    return [keys.article_index, keys.retry]


def failure_members(uid: str) -> list[str]:
    """Return the members of a uid in the ZSET of failures."""
    return [f"{uid}:{code}" for code in FailCode]
