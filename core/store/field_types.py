"""The values that fields of stored hashes may have, by family, and the check for damaged ones.

Only what code reads as a number, a date, JSON or one of a few words is listed; any other field may hold any text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache

from core.feeds.feed_state import FeedState, FeedStatus
from core.outputs import webhook
from core.registry import field_parsing
from core.registry.record import INTEGER_FIELDS, TIME_FIELDS, Status
from core.runs import knowledge_base_state

FieldCheck = Callable[[str], bool]
"""Tells whether a value is of the type; empty always is."""


def _reads(reader: Callable[..., object]) -> FieldCheck:
    def is_fine(value: str) -> bool:
        damaged: set[str] = set()
        reader(value, key="value", damaged=damaged)
        return not damaged

    return is_fine


# Most values are one of a few, and the timer looks at hundreds of records every minute.
_remembered = lru_cache(maxsize=256)
INTEGER = _remembered(_reads(field_parsing.integer))
NUMBER = _remembered(_reads(field_parsing.number))
TIME = _remembered(_reads(field_parsing.timestamp))
TIME_OR_NEVER = _reads(field_parsing.timestamp_or_never)
ISO = _reads(field_parsing.iso_timestamp)
MAPPING = _reads(field_parsing.mapping)
SEQUENCE = _remembered(_reads(field_parsing.sequence))
STATUS: FieldCheck = set(map(str, Status)).__contains__
FEED_STATUS: FieldCheck = {"", *map(str, FeedStatus)}.__contains__

EVERY_FIELD = "*"
"""Stands for all fields that are not named."""
_FEED_KINDS = {"int": INTEGER, "float": NUMBER}


def _all(kind: FieldCheck, *names: str) -> dict[str, FieldCheck]:
    return dict.fromkeys(names, kind)


KINDS: Mapping[str, Mapping[str, FieldCheck]] = {
    "item": {
        "status": STATUS,
        **_all(INTEGER, *INTEGER_FIELDS, "chunkCount", "imageCount"),
        **_all(TIME, *TIME_FIELDS, "goneTs", "addedTs", "verifiedTs"),
        **_all(NUMBER, "crawlIntervalSeconds"),
        **_all(ISO, "nextCrawlAt", "firstSeen", "lastChecked", "lastChanged", "lastIndexed", "lockedUntil"),
        "httpRedirectChain": SEQUENCE,
    },
    "document": _all(TIME, "published_ts", "updated_ts"),
    "article": {**_all(TIME, "published_ts", "fetched_ts"), **_all(INTEGER, "raw_len", "text_len")},
    "entry": _all(TIME, "published_ts"),
    "failure": {**_all(INTEGER, "tries", "http_status"), **_all(TIME, "first_ts", "last_ts")},
    "feed": {
        "status": FEED_STATUS,
        **{one.name: _FEED_KINDS[str(one.type)] for one in fields(FeedState) if str(one.type) in _FEED_KINDS},
        "next_poll_ts": TIME_OR_NEVER,
        **_all(NUMBER, "hint_ttl_seconds", "hint_update_period_seconds"),
    },
    "source": {
        **_all(INTEGER, "lastmod_right", "lastmod_wrong"),
        **_all(TIME, "loss_allowed_until", "last_listed_ts", "last_success_ts", "added_ts"),
        "memory": MAPPING,
    },
    "domain": _all(TIME, "added_ts", "updated_ts"),
    "kb_state": {**_all(INTEGER, *knowledge_base_state.INTEGER_FIELDS), knowledge_base_state.PENDING: SEQUENCE},
    "run": {
        **_all(INTEGER, "discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded"),
        **_all(INTEGER, "progress", "in_flight", "left", "parts"),
        **_all(TIME, "created_ts", "started_ts", "ended_ts", "heartbeat_ts"),
        **_all(MAPPING, "parameters", "metrics", "statistics"),
    },
    "chunk": {"headings": SEQUENCE, "types": SEQUENCE, "level": INTEGER},
    "webhook": {
        **_all(INTEGER, *webhook.INTEGER_FIELDS),
        **_all(TIME, *webhook.TIME_FIELDS),
        **_all(SEQUENCE, "types", "categories", "domains"),
    },
    "trust": {"false_304": INTEGER, "untrusted_until": TIME},
    "gate": {**_all(TIME, "next_at", "last_at", "until"), "gap": NUMBER},
    "paces": {EVERY_FIELD: MAPPING},
    "category_changes": {EVERY_FIELD: MAPPING},
    "robots": _all(TIME, "fetched_ts"),
    "version": {"schema": INTEGER},
    "canonical_stats": {EVERY_FIELD: INTEGER},
    "ingest_stats": {EVERY_FIELD: INTEGER},
    "refresh_stats": {EVERY_FIELD: INTEGER},
    "embed_stats": {EVERY_FIELD: INTEGER, "counted_ts": TIME},
    "canonical_last_run": {EVERY_FIELD: NUMBER},
    "canonical_scan": {EVERY_FIELD: NUMBER},
    "ingest_last_run": {EVERY_FIELD: NUMBER},
    "prune_cursors": {EVERY_FIELD: INTEGER},
}
"""By family, then by field."""
COUNTERS = frozenset({"crashes"})
"""Strings that hold a whole number."""


def damaged(family: str, stored: Mapping[str, str]) -> dict[str, str]:
    """Return those of the fields that are not of their kind, with what they hold; and any that is no text at all."""
    kinds = KINDS.get(family, {})
    rest = kinds.get(EVERY_FIELD)
    are_texts = field_parsing.is_text("".join([*stored, *stored.values()]))  # mostly, and then this is asked once

    def is_damaged(name: str, value: str) -> bool:
        is_valid = kinds.get(name, rest)
        is_text = are_texts or (field_parsing.is_text(value) and field_parsing.is_text(name))
        return not is_text or (is_valid is not None and not is_valid(value))

    return {name: value for name, value in stored.items() if is_damaged(name, value)}
