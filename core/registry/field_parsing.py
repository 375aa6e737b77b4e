"""Parse numbers, times and JSON from fields that anybody may have written; what cannot be read is the default.

An empty or missing value is the default too. A value that cannot be read adds its `key` to `damaged`, if that is given,
so that a store can quarantine it.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any, TypeVar

LARGEST_INTEGER = 2**63 - 1
LATEST_TIME = 253_402_300_799.0
"""The end of the year 9999, beyond which no date can be written."""
Damaged = set[str] | None
T = TypeVar("T")


def integer(value: object, default: int = 0, key: str = "", damaged: Damaged = None) -> int:
    """Return an integer of 64 bits."""
    if value is None or value in {"", b""}:
        return default
    try:
        read = int(value)  # type: ignore[call-overload]
    except (ValueError, TypeError):
        read = LARGEST_INTEGER + 1
    return int(read) if abs(read) <= LARGEST_INTEGER else _noted(default, key, damaged)


def number(value: object, default: float = 0.0, key: str = "", damaged: Damaged = None) -> float:
    """Return a finite number."""
    if value is None or value in {"", b""}:
        return default
    try:
        read = float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        read = math.nan
    return read if abs(read) <= LARGEST_INTEGER else _noted(default, key, damaged)


def timestamp(value: object, default: float = 0.0, key: str = "", damaged: Damaged = None) -> float:
    """Return epoch seconds that are a date."""
    read = number(value, default, key, damaged)
    return read if -LATEST_TIME / 4 <= read <= LATEST_TIME else _noted(default, key, damaged)


def timestamp_or_never(value: object, default: float = 0.0, key: str = "", damaged: Damaged = None) -> float:
    """Return epoch seconds, or infinity."""
    return math.inf if value == "inf" else timestamp(value, default, key, damaged)


def iso_timestamp(value: object, default: float | None = None, key: str = "", damaged: Damaged = None) -> float | None:
    """Return the epoch seconds of an ISO 8601 date."""
    if not value:
        return default
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        _noted(default, key, damaged)
        return default


def mapping(value: object, key: str = "", damaged: Damaged = None) -> dict[str, Any]:
    """Return a JSON object."""
    read = _json(value or "{}")
    return read if isinstance(read, dict) else _noted({}, key, damaged)


def sequence(value: object, key: str = "", damaged: Damaged = None) -> list[Any]:
    """Return a JSON list."""
    read = _json(value or "[]")
    return read if isinstance(read, list) else _noted([], key, damaged)


def is_text(value: str) -> bool:
    """Return whether it is valid text. Bytes that are not UTF-8 come out of Redis as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: object) -> str:
    """Return valid text: bytes that are not UTF-8 become question marks, None becomes empty."""
    read = str(value or "")
    return read if read.isascii() or is_text(read) else read.encode("utf-8", "replace").decode()


def _json(value: object) -> object:
    try:
        return json.loads(str(value))
    except (ValueError, RecursionError):
        return None


def _noted(default: T, key: str, damaged: Damaged) -> T:
    if damaged is not None and key:
        damaged.add(key)
    return default
