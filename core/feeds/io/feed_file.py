"""Lists of feeds on disk: `feeds.toml` or OPML, told apart by their ending."""

from __future__ import annotations

import logging
from pathlib import Path

from core.errors import FeedFileError
from core.feeds import categories, opml
from core.models import RejectedUrl
from core.urls.normalise import clean_url

log = logging.getLogger("ingest")

OPML_ENDINGS = {".opml", ".xml"}


def read(path: Path) -> dict[str, list[str]]:
    """Category slugs with their feed URLs; `FeedFileError` says what is wrong with the file."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise FeedFileError(f"Cannot read the feed list {path}: {error.strerror}.") from error
    if path.suffix.lower() in OPML_ENDINGS:
        return _usable(opml.read(body), path)
    try:
        return categories.read_toml(body.decode())
    except UnicodeDecodeError as error:
        raise FeedFileError(f"The feed list {path} is not UTF-8 text.") from error


def _usable(listed: dict[str, list[str]], path: Path) -> dict[str, list[str]]:
    """OPML files come from other programs: one entry that is no URL does not spoil the others."""
    bad = [url for feeds in listed.values() for url in feeds if isinstance(clean_url(url), RejectedUrl)]
    if bad:
        log.warning("⚠️ %d entries of %s are no http(s) URLs and are skipped, for example %s", len(bad), path, bad[0])
    return {category: [url for url in feeds if url not in bad] for category, feeds in listed.items()}
