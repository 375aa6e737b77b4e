"""Keep the subscriptions in step with the feed file and with categories made by hand, and remove the sample.

The sample's categories start with `sample_`; as soon as there is any other feed, they and their data are removed.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from core.errors import FeedFileError
from core.feeds.feed_lists import parse_opml, parse_toml
from core.feeds.io.link_store import LinkStore
from core.feeds.io.subscriptions import SAMPLE_ORIGIN, SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.models import RejectedUrl
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.link_forgetter import LinkForgetter
from core.settings import Settings
from core.store.connect import Client
from core.urls.normalise import clean_url

log = logging.getLogger("ingest")

SMALL_STORE_KEYS = 20_000
"""Below this a SCAN for categories costs nothing and is done every cycle; above, hourly."""
SCAN_EVERY_SECONDS = 3_600.0
NO_FILE = (0, 0)
OPML_SUFFIXES = {".opml", ".xml"}


class SubscriptionSync:
    """Brings the subscriptions up to date before every cycle."""

    def __init__(self, client: Client, subscriptions: Subscriptions, links: LinkStore, settings: Settings) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._links = links
        self._settings = settings
        self._file_stamp: tuple[int, int] | None = None
        self._scanned_at = float("-inf")

    async def refresh(self) -> None:
        """Read the feed file if it changed, find new categories, remove the sample if there are other feeds."""
        await self._read_file()
        is_small = await self._client.dbsize() < SMALL_STORE_KEYS
        if is_small or time.monotonic() - self._scanned_at > SCAN_EVERY_SECONDS:
            await self._subscriptions.find_categories()
            self._scanned_at = time.monotonic()
        await self._remove_sample()

    async def _read_file(self) -> None:
        path = self._settings.feeds_file
        if not path.is_file():
            # A file that vanished is an accident, not a wish to unsubscribe.
            if self._file_stamp != NO_FILE:
                log.warning("⚠️ There is no feed list at %s; the feeds known so far are kept", path)
            self._file_stamp = NO_FILE
            return
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        if stamp == self._file_stamp:
            return
        try:
            wanted = read_feed_file(path)
        except FeedFileError as error:
            log.error("⚠️ %s The feeds known so far are kept.", error)
        else:
            added, removed = await self._subscriptions.sync(str(path.resolve()), wanted)
            if added or removed:
                log.info("📇 %s: %d feeds added, %d removed", path, added, removed)
        self._file_stamp = stamp

    async def _remove_sample(self) -> None:
        feeds = await self._subscriptions.by_category()
        sample = [c for c in await self._subscriptions.categories() if c.startswith(SAMPLE_PREFIX)]
        if all(category.startswith(SAMPLE_PREFIX) for category in feeds):
            return
        forgetter = LinkForgetter(ItemForgetter(self._client, Keys.of(self._settings)))
        for category in sample:
            await self._subscriptions.drop_category(category)
            await forgetter.category(category)
            await self._links.remove_category(category)
        await self._subscriptions.forget_origin(SAMPLE_ORIGIN)  # also after a crash in the lines above
        if sample:
            log.info("👋 You have feeds of your own: the sample and its data are gone")


# ── the feed file ──


def read_feed_file(path: Path) -> dict[str, list[str]]:
    """Return the feed URLs by category slug, from OPML or TOML; `FeedFileError` says what is wrong with the file."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise FeedFileError(f"Cannot read the feed list {path}: {error.strerror}.") from error
    if path.suffix.lower() not in OPML_SUFFIXES:
        try:
            return parse_toml(body.decode())
        except UnicodeDecodeError as error:
            raise FeedFileError(f"The feed list {path} is not UTF-8 text.") from error
    # OPML files come from other programs: one entry that is no URL does not spoil the others.
    listed = parse_opml(body)
    bad = [url for feeds in listed.values() for url in feeds if isinstance(clean_url(url), RejectedUrl)]
    if bad:
        log.warning("⚠️ %d entries of %s are no http(s) URLs and are skipped, for example %s", len(bad), path, bad[0])
    return {category: [url for url in feeds if url not in bad] for category, feeds in listed.items()}


def is_in_feed_file(path: Path, url: str) -> bool:
    """Whether the file lists this feed; False for a file that cannot be read, of which the ingestor logs an error."""
    try:
        return any(url in listed for listed in read_feed_file(path).values())
    except FeedFileError:
        return False
