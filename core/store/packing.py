"""Encode values as JSON for Lua scripts, also strings that are no UTF-8."""

from __future__ import annotations

import json

import msgspec


def packed_json(value: object) -> bytes:
    """Return JSON that cjson reads back byte for byte: what came as bytes that are no UTF-8 goes as these bytes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
