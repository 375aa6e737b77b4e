"""All webhooks: where they send which events, what waits, what failed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from core.outputs.io.webhook_totals import read_totals
from workers.web.dashboard import webhook_texts
from workers.web.dashboard.page_table import PageTable, list_path
from workers.web.models import RequestModel
from workers.web.routes import webhooks
from workers.web.routes.webhooks import WebhooksRequest
from workers.web.routing import Call

ROUTES = PageTable()
PAGE_WEBHOOKS = 50


class WebhooksPageRequest(RequestModel):
    """Which page of the webhooks."""

    page: int = Field(default=1, ge=1, le=1_000)


@ROUTES.page("/webhooks", "Webhooks", "webhooks.html")
async def show_webhooks(call: Call, asked: WebhooksPageRequest) -> dict[str, Any]:
    offset = (asked.page - 1) * PAGE_WEBHOOKS
    found = await webhooks.list_webhooks(call, WebhooksRequest(limit=PAGE_WEBHOOKS, offset=offset))
    return {
        "webhooks": found.webhooks,
        "total": found.total,
        "totals": await read_totals(call.client, call.keys),
        "texts": webhook_texts,
        "first": offset + 1,
        "before": list_path("/webhooks", asked, page=asked.page - 1) if asked.page > 1 else "",
        "after": list_path("/webhooks", asked, page=asked.page + 1) if offset + PAGE_WEBHOOKS < found.total else "",
    }
