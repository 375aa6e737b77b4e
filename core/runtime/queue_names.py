"""Names of queues and ids of jobs. KEY_PREFIX is part of each, so that deployments on one server never meet."""

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
    """Return the name under which RQ knows the queue."""
    return f"{settings.key_prefix}{name}"


def job_id(settings: Settings, *words: str) -> str:
    """Return an id of letters, digits, `_` and `-`: RQ refuses others, and uses `:` itself."""
    # All jobs of a server are in one name space, so a prefix is always marked by its hash: `a` + `b` is not `a-b`.
    mark = [_hashed(settings.key_prefix)] if settings.key_prefix else []
    return "-".join([*mark, *(_hashed(word) if not word or _FOREIGN.search(word) else word for word in words)])


def _hashed(text: str) -> str:
    """Return a readable word that is different for different texts."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return f"{_FOREIGN.sub('_', text)[:SLUG_CHARACTERS]}_{digest}"
