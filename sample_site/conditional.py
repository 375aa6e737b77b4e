"""Answer with validators, and with 304 when the client has it already (RFC 9110, section 13)."""

from __future__ import annotations

import hashlib
from datetime import datetime
from email.utils import format_datetime

from aiohttp import web


def answer(
    request: web.Request, body: bytes, content_type: str, changed: datetime, max_age_seconds: int = 60
) -> web.Response:
    """200 with ETag, Last-Modified and Cache-Control, or 304 with the same and no body."""
    changed = changed.replace(microsecond=0)
    headers = {
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:20]}"',
        "Last-Modified": format_datetime(changed, usegmt=True),
        "Cache-Control": f"public, max-age={max_age_seconds}",
    }
    if _is_known(request, headers["ETag"], changed):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, headers={**headers, "Content-Type": content_type})
    response.enable_compression()
    return response


def _is_known(request: web.Request, etag: str, changed: datetime) -> bool:
    """If-None-Match decides alone when it is there; the date has only seconds and is second choice."""
    if "If-None-Match" in request.headers:
        asked = (tag.strip().removeprefix("W/") for tag in request.headers["If-None-Match"].split(","))
        return any(tag in (etag, "*") for tag in asked)
    since = request.if_modified_since
    return since is not None and changed <= since
