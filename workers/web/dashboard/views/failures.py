"""Links that gave no article: by code, by host, the newest; and another try."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from core.urls.secrets import redact
from workers.web.dashboard.page_routing import Done, PageTable
from workers.web.models import Name, Offset, RequestModel
from workers.web.routes.failures import FailuresRequest, RetryFailuresRequest, list_failures, retry_failures
from workers.web.routing import Call

ROUTES = PageTable()
PAGE_FAILURES = 50
MEANINGS = {
    "FAIL_HTTP": "the server refused, or answered with an error",
    "FAIL_TIMEOUT": "no answer in time",
    "FAIL_BAD_HTML": "no page that could be read",
    "FAIL_PARSE": "the page could not be parsed",
    "FAIL_EMPTY": "the page has no text",
}


class FailuresPageRequest(RequestModel):
    """Which failures."""

    code: str = ""
    host: Name = ""
    offset: Offset = 0


@ROUTES.page("/failures", "Failures", "failures.html")
async def show_failures(call: Call, asked: FailuresPageRequest) -> dict[str, Any]:
    """Show counts and the newest failures."""
    wanted = FailuresRequest(code=asked.code[:40], host=asked.host, limit=PAGE_FAILURES, offset=asked.offset)
    found = await list_failures(call, wanted)
    newer = max(asked.offset - PAGE_FAILURES, 0)
    return {
        "asked": asked,
        "found": found,
        "meanings": MEANINGS,
        "is_filtered": bool(asked.code or asked.host),
        "code_paths": {code: _path(code=code) for code in found.codes},
        "host_paths": {host: _path(host=host) for host in found.hosts},
        "older": _path(asked.code, asked.host, found.next_offset) if found.next_offset else "",
        "newer": _path(asked.code, asked.host, newer) if asked.offset else "",
    }


def _path(code: str = "", host: str = "", offset: int = 0) -> str:
    words = {name: value for name, value in (("code", code), ("host", host), ("offset", offset)) if value}
    return f"/failures?{urlencode(words, errors='replace')}" if words else "/failures"


@ROUTES.action("/failures/retry")
async def retry(call: Call, asked: RetryFailuresRequest) -> Done:
    """Try links again."""
    count = (await retry_failures(call, asked)).links
    which = f" ({asked.code or redact(asked.host)})" if not asked.uid else ""
    return Done(
        f"The next run of the canonical fetcher tries again: {count:,} {'link' if count == 1 else 'links'}{which}."
    )
