"""Lists of feeds on disk: `feeds.toml` or OPML, told apart by their ending."""

from __future__ import annotations

from pathlib import Path

from core import categories, opml
from core.errors import FeedFileError

OPML_ENDINGS = {".opml", ".xml"}


def read(path: Path) -> dict[str, list[str]]:
    """Category slugs with their feed URLs; `FeedFileError` says what is wrong with the file."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise FeedFileError(f"Cannot read the feed list {path}: {error.strerror}.") from error
    if path.suffix.lower() in OPML_ENDINGS:
        return opml.read(body)
    try:
        return categories.read_toml(body.decode())
    except UnicodeDecodeError as error:
        raise FeedFileError(f"The feed list {path} is not UTF-8 text.") from error
