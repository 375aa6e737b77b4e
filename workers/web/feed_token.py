"""The token of republished feeds: feed readers can send no header, so theirs is part of the address.

It is derived from API_TOKEN, opens nothing but the feeds, and cannot be turned back into the API token.
"""

from __future__ import annotations

import hashlib
import hmac

from aiohttp import web

from core.settings import Settings

_PURPOSE = b"feeds"


def feed_token(settings: Settings) -> str:
    """Return the token; empty: there is no API_TOKEN, and feeds need none."""
    secret = settings.api_token.get_secret_value() if settings.api_token else ""
    return hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).hexdigest() if secret else ""


def feed_query(settings: Settings) -> str:
    """Return what the address of a feed needs at its end, so that a feed reader may read it."""
    token = feed_token(settings)
    return f"?token={token}" if token else ""


class FeedToken:
    """Checks `?token=` of requests for feeds."""

    def __init__(self, settings: Settings, paths: frozenset[str]) -> None:
        """`paths`: of the routes that may be read with it."""
        self._token = feed_token(settings).encode()
        self._paths = paths

    def opens(self, request: web.Request, path: str) -> bool:
        """Return whether this request reads a feed, with its token. `path`: of its route, as the table writes it."""
        if path not in self._paths or request.method not in ("GET", "HEAD"):
            return False
        given = request.query.get("token", "").encode(errors="surrogateescape")
        return bool(self._token) and hmac.compare_digest(given, self._token)
