"""Add a feed: a look at what would come first, then the subscription."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import Field

from core.feeds.io.feed_adder import NoFeedThere
from core.feeds.io.feed_preview import FeedPreview, preview_feed
from core.urls.secrets import redact
from workers.web.dashboard import rendering
from workers.web.dashboard.pages import ACTION_SECONDS, Done, action, page
from workers.web.errors import explained_request
from workers.web.feed_models import AddFeedRequest, CategoryName
from workers.web.models import Name, NoParameters, RequestModel
from workers.web.routes import feeds
from workers.web.routing import HTML, Call, Route

TEMPLATE = "feed_add.html"
TITLE = "Add a feed"
EXPECTED_BELOW = 500


class PreviewForm(RequestModel):
    """A feed, or a site whose feed is looked for."""

    url: str = Field(min_length=1, max_length=8_000)
    category: Name = ""


class SubscribeForm(RequestModel):
    """A feed and its category."""

    url: str = Field(min_length=1, max_length=8_000)
    category: CategoryName


async def show_form(call: Call, _: NoParameters) -> dict[str, Any]:
    """Show the empty form."""
    return await _values(call, "", "")


async def show_preview(call: Call, asked: PreviewForm) -> web.Response:
    """Show what a subscription would bring; nothing is stored."""
    values = await _values(call, asked.url, asked.category)
    try:
        values["preview"] = await preview_feed(call.services.context, asked.url.strip(), asked.category)
    except NoFeedThere as none:
        values |= {"problem": str(none), "others": none.others}
    except Exception as error:
        problem = explained_request(call.http, error)
        if problem.status >= EXPECTED_BELOW:
            raise
        values["problem"] = f"{problem.detail.message} {problem.detail.hint}".strip()
    return rendering.render(call.http, TEMPLATE, values, title=TITLE)


async def _values(call: Call, url: str, category: str) -> dict[str, Any]:
    preview: FeedPreview | None = None
    known = await call.services.context.subscriptions.categories()
    return {
        "url": url,
        "category": category,
        "preview": preview,
        "problem": "",
        "others": (),
        "redact": redact,
        "categories": known,
    }


async def subscribe(call: Call, asked: SubscribeForm) -> Done:
    """Subscribe to a feed."""
    added = await feeds.subscribe(call, AddFeedRequest(category=asked.category, url=asked.url.strip()))
    name = added.title or added.url
    return Done(f"Subscribed to {name} in {added.category}. The ingestor polls it now.", f"/feeds/{added.id}")


ROUTES = (
    page("/feeds/add", TITLE, TEMPLATE, show_form, NoParameters),
    action("/feeds", "Subscribe to a feed.", subscribe, SubscribeForm),
    Route(
        method="POST",
        path="/feeds/add",
        summary="Look at what a subscription would bring.",
        tag="pages",
        request=PreviewForm,
        handler=show_preview,
        answer=None,
        other_types=(HTML,),
        fields_in="form",
        seconds=ACTION_SECONDS,
    ),
)
