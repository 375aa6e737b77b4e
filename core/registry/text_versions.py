"""Encode and decode the versions of a text as they are stored."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import asdict

from core.registry import field_parsing
from core.value_class import value_class

MOST_EARLIER = 9
"""Versions that are remembered beside the present one."""
MOST_TITLE_CHARS = 300
MOST_TEXT_BYTES = 5_000_000
"""Limit for a version, whatever size its compressed form claims."""


@value_class
class TextVersion:
    """One version of a text. Every value can be written as JSON."""

    content_hash: str
    title: str
    text_len: int
    changed_ts: float
    """When it was first read; 0: not known."""
    replaced_ts: float | None
    """When the next version was read; None: this is the present one."""


def write_version(version: TextVersion) -> str:
    """Return a version as it is stored."""
    return json.dumps(asdict(version))


def read_version(stored: str) -> TextVersion | None:
    """Return a stored version; None if it cannot be read."""
    fields = field_parsing.mapping(stored)
    if not fields.get("content_hash"):
        return None
    return TextVersion(
        field_parsing.text(fields["content_hash"]),
        field_parsing.text(fields.get("title")),
        field_parsing.integer(fields.get("text_len")),
        field_parsing.timestamp(fields.get("changed_ts")),
        field_parsing.timestamp(fields.get("replaced_ts")),
    )


def write_text(content_hash: str, text: str) -> str:
    """Return the text of a version as it is stored."""
    packed = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogateescape"), 6)).decode()
    return f"{content_hash} {packed}"


def read_text(stored: str) -> tuple[str, str] | None:
    """Return content hash and text of a version; None if they cannot be read."""
    content_hash, _, packed = stored.partition(" ")
    reader = zlib.decompressobj()
    try:
        body = reader.decompress(base64.b64decode(packed, validate=True), MOST_TEXT_BYTES)
    except (binascii.Error, zlib.error, ValueError):
        return None
    if not reader.eof:
        return None
    return content_hash, body.decode("utf-8", "replace")
