"""Import and export subscriptions as OPML."""

from __future__ import annotations

from typing import NamedTuple

from core.feeds.io.feed_store import FeedStore
from core.feeds.io.subscriptions import Subscriptions
from core.feeds.opml import parse_opml, without_refused, write_opml


async def export_opml(subscriptions: Subscriptions, store: FeedStore) -> bytes:
    """Return all subscriptions, with the titles that the feeds give themselves."""
    feeds = await subscriptions.by_category()
    states = await store.states(sorted({url for listed in feeds.values() for url in listed}))
    return write_opml(feeds, {state.url: state.title for state in states})


class OpmlImport(NamedTuple):
    added: int
    removed: int
    refused: tuple[str, ...]
    """Entries whose address is not an http(s) URL."""


async def import_opml(subscriptions: Subscriptions, body: bytes, *, origin: str = "") -> OpmlImport:
    """Subscribe to the feeds of an OPML document; entries that are not http(s) URLs are left out. Raises FeedFileError.

    With an `origin`, a name for the document, a later import of the same name removes what it no longer has.
    """
    wanted, refused = without_refused(parse_opml(body))
    if origin:
        return OpmlImport(*await subscriptions.sync(origin, wanted), refused)
    there = await subscriptions.by_category()
    new = [(name, url) for name, urls in wanted.items() for url in urls if url not in there.get(name, ())]
    for name, url in new:
        await subscriptions.add(name, url)
    return OpmlImport(len(new), 0, refused)
