"""Stable names for things: article uids, feed ids, content hashes.

An id never changes for the same input: keys in people's Redis depend on it.
"""

from __future__ import annotations

import base64
import hashlib


def article_uid(clean_url: str) -> str:
    """Sixteen hex digits of sha1 over the URL exactly as it stands in the link set (spec 004 §3B)."""
    return hashlib.sha1(clean_url.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()[:16]


def feed_id(feed_url: str) -> str:
    """The name of a feed: same recipe as an article uid, over the URL as its subscriber wrote it."""
    return article_uid(feed_url)


def item_id(kind: str, normalised_source: str) -> str:
    """`url_…` or `file_…`: 130 bits of sha256 over the normalised source (the 6 characters of spec 000 collide)."""
    digest = hashlib.sha256(normalised_source.encode("utf-8", "surrogateescape")).digest()
    return f"{kind}_{base64.b32encode(digest).decode().lower()[:26]}"


def body_hash(body: bytes) -> str:
    """Fingerprint of a body as served; equal means there is nothing to parse."""
    return hashlib.sha256(body).hexdigest()
