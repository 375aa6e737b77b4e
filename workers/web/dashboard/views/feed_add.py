"""Add a feed: a look at what would come first, then the subscription."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import Field

from core.feeds.io.feed_adder import NoFeedThere
from core.feeds.io.feed_preview import FeedPreview, preview_feed
from core.urls.secrets import redact
from workers.web.dashboard import rendering
from workers.web.dashboard.page_table import ACTION_SECONDS, Done, PageTable, expected_problem
from workers.web.models import Name, NoParameters, RequestModel
from workers.web.routes import feeds
from workers.web.routes.feeds import AddFeedRequest
from workers.web.routing import Call

ROUTES = PageTable()
TEMPLATE = "feed_add.html"
TITLE = "Add a feed"


class PreviewForm(RequestModel):
    """A feed, or a site whose feed is looked for."""

    url: str = Field(min_length=1, max_length=8_000)
    category: Name = ""


@ROUTES.page("/feeds/add", TITLE, TEMPLATE)
async def show_form(call: Call, _: NoParameters) -> dict[str, Any]:
    """Show the empty form."""
    return await _values(call, "", "")


@ROUTES.form("/feeds/add", seconds=ACTION_SECONDS)
async def show_preview(call: Call, asked: PreviewForm) -> web.Response:
    """Show what a subscription would bring; nothing is stored."""
    values = await _values(call, asked.url, asked.category)
    try:
        values["preview"] = await preview_feed(call.context, asked.url.strip(), asked.category)
    except NoFeedThere as none:
        values |= {"problem": str(none), "others": none.others}
    except Exception as error:  # noqa: BLE001 - `expected_problem` raises what is not expected
        values["problem"] = expected_problem(call.http, error).sentence
    return rendering.render(call.http, TEMPLATE, values, title=TITLE)


async def _values(call: Call, url: str, category: str) -> dict[str, Any]:
    preview: FeedPreview | None = None
    known = await call.context.subscriptions.categories()
    return {
        "url": url,
        "category": category,
        "preview": preview,
        "problem": "",
        "others": (),
        "redact": redact,
        "categories": known,
    }


@ROUTES.action("/feeds")
async def subscribe(call: Call, asked: AddFeedRequest) -> Done:
    added = await feeds.subscribe(call, asked.model_copy(update={"url": asked.url.strip()}))
    name = added.title or added.url
    return Done(f"Subscribed to {name} in {added.category}. The ingestor polls it now.", f"/feeds/{added.id}")
