"""Numbers and JSON out of fields that anybody may have written: what cannot be read becomes the default.

A reader that is given a set of `damaged` names notes in it which key it was, so that a store can put the value aside.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any, TypeVar

LARGEST_INTEGER = 2**63 - 1
LATEST_TIME = 253_402_300_799.0
"""The end of the year 9999, beyond which no date can be written."""
Noted = set[str] | None
T = TypeVar("T")


def integer(value: object, default: int = 0, key: str = "", damaged: Noted = None) -> int:
    """A whole number of 64 bits; empty or missing is the default and no damage."""
    if value is None or value in {"", b""}:
        return default
    try:
        read = int(value)  # type: ignore[call-overload]
    except (ValueError, TypeError):
        read = LARGEST_INTEGER + 1
    return int(read) if abs(read) <= LARGEST_INTEGER else _noted(default, key, damaged)


def number(value: object, default: float = 0.0, key: str = "", damaged: Noted = None) -> float:
    """A finite number; empty or missing is the default and no damage."""
    if value is None or value in {"", b""}:
        return default
    try:
        read = float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        read = math.nan
    return read if abs(read) <= LARGEST_INTEGER else _noted(default, key, damaged)


def timestamp(value: object, default: float = 0.0, key: str = "", damaged: Noted = None) -> float:
    """Epoch seconds that are a date; empty or missing is the default and no damage."""
    read = number(value, default, key, damaged)
    return read if -LATEST_TIME / 4 <= read <= LATEST_TIME else _noted(default, key, damaged)


def timestamp_or_never(value: object, default: float = 0.0, key: str = "", damaged: Noted = None) -> float:
    """Epoch seconds, or infinity for what never comes."""
    return math.inf if value == "inf" else timestamp(value, default, key, damaged)


def iso_timestamp(value: object, default: float | None = None, key: str = "", damaged: Noted = None) -> float | None:
    """Epoch seconds of an ISO 8601 date; empty or missing is the default and no damage."""
    if not value:
        return default
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        _noted(default, key, damaged)
        return default


def mapping(value: object, key: str = "", damaged: Noted = None) -> dict[str, Any]:
    """A JSON object; empty or missing is an empty one and no damage."""
    read = _json(value or "{}")
    return read if isinstance(read, dict) else _noted({}, key, damaged)


def sequence(value: object, key: str = "", damaged: Noted = None) -> list[Any]:
    """A JSON list; empty or missing is an empty one and no damage."""
    read = _json(value or "[]")
    return read if isinstance(read, list) else _noted([], key, damaged)


def is_text(value: str) -> bool:
    """Is it text, and not bytes that are no UTF-8 (which come as lone surrogates)?"""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: object) -> str:
    """The same as text; bytes that are no UTF-8 become question marks, nothing becomes empty."""
    read = str(value or "")
    return read if read.isascii() or is_text(read) else read.encode("utf-8", "replace").decode()


def _json(value: object) -> object:
    try:
        return json.loads(str(value))
    except (ValueError, RecursionError):
        return None


def _noted(default: T, key: str, damaged: Noted) -> T:
    if damaged is not None and key:
        damaged.add(key)
    return default
