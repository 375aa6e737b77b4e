"""Add a webhook, or give one a new secret. The secret is in the answer to the form itself, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from aiohttp import web
from pydantic import BeforeValidator, Field

from core.outputs.event_types import EVENT_TYPES
from core.outputs.webhook_filter import MOST_NAMES
from core.sources.io.domain_store import DomainStore
from workers.web.dashboard import rendering
from workers.web.dashboard.page_table import ACTION_SECONDS, PageTable, expected_problem, failure_notice
from workers.web.dashboard.webhook_texts import receiver_of
from workers.web.models import Name, NoParameters, names
from workers.web.routes import webhooks
from workers.web.routes.webhooks import AddWebhookRequest, WebhookAnswer, WebhookRequest
from workers.web.routing import Call

ROUTES = PageTable()
TEMPLATE = "webhook_add.html"
TITLE = "Add a webhook"
MOST_BOXES = 60
"""Where there are more categories or domains, their names are typed."""
Listed = Annotated[
    list[Name], Field(default=[], max_length=MOST_NAMES), BeforeValidator(lambda text: list(names(text)))
]
"""Names that are separated by commas, or boxes that were ticked."""


class AddForm(AddWebhookRequest):
    """Where to send events, and which."""

    types: Listed
    categories: Listed
    domains: Listed


@ROUTES.page("/webhooks/add", TITLE, TEMPLATE)
async def show_form(call: Call, _: NoParameters) -> dict[str, Any]:
    """Show the empty form."""
    return await _values(call, AddForm.model_construct(url=""))


@ROUTES.form("/webhooks/add", seconds=ACTION_SECONDS)
async def add(call: Call, asked: AddForm) -> web.Response:
    """Add a webhook and show its secret, only this once; errors are shown beside the form."""
    try:
        added = await webhooks.add(call, asked.model_copy(update={"url": asked.url.strip()}))
    except Exception as error:  # noqa: BLE001 - `expected_problem` raises what is not expected
        problem = expected_problem(call.http, error)
        values = {**await _values(call, asked), "notice": failure_notice(problem)}
        return rendering.render(call.http, TEMPLATE, values, title=TITLE, status=problem.status)
    return _secret_page(call, added, "Added. Events are sent there from now on.")


@ROUTES.form("/webhooks/{id}/rotate", seconds=ACTION_SECONDS)
async def rotate(call: Call, asked: WebhookRequest) -> web.Response:
    """Give a webhook a new secret and show it, only this once."""
    answer = await webhooks.rotate(call, asked)
    return _secret_page(call, answer, "A new secret. For 24 hours messages carry the signatures of both.")


def _secret_page(call: Call, webhook: WebhookAnswer, done: str) -> web.Response:
    """Return the page with the secret; its link leads on to the page of the webhook."""
    values = {"webhook": webhook, "receiver": receiver_of(webhook.url), "done": done, "here": f"/webhooks/{webhook.id}"}
    response = rendering.render(call.http, "webhook_secret.html", values, title="Secret of a webhook")
    response.headers["Cache-Control"] = "no-store"
    return response


async def _values(call: Call, asked: AddForm) -> dict[str, Any]:
    domains = await DomainStore(call.client, call.keys).ids()
    known: dict[str, Sequence[str]] = {
        "types": EVENT_TYPES,
        "categories": await call.context.subscriptions.categories(),
        "domains": sorted(domains),
    }
    return {"asked": asked, "known": known, "most_boxes": MOST_BOXES}
