"""Keep the subscriptions in step with the feed file and with categories made by hand, and remove the sample.

The sample's categories start with `sample_`; as soon as there is any other feed, they and their data are removed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.feeds.feed_toml import FeedFile, parse_toml
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import SAMPLE_ORIGIN, SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.settings import Settings
from core.store import connect, scanning
from core.store.connect import Client
from core.urls.secrets import redact

if TYPE_CHECKING:  # every context has one of these, and workers of other jobs never use theirs
    from core.feeds.io.category_changes import CategoryChanges

log = logging.getLogger("ingest")

NO_FILE = (0, 0)
NAMED_REFUSALS = 20
OPML_SUFFIXES = {".opml", ".xml"}


class SubscriptionSync:
    def __init__(self, client: Client, subscriptions: Subscriptions, settings: Settings) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._settings = settings
        self._file_stamp: tuple[int, int] | None = None
        self._scanned_at = float("-inf")

    async def refresh(self) -> None:
        """Read the feed file if it changed, find new categories, finish changes of them, remove the sample."""
        await self._read_file()
        is_small = await self._client.dbsize() < scanning.SMALL_STORE_KEYS
        if is_small or time.monotonic() - self._scanned_at > scanning.FULL_EVERY_SECONDS:
            await self._subscriptions.find_categories()
            self._scanned_at = time.monotonic()
        await self._changes().finish_pending(await connect.now(self._client))
        await self._remove_sample()

    def _changes(self) -> CategoryChanges:
        from core.feeds.io.category_changes import CategoryChanges

        return CategoryChanges(self._client, Keys.of(self._settings), Ttls.of(self._settings))

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
            result = await import_feeds(self._client, Keys.of(self._settings), self._settings, path.resolve(), wanted)
            if any(result):
                log.info("📇 %s: %d feeds added, %d removed; %d options set, %d removed", path, *result)
        self._file_stamp = stamp

    async def _remove_sample(self) -> None:
        sample = [c for c in await self._subscriptions.categories() if c.startswith(SAMPLE_PREFIX)]
        if all(category.startswith(SAMPLE_PREFIX) for category in await self._subscriptions.with_feeds()):
            return
        for category in sample:
            await self._changes().remove(category)
        await self._subscriptions.forget_origin(SAMPLE_ORIGIN)  # even after a crash in the lines above
        if sample:
            log.info("👋 You have feeds of your own: the sample and its data are gone")


# ── the feed file ──


def read_feed_file(path: Path) -> FeedFile:
    """Return what an OPML or TOML file lists; `FeedFileError` says what is wrong with the file."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise FeedFileError(f"Cannot read the feed list {path}: {error.strerror}.") from error
    if path.suffix.lower() not in OPML_SUFFIXES:
        try:
            return parse_toml(body.decode())
        except UnicodeDecodeError as error:
            raise FeedFileError(f"The feed list {path} is not UTF-8 text.") from error
        except FeedFileError as error:
            raise FeedFileError(f"{path}: {error}.") from error
    from core.feeds.opml import parse_opml, without_refused  # here, with its XML parser: most lists are TOML

    listed, refused = without_refused(parse_opml(body))
    if refused:
        named = ", ".join(redact(url) for url in refused[:NAMED_REFUSALS])
        log.warning("⚠️ %d entries of %s are not http(s) URLs and are skipped: %s", len(refused), path, named)
    return FeedFile(listed)


class ImportResult(NamedTuple):
    added: int
    removed: int
    options_set: int
    options_removed: int


async def import_feeds(client: Client, keys: Keys, settings: Settings, path: Path, file: FeedFile) -> ImportResult:
    """Subscribe to what a file lists and set its options; of both, only what this file added is removed again.

    `path` is absolute: it is the name under which the file is remembered.
    """
    added, removed = await Subscriptions(client, keys).sync(str(path), file.categories)
    return ImportResult(added, removed, *await FeedOptions(client, keys, settings).sync(str(path), file))


def is_in_feed_file(path: Path, url: str) -> bool:
    """Whether the file lists this feed; False for a file that cannot be read, of which the ingestor logs an error."""
    try:
        return url in read_feed_file(path).urls
    except FeedFileError:
        return False


def notes_on_files(settings: Settings, category: str, origins: Iterable[str], new: str = "") -> list[str]:
    """Return what files that list a category do to its rename or removal at their next import, and what helps."""
    followed, notes = settings.feeds_file.resolve(), []
    help_text = f"To keep {new}, write it in place of {category} there." if new else f"Delete {category} there, too."
    for path in sorted({*map(Path, origins), followed}):
        listed = _count_in_file(path, category)
        if listed:
            when = "when Freshet starts or that file changes" if path == followed else "when it is imported again"
            feeds, pronoun = (f"{listed} feeds", "them") if listed > 1 else ("1 feed", "it")
            notes.append(f"{path} lists {feeds} in {category} and puts {pronoun} back {when}. {help_text}")
    return notes


def _count_in_file(path: Path, category: str) -> int:
    try:
        return len(read_feed_file(path).categories.get(category_slug(category), ())) if path.is_file() else 0
    except FeedFileError:
        return 0
