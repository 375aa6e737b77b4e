"""Why is a URL there, or not? The stations it passed, and where it stopped."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from workers.web.dashboard.page_table import Done, PageTable
from workers.web.models import RequestModel
from workers.web.routes import documents, items
from workers.web.routes.documents import ReindexItemRequest
from workers.web.routes.items import WhyRequest
from workers.web.routing import Call

ROUTES = PageTable()
SIGNS = {
    "passed": ("good", "passed"),
    "stopped": ("bad", "stopped here"),
    "waiting": ("busy", "waiting"),
    "unknown": ("quiet", "not known"),
    "not applicable": ("quiet", "does not apply"),
}
VERDICTS = {"found": "good", "feed": "good", "elsewhere": "busy", "waiting": "busy", "unknown": "warn"}
"""Everything else is bad."""
CAN_BE_READ_AGAIN = {"found", "elsewhere", "waiting", "missing"}
_COMMAND = re.compile(r"python -m scripts\.(\w+)")


class WhyPageRequest(RequestModel):
    """A URL, an item id or the uid of an article; empty: only the box."""

    url: str = Field(default="", max_length=8_000)


@ROUTES.page("/why", "Why?", "why.html")
async def show_why(call: Call, asked: WhyPageRequest) -> dict[str, Any]:
    """Show the trail; nothing is changed or requested."""
    url = asked.url.strip()
    trail = await items.explain(call, WhyRequest(url=url)) if url else None
    verdict = VERDICTS.get(trail.outcome, "bad") if trail else ""
    return {
        "url": url,
        "trail": trail,
        "signs": SIGNS,
        "verdict": verdict,
        "can_be_read_again": trail is not None and trail.outcome in CAN_BE_READ_AGAIN,
        "as_command": lambda text: _COMMAND.sub(r"freshet \1", text),
    }


@ROUTES.action("/why/read-again")
async def read_again(call: Call, asked: WhyRequest) -> Done:
    done = await documents.reindex(call, ReindexItemRequest(source=asked.url, force=True))
    if not done.items and not done.links:
        return Done("Nothing is known under this name, so there is nothing to read again.")
    return Done(done.queue_problem or "It is read again now; this page shows what becomes of it.")
