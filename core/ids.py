"""Stable ids: article uids, feed ids, item ids, body hashes.

An id never changes for the same input: stored keys depend on it (docs/architecture.md#identity).
"""

from __future__ import annotations

import hashlib

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]
_SHIFTS = range(120, -1, -10)


def article_uid(clean_url: str) -> str:
    """Return sixteen hex digits of sha1 over the URL exactly as it is in the link set."""
    return hashlib.sha1(clean_url.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()[:16]


def feed_id(feed_url: str) -> str:
    """Return the id of a feed: built like an article uid, over the URL as its subscriber wrote it."""
    return article_uid(feed_url)


def item_id(kind: str, normalised_source: str) -> str:
    """Return `url_…` or `file_…` with 130 bits of sha256 over the normalised source."""
    digest = hashlib.sha256(normalised_source.encode("utf-8", "surrogateescape")).digest()
    return f"{kind}_{base32(digest)}"


def base32(digest: bytes) -> str:
    """Return the first 130 bits in base32, lower case; an eighth of the cost of `base64.b32encode` for all of them."""
    bits = int.from_bytes(digest[:17], "big") >> 6
    return "".join([_PAIRS[bits >> shift & 1023] for shift in _SHIFTS])


def body_hash(body: bytes) -> str:
    """Return the hash of a body as served; an equal one need not be parsed."""
    return hashlib.sha256(body).hexdigest()


def domain_of_source(sid: str) -> str:
    """Return the knowledge base that a source belongs to; empty for feeds and single URLs, which belong to none."""
    domain, dot, _ = sid.partition(".")
    return domain if dot else ""
