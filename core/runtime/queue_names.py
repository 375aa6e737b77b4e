"""What queues and jobs are called. KEY_PREFIX is in every name, so that two deployments on one server never meet."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum

from core.settings import Settings

SLUG_CHARACTERS = 24
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class QueueName(StrEnum):
    """The three queues."""

    REFRESH = "refresh"
    REINDEX = "reindex"
    EMBED = "embed"


def rq_queue_name(settings: Settings, name: QueueName) -> str:
    """The queue as RQ knows it."""
    return f"{settings.key_prefix}{name}"


def job_id(settings: Settings, *words: str) -> str:
    """Letters, digits, `_` and `-`: RQ refuses other ids, and takes a `:` for its own."""
    # All jobs of a server are in one name space, so a prefix is always marked by its hash: `a` + `b` is not `a-b`.
    mark = [_hashed(settings.key_prefix)] if settings.key_prefix else []
    return "-".join([*mark, *map(_word, words)])


def _word(word: str) -> str:
    return _hashed(word) if not word or _FOREIGN.search(word) else word


def _hashed(text: str) -> str:
    """Readable, and different for different texts."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return f"{_FOREIGN.sub('_', text)[:SLUG_CHARACTERS]}_{digest}"
