"""Links that gave no article: by code, by host, the newest; and another try."""

from __future__ import annotations

from typing import Any

from core.urls.secrets import redact
from workers.web.dashboard.page_table import Done, PageTable, list_path, offset_paths
from workers.web.routes.failures import FailuresRequest, RetryFailuresRequest, list_failures, retry_failures
from workers.web.routing import Call

ROUTES = PageTable()
PATH = "/failures"
MEANINGS = {
    "FAIL_HTTP": "the server refused, or answered with an error",
    "FAIL_TIMEOUT": "no answer in time",
    "FAIL_BAD_HTML": "no page that could be read",
    "FAIL_PARSE": "the page could not be parsed",
    "FAIL_EMPTY": "the page has no text",
}


@ROUTES.page(PATH, "Failures", "failures.html")
async def show_failures(call: Call, asked: FailuresRequest) -> dict[str, Any]:
    found = await list_failures(call, asked)
    return {
        "asked": asked,
        "found": found,
        "meanings": MEANINGS,
        "is_filtered": bool(asked.code or asked.host),
        "code_paths": {code: list_path(PATH, FailuresRequest(), code=code) for code in found.codes},
        "host_paths": {host: list_path(PATH, FailuresRequest(), host=host) for host in found.hosts},
        **offset_paths(PATH, asked, asked.limit, has_more=bool(found.next_offset)),
    }


@ROUTES.action("/failures/retry")
async def retry(call: Call, asked: RetryFailuresRequest) -> Done:
    count = (await retry_failures(call, asked)).links
    which = f" ({asked.code or redact(asked.host)})" if not asked.uid else ""
    return Done(
        f"The next run of the canonical fetcher tries again: {count:,} {'link' if count == 1 else 'links'}{which}."
    )
